r"""Pictures of every page of the console, at two widths and in both schemes.

    python tests/browser/screenshots.py FOLDER             of a service of its own with the sample corpus
    python tests/browser/screenshots.py FOLDER --server URL  of a service that runs, whatever it holds

One PNG a page, `PAGE-WIDTH-SCHEME.png`. `--page search --width 1280 --scheme light` makes some of them only, `--fold`
what a window shows without scrolling. Those of the documentation, to be renamed to `console-PAGE.png`:

    python tests/browser/screenshots.py docs/images --fold --width 1280 --scheme light \
        --page search --page document --page reefs
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from browsing import PATIENCE_MS, SAMPLES, launched, opened
from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))
from running_service import Service, shoal

ROOT = Path(__file__).parents[2]
WIDTHS = (360, 1600)
SCHEMES = ("light", "dark")
QUERY = "how insects help plants to reproduce"
FOLD_HEIGHT = 900
"""Height of the window, pixels."""
TALLEST = 12_000
"""Pixels of a page that are drawn; what is below repeats what is above."""


def addresses(server: str, query: str) -> dict[str, str]:
    """What there is to see, by the name of its picture."""
    asked = query.replace(" ", "+")
    found = {
        "start": "/",
        "search": f"/?q={asked}",
        "no-results": "/?q=zzyzx",
        "library": "/library",
        "jobs": "/jobs",
        "job": "/jobs/1",
        "reefs": "/reefs",
        "vocabulary": "/vocabulary",
        "missing": "/documents/999999",
    }
    with httpx.Client(base_url=f"{server}/api/v1", timeout=PATIENCE_MS / 1000) as client:
        results = client.post("/search", json={"query": query, "include_scores": True}).json()["results"]
        words = client.get("/vocabulary").json()["words"]
    if results:
        first = results[0]
        found["document"] = f"/documents/{first['document_id']}"
        found["passage"] = (
            f"/documents/{first['document_id']}?chunk={first['chunk_index']}#chunk-{first['chunk_index']}"
        )
        if first["shared_reefs"]:
            found["reef"] = f"/reefs/{first['shared_reefs'][0]['reef_id']}"
    if words:
        found["word"] = f"/vocabulary/{words[0]['word']}"
    return found


@contextmanager
def sample_service() -> Iterator[str]:
    """The address of a service that holds the sample corpus."""
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder))
        try:
            # From the checkout, so that pictures show paths as everybody has them.
            sent = shoal(
                "upload",
                SAMPLES.relative_to(ROOT),
                "--tags",
                "sample",
                "--server",
                service.url,
                "--wait",
                cwd=ROOT,
            )
            assert sent.returncode == 0, sent.stderr
            yield service.url
        finally:
            service.stop()


def shoot(page: Page, address: str, file: Path, *, fold: bool) -> None:
    """One picture of one page, once it stands still."""
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.evaluate("document.activeElement?.blur()")
    if fold:
        page.screenshot(path=file)
        return
    page.evaluate("scrollTo(0, 0)")
    size = page.viewport_size
    assert size is not None
    height = min(TALLEST, page.evaluate("document.documentElement.scrollHeight"))
    page.screenshot(
        path=file, full_page=True, clip={"x": 0, "y": 0, "width": size["width"], "height": height}
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--server", help="a service that runs (default: one of its own)")
    parser.add_argument("--query", default=QUERY, help="what is searched for")
    parser.add_argument("--page", action="append", help="only this one; more than once for several")
    parser.add_argument("--width", action="append", type=int, help=f"pixels (default: {WIDTHS})")
    parser.add_argument("--scheme", action="append", choices=SCHEMES)
    parser.add_argument("--fold", action="store_true", help=f"the first {FOLD_HEIGHT} pixels only")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.server:
        draw(asked, asked.server)
        return
    with sample_service() as server:
        draw(asked, server)


def draw(asked: argparse.Namespace, server: str) -> None:
    with sync_playwright() as playwright:
        browser = launched(playwright)
        for width in asked.width or WIDTHS:
            for scheme in asked.scheme or SCHEMES:
                context = opened(browser, width, scheme)
                page = context.new_page()
                for name, address in addresses(server, asked.query).items():
                    if not asked.page or name in asked.page:
                        file = asked.folder / f"{name}-{width}-{scheme}.png"
                        shoot(page, server + address, file, fold=asked.fold)
                        print(file)  # noqa: T201
                context.close()
        browser.close()


if __name__ == "__main__":
    main()
