"""The pages about the API in a real browser: /docs with its forms, and /redoc. Nothing comes from elsewhere."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from browsing import (
    KEY,
    PATIENCE_MS,
    BrowserErrors,
    assert_accessible_in_both_looks,
    open_window,
)
from playwright.sync_api import Browser, Locator, Page, expect

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture
def watched(browser: Browser, locked_address: str) -> Iterator[Page]:
    """A page that fails the test if it has errors, or asks another host for anything."""
    errors, asked = BrowserErrors(), set[str]()
    context = open_window(browser, 1280, "light")
    page = context.new_page()
    errors.watch(page)
    page.on("request", lambda request: asked.add(request.url))
    yield page
    context.close()
    assert [error for error in errors if "status of 4" not in error] == []
    others = {url for url in asked if not url.startswith(("data:", "blob:"))}
    assert {urlsplit(url).netloc for url in others} == {urlsplit(locked_address).netloc}


def form_of(page: Page, method: str, path: str) -> Locator:
    """The form of an operation, whose entry is opened."""
    entry = page.locator(f'details[data-method="{method}"][data-path="{path}"]')
    entry.locator("summary").click()
    return entry.locator("form.try")


def test_operation_is_tried_with_a_key_that_is_stored_nowhere(watched: Page, locked_address: str) -> None:
    watched.goto(f"{locked_address}/docs")
    form = form_of(watched, "POST", "/api/v1/search")
    form.get_by_label("Body").fill('{"query": "tide"}')
    form.get_by_role("button").click()
    expect(form.get_by_role("status")).to_contain_text("401")
    watched.get_by_label("Key, if the service has keys").fill(KEY)
    form.get_by_role("button").click()
    expect(form.get_by_role("status")).to_contain_text("200")
    expect(form.locator("pre")).to_contain_text('"total": 0')
    stores = "JSON.stringify([localStorage, sessionStorage, document.cookie])"
    assert watched.evaluate(stores) == '[{},{},""]'
    watched.reload()
    expect(watched.get_by_label("Key, if the service has keys")).to_have_value("")


def test_parameters_stand_in_path_query_and_headers(watched: Page, locked_address: str) -> None:
    watched.goto(f"{locked_address}/docs")
    watched.get_by_label("Key, if the service has keys").fill(KEY)
    form = form_of(watched, "GET", "/api/v1/documents/{document_id}/chunks")
    form.get_by_label("document_id").fill("7 / 8")
    form.get_by_label("limit").fill("3")
    form.get_by_role("button").click()
    status = form.get_by_role("status")
    expect(status).to_contain_text("/api/v1/documents/7%20%2F%208/chunks?limit=3: 404")
    upload = form_of(watched, "POST", "/api/v1/documents/bulk")
    upload.get_by_label("Content type").select_option("multipart/form-data")
    upload.get_by_label("Files").set_input_files(
        [{"name": "tides.md", "mimeType": "text/markdown", "buffer": b"# Tides\n\nThe sea rises."}]
    )
    upload.get_by_role("button", name="Send").click()
    expect(upload.get_by_role("status")).to_contain_text("202")
    expect(upload.locator("pre")).to_contain_text('"kind": "ingest"')


def test_page_with_an_open_form_is_accessible(watched: Page, locked_address: str) -> None:
    watched.goto(f"{locked_address}/docs")
    expect(form_of(watched, "PUT", "/api/v1/documents/{document_id}/tags")).to_be_visible()
    assert_accessible_in_both_looks(watched)


@pytest.mark.skipif(importlib.util.find_spec("offapi") is None, reason="the package offapi is not installed")
def test_redoc_shows_the_api_without_asking_anybody_else(watched: Page, locked_address: str) -> None:
    watched.goto(f"{locked_address}/redoc")
    expect(watched.get_by_role("heading", name="Shoal").first).to_be_visible()
    menu = watched.get_by_text("similarity", exact=True).first
    expect(menu).to_be_visible()
    menu.click()
    expect(watched.get_by_text("/api/v1/similarity").first).to_be_visible()
