"""The MCP server over HTTP: who may use it, and what it refuses."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp: `pip install 'shoal[mcp]'`")

import httpx
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_library import run, served

from shoal.access.key_store import KeyStore
from shoal.collections.catalog import Catalog
from shoal.engine import Engine
from shoal.mcp.backend import EngineBackend
from shoal.settings import Settings

WRITE, READ = "write-key-0123456789", "read-key-0123456789"
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def post(url: str, **headers: str) -> httpx.Response:
    return httpx.post(url, json=LIST, headers=ACCEPT | headers, timeout=60)


@pytest.fixture
def keyed(library: Engine) -> Settings:
    return dataclasses.replace(library.settings, api_keys=f"write:{WRITE},read:{READ}")


def test_every_request_needs_a_key_if_there_are_keys(library: Engine, keyed: Settings) -> None:
    with served(EngineBackend(library), keyed) as url:
        assert post(url, Authorization=f"Bearer {WRITE}").status_code == 200
        assert post(url, Authorization=f"bearer  {READ}").status_code == 200
        # Keys prove who asks, so the name of the host does not matter.
        assert post(url, Authorization=f"Bearer {WRITE}", Host="search.example").status_code == 200
        for headers in (
            {},
            {"Authorization": "Bearer wrong-key-0123456789"},
            {"Authorization": f"Basic {WRITE}"},
            {"Authorization": WRITE},
            {"X-API-Key": WRITE},
        ):
            response = post(url, **headers)
            assert response.status_code == 401
            assert response.headers["WWW-Authenticate"] == 'Bearer realm="shoal"'
            assert "Authorization: Bearer KEY" in response.json()["error"]
        assert post(f"{url}?key={WRITE}").status_code == 401
        assert httpx.get(url).status_code == 401


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_key_that_may_only_read_changes_nothing(library: Engine, keyed: Settings, mode: str) -> None:
    async def with_key(url: str, key: str) -> tuple[Any, Any]:
        http = create_mcp_http_client(headers={"Authorization": f"Bearer {key}"})
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
            added = await client.call_tool("note_add", {"text": f"Lava, by {key} in mode {mode}."})
            return added, await client.call_tool("note_list", {"limit": 200})

    with served(EngineBackend(library), keyed) as url:
        refused, listed = run(lambda: with_key(url, READ))
        assert refused.is_error
        assert refused.content[0].text == "note_add: this needs a key with the right `write`"
        assert f"by {READ}" not in listed.content[0].text
        added, listed = run(lambda: with_key(url, WRITE))
        assert not added.is_error
        assert f"Lava, by {WRITE} in mode {mode}." in listed.content[0].text


def test_keys_of_the_catalog_have_rights_owners_and_a_rate(library: Engine, tmp_path: Path) -> None:
    settings = dataclasses.replace(library.settings, data_dir=str(tmp_path))
    catalog = Catalog(settings)
    store = KeyStore(catalog)
    catalog.add("a" * 16, "books")
    foreign = store.create("books", [("books", "admin")]).key
    ann = store.create("ann", [("main", "write")], owners=["ann"]).key
    usual = store.create("usual", [("main", "write")], owners=["default"]).key
    slow = store.create("slow", [("main", "read")], requests_per_second=0.01).key
    revoked = store.create("revoked", [("main", "read")])
    store.revoke(revoked.details.id)

    async def with_key(url: str, key: str) -> list[str]:
        http = create_mcp_http_client(headers={"Authorization": f"Bearer {key}"})
        item = {"content": "Lava is hot and so it glows. " * 2, "topic": "t", "confidence": 1}
        async with Client(streamable_http_client(url, http_client=http)) as client:
            calls = (
                ("recall", {"user_id": "ann", "query": "lava"}),
                ("remember", {"user_id": "ben", "items": [item]}),
                ("note_add", {"text": "Lava glows, said the one with this key."}),
                ("note_list", {}),
                ("search_chunks", {"query": "lava"}),
            )
            results = [await client.call_tool(name, arguments) for name, arguments in calls]
            return ["refused" if result.is_error else "done" for result in results]

    with served(EngineBackend(library), settings) as url:
        assert post(url).status_code == 401
        assert post(url, Authorization=f"Bearer {foreign}").status_code == 404
        unusable = post(url, Authorization=f"Bearer {revoked.key}")
        assert (unusable.status_code, "revoked" in unusable.text) == (401, True)
        statuses = [post(url, Authorization=f"Bearer {slow}").status_code for _ in range(2)]
        assert statuses == [200, 429]
        assert run(lambda: with_key(url, ann)) == ["done", "refused", "refused", "refused", "done"]
        assert run(lambda: with_key(url, usual)) == ["refused", "refused", "done", "done", "done"]
    assert not library.notes.of("ben").list().total
    catalog.close()


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8010",
        "127.0.0.1.evil.example",
        "",
        "[::2]:80",
        "[::1]evil.org",
        "[::1]:80evil.org",
        "127.0.0.1:80@evil.org",
    ],
)
def test_without_keys_only_names_of_this_machine_are_served(http_url: str, host: str) -> None:
    response = post(http_url, Host=host)
    assert response.status_code in (400, 403)


@pytest.mark.parametrize("host", ["localhost:8010", "127.0.0.1", "[::1]:9", "shoal.localhost"])
def test_names_of_this_machine_are_served(http_url: str, host: str) -> None:
    assert post(http_url, Host=host).status_code == 200


def test_requests_and_wrong_keys_are_limited_as_by_the_api(library: Engine, keyed: Settings) -> None:
    limited = dataclasses.replace(keyed, rate_limit=2, proxies=1)

    def statuses(key: str, address: str) -> list[int]:
        headers = {"Authorization": f"Bearer {key}", "X-Forwarded-For": f"10.0.0.9, {address}"}
        return [post(url, **headers).status_code for _ in range(3)]

    with served(EngineBackend(library), limited) as url:
        assert statuses(WRITE, "10.0.0.1") == [200, 200, 429]
        assert statuses("wrong-key-0123456789", "10.0.0.1") == [401, 401, 429]
        assert statuses("wrong-key-0123456789", "10.0.0.2") == [401, 401, 429]
        assert statuses(READ, "10.0.0.1") == [200, 200, 429]
        refused = post(url, Authorization=f"Bearer {READ}")
        assert "the limit is 2 a minute" in refused.json()["error"]
        assert int(refused.headers["Retry-After"]) >= 1


def test_pages_of_other_sites_are_refused(http_url: str, library: Engine, keyed: Settings) -> None:
    own = http_url.removesuffix("/mcp")
    for origin in (
        "https://evil.example",
        "http://localhost:1",
        "null",
        "http://[",
        f"http://evil.org://{own.removeprefix('http://')}",
        f"{own}, http://evil.org",
        f"evil{own}",
    ):
        assert post(http_url, Origin=origin).status_code == 403
    assert post(http_url, Origin=own).status_code == 200
    with served(EngineBackend(library), keyed) as url:
        assert post(url, Origin="https://evil.example", Authorization=f"Bearer {WRITE}").status_code == 403


def test_behind_a_proxy_that_authenticates_any_host_is_served(library: Engine) -> None:
    settings = dataclasses.replace(library.settings, allow_anonymous=True)
    with served(EngineBackend(library), settings) as url:
        assert post(url, Host="search.example").status_code == 200


def test_bad_requests_are_refused_and_the_next_one_is_served(http_url: str) -> None:
    json_type = {"Content-Type": "application/json"}
    bodies = [b"{", b"[]", b"\xff\xfe", b'{"jsonrpc": "2.0", "id": 1, "method": "nope"}', b"[" * 100_000]
    for body in bodies:
        response = httpx.post(http_url, content=body, headers=ACCEPT | json_type, timeout=60)
        assert response.status_code in (200, 400, 404, 422)
        assert "Traceback" not in response.text
    too_large = httpx.post(http_url, content=b" " * 5_000_000, headers=ACCEPT | json_type, timeout=60)
    assert too_large.status_code == 413
    assert (
        httpx.post(http_url, content=b"{}", headers=ACCEPT | {"Content-Type": "text/plain"}).status_code
        == 400
    )
    assert httpx.get(http_url.removesuffix("/mcp")).status_code == 404
    assert post(http_url).status_code == 200
