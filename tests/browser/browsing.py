"""Shared parts of the browser tests: the browser, its windows, and the errors it reports."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, Playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
"""Containers have no rights for a sandbox and little shared memory. Only pages of the tests are opened."""

PATIENCE_MS = 120_000
STOP_S = 120.0
KEY = "a-key-for-the-browser-tests"
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


def serve(folder: Path, **environment: str) -> Iterator[str]:
    """Start `shoal up` and yield its URL."""
    with (folder / "up.log").open("ab") as log:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "shoal.cli",
                "--db",
                str(folder / "shoal.db"),
                "--json",
                "up",
                "--port",
                "0",
            ],
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, **environment},
        )
    assert process.stdout is not None
    output = b""
    for line in process.stdout:
        output += line
        if line.rstrip() == b"}":
            break
    assert output, f"the service did not start:\n{(folder / 'up.log').read_text()}"
    yield json.loads(output)["url"]
    process.terminate()
    process.wait(STOP_S)
    process.stdout.close()
