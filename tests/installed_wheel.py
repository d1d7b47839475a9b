"""Test of an installed wheel from outside, without the checkout.

PYTHON tests/installed_wheel.py        PYTHON has the wheel; run it in an empty folder, not in the checkout

Starts `shoal up`, stores a document, searches it over HTTP, in the console and on the command line, opens one
page of every kind that the console and the API documentation link to, and stops the service. Exits at the
first failure.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin, urlsplit

PACKAGES = ("lagoon", "shoal", "shoal_api", "shoal_worker")
PROGRAM = Path(sys.executable).with_name("shoal")
STEP_SECONDS = 120.0
"""Timeout of one response or command; normally they are much faster."""
DOCUMENT = {"title": "Tides", "content": "The Moon pulls at the sea, and the water rises.", "tags": ["sea"]}
QUERY = "what makes the ocean rise"
ENTRANCES = ("/", "/docs", f"/?q={QUERY.replace(' ', '+')}", "/openapi.json", "/health", "/metrics")
NUMBER = re.compile(r"\d+")
SCRIPT_IMPORT = re.compile(r"""\bimport\b[^;]*?["']([^"']+\.js)["']""")


class Links(HTMLParser):
    """URLs in a page: those that a browser loads automatically, and links to follow."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.followed: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.loaded += [address for address in [attributes.get("src")] if address]
        if address := attributes.get("href"):
            (self.loaded if tag == "link" else self.followed).append(address)


def expect(condition: object, message: str) -> None:
    """Exit unless the condition holds; not an assertion, because it must also work under `python -O`."""
    if not condition:
        raise SystemExit(f"{PROGRAM}: {message}")


def shoal(*arguments: str) -> dict[str, Any]:
    """Run a command with --json and return its output."""
    done = subprocess.run(
        [PROGRAM, "--json", *arguments], stdout=subprocess.PIPE, timeout=STEP_SECONDS, check=False
    )
    expect(done.returncode == 0, f"{' '.join(arguments)} ended with {done.returncode}")
    output: dict[str, Any] = json.loads(done.stdout)
    return output


@contextlib.contextmanager
def service(folder: Path) -> Iterator[str]:
    """Run `shoal up` with shoal.db in `folder`; yield its URL, and expect a clean exit."""
    with (folder / "up.log").open("wb") as log:
        process = subprocess.Popen(
            [PROGRAM, "--json", "up", "--port", "0"], cwd=folder, stdout=subprocess.PIPE, stderr=log
        )
    assert process.stdout is not None
    try:
        printed = b""
        while not printed.endswith(b"\n}\n") and (line := process.stdout.readline()):
            printed += line
        started = json.loads(printed or b"{}")
        expect("url" in started, f"up did not start: {started}\n{(folder / 'up.log').read_text()}")
        yield started["url"]
        process.send_signal(signal.SIGTERM)
        expect(process.wait(STEP_SECONDS) == 0, "up did not exit with 0 after SIGTERM")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def fetch(url: str, body: object = None) -> str:
    """Fetch the text at a URL; a body is posted as JSON with `Prefer: wait`."""
    headers = {"Content-Type": "application/json", "Prefer": "wait=60"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers if data else {})
    try:
        with urllib.request.urlopen(request, timeout=STEP_SECONDS) as response:
            return str(response.read().decode())
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{PROGRAM}: {url} answered {error.code}: {error.read().decode()}") from None


def kind(address: str) -> str:
    """Return the kind of a URL: the same for all documents, all reefs and all searches."""
    return NUMBER.sub("1", urlsplit(address).path)


def walk(root: str) -> list[str]:
    """Fetch one URL of every kind that is reachable from the entrances. Nothing may be loaded from another
    origin."""
    pending = [urljoin(root, entrance) for entrance in ENTRANCES]
    fetched = []
    seen = set(map(kind, pending))
    while pending:
        address = pending.pop()
        text = fetch(address)
        fetched.append(address.removeprefix(root))
        links = Links()
        if urlsplit(address).path.endswith(".js"):
            links.loaded += SCRIPT_IMPORT.findall(text)
        elif text.lstrip()[:9].lower() == "<!doctype":
            links.feed(text)
        for link in links.loaded:
            expect(urljoin(address, link).startswith(root), f"{address} loads {link}")
        for link in links.loaded + links.followed:
            target = urldefrag(urljoin(address, link)).url
            if target.startswith(f"{root}/") and kind(target) not in seen:
                seen.add(kind(target))
                pending.append(target)
    return fetched


def main() -> None:
    for name in [name for name in os.environ if name.startswith("SHOAL_")]:
        del os.environ[name]
    for name in PACKAGES:
        place = importlib.import_module(name).__file__
        expect(place and Path(place).is_relative_to(sys.prefix), f"{name} comes from {place}")
    folder = Path.cwd()
    expect(not list(folder.iterdir()), f"{folder} is not empty")
    with service(folder) as root:
        expect(json.loads(fetch(f"{root}/ready"))["status"] == "ready", "up is not ready")
        stored = json.loads(fetch(f"{root}/api/v1/documents", DOCUMENT))
        expect(stored["n_chunks"] == 1, f"the document was not stored: {stored}")
        reply = json.loads(fetch(f"{root}/api/v1/search", {"query": QUERY, "include_scores": True}))
        expect(
            [result["document_title"] for result in reply["results"]] == [DOCUMENT["title"]],
            f"the search did not find the document: {reply}",
        )
        expect(reply["results"][0]["shared_reefs"], "the result does not explain itself")
        pages = walk(root)
        expect(sum(page.endswith(".js") for page in pages) > 1, "the console has no scripts")
        expect("Tides" in fetch(f"{root}/documents/{stored['id']}"), "the console does not show the document")
    expect(shoal("search", QUERY)["results"], "the command line finds nothing")
    expect(shoal("doctor")["findings"] == [], "the doctor has findings")
    sys.stdout.write(f"{len(pages)} addresses respond; stored, searched, stopped\n")


if __name__ == "__main__":
    main()
