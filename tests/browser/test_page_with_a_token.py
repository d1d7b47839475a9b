"""The sample page of the documentation: it searches from another origin with a search token."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest
from browsing import KEY, PATIENCE_MS, BrowserErrors
from forked_service import forked_service
from forks import ForkServer
from playwright.sync_api import Browser, Page, expect
from waiting import until

from shoal.client import make_token
from shoal.support.search_tokens import new_pair

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "search-tokens.md"
ALLOWED = {"Volcanoes": "everyone", "Lava": "group:rangers"}


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Print nothing."""


@contextmanager
def site(folder: Path) -> Iterator[str]:
    """Serve the files of a folder, and yield the origin."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.timeout(300)
def test_the_page_shows_what_its_token_may_see(
    browser: Browser, page: Page, forks: ForkServer, tmp_path: Path
) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "favicon.ico").touch()
    with (
        site(pages) as origin,
        forked_service(forks, tmp_path, SHOAL_API_KEYS=f"admin:{KEY}", SHOAL_CORS_ORIGINS=origin) as address,
        httpx.Client(base_url=f"{address}/api/v1", headers={"Authorization": f"Bearer {KEY}"}) as http,
    ):
        for title, allowed in ALLOWED.items():
            text = f"{title} of a volcano flow slowly into the valley."
            http.post("/documents", json={"title": title, "content": text, "allow": [allowed]})
        until(lambda: http.get("/documents").json()["total"] == len(ALLOWED))
        key = http.post("/keys", json={"name": "app", "scopes": [{"collection": "main", "right": "read"}]})
        private, public = new_pair()
        key_id = key.raise_for_status().json()["details"]["id"]
        http.put(f"/keys/{key_id}/public-key", json={"public_key": public}).raise_for_status()
        token = make_token(key_id, private, collections=["main"], seconds=600)
        source = "".join(re.findall(r"```html\n(.*?)```", DOCUMENTATION.read_text(), re.DOTALL))
        source = source.replace("TOKEN", token).replace("https://search.example.org", address)
        (pages / "search.html").write_text(source)
        errors = BrowserErrors()
        errors.watch(page)
        page.goto(f"{origin}/search.html")
        page.get_by_role("textbox").fill("volcano")
        page.get_by_role("button", name="Search").click()
        expect(page.get_by_role("listitem")).to_have_text(["Volcanoes"], timeout=PATIENCE_MS)
        assert errors == []
