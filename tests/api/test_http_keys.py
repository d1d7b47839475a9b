"""A service with keys: read scope, write scope, and public routes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import flask
import pytest
import structlog
from flask.testing import FlaskClient
from surface import API, UNREAD, VOLCANO, assert_problem

from shoal.engine import Engine
from shoal.errors import SettingsError
from shoal.service.addresses import check_listen_address
from shoal.settings import Settings
from shoal.support.api_keys import hash_key, parse_keys
from shoal_api import access, create_app
from shoal_api.server import Admission

READ = "reader-0123456789abcdef"
WRITE = "writer-0123456789abcdef"
KEYS = f"read:{READ}, write:{hash_key(WRITE)}"
READING_POSTS = ("/search", "/search/batch", "/facets", "/explain", "/similarity", "/verify", "/retrieve", "/notes/search", "/notes/pinned", "/notes/1/explain", "/users/1/recall", "/queries/1/clicks")  # fmt: skip
GUARDED = ("/saved-searches", "/queries", "/sources", "/keys")
"""What holds addresses of webhooks, what people searched for, or keys."""
PUBLIC = ("/health", "/ready", "/docs", "/openapi.json", "/static/docs.css")


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def app(settings: Settings, engine: Engine) -> flask.Flask:
    return create_app(replace(settings, api_keys=KEYS), engine=engine)


def operations(client: FlaskClient) -> Iterator[tuple[str, str]]:
    """Yield the method and path of every operation in the OpenAPI document."""
    for path, item in client.get("/openapi.json").get_json()["paths"].items():
        for method in item:
            if method in ("get", "post", "put", "patch", "delete"):
                yield method.upper(), re.sub(r"\{\w+\}", "1", path)


def test_every_operation_that_is_not_public_requires_a_key(client: FlaskClient) -> None:
    n_protected = 0
    for method, address in operations(client):
        response = client.open(address, method=method)
        if address in PUBLIC:
            assert response.status_code == 200, address
            continue
        assert_problem(response, 401)
        assert response.headers["WWW-Authenticate"] == 'Bearer realm="shoal"'
        n_protected += 1
    assert n_protected >= 20


def test_read_key_cannot_change_anything(client: FlaskClient) -> None:
    refused = set()
    for method, address in operations(client):
        response = client.open(address, method=method, headers=bearer(READ))
        assert response.status_code != 401, address
        path = address.removeprefix(API)
        if path in READING_POSTS or (method == "GET" and not path.startswith(GUARDED)):
            assert response.status_code != 403, address
        else:
            detail = assert_problem(response, 403)["detail"]
            assert "`write`" in detail or "admin`" in detail, "the message names the right"
            assert 'error="insufficient_scope"' in response.headers["WWW-Authenticate"]
            refused.add((method, address))
    assert len(refused) >= 5


@pytest.mark.parametrize(
    ("path", "reads"),
    [
        ("/search", True),
        ("/notes/7/explain", True),
        ("/users/team/ann/recall", True),
        ("/users/ann/recall/", True),
        ("/users/ann/remember", False),
        ("/users/recall/remember", False),
        ("/notes", False),
        ("/notes/7/feedback", False),
        ("/notes/7/explain/x", False),
        ("/searches", False),
    ],
)
def test_body_for_a_read_key_is_received_only_where_it_reads(
    settings: Settings, path: str, reads: bool
) -> None:
    refusal = Admission(replace(settings, api_keys=KEYS)).check("POST", f"{API}{path}", f"Bearer {READ}")
    assert (refusal is None) == reads


def test_write_key_allows_every_operation(client: FlaskClient) -> None:
    for method, address in operations(client):
        response = client.open(address, method=method, headers=bearer(WRITE))
        is_refused = response.status_code in (401, 403)
        assert is_refused == address.startswith(f"{API}/keys"), (method, address)
    added = client.post(f"{API}/documents", json={"content": VOLCANO}, headers=bearer(WRITE))
    assert added.status_code == 202
    assert client.get(added.headers["Location"], headers=bearer(READ)).status_code == 200


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {READ}x",
        f"Bearer {READ[:-1]}",
        f"Bearer read:{READ}",
        f"Bearer {hash_key(WRITE)}",
        f"Bearer {READ} {READ}",
        f"Basic {READ}",
        "Basic cmVhZGVyOnJlYWRlcg==",
        READ,
        "Bearer " + "x" * 5000,
        "Bearer \u00e9\u00ff",
        f"Bearer,{READ}",
    ],
)
def test_invalid_key_returns_401(client: FlaskClient, authorization: str) -> None:
    response = client.get(f"{API}/status", headers={"Authorization": authorization})
    assert_problem(response, 401)
    assert 'error="invalid_token"' in response.headers["WWW-Authenticate"]


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_authorization_scheme_is_case_insensitive(client: FlaskClient, scheme: str) -> None:
    assert client.get(f"{API}/status", headers={"Authorization": f"{scheme} {READ}"}).status_code == 200


@pytest.mark.parametrize(
    "address",
    [f"{API}/status?key={READ}", f"{API}/status?access_token={READ}", f"{API}/status?api_key={READ}"],
)
def test_key_in_the_query_string_is_ignored(client: FlaskClient, address: str) -> None:
    assert_problem(client.get(address), 401)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_routes_work_without_a_key_and_with_a_wrong_one(client: FlaskClient, address: str) -> None:
    assert client.get(address).status_code == 200
    assert client.get(address, headers=bearer("nonsense")).status_code == 200


def test_unknown_api_paths_return_401_without_a_key(client: FlaskClient) -> None:
    assert_problem(client.get(f"{API}/nothing"), 401)
    assert_problem(client.patch(f"{API}/documents"), 401)
    assert_problem(client.get(f"{API}/nothing", headers=bearer(READ)), 404)
    assert_problem(client.get("/nothing"), 404)


@pytest.mark.parametrize(
    "address",
    [
        "/api/v1/status/",
        "//api/v1/status",
        "/api//v1/status",
        "/api/v1/./status",
        "/x/../api/v1/status",
        "/API/V1/status",
        "/api/v1/status;x",
        "/%61pi/v1/status",
    ],
)
def test_path_spellings_do_not_bypass_the_key_check(client: FlaskClient, address: str) -> None:
    response = client.get(address)
    assert response.status_code in (308, 401, 404)
    assert "n_documents" not in response.get_data(as_text=True)


def test_body_of_a_request_without_a_key_is_not_read(client: FlaskClient) -> None:
    for address in (f"{API}/documents", f"{API}/documents/bulk", f"{API}/search"):
        assert_problem(
            client.post(address, content_type="application/json", environ_overrides=UNREAD.copy()), 401
        )


def test_host_and_origin_are_not_checked_if_keys_are_set(client: FlaskClient) -> None:
    """Behind a proxy, both are those of the proxy. Pages of other sites have no key."""
    elsewhere = {**bearer(WRITE), "Host": "search.example", "Origin": "https://search.example:8443"}
    assert client.post(f"{API}/documents", json={"content": VOLCANO}, headers=elsewhere).status_code == 202
    assert client.get("/health", headers={"Host": "search.example"}).status_code == 200
    forged = {"Host": "search.example", "Origin": "https://evil.example"}
    assert_problem(client.post(f"{API}/documents", json={"content": VOLCANO}, headers=forged), 401)


def test_log_contains_key_names_but_no_keys(client: FlaskClient) -> None:
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        client.get(f"{API}/status", headers=bearer(READ))
        client.get(f"{API}/status?key={READ}", headers=bearer(READ + "x"))
        client.get(f"{API}/nothing/{READ[:6]}", headers=bearer(READ))
    assert len(lines) == 3
    assert READ not in str(lines)
    name = parse_keys(READ)[0].name
    assert [line.get("key") for line in lines] == [name, None, name]


def test_service_with_keys_may_listen_on_any_address(settings: Settings) -> None:
    check_listen_address(replace(settings, host="0.0.0.0", api_keys=KEYS))
    with pytest.raises(SettingsError, match="SHOAL_API_KEYS") as caught:
        check_listen_address(replace(settings, host="0.0.0.0", api_key=READ))
    assert "SHOAL_API_KEY is set, but" in str(caught.value)
    assert READ not in str(caught.value)


def test_openapi_document_describes_the_keys(client: FlaskClient) -> None:
    spec = client.get("/openapi.json").get_json()
    assert spec["components"]["securitySchemes"] == {"key": access.DESCRIPTION}
    assert spec["security"] == [{"key": []}, {}]
    assert "401" in spec["info"]["description"]


def test_audit_log_names_the_key_of_a_search(settings: Settings, engine: Engine, tmp_path: Path) -> None:
    """The log contains the key name, which does not carry over to searches without a key."""
    log = tmp_path / "audit.jsonl"
    audited = replace(settings, audit="full", audit_file=str(log), api_keys=KEYS)
    with Engine(settings=audited, scorer=engine.scorer) as opened:
        client = create_app(audited, engine=opened).test_client()
        for key in (READ, WRITE):
            assert client.get(f"{API}/search?q=volcano", headers=bearer(key)).status_code == 200
        opened.search("volcano")
    text = log.read_text()
    assert READ not in text
    assert WRITE not in text
    names = [json.loads(line)["key"] for line in text.splitlines()]
    assert names == [parse_keys(READ)[0].name, parse_keys(WRITE)[0].name, None]
