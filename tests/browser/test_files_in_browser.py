"""Files that documents were converted from, and pages that are fetched, in a real browser."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from browsing import KEY, BrowserErrors, open_window
from forked_service import forked_service
from forks import ForkServer
from playwright.sync_api import Browser, expect
from waiting import until
from web_server import running

from benchmarks.formats_corpus import Section, pdf_of_pages

needs_pdf = pytest.mark.skipif(
    importlib.util.find_spec("pypdfium2") is None, reason="the extra pdf is missing"
)
SEA = (
    Section(1, "The Sea", ("Whales swim past the ships. Sailors row their boats to the shore at night.",)),
    Section(2, "Tides", ("The moon pulls the water twice a day. Harbours fill and fall dry again.",)),
)


@pytest.fixture(params=["", KEY], ids=["open", "locked"])
def key(request: pytest.FixtureRequest) -> str:
    """The key of the service; empty if it needs none."""
    return str(request.param)


FETCHING = {"SHOAL_FETCH_URLS": "127.0.0.1:*", "SHOAL_FETCH_PRIVATE": "127.0.0.1"}


@pytest.fixture(scope="module")
def open_address(
    browser: Browser, forks: ForkServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """URL of a service without keys that keeps files and fetches pages."""
    with forked_service(forks, tmp_path_factory.mktemp("open"), SHOAL_KEEP_ORIGINALS="1", **FETCHING) as url:
        yield url


@pytest.fixture
def keeping_address(
    request: pytest.FixtureRequest, forks: ForkServer, key: str, tmp_path: Path
) -> Iterator[str]:
    """URL of a service that keeps files and has one PDF."""
    pdf = pdf_of_pages(SEA, tmp_path / "sea.pdf").path
    if not key:
        address = request.getfixturevalue("open_address")
        upload(address, key, pdf)
        yield address
        return
    with forked_service(forks, tmp_path, SHOAL_KEEP_ORIGINALS="1", SHOAL_API_KEYS=f"write:{key}") as address:
        upload(address, key, pdf)
        yield address


def upload(address: str, key: str, path: Path) -> None:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with httpx.Client(base_url=address, headers=headers, timeout=60) as client:
        sent = client.post("/api/v1/documents/bulk", files=[("files", (path.name, path.read_bytes()))])
        job = sent.json()["job"]["links"]["self"]
        until(lambda: client.get(job).json()["status"] == "succeeded")


@needs_pdf
def test_result_links_to_the_page_of_its_pdf(browser: Browser, keeping_address: str, key: str) -> None:
    browser_errors = BrowserErrors()
    context = open_window(browser, 1280, "light")
    page = context.new_page()
    page.goto(f"{keeping_address}/?q=moon+pulls+the+water")
    if key:
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Open").click()
    browser_errors.watch(page)
    link = page.get_by_role("link", name="page 2").first
    expect(link).to_have_attribute("href", "/api/v1/documents/1/file#page=2")
    # A browser without a viewer downloads the file.
    with page.expect_response(lambda response: response.url.partition("#")[0].endswith("/file")) as response:
        link.click()
    assert response.value.status == 200
    assert response.value.headers["content-type"] == "application/pdf"
    assert response.value.headers["content-disposition"].startswith("inline")
    # The page of a PDF has no icon, which browsers report too.
    assert [error for error in browser_errors if "Policy" in error] == []
    context.close()


@needs_pdf
def test_text_and_file_are_downloaded_from_the_library(
    browser: Browser, keeping_address: str, key: str
) -> None:
    context = open_window(browser, 1280, "light")
    page = context.new_page()
    page.goto(f"{keeping_address}/")
    if key:
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Open").click()
    page.get_by_role("link", name="Upload").click()
    expect(page.get_by_role("heading", name="Add documents")).to_be_in_viewport()
    assert page.url.endswith("/library#drop")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    for name, path, suffix in (("text", "content", ".md"), ("file", "file", ".pdf")):
        link = page.get_by_role("link", name=f"Download the {name} of").first
        number = re.findall(r"documents/(\d+)", str(link.get_attribute("href")))[0]
        with page.expect_download() as download:
            link.click()
        assert download.value.suggested_filename.endswith(suffix)
        stored = httpx.get(f"{keeping_address}/api/v1/documents/{number}/{path}", headers=headers)
        assert Path(download.value.path()).read_bytes() == stored.content
    context.close()


def test_page_is_fetched_from_its_url(browser: Browser, open_address: str) -> None:
    browser_errors = BrowserErrors()
    with running() as server:
        url = server.page("/tides.md", "The moon pulls the water twice a day. Harbours fill and fall dry.")
        context = open_window(browser, 1280, "light")
        page = context.new_page()
        browser_errors.watch(page)
        page.goto(f"{open_address}/library")
        page.get_by_label("Tags for all files").fill("fetched")
        page.get_by_label("Page or file of the web").fill(url)
        page.get_by_role("button", name="Fetch").click()
        page.wait_for_url(re.compile(r"/jobs/\d+$"))
        stored = until(
            lambda: httpx.get(f"{open_address}/api/v1/documents", params={"tag": "fetched"}).json()[
                "documents"
            ]
        )
        assert [document["source_path"] for document in stored] == [url]
        context.close()
    assert list(browser_errors) == []
