"""Pins over HTTP and in the console."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API

from shoal.engine import Engine

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _library(engine: Engine) -> None:
    engine.ingest(content="The volcano speaks.", title="Volcano")
    engine.ingest(content="Tickets are sold at the gate.", title=f"Tickets {HOSTILE}")


def test_pins_are_added_listed_replaced_and_deleted(client: FlaskClient) -> None:
    body = {"query": "volcano", "pinned": [{"document_id": 2}]}
    added = client.post(f"{API}/pins", json=body)
    assert added.status_code == 201
    pin = added.get_json()
    assert (pin["match"], pin["pinned"][0]["document_id"], pin["hidden"]) == ("exact", 2, [])
    found = client.get(f"{API}/search?q=volcano&mode=lexical").get_json()
    assert [(each["document_id"], each["pinned"]) for each in found["results"]] == [(2, True), (1, False)]
    assert found["query_info"]["pins"] == [
        {"pin_id": pin["id"], "query": "volcano", "match": "exact", "n_pinned": 1, "n_hidden": 0}
    ]
    assert len(client.get(f"{API}/search?q=volcano&mode=lexical&pins=off").get_json()["results"]) == 1
    explained = client.post(f"{API}/explain", json={"query": "volcano", "document_id": 2}).get_json()
    assert (explained["target"]["rank"], explained["target"]["pinned_by"]) == (1, pin["id"])
    path = f"{API}/pins/{pin['id']}"
    assert client.get(path).get_json() == pin
    replaced = client.put(path, json={**body, "match": "contains"}).get_json()
    assert replaced["match"] == "contains"
    assert client.get(f"{API}/pins?q=volc&limit=1").get_json()["total"] == 1
    assert client.delete(path).status_code == 204
    for response in (client.get(path), client.delete(path), client.put(path, json=body)):
        assert response.status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "query"),
        ({"query": "volcano"}, "pinned"),
        ({"query": "volcano", "pinned": [{}]}, "pinned.0"),
        ({"query": "volcano", "pinned": [{"document_id": "2"}]}, "pinned.0.document_id"),
        ({"query": "volcano", "pinned": [{"document_id": 9}]}, "pinned.0"),
        ({"query": "volcano", "pinned": [{"document_id": 1}] * 11}, "pinned"),
        ({"query": "volcano", "pinned": [{"document_id": 1}], "match": "near"}, "match"),
        ({"query": "volcano", "pins": []}, "pins"),
    ],
)
def test_invalid_pins_name_the_field(client: FlaskClient, body: dict[str, Any], field: str) -> None:
    response = client.post(f"{API}/pins", json=body)
    assert response.status_code == 422
    assert list(response.get_json()["errors"]) == [field]


@pytest.mark.parametrize("target", ["seven", 7])
def test_a_target_that_is_no_object_is_shown_one(client: FlaskClient, target: object) -> None:
    response = client.post(f"{API}/pins", json={"query": "volcano", "pinned": [target]})
    assert response.status_code == 422
    assert response.get_json()["errors"] == {
        "pinned.0": ['must be an object such as {"document_id": 3} or {"chunk_id": 7}']
    }


def test_errors_have_codes_and_metrics_count(client: FlaskClient) -> None:
    body = {"query": "volcano", "hidden": [{"document_id": 2}]}
    assert client.post(f"{API}/pins", json=body).status_code == 201
    conflict = client.post(f"{API}/pins", json={**body, "query": "Volcano!"})
    assert (conflict.status_code, conflict.get_json()["code"]) == (409, "pin_conflict")
    invalid = client.post(f"{API}/pins", json={"query": "?", "pinned": [{"document_id": 1}]})
    assert (invalid.status_code, invalid.get_json()["code"]) == (422, "invalid_pin")
    assert client.get(f"{API}/search?q=volcano&pins=maybe").status_code == 422
    client.get(f"{API}/search?q=volcano&sort=title")
    metrics = client.get("/metrics").get_data(as_text=True)
    for line in (
        "shoal_pins 1.0",
        "shoal_synonyms 0.0",
        'shoal_search_features_total{feature="pins"} 1.0',
        'shoal_search_features_total{feature="sort"} 1.0',
        'shoal_search_features_total{feature="group_by"} 0.0',
    ):
        assert line in metrics


def test_the_console_lists_adds_and_deletes_pins(client: FlaskClient, engine: Engine) -> None:
    assert "This library has no pins" in client.get("/pins").get_data(as_text=True)
    form = {"query": "volcano", "contains": "1", "pinned": "2, 1#0"}
    added = client.post("/pins", data=form)
    assert (added.status_code, added.headers["Location"]) == (303, "/pins")
    (pin,) = engine.pins.list().pins
    assert [(each.document_id, each.chunk_index) for each in pin.pinned] == [(2, None), (1, 0)]
    shown = client.get("/pins").get_data(as_text=True)
    assert "and searches with it" in shown
    assert HOSTILE not in shown
    results = client.get("/?q=the+volcano").get_data(as_text=True)
    assert results.count('class="pinned"') == 2
    assert "Show them by score alone" in results
    assert 'class="pinned"' not in client.get("/?q=the+volcano&pins=off").get_data(as_text=True)
    relevant = client.get("/?q=the+volcano&min_relevance=1").get_data(as_text=True)
    assert relevant.count('class="pinned"') == 2
    grouped = client.get("/?q=the+volcano&min_relevance=1&group_by=document").get_data(as_text=True)
    assert grouped.count('<li class="document"') == 2
    again = client.post("/pins", data=form)
    assert again.status_code == 409
    for pinned in ("two", "1#9", "9", ""):
        refused = client.post("/pins", data={"query": HOSTILE, "pinned": pinned})
        assert refused.status_code == 422
        assert HOSTILE not in refused.get_data(as_text=True)
    assert client.post(f"/pins/{pin.id}/delete").status_code == 303
    assert client.post(f"/pins/{pin.id}/delete").status_code == 404
