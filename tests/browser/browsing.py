"""What the browser tests share: the browser, its windows, and what it complains of."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, Playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
"""A container has neither the rights for a sandbox nor much shared memory; only pages of these tests are opened."""

PATIENCE_MS = 120_000
KEY = "a-key-for-the-browser-tests"
SAMPLES = Path(__file__).parents[2] / "shoal" / "sample_corpus"


class NoBrowserError(Exception):
    """There is none on this machine, or it does not start; the message says which."""


def launched(playwright: Playwright) -> Browser:
    """The browser of this machine, or the one that SHOAL_TEST_BROWSER names. Raises NoBrowserError."""
    named = os.environ.get("SHOAL_TEST_BROWSER")
    program = named or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        raise NoBrowserError("there is no Chromium on this machine (SHOAL_TEST_BROWSER can name one)")
    try:
        return playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
    except Error as error:
        if named:
            raise
        raise NoBrowserError(f"{program} cannot be started here: {error.message.splitlines()[0]}") from None


class Complaints(list[str]):
    """What the browser held against a page: errors of scripts and violations of the policy."""

    def watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.append(str(error)))
        page.on("console", self._note)

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.append(message.text)


def opened(browser: Browser, width: int, scheme: str) -> BrowserContext:
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
        permissions=["clipboard-read", "clipboard-write"],
    )
    context.set_default_timeout(PATIENCE_MS)
    return context
