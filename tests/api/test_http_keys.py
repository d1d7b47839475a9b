"""A service with keys: who may read, who may write, and what is public."""

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
from shoal.service.listen_address import check_listen_address
from shoal.settings import Settings
from shoal.support.api_keys import hash_key, parse_keys
from shoal_api import access, create_app

READ = "reader-0123456789abcdef"
WRITE = "writer-0123456789abcdef"
KEYS = f"read:{READ}, write:{hash_key(WRITE)}"
PUBLIC = ("/health", "/ready", "/docs", "/openapi.json", "/static/docs.css")


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def app(settings: Settings, engine: Engine) -> flask.Flask:
    return create_app(replace(settings, api_keys=KEYS), engine=engine)


def operations(client: FlaskClient) -> Iterator[tuple[str, str]]:
    """Method and address of every operation of the API's document."""
    for path, item in client.get("/openapi.json").get_json()["paths"].items():
        for method in item:
            if method in ("get", "post", "put", "delete"):
                yield method.upper(), re.sub(r"\{\w+\}", "1", path)


def test_every_operation_that_is_not_public_asks_for_a_key(client: FlaskClient) -> None:
    asked = 0
    for method, address in operations(client):
        answer = client.open(address, method=method)
        if address in PUBLIC:
            assert answer.status_code == 200, address
            continue
        assert_problem(answer, 401)
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="shoal"'
        asked += 1
    assert asked >= 20


def test_no_key_that_reads_changes_anything(client: FlaskClient) -> None:
    refused = set()
    for method, address in operations(client):
        answer = client.open(address, method=method, headers=bearer(READ))
        assert answer.status_code != 401, address
        if method == "GET" or address in (f"{API}/search", f"{API}/explain"):
            assert answer.status_code != 403, address
        else:
            assert_problem(answer, 403)
            assert 'error="insufficient_scope"' in answer.headers["WWW-Authenticate"]
            refused.add((method, address))
    assert len(refused) >= 5


def test_a_key_that_writes_does_everything(client: FlaskClient) -> None:
    for method, address in operations(client):
        answer = client.open(address, method=method, headers=bearer(WRITE))
        assert answer.status_code not in (401, 403), (method, address)
    added = client.post(f"{API}/documents", json={"content": VOLCANO}, headers=bearer(WRITE))
    assert added.status_code == 202
    assert client.get(added.headers["Location"], headers=bearer(READ)).status_code == 200


@pytest.mark.parametrize(
    "given",
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
def test_a_key_that_is_none_opens_nothing(client: FlaskClient, given: str) -> None:
    answer = client.get(f"{API}/status", headers={"Authorization": given})
    assert_problem(answer, 401)
    assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_may_be_written_in_any_case(client: FlaskClient, scheme: str) -> None:
    assert client.get(f"{API}/status", headers={"Authorization": f"{scheme} {READ}"}).status_code == 200


@pytest.mark.parametrize(
    "address",
    [f"{API}/status?key={READ}", f"{API}/status?access_token={READ}", f"{API}/status?api_key={READ}"],
)
def test_a_key_in_the_address_is_not_looked_at(client: FlaskClient, address: str) -> None:
    assert_problem(client.get(address), 401)


@pytest.mark.parametrize("address", PUBLIC)
def test_what_is_public_needs_no_key_and_minds_no_wrong_one(client: FlaskClient, address: str) -> None:
    assert client.get(address).status_code == 200
    assert client.get(address, headers=bearer("nonsense")).status_code == 200


def test_what_lies_under_the_api_is_not_told_to_strangers(client: FlaskClient) -> None:
    assert_problem(client.get(f"{API}/nothing"), 401)
    assert_problem(client.patch(f"{API}/documents"), 401)
    assert_problem(client.get(f"{API}/nothing", headers=bearer(READ)), 404)
    assert_problem(client.get("/nothing"), 404)


@pytest.mark.parametrize("address", ["/api/v1/status/", "//api/v1/status", "/api//v1/status", "/api/v1/./status",
                                     "/x/../api/v1/status", "/API/V1/status", "/api/v1/status;x", "/%61pi/v1/status"])  # fmt: skip
def test_no_spelling_of_an_address_goes_round_the_door(client: FlaskClient, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code in (308, 401, 404)
    assert "n_documents" not in answer.get_data(as_text=True)


def test_the_body_of_a_stranger_is_not_read(client: FlaskClient) -> None:
    for address in (f"{API}/documents", f"{API}/documents/bulk", f"{API}/search"):
        assert_problem(
            client.post(address, content_type="application/json", environ_overrides=UNREAD.copy()), 401
        )


def test_names_and_origins_do_not_matter_where_there_are_keys(client: FlaskClient) -> None:
    """Behind a proxy, both are the proxy's; and no page of somebody else's has a key."""
    elsewhere = {**bearer(WRITE), "Host": "search.example", "Origin": "https://search.example:8443"}
    assert client.post(f"{API}/documents", json={"content": VOLCANO}, headers=elsewhere).status_code == 202
    assert client.get("/health", headers={"Host": "search.example"}).status_code == 200
    forged = {"Host": "search.example", "Origin": "https://evil.example"}
    assert_problem(client.post(f"{API}/documents", json={"content": VOLCANO}, headers=forged), 401)


def test_keys_are_in_no_log_but_which_one_it_was_is(client: FlaskClient) -> None:
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        client.get(f"{API}/status", headers=bearer(READ))
        client.get(f"{API}/status?key={READ}", headers=bearer(READ + "x"))
        client.get(f"{API}/nothing/{READ[:6]}", headers=bearer(READ))
    assert len(lines) == 3
    assert READ not in str(lines)
    name = parse_keys(READ)[0].name
    assert [line.get("key") for line in lines] == [name, None, name]


def test_keys_let_the_service_listen_anywhere(settings: Settings) -> None:
    check_listen_address(replace(settings, host="0.0.0.0", api_keys=KEYS))
    with pytest.raises(SettingsError, match="SHOAL_API_KEYS") as caught:
        check_listen_address(replace(settings, host="0.0.0.0", api_key=READ))
    assert "SHOAL_API_KEY is set, but" in str(caught.value)
    assert READ not in str(caught.value)


def test_the_document_of_the_api_says_how_keys_are_sent(client: FlaskClient) -> None:
    spec = client.get("/openapi.json").get_json()
    assert spec["components"]["securitySchemes"] == {"key": access.DESCRIPTION}
    assert spec["security"] == [{"key": []}, {}]
    assert "401" in spec["info"]["description"]


def test_the_audit_log_tells_whose_key_a_search_came_with(
    settings: Settings, engine: Engine, tmp_path: Path
) -> None:
    """By its name, and nobody's after that."""
    log = tmp_path / "audit.jsonl"
    noting = replace(settings, audit="full", audit_file=str(log), api_keys=KEYS)
    with Engine(settings=noting, scorer=engine.scorer) as opened:
        client = create_app(noting, engine=opened).test_client()
        for key in (READ, WRITE):
            assert client.get(f"{API}/search?q=volcano", headers=bearer(key)).status_code == 200
        opened.search("volcano")
    text = log.read_text()
    assert READ not in text
    assert WRITE not in text
    names = [json.loads(line)["key"] for line in text.splitlines()]
    assert names == [parse_keys(READ)[0].name, parse_keys(WRITE)[0].name, None]
