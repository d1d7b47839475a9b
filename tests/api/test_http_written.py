"""Answers to writes have a token, and a search that sends it back sees what was written, or says that it cannot."""

from __future__ import annotations

from dataclasses import replace

import flask
import httpx
import pytest
from flask.testing import FlaskClient
from surface import API, VOLCANO, Store, assert_problem

from shoal.access.rate_limit import Excess, RateLimit
from shoal.client import Client
from shoal.engine import Engine
from shoal.errors import IndexBehindError
from shoal.settings import Settings
from shoal.storage import index_records
from shoal.storage.index_records import Lag
from shoal_api import create_app

QUERY = {"query": "lava of a volcano"}


def test_a_search_that_sends_the_token_of_a_write_back_is_answered(client: FlaskClient, store: Store) -> None:
    store(VOLCANO)
    answer = client.get(f"{API}/jobs")
    token = answer.headers["Shoal-Written"]
    found = client.post(f"{API}/search", json=QUERY, headers={"Shoal-Read-After": token})
    assert found.status_code == 200
    assert found.get_json()["results"]
    assert "Shoal-Written" not in found.headers
    deleted = client.delete(f"{API}/documents/1")
    assert deleted.headers["Shoal-Written"] != token


def test_a_token_holds_in_every_collection_and_after_a_swap(client: FlaskClient, store: Store) -> None:
    store(VOLCANO)
    for name in ("birds", "fish"):
        client.post(f"{API}/collections", json={"name": name})
    answer = client.post(f"{API}/collections/swap", json={"first": "birds", "second": "fish"})
    for path in ("", "/collections/birds", "/collections/fish"):
        headers = {"Shoal-Read-After": answer.headers["Shoal-Written"]}
        assert client.post(f"{API}{path}/search", json=QUERY, headers=headers).status_code == 200


