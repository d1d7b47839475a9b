"""Shared parts of the browser tests: the browser, its windows, and the errors it reports."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, Playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
"""Containers have no rights for a sandbox and little shared memory. Only pages of the tests are opened."""

PATIENCE_MS = 120_000
NARROW, WIDE = (360, "dark"), (1280, "light")
"""Widths of windows, pixels, with the color scheme that they are looked at in."""
KEY = "a-key-for-the-browser-tests"
AXE = Axe().axe_script
SAMPLES = Path(__file__).parents[2] / "shoal" / "sample_corpus"


class NoBrowserError(Exception):
    """There is no browser on this machine, or it does not start; the message says which."""


def launch(playwright: Playwright) -> Browser:
    """Launch the browser that SHOAL_TEST_BROWSER names, or the installed one. Raises NoBrowserError."""
    configured = os.environ.get("SHOAL_TEST_BROWSER")
    program = configured or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        raise NoBrowserError("there is no Chromium on this machine (SHOAL_TEST_BROWSER can name one)")
    try:
        return playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
    except Error as error:
        if configured:
            raise
        raise NoBrowserError(f"{program} cannot be started here: {error.message.splitlines()[0]}") from None


class BrowserErrors(list[str]):
    """Messages of the browser about pages: script errors and violations of the content security policy."""

    def watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.append(str(error)))
        page.on("console", self._record)

    def _record(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.append(message.text)


def open_window(browser: Browser, width: int, scheme: str) -> BrowserContext:
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
        permissions=["clipboard-read", "clipboard-write"],
    )
    context.set_default_timeout(PATIENCE_MS)
    return context


def set_look(page: Page, width: int, scheme: str) -> None:
    """Give the window of a page another width and color scheme, without loading the page again."""
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")


def assert_accessible(page: Page, name: str = "") -> None:
    """Assert that axe finds nothing on the page, and that the page is as wide as its window."""
    # Half of the time of a check is that of reading its script, once for each page that is loaded.
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    violations = page.evaluate(
        "axe.run({ resultTypes: ['violations'] }).then(({ violations }) => violations)"
    )
    shown = [
        f"{violation['id']}: {node['html']} {node['failureSummary']}"
        for violation in violations
        for node in violation["nodes"]
    ]
    assert shown == [], f"{name or page.url} at {page.viewport_size}"
    too_wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert too_wide <= 0, f"{name or page.url} is {too_wide} pixels too wide for {page.viewport_size}"


def assert_accessible_in_both_looks(page: Page) -> None:
    """Assert `assert_accessible` in a narrow and in a wide window, which is what the page has afterwards."""
    for look in (NARROW, WIDE):
        set_look(page, *look)
        assert_accessible(page)
