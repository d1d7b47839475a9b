"""Fixtures with a real browser and real services. Without a browser, the tests are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import KEY, BrowserErrors, NoBrowserError, launch, open_window
from forked_service import forked_service
from forks import ForkServer
from playwright.sync_api import Browser, Page, sync_playwright


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the tests of one file.

    The scope is one file, because Playwright keeps an event loop running in this thread, and other tests have
    their own loops.
    """
    with sync_playwright() as playwright:
        try:
            browser = launch(playwright)
        except NoBrowserError as error:
            pytest.skip(str(error))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(browser: Browser, forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a service that starts empty and is shared by the tests of one file, in their order."""
    with forked_service(forks, tmp_path_factory.mktemp("service")) as url:
        yield url


@pytest.fixture(scope="module")
def idle_address(browser: Browser, forks: ForkServer, idle_folder: Path) -> Iterator[str]:
    """URL of a service without a worker: items wait until the test processes them."""
    with forked_service(forks, idle_folder, has_worker=False) as url:
        yield url


@pytest.fixture(scope="module")
def idle_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("idle")


@pytest.fixture(scope="module")
def locked_address(
    browser: Browser, forks: ForkServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """URL of a service that requires KEY."""
    with forked_service(forks, tmp_path_factory.mktemp("locked"), SHOAL_API_KEYS=f"write:{KEY}") as url:
        yield url


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page in a wide window; browser errors fail the test."""
    browser_errors = BrowserErrors()
    context = open_window(browser, 1280, "light")
    page = context.new_page()
    browser_errors.watch(page)
    yield page
    context.close()
    assert browser_errors == []
