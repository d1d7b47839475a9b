"""The page of keys in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from browsing import KEY, BrowserErrors, open_window
from forked_service import forked_service
from forks import ForkServer
from playwright.sync_api import Browser, expect


@pytest.fixture(scope="module")
def managed_address(
    browser: Browser, forks: ForkServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """URL of a service whose KEY may manage keys."""
    with forked_service(forks, tmp_path_factory.mktemp("managed"), SHOAL_API_KEYS=f"admin:{KEY}") as url:
        yield url


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_a_key_is_made_shown_once_and_revoked(
    browser: Browser, managed_address: str, width: int, scheme: str
) -> None:
    errors = BrowserErrors()
    context = open_window(browser, width, scheme)
    page = context.new_page()
    page.goto(f"{managed_address}/")
    page.get_by_label("API key").fill(KEY)
    page.get_by_role("button", name="Open").click()
    errors.watch(page)
    page.get_by_role("link", name="Keys", exact=True).click()
    expect(page.get_by_role("heading", name=re.compile("^Keys"))).to_be_visible()
    page.get_by_label("Name").fill("w" * 100)
    page.get_by_label(re.compile("^Rights")).fill("main:read, *:read")
    page.get_by_label(re.compile("^Only notes")).fill("ann")
    page.get_by_role("button", name="Create").click()
    shown = page.locator("code", has_text=re.compile("^shoal_[0-9a-f]{48}$"))
    expect(shown).to_be_visible()
    key = shown.inner_text()
    status = f"{managed_address}/api/v1/status"
    bearer = {"Authorization": f"Bearer {key}"}
    assert httpx.get(status, headers=bearer).status_code == 200
    report = Axe().run(page)
    assert report.violations_count == 0, report.generate_report()
    too_wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert too_wide <= 0, f"{too_wide} pixels too wide"
    page.get_by_role("button", name=re.compile("^Revoke key")).first.click()
    expect(shown).to_have_count(0)
    expect(page.get_by_text("revoked", exact=True).first).to_be_visible()
    assert key not in page.content()
    assert httpx.get(status, headers=bearer).status_code == 401
    context.close()
    assert errors == []


def test_a_key_without_a_right_gets_the_reason_and_a_link_to_its_collections(
    browser: Browser, managed_address: str
) -> None:
    admin = {"Authorization": f"Bearer {KEY}"}
    httpx.post(f"{managed_address}/api/v1/collections", json={"name": "birds"}, headers=admin)
    scopes = [{"collection": name, "right": "write"} for name in ("main", "birds")]
    body = {"name": "ann", "scopes": scopes}
    key = httpx.post(f"{managed_address}/api/v1/keys", json=body, headers=admin).json()["key"]
    context = open_window(browser, 1280, "light")
    page = context.new_page()
    page.goto(f"{managed_address}/keys")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("alert")).to_contain_text("admin")
    expect(page.get_by_role("button", name="Forget key")).to_be_visible()
    page.get_by_role("link", name="Status", exact=True).click()
    expect(page).to_have_title("Status · Shoal")
    page.get_by_role("link", name="Library", exact=True).click()
    expect(page).to_have_title("Library · Shoal")
    page.get_by_role("link", name="Collection main; choose another").click()
    expect(page.get_by_role("link", name="birds", exact=True)).to_be_visible()
    page.evaluate("sessionStorage.setItem('shoal-key', 'revoked')")
    page.get_by_role("link", name="Jobs", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("A valid key is needed.")
    expect(page).to_have_title("Key needed · Shoal")
    context.close()
