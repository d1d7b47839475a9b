r"""Take screenshots of every page of the console, at two widths and in both color schemes.

    python tests/browser/screenshots.py FOLDER               of its own service with the sample corpus
    python tests/browser/screenshots.py FOLDER --server URL  of a running service

There is one file `PAGE-WIDTH-SCHEME.png` per screenshot. `--page`, `--width` and `--scheme` select some of
them, such as `--page search --width 1280 --scheme light`. `--fold` takes what a window shows without
scrolling. For the screenshots of the documentation, rename the output of this command to `console-PAGE.png`:

    python tests/browser/screenshots.py docs/images --fold --width 1280 --scheme light \
        --page search --page document --page reefs --page notes-search --page note
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
from browsing import PATIENCE_MS, SAMPLES, launch, open_window
from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))
from running_service import Service, shoal
from waiting import until

ROOT = Path(__file__).parents[2]
WIDTHS = (360, 1600)
SCHEMES = ("light", "dark")
QUERY = "why do plants need insects"
NOTES_QUERY = "the integration tests hang in CI"
ENVIRONMENT = {"os": "linux", "repo": "shop", "tags": ["pytest", "python"]}
NOTES: list[dict[str, Any]] = [
    {
        "text": "Run the migrations before the integration tests. Without them, the tests wait for a table "
        "that never appears, and hang.",
        "title": "Tests hang without migrations",
        "tags": ["python", "pytest", "database"],
        "categories": ["build/tests"],
        "prerequisites": {"repos": ["shop"]},
        "session_id": "monday",
        "verified": True,
    },
    {
        "text": "Integration tests in CI have no network. Use the recorded responses in tests/recorded.",
        "tags": ["pytest", "ci"],
        "categories": ["build/tests"],
    },
    {
        "text": "The image is built in two stages; copy the lock file before the sources, so that the layer "
        "of the dependencies is cached.",
        "tags": ["docker"],
        "categories": ["build/docker"],
    },
    {
        "text": "Prices are whole cents everywhere. Convert them only where they are shown.",
        "kind": "knowledge",
        "domain": "shop",
        "tags": ["python"],
        "categories": ["conventions"],
    },
    {
        "text": "Led a team that moved a monolith of ten years to services, without a day of downtime.",
        "kind": "atom",
        "title": "Migration of a monolith",
        "categories": ["experience"],
    },
]
"""Notes of the pictures: the first is the best for NOTES_QUERY."""
TEAM_NOTES = (
    "Run the database migrations before the integration tests.",
    "Before the integration tests, run the migrations of the database.",
    "Use pnpm for this repository, not npm.",
    "Use npm for this repository, not pnpm.",
)
"""Notes of the owner `team`; two say the same and two the opposite."""
NOTES_SEARCH = urlencode({"q": NOTES_QUERY, "os": "linux", "repo": "shop", "env_tags": "pytest,python"})
FOLD_HEIGHT = 900
"""Height of the window, pixels."""
MAX_HEIGHT = 12_000
"""Maximal height of a full-page screenshot, pixels. Longer pages are lists that repeat."""


def addresses(server: str, query: str) -> dict[str, str]:
    """Return the paths of the pages by the name of their screenshot."""
    query_param = query.replace(" ", "+")
    paths = {
        "start": "/",
        "search": f"/?q={query_param}",
        "no-results": "/?q=zzyzx",
        "library": "/library",
        "jobs": "/jobs",
        "job": "/jobs/1",
        "reefs": "/reefs",
        "vocabulary": "/vocabulary",
        "synonyms": "/synonyms",
        "pins": "/pins",
        "missing": "/documents/999999",
        "notes": "/notes",
        "proposals": "/notes/proposals?owner=team",
        "note-new": "/notes/new",
        "note-steps": f"/notes/explain?{NOTES_SEARCH}",
        "verify": "/verify?references=chunk+1",
        "notes-search": f"/notes?{NOTES_SEARCH}",
    }
    with httpx.Client(base_url=f"{server}/api/v1", timeout=PATIENCE_MS / 1000) as client:
        notes = client.get("/notes").json()["notes"]
        results = client.post("/search", json={"query": query, "include_scores": True}).json()["results"]
        words = client.get("/vocabulary").json()["words"]
    if notes:
        paths["note"] = f"/notes/{notes[0]['id']}?{NOTES_SEARCH}"
    if results:
        first = results[0]
        paths["document"] = f"/documents/{first['document_id']}"
        paths["passage"] = (
            f"/documents/{first['document_id']}?chunk={first['chunk_index']}#chunk-{first['chunk_index']}"
        )
        if first["shared_reefs"]:
            paths["reef"] = f"/reefs/{first['shared_reefs'][0]['reef_id']}"
    if words:
        paths["word"] = f"/vocabulary/{words[0]['word']}"
    return paths


def add_notes(server: str) -> None:
    """Store NOTES, and let sessions be shown the first and judge it."""
    with httpx.Client(base_url=f"{server}/api/v1/notes", timeout=PATIENCE_MS / 1000) as client:
        added = [client.post("", json=note).raise_for_status().json()["note"]["id"] for note in NOTES]
        first = f"/{added[0]}"
        for session, repo in (("monday", "shop"), ("tuesday", "shop"), ("friday", "billing")):
            shown = {"session_id": session, "note_ids": added[:1], "event": "prompt"}
            client.post(
                "/shown", json={**shown, "environment": {**ENVIRONMENT, "repo": repo}}
            ).raise_for_status()
        for applicable, reason in ((True, "The tests ran at once"), (True, ""), (False, "No database here")):
            judgement = {"applicable": applicable, "reason": reason, "environment": ENVIRONMENT}
            client.post(f"{first}/feedback", json=judgement).raise_for_status()
        client.patch(first, json={"domain": "testing"}).raise_for_status()
        client.put(f"{first}/pin", json={"tags": ["pytest"]}).raise_for_status()
        for text in TEAM_NOTES:
            client.post("", json={"owner": "team", "text": text}).raise_for_status()
        client.post("/dedup?owner=team", headers={"Prefer": "wait=60"}).raise_for_status()
        until(lambda: client.get("/proposals?owner=team").json()["total"] == len(TEAM_NOTES) // 2)


@contextmanager
def sample_service() -> Iterator[str]:
    """Start a service with the sample corpus and yield its URL."""
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder))
        try:
            # Upload from the checkout, so that the screenshots show relative paths.
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
            add_notes(service.url)
            yield service.url
        finally:
            service.stop()


def shoot(page: Page, address: str, file: Path, *, fold: bool) -> None:
    """Take a screenshot of a page after it has loaded."""
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.evaluate("document.activeElement?.blur()")
    if fold:
        page.screenshot(path=file)
        return
    page.evaluate("scrollTo(0, 0)")
    size = page.viewport_size
    assert size is not None
    height = min(MAX_HEIGHT, page.evaluate("document.documentElement.scrollHeight"))
    page.screenshot(
        path=file, full_page=True, clip={"x": 0, "y": 0, "width": size["width"], "height": height}
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--server", help="URL of a running service (default: start one)")
    parser.add_argument("--query", default=QUERY, help="text to search for")
    parser.add_argument("--page", action="append", help="only this page; can be repeated")
    parser.add_argument("--width", action="append", type=int, help=f"pixels (default: {WIDTHS})")
    parser.add_argument("--scheme", action="append", choices=SCHEMES)
    parser.add_argument("--fold", action="store_true", help=f"the first {FOLD_HEIGHT} pixels only")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.server:
        shoot_all(args, args.server)
        return
    with sample_service() as server:
        shoot_all(args, server)


def shoot_all(args: argparse.Namespace, server: str) -> None:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        for width in args.width or WIDTHS:
            for scheme in args.scheme or SCHEMES:
                context = open_window(browser, width, scheme)
                page = context.new_page()
                for name, address in addresses(server, args.query).items():
                    if not args.page or name in args.page:
                        file = args.folder / f"{name}-{width}-{scheme}.png"
                        shoot(page, server + address, file, fold=args.fold)
                        print(file)  # noqa: T201
                context.close()
        browser.close()


if __name__ == "__main__":
    main()
