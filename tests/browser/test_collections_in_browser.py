"""Collections in the console: the switch, links and uploads stay where they belong."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from browsing import NARROW, SAMPLES, WIDE, BrowserErrors, assert_accessible_in_both_looks, open_window
from forked_service import forked_service
from forks import ForkServer
from playwright.sync_api import Browser, expect
from waiting import until

LONG = "w" * 63


@pytest.fixture(scope="module")
def many_address(
    browser: Browser, forks: ForkServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """URL of a service with the collections `birds` and one with a long name."""
    with forked_service(forks, tmp_path_factory.mktemp("many")) as url:
        for name in ("birds", LONG):
            httpx.post(f"{url}/api/v1/collections", json={"name": name}).raise_for_status()
        yield url


def test_an_upload_goes_to_the_collection_that_the_switch_chose(browser: Browser, many_address: str) -> None:
    errors = BrowserErrors()
    context = open_window(browser, *WIDE)
    page = context.new_page()
    errors.watch(page)
    page.goto(f"{many_address}/")
    page.get_by_role("link", name="Collection main; choose another").click()
    expect(page.get_by_role("heading", name=re.compile("^Collections"))).to_be_visible()
    assert_accessible_in_both_looks(page)
    page.get_by_role("link", name="birds", exact=True).click()
    expect(page).to_have_url(re.compile("/collections/birds/"))
    page.get_by_role("link", name="Library", exact=True).click()
    expect(page).to_have_url(f"{many_address}/collections/birds/library")
    page.locator("input[type=file]").first.set_input_files(min(SAMPLES.glob("*.md")))
    birds = f"{many_address}/api/v1/collections/birds"
    until(lambda: httpx.get(f"{birds}/documents").json()["total"] == 1)
    assert httpx.get(f"{many_address}/api/v1/documents").json()["total"] == 0
    for name in ("Search", "Jobs", "Vocabulary", "Status"):
        page.get_by_role("link", name=name, exact=True).click()
        expect(page).to_have_url(re.compile("/collections/birds/"))
    context.close()
    assert errors == []


def test_long_and_unknown_names_are_pages_in_every_look(browser: Browser, many_address: str) -> None:
    context = open_window(browser, *NARROW)
    page = context.new_page()
    page.goto(f"{many_address}/collections/{LONG}/library")
    expect(page.get_by_role("link", name=f"Collection {LONG}; choose another")).to_be_visible()
    assert_accessible_in_both_looks(page)
    page.goto(f"{many_address}/collections/unknown/library")
    expect(page.get_by_role("heading", name="No such collection")).to_be_visible()
    assert_accessible_in_both_looks(page)
    page.get_by_role("link", name="Library", exact=True).click()
    expect(page).to_have_url(f"{many_address}/library")
    expect(page.get_by_role("heading", name=re.compile("^Library"))).to_be_visible()
    context.close()