def test_a_search_says_that_a_replica_is_behind(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.library.state.MAX_SECONDS", 0.05)
    monkeypatch.setattr(index_records, "has", lambda *_: False)
    token = client.get(f"{API}/jobs").headers["Shoal-Written"]
    refused = client.post(f"{API}/search", json=QUERY, headers={"Shoal-Read-After": token})
    assert "has not reached the replica" in assert_problem(refused, 503)["detail"]
    assert refused.headers["Retry-After"] == "1"
    assert refused.get_json()["code"] == "replica_behind"
    assert client.get(f"{API}/jobs", headers={"Shoal-Read-After": token}).status_code == 200


@pytest.mark.parametrize("token", ["x", "-1", "of the other store", "9" * 40, "1;2"])
def test_a_token_of_another_service_is_refused(client: FlaskClient, settings: Settings, token: str) -> None:
    if token == "of the other store":
        token = "0/16B3748" if settings.is_sqlite else "1"
    refused = client.get(f"{API}/search?q=lava", headers={"Shoal-Read-After": token})
    assert_problem(refused, 422, "Shoal-Read-After")


def test_an_index_that_is_behind_is_not_ready_and_refuses_searches(
    client: FlaskClient, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = client.get("/ready").get_json()
    # A library on SQLite has no lag.
    assert ("index" not in ready) == ("index" not in ready["checks"]) == settings.is_sqlite
    engine = client.application.extensions["shoal"].engine

    def refuse() -> None:
        raise IndexBehindError(12, 34.0)

    monkeypatch.setattr(type(engine), "index_lag", lambda _: Lag(12, 34.0))
    lagging = client.get("/ready").get_json()
    assert lagging["index"] == {
        "documents_behind": 12,
        "seconds_behind": 34.0,
        "collections_behind": 0,
        "collections": [],
    }
    metrics = client.get("/metrics").get_data(as_text=True)
    assert 'shoal_index_seconds_behind{collection="main"} 34.0' in metrics
    monkeypatch.setattr(type(engine), "check_index", lambda _: refuse())
    refused = client.post(f"{API}/search", json=QUERY)
    assert "34 s behind (12 documents)" in assert_problem(refused, 503)["detail"]
    assert refused.headers["Retry-After"] == "1"
    unready = client.get("/ready")
    assert unready.status_code == 503
    assert unready.get_json()["checks"]["index"] == "failed"
    assert client.get(f"{API}/documents").status_code == 200


KEY = "reader-0123456789abcdef"


@pytest.fixture
def lagging(settings: Settings, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> flask.Flask:
    """A service with keys and two open collections whose indexes are behind, and metrics for one of them."""
    lags = {"a": Lag(3, 20.0), "b": Lag(4, 9.0), "c": Lag(0, 0.0)}
    limited = replace(settings, api_keys=f"read:{KEY}", index_lag_seconds=10.0, collection_metrics=1)
    monkeypatch.setattr(engine, "settings", limited)
    app = create_app(limited, engine=engine)
    collections = app.extensions["shoal"].collections
    by_path = {}
    for name, lag in lags.items():
        collections.create(name)
        with collections.engine(name) as opened:
            by_path[opened.database.location] = lag
    monkeypatch.setattr(Engine, "index_lag", lambda _: Lag(0, 0.0))
    monkeypatch.setattr(Engine, "last_index_lag", lambda self: by_path.get(self.database.location))
    return app


def test_readiness_and_metrics_say_which_collection_is_behind(lagging: flask.Flask) -> None:
    client = lagging.test_client()
    ready = client.get("/ready", headers={"Authorization": f"Bearer {KEY}"})
    assert ready.status_code == 200, "other collections are searched"
    assert ready.get_json()["index"]["collections"] == [
        {"name": "a", "documents_behind": 3, "seconds_behind": 20.0},
        {"name": "b", "documents_behind": 4, "seconds_behind": 9.0},
    ]
    [warning] = (each for each in ready.get_json()["warnings"] if "index" in each)
    assert "SHOAL_INDEX_LAG_SECONDS: 1" in warning
    metrics = client.get("/metrics", headers={"Authorization": f"Bearer {KEY}"}).get_data(as_text=True)
    lines = [line for line in metrics.splitlines() if line.startswith("shoal_index_documents_behind{")]
    assert {line.rpartition("{")[2] for line in lines} == {
        'collection="main"} 0.0',
        'collection="a"} 3.0',
        'collection="(other)"} 4.0',
    }
    assert 'shoal_index_seconds_behind{collection="(other)"} 9.0' in metrics


def test_readiness_names_no_collection_to_those_without_a_key(
    lagging: flask.Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = lagging.test_client()
    right = {"Authorization": f"Bearer {KEY}"}

    def index(headers: dict[str, str]) -> dict[str, object]:
        ready = client.get("/ready", headers=headers)
        assert ready.status_code == 200
        shown: dict[str, object] = ready.get_json()["index"]
        return shown

    for headers in ({}, {"Authorization": "Bearer wrong"}):
        assert index(headers)["collections_behind"] == 2
        assert "collections" not in index(headers)
    assert "collections" in index(right)
    # Above its rate a right key is as none, so that the answer tells nobody who guesses.
    monkeypatch.setattr(RateLimit, "take", refuse)
    assert "collections" not in index(right)
    assert index({})["collections_behind"] == 2


def refuse(*_: object, **__: object) -> Excess:
    return Excess("too many requests", 1)


def test_a_client_sends_the_token_of_its_last_write() -> None:
    seen: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("Shoal-Read-After"))
        headers = {"Shoal-Written": f"0/{len(seen)}"} if len(seen) == 2 else {}
        return httpx.Response(404, json={"status": 404, "code": "not_found"}, headers=headers)

    with Client("http://service", transport=httpx.MockTransport(answer)) as client:
        for _ in range(4):
            with pytest.raises(Exception, match="404"):
                client.document(1)
    assert seen == [None, None, "0/2", "0/2"]
