"""Fixtures with a real browser and real services. Without a browser, the tests are skipped."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import KEY, STOP_S, BrowserErrors, NoBrowserError, launch, open_window, serve
from playwright.sync_api import Browser, Page, sync_playwright
from waiting import until

LISTENING = re.compile(r'"url": "(http://[^"]+)"')
"""The log entry of the API with its URL."""


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
def address(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a service that starts empty and is shared by the tests of one file, in their order."""
    yield from serve(tmp_path_factory.mktemp("service"))


@pytest.fixture(scope="module")
def idle_address(browser: Browser, idle_folder: Path) -> Iterator[str]:
    """URL of a service without a worker: items wait until the test processes them."""
    path = idle_folder / "serve.log"
    command = [
        sys.executable,
        "-m",
        "shoal.cli",
        "--db",
        str(idle_folder / "shoal.db"),
        "serve",
        "--port",
        "0",
    ]
    with path.open("wb") as log:
        process = subprocess.Popen(command, stderr=log)
    yield until(lambda: next(iter(LISTENING.findall(path.read_text())), None))
    process.terminate()
    process.wait(STOP_S)


@pytest.fixture(scope="module")
def idle_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("idle")


@pytest.fixture(scope="module")
def locked_address(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a service that requires KEY."""
    yield from serve(tmp_path_factory.mktemp("locked"), SHOAL_API_KEYS=f"write:{KEY}")


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
