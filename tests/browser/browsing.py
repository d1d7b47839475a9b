"""What the browser tests share: windows, and what the browser complains of."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

PATIENCE_MS = 120_000
KEY = "a-key-for-the-browser-tests"
SAMPLES = Path(__file__).parents[2] / "shoal" / "sample_corpus"


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
