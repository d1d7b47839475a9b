"""Saved searches and the query log over HTTP."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from flask.testing import FlaskClient
from surface import API, VOLCANO, assert_problem, prepare
from web_server import response, running

from shoal.engine import Engine
from shoal.settings import Settings
from shoal_api import create_app

SEARCHES, QUERIES = f"{API}/saved-searches", f"{API}/queries"
NEW: dict[str, Any] = {
    "name": "Fire",
    "search": {"query": "lava", "mode": "lexical", "min_relevance": 0, "filters": {"tags": ["rock"]}},
    "url": "http://127.0.0.1:9/hook",
}
WRITE, READ = "writer-0123456789abcdef", "reader-0123456789abcdef"


@pytest.fixture
def engine(settings: Settings, migrated: Path) -> Iterator[Engine]:
    prepare(settings, migrated)
    allowing = dataclasses.replace(
        settings, webhook_hosts="127.0.0.1:*", webhook_private="127.0.0.1", query_log="queries"
    )
    with Engine(settings=allowing, scorer=FakeScorer()) as opened:
        yield opened


@pytest.fixture
def client(engine: Engine) -> FlaskClient:
    return create_app(engine.settings, engine=engine).test_client()


def test_saved_search_from_creation_to_deletion(client: FlaskClient, engine: Engine) -> None:
    created = client.post(SEARCHES, json=NEW)
    assert created.status_code == 201
    search = created.get_json()["saved_search"]
    secret = created.get_json()["secret"]
    assert search["search"] == NEW["search"]
    address = f"{SEARCHES}/{search['id']}"
    assert client.get(address).get_json() == search
    assert secret not in client.get(SEARCHES).get_data(as_text=True)
    with running() as server:
        server.answers["/hook"] = response()
        changed = client.patch(address, json={"url": server.url("/hook"), "name": "Hot"})
        assert changed.get_json()["name"] == "Hot"
        engine.ingest(content=VOLCANO, tags=["rock"])
        tested = client.post(f"{address}/test")
        assert tested.status_code == 202
        engine.saved_searches.run()
        assert len(server.bodies) == 2
    listed = client.get(f"{address}/deliveries", query_string={"status": "delivered"}).get_json()
    assert [each["event"] for each in listed["deliveries"]] == ["match", "test"]
    one = f"{address}/deliveries/{listed['deliveries'][0]['delivery_id']}"
    assert client.get(one).get_json()["body"].encode() in server.bodies
    assert client.post(f"{one}/redeliver").get_json()["status"] == "waiting"
    assert client.delete(address).status_code == 204
    assert_problem(client.get(address), 404)
    assert_problem(client.get(one), 404)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("url", {"url": "http://example.org/"}),
        ("url", {"url": "http://[fe80::1]/"}),
        ("search.preset", {"search": {"query": "lava", "preset": "none"}}),
        ("search.query", {"search": {"query": " "}}),
        ("search.top_k", {"search": {"query": "lava", "top_k": 3}}),
        ("secret", {"secret": "short"}),
        ("nme", {"nme": "x"}),
    ],
)
def test_invalid_saved_search_names_the_field(
    client: FlaskClient, field: str, change: dict[str, Any]
) -> None:
    problem = assert_problem(client.post(SEARCHES, json={**NEW, **change}), 422)
    assert list(problem["errors"]) == [field]


def test_reading_needs_a_key_that_may_write_and_a_click_does_not(engine: Engine) -> None:
    keyed = dataclasses.replace(engine.settings, api_keys=f"read:{READ},write:{WRITE}")
    client = create_app(keyed, engine=engine).test_client()
    reader, writer = ({"Authorization": f"Bearer {key}"} for key in (READ, WRITE))
    for address in (SEARCHES, QUERIES, f"{QUERIES}/judged", "/saved-searches", "/queries"):
        assert client.get(address, headers=reader).status_code == 403, address
        assert client.get(address, headers=writer).status_code == 200, address
    engine.ingest(content=VOLCANO)
    found = client.post(f"{API}/search", json={"query": "lava"}, headers=reader).get_json()
    click = {"chunk_id": found["results"][0]["chunk_id"]}
    assert client.post(f"{QUERIES}/{found['trace_id']}/clicks", json=click, headers=reader).status_code == 204


def test_query_log_over_http(client: FlaskClient, engine: Engine) -> None:
    engine.ingest(content=VOLCANO, title="Fire")
    found = client.post(f"{API}/search", json={"query": "lava", "mode": "lexical"}).get_json()
    client.get(f"{API}/search", query_string={"q": "nothing", "mode": "lexical"})
    clicks = f"{QUERIES}/{found['trace_id']}/clicks"
    assert client.post(clicks, json={"document_id": 1}).status_code == 204
    assert_problem(client.post(clicks, json={"document_id": 9}), 422)
    assert_problem(client.post(clicks, json={}), 422)
    assert_problem(client.post(f"{QUERIES}/unknown/clicks", json={"document_id": 1}), 404)
    listed = client.get(QUERIES).get_json()
    assert [query["query"] for query in listed["queries"]] == ["nothing", "lava"]
    assert listed["queries"][1]["clicks"][0]["rank"] == 1
    empty = client.get(QUERIES, query_string={"only_empty": "true"}).get_json()
    assert [query["query"] for query in empty["queries"]] == ["nothing"]
    frequent = client.get(f"{QUERIES}/frequent", query_string={"min_searches": 1, "prefix": "l"}).get_json()
    assert [query["n_clicks"] for query in frequent["queries"]] == [1]
    judged = client.get(f"{QUERIES}/judged").get_json()
    assert judged == {"queries": [{"query": "lava", "relevant": {"Fire": 1}}]}
    metrics = client.get("/metrics").get_data(as_text=True)
    assert 'shoal_query_log_queries_total{outcome="written"} 2.0' in metrics
    assert "shoal_logged_queries_empty 1.0" in metrics
    assert client.delete(QUERIES).get_json() == {"n_deleted": 2}


def test_console_saves_tests_pauses_and_deletes(client: FlaskClient, engine: Engine) -> None:
    def page(address: str) -> str:
        response = client.get(address)
        assert response.status_code == 200
        return response.get_data(as_text=True)

    form = {"name": "<b>Fire</b>", "query": "lava", "url": "http://127.0.0.1:9/h", "min_relevance": "0"}
    refused = client.post("/saved-searches", data={**form, "min_relevance": "much"})
    assert refused.status_code == 422
    assert "min_relevance: must be a number" in refused.get_data(as_text=True)
    assert 'value="lava"' in refused.get_data(as_text=True)
    created = client.post("/saved-searches", data=form).get_data(as_text=True)
    assert "Its secret is shown this once" in created
    assert "<b>Fire</b>" not in created
    assert "shown this once" not in page("/saved-searches")
    (search,) = engine.saved_searches.list().saved_searches
    assert client.post(f"/saved-searches/{search.id}/test").status_code == 303
    (delivery,) = engine.saved_searches.deliveries(search.id).deliveries
    assert "<b>Fire</b>" not in page(f"/saved-searches/{search.id}?status=waiting")
    again = client.post(f"/saved-searches/{search.id}/redeliver/{delivery.delivery_id}")
    assert again.status_code == 303
    client.post(f"/saved-searches/{search.id}/pause")
    assert not engine.saved_searches.get(search.id).is_active
    client.post(f"/saved-searches/{search.id}/resume")
    assert client.post(f"/saved-searches/{search.id}/delete").headers["Location"] == "/saved-searches"
    assert client.get(f"/saved-searches/{search.id}").status_code == 404


def test_console_shows_queries(client: FlaskClient) -> None:
    for _ in range(2):
        client.get(f"{API}/search", query_string={"q": "<i>zzz</i>", "mode": "lexical"})
    client.post(f"{QUERIES}/x/clicks", json={"document_id": 1})
    shown = client.get("/queries?empty=1").get_data(as_text=True)
    assert "Often asked, never answered" in shown
    assert "<i>zzz" not in shown
