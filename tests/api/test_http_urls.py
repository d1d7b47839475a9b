"""Pages that the service fetches: accepted at once, fetched by a worker."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import flask
import pytest
from flask.testing import FlaskClient
from surface import API, FLOWER, VOLCANO, Worker, assert_problem
from web_server import WebServer, response, running

from shoal.engine import Engine
from shoal.settings import Settings
from shoal_api import create_app

URLS = f"{API}/documents"
NDJSON = "application/x-ndjson"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return dataclasses.replace(settings, fetch_urls="127.0.0.1:*", fetch_private="127.0.0.1")


@pytest.fixture
def server() -> Iterator[WebServer]:
    with running() as started:
        yield started


def test_url_is_fetched_by_a_worker(client: FlaskClient, worker: Worker, server: WebServer) -> None:
    url = server.page("/volcano.md", VOLCANO, ETag='"1"')
    body = {"url": f"{url}#crater", "title": "Fire", "tags": ["web"], "metadata": {"n": 1}}
    accepted = client.post(URLS, json=body)
    assert accepted.status_code == 202
    assert not server.requests
    worker.work()
    (document,) = client.get(URLS, query_string={"source_path": url}).get_json()["documents"]
    assert (document["title"], document["tags"], document["metadata"]) == ("Fire", ["web"], {"n": 1})


def test_waiting_request_gets_the_document_and_then_the_same_one(
    client: FlaskClient, busy_worker: Worker, server: WebServer
) -> None:
    url = server.page("/volcano.md", VOLCANO, ETag='"1"')
    wait = {"Prefer": "wait=20"}
    first = client.post(URLS, json={"url": url}, headers=wait)
    again = client.post(URLS, json={"url": url}, headers=wait)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.get_json() == {**first.get_json(), "duplicate": True}
    server.page("/volcano.md", FLOWER, ETag='"2"')
    changed = client.post(URLS, json={"url": url}, headers=wait).get_json()
    assert (changed["id"], changed["duplicate"]) == (first.get_json()["id"], False)
    assert client.get(f"{URLS}/{changed['id']}/content").get_data(as_text=True) == FLOWER


def test_failed_fetch_is_a_problem_with_its_code(
    client: FlaskClient, busy_worker: Worker, server: WebServer
) -> None:
    failed = client.post(URLS, json={"url": server.url("/missing")}, headers={"Prefer": "wait=20"})
    assert assert_problem(failed, 422, "url")["code"] == "url_failed"


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({}, "content", None),
        ({"url": "http://127.0.0.1/", "content": "text"}, "url", None),
        ({"url": "ftp://127.0.0.1/"}, "url", "invalid_field"),
        ({"url": "http://user:secret@127.0.0.1/"}, "url", "invalid_field"),
        ({"url": "http://127.0.0.1/", "source_path": "a.md"}, "source_path", "invalid_field"),
        ({"url": "http://127.0.0.1/", "format": "markdown"}, "format", "invalid_field"),
        ({"url": "http://127.0.0.1/", "tags": [""]}, "tags", "invalid_field"),
        ({"url": "http://example.org/"}, "url", "url_refused"),
        ({"url": 7}, "url", None),
    ],
)
def test_url_that_cannot_be_used_is_refused_at_once(
    client: FlaskClient, body: dict[str, Any], field: str, code: str | None
) -> None:
    problem = assert_problem(client.post(URLS, json=body), 422, field)
    assert code in (None, problem["code"])
    assert "secret" not in json.dumps(problem)
    assert client.get(f"{API}/jobs").get_json()["total"] == 0


def test_service_that_fetches_nothing_says_which_setting_allows_it(
    settings: Settings, engine: Engine
) -> None:
    app = create_app(dataclasses.replace(settings, fetch_urls=""), engine=engine)
    problem = assert_problem(app.test_client().post(URLS, json={"url": "http://127.0.0.1/"}), 422, "url")
    assert (problem["code"], "SHOAL_FETCH_URLS" in str(problem["errors"])) == ("url_refused", True)


def test_lines_of_an_upload_may_be_urls(client: FlaskClient, worker: Worker, server: WebServer) -> None:
    server.answers["/gone"] = response(status="410 Gone")
    lines = [
        {"url": server.page("/a.md", VOLCANO), "tags": ["web"]},
        {"content": FLOWER},
        {"url": server.url("/gone")},
        {"url": "http://example.org/"},
        {"url": "http://127.0.0.1/", "content": "both"},
    ]
    data = "\n".join(map(json.dumps, lines))
    accepted = client.post(f"{URLS}/bulk", data=data, content_type=NDJSON)
    assert accepted.status_code == 202
    worker.work()
    items = client.get(f"{API}/jobs/{accepted.get_json()['job']['id']}/items").get_json()["items"]
    assert [(item["status"], item["error_code"]) for item in items] == [
        ("succeeded", None),
        ("succeeded", None),
        ("failed", "url_failed"),
        ("failed", "url_refused"),
        ("failed", "invalid_field"),
    ]
    assert items[0]["bytes"] == len(VOLCANO)


def test_repeated_request_with_its_key_is_not_a_second_fetch(
    client: FlaskClient, worker: Worker, server: WebServer
) -> None:
    body, headers = {"url": server.page("/a.md", VOLCANO)}, {"Idempotency-Key": "k"}
    jobs = [client.post(URLS, json=body, headers=headers).get_json()["job"]["id"] for _ in range(2)]
    worker.work()
    assert jobs[0] == jobs[1]
    assert len(server.requests) == 1


def test_console_offers_a_field_only_where_urls_are_fetched(
    app: flask.Flask, settings: Settings, engine: Engine
) -> None:
    off = create_app(dataclasses.replace(settings, fetch_urls=""), engine=engine)
    pages = [each.test_client().get("/library").get_data(as_text=True) for each in (app, off)]
    assert ['name="url"' in page for page in pages] == [True, False]
