"""Retrieve, remember and recall, in the formats that agents expect."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, LAW, VOLCANO, Store, assert_problem

from shoal.declared.notes import MAX_ITEMS
from shoal.engine import Engine

USER = f"{API}/users/ann"
FACT = "Lava and ash pour from the crater of the volcano in winter."


def item(content: str = FACT, **fields: Any) -> dict[str, Any]:
    return {"content": content, "topic": "Volcanoes", "confidence": 0.9, **fields}


def test_retrieve_returns_content_with_metadata_and_similarity(client: FlaskClient, store: Store) -> None:
    store(VOLCANO, title="Fire", source_path="notes/fire.md", metadata={"language": "en", "title": "mine"})
    store(LAW, title="Law")
    reply = client.post(f"{API}/retrieve", json={"query": "lava and ash"}).get_json()
    first = reply["results"][0]
    assert set(first) == {"content", "metadata", "similarity"}
    assert first["content"] == VOLCANO
    assert first["metadata"]["source"] == "notes/fire.md"
    assert first["metadata"]["title"] == "Fire"
    assert first["metadata"]["language"] == "en"
    assert 0 < first["similarity"] <= 1
    assert reply["query"] == "lava and ash"
    assert reply["total_results"] == len(reply["results"])
    assert reply["message"] == "Found 1 relevant document"
    assert reply["results_summary"].startswith(f"1. notes/fire.md (sim: {first['similarity']:.2f}): Magma")


def test_retrieve_filters_by_source_metadata_and_threshold(client: FlaskClient, store: Store) -> None:
    store(VOLCANO, source_path="a.md", metadata={"page": 1})
    store(f"{VOLCANO} More lava.", source_path="b.md", metadata={"page": 2})

    def sources(**options: Any) -> set[str]:
        results = client.post(f"{API}/retrieve", json={"query": "lava", **options}).get_json()["results"]
        return {result["metadata"]["source"] for result in results}

    assert sources() == {"a.md", "b.md"}
    assert sources(top_k=1) < {"a.md", "b.md"}
    assert sources(filters={"source": "a.md"}) == {"a.md"}
    assert sources(filters={"page": 2}) == {"b.md"}
    assert sources(filters={"source": "a.md", "page": 2}) == set()
    assert sources(threshold=1) == set()
    nothing = client.post(f"{API}/retrieve", json={"query": "qwrtp"}).get_json()
    assert (nothing["results"], nothing["results_summary"]) == ([], "")
    assert nothing["message"] == "No relevant content found for 'qwrtp'"


def test_source_finds_what_results_show_as_their_source(client: FlaskClient, store: Store) -> None:
    store(VOLCANO, title="api.md")
    store(f"{VOLCANO} More.", title="Manual", metadata={"source": "api.md"})
    store(f"{VOLCANO} Most.", title="api.md", source_path="other.md")
    store(f"{VOLCANO} Less.", title="api.md", metadata={"source": "elsewhere.md"})

    def found(**options: Any) -> list[tuple[str, str]]:
        results = client.post(f"{API}/retrieve", json={"query": "lava", **options}).get_json()["results"]
        return sorted((each["metadata"]["source"], each["metadata"]["title"]) for each in results)

    everything = found()
    assert len(everything) == 4
    for source in ("api.md", "other.md", "elsewhere.md"):
        assert found(filters={"source": source}) == [each for each in everything if each[0] == source]
    assert len(found(filters={"source": "api.md"})) == 2
    only_title = {"filters": {"source": "api.md"}, "filter": 'title = "Manual" OR title = "x"'}
    assert found(**only_title) == [("api.md", "Manual")]
    assert found(filters={"source": 'a "quoted" \\ name'}) == []


def test_results_are_ordered_by_similarity(client: FlaskClient, store: Store) -> None:
    """The order of a search is that of its scores; `similarity` is the relevance."""
    for i in range(6):
        store(f"{VOLCANO} " + "Rain falls on the coast. " * (6 - i) + "Lava. " * i)
    results = client.post(f"{API}/retrieve", json={"query": "lava rain"}).get_json()["results"]
    similarities = [result["similarity"] for result in results]
    assert len(similarities) > 3
    assert similarities == sorted(similarities, reverse=True)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "query"),
        ({"query": " "}, "query"),
        ({"query": "a", "top_k": 51}, "top_k"),
        ({"query": "a", "top_k": 0}, "top_k"),
        ({"query": "a", "threshold": -0.1}, "threshold"),
        ({"query": "a", "threshold": "0.5"}, "threshold"),
        ({"query": "a", "filters": {"source": 5}}, "filters.source"),
        ({"query": "a", "filters": {"page": [1]}}, "filters.page"),
        ({"query": "a", "filters": {"source": "x" * 9999}}, "filters.source"),
        ({"query": "a", "filtre": {}}, "filtre"),
    ],
)
def test_invalid_retrieval_is_refused(empty: FlaskClient, body: dict[str, Any], field: str) -> None:
    assert_problem(empty.post(f"{API}/retrieve", json=body), 422, field)


def test_recall_has_the_format_of_agents(client: FlaskClient) -> None:
    items = [item(), item("The jury weighs the evidence of the crime.", topic="Courts", metadata={"page": 3})]
    stored = client.post(f"{USER}/remember", json={"items": items}).get_json()
    assert [outcome["error"] for outcome in stored["results"]] == [None, None]
    reply = client.post(f"{USER}/recall", json={"query": "crater of the volcano", "threshold": 0}).get_json()
    assert set(reply) == {"response", "count", "results", "topics", "similarities", "nearest"}
    assert reply["count"] == len(reply["results"]) == len(reply["similarities"])
    first = reply["results"][0]
    assert first["content"] == FACT
    assert (first["metadata"]["topic"], first["metadata"]["confidence"]) == ("Volcanoes", 0.9)
    assert first["metadata"]["note_id"] == stored["results"][0]["note_id"]
    assert first["similarity"] == max(reply["similarities"])
    assert reply["topics"][0] == "Volcanoes"
    assert FACT in reply["response"]
    nothing = client.post(f"{USER}/recall", json={"query": "crater", "threshold": 1}).get_json()
    assert (nothing["count"], nothing["results"], nothing["topics"]) == (0, [], [])
    assert nothing["nearest"]["content"] == FACT


def test_remember_refuses_items_one_by_one(client: FlaskClient) -> None:
    items = [
        item("Too short."),
        item(confidence=0.8),
        item(topic="General"),
        item(),
        item(f"{FACT}"),
        "text",
        {"content": FACT, "topic": "x", "confidence": 0.9, "owner": "bob"},
        item("x" * 20_001),
    ]
    reply = client.post(f"{USER}/remember", json={"items": items}).get_json()
    assert [outcome["field"] for outcome in reply["results"]] == [
        "content", "confidence", "topic", None, None, "item", "owner", "text",
    ]  # fmt: skip
    assert (reply["n_added"], reply["n_duplicates"], reply["n_refused"]) == (1, 1, 6)
    assert reply["results"][3]["note_id"] == reply["results"][4]["note_id"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("remember", {}, "items"),
        ("remember", {"items": {}}, "items"),
        ("remember", {"items": [item()] * (MAX_ITEMS + 1)}, "items"),
        ("remember", {"items": [], "owner": "bob"}, "owner"),
        ("recall", {"query": ""}, "query"),
        ("recall", {"query": "a", "top_k": 51}, "top_k"),
        ("recall", {"query": "a", "threshold": 2}, "threshold"),
        ("recall", {"query": "a", "user_id": "bob"}, "user_id"),
    ],
)
def test_invalid_recall_is_refused(empty: FlaskClient, path: str, body: dict[str, Any], field: str) -> None:
    assert_problem(empty.post(f"{USER}/{path}", json=body), 422, field)


def test_engine_retrieves_the_same(client: FlaskClient, engine: Engine, store: Store) -> None:
    store(VOLCANO, source_path="a.md", metadata={"page": 1})
    over_http = client.post(f"{API}/retrieve", json={"query": "lava", "filters": {"page": 1}}).get_json()
    local = engine.retrieve("lava", filters={"page": 1})
    assert over_http["results_summary"] == local.results_summary
    assert json.dumps(over_http["results"][0]["metadata"]) == json.dumps(local.results[0].metadata)
