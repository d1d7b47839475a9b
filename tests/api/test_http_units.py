"""One search in passages and notes over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, LAW, VOLCANO, Store, assert_problem

NOTE = "Never stand below a volcano when the lava moves and the ash falls."


@pytest.fixture
def client(client: FlaskClient, store: Store) -> FlaskClient:
    """A library with a document, and a note of Ann."""
    store(VOLCANO, title="Fire", tags=["rock"])
    store(LAW, title="Law")
    added = client.post(f"{API}/notes", json={"owner": "ann", "text": NOTE, "tags": ["rock"]})
    assert added.status_code == 201
    return client


def search(client: FlaskClient, **body: Any) -> list[dict[str, Any]]:
    reply = client.post(f"{API}/search", json={"query": "lava and ash", **body})
    assert reply.status_code == 200, reply.get_data(as_text=True)
    results: list[dict[str, Any]] = reply.get_json()["results"]
    return results


def texts(results: list[dict[str, Any]]) -> set[str]:
    return {result["note"]["text"] if "note" in result else result["text"] for result in results}


def test_passages_and_notes_are_in_one_order(client: FlaskClient) -> None:
    results = search(client, units=["chunk", "note"], owner="ann", include_scores=True)
    assert texts(results) == {VOLCANO, NOTE}
    scores = [result["match_score"] for result in results]
    assert scores == sorted(scores, reverse=True)
    (note,) = [result for result in results if "note" in result]
    assert (note["note"]["owner"], note["provenance"]) == ("ann", ["lexical", "reef"])
    assert note["shared_reefs"]
    assert note["highlights"]
    assert texts(search(client, units=["note"], owner="ann")) == {NOTE}
    assert texts(search(client, units=["chunk"])) == texts(search(client)) == {VOLCANO}
    assert "shared_reefs" not in search(client, units=["note"], owner="ann")[0]
    filtered = search(client, units=["chunk", "note"], owner="ann", filters={"tags": ["rock"]})
    assert texts(filtered) == {VOLCANO, NOTE}
    assert texts(search(client, units=["chunk", "note"], owner="ann", filter="tags = rock")) == {VOLCANO}


def test_address_takes_units(client: FlaskClient) -> None:
    query = {"q": "lava and ash", "units": "chunk,note", "owner": "ann"}
    assert texts(client.get(f"{API}/search", query_string=query).get_json()["results"]) == {VOLCANO, NOTE}


def test_owner_may_be_a_query_parameter(client: FlaskClient) -> None:
    body = {"query": "lava", "units": ["note"]}
    address = f"{API}/search?owner=ann"
    assert texts(client.post(address, json=body).get_json()["results"]) == {NOTE}
    assert client.post(address, json={**body, "owner": "ann"}).status_code == 200
    assert_problem(client.post(address, json={**body, "owner": "bob"}), 422, "owner")
    assert_problem(client.post(address, json={"query": "lava"}), 422, "owner")


@pytest.mark.parametrize("owner", ["bob", "default", "Ann", "ann "])
def test_notes_of_another_owner_are_not_found(client: FlaskClient, owner: str) -> None:
    assert texts(search(client, units=["chunk", "note"], owner=owner)) == {VOLCANO}
    assert search(client, units=["note"], owner=owner) == []
    assert search(client, units=["note"]) == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"owner": "ann"}, "owner"),
        ({"owner": "ann", "units": ["chunk"]}, "owner"),
        ({"units": ["note"], "owner": ""}, "owner"),
        ({"units": ["note"], "owner": "a\n"}, "owner"),
        ({"units": []}, "units"),
        ({"units": "note"}, "units"),
        ({"units": ["atom"]}, "units.0"),
    ],
)
def test_invalid_units_are_refused(empty: FlaskClient, body: dict[str, Any], field: str) -> None:
    assert_problem(empty.post(f"{API}/search", json={"query": "lava", **body}), 422, field)


def test_explanation_takes_no_units(empty: FlaskClient) -> None:
    assert_problem(empty.post(f"{API}/explain", json={"query": "lava", "units": ["note"]}), 422, "units")
