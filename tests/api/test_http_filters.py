"""Filters over HTTP, in bodies and query strings, and the errors of invalid filters."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, FLOWER, LAW, VOLCANO, Store, assert_problem

SEARCH = f"{API}/search"


@pytest.fixture
def library(store: Store) -> dict[int, str]:
    return {
        store(VOLCANO, title="Fire", tags=["rock", "Lyell, Charles"], source_path="a/fire, old.md",
              metadata={"lang": "en", "year": 1830, "draft": False, "by": {"name": "Lyell"}}): "Fire",
        store(FLOWER, title="Flowers", tags=["wiki"], source_path="b.md",
              metadata={"lang": "de", "year": "1830", "by": None}): "Flowers",
        store(LAW, title="Courts"): "Courts",
    }  # fmt: skip


def titles(response: Any) -> list[str]:
    assert response.status_code == 200, response.get_data(as_text=True)
    return sorted({result["document_title"] for result in response.get_json()["results"]})


def by_body(client: FlaskClient, **filters: Any) -> list[str]:
    return titles(client.post(SEARCH, json={"query": "volcano flower court", "filters": filters}))


def by_query_string(client: FlaskClient, parameters: str) -> list[str]:
    return titles(client.get(f"{SEARCH}?q=volcano+flower+court&{parameters}"))


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"lang": "en"}, ["Fire"]),
        ({"year": 1830}, ["Fire"]),
        ({"year": 1830.0}, ["Fire"]),
        ({"year": 10**30}, []),
        ({"year": "1830"}, ["Flowers"]),
        ({"draft": False}, ["Fire"]),
        ({"draft": 0}, []),
        ({"by": None}, ["Flowers"]),
        ({"lang": "en", "year": "1830"}, []),
        ({"name": "Lyell"}, []),
        ({}, ["Courts", "Fire", "Flowers"]),
        (None, ["Courts", "Fire", "Flowers"]),
    ],
)
def test_metadata_filter_compares_type_and_value(
    client: FlaskClient, library: dict[int, str], metadata: dict[str, Any] | None, expected: list[str]
) -> None:
    assert by_body(client, metadata=metadata) == expected
    if metadata is not None:
        response = client.get(
            SEARCH, query_string={"q": "volcano flower court", "metadata": json.dumps(metadata)}
        )
        assert titles(response) == expected


def test_results_have_the_metadata_of_their_documents(client: FlaskClient, library: dict[int, str]) -> None:
    results = client.post(SEARCH, json={"query": "volcano flower court"}).get_json()["results"]
    for result in results:
        document = client.get(f"{API}/documents/{result['document_id']}").get_json()
        assert result["metadata"] == document["metadata"]


def test_source_path_filter_compares_exactly(client: FlaskClient, library: dict[int, str]) -> None:
    assert by_body(client, source_path="b.md") == ["Flowers"]
    assert by_body(client, source_path=["b.md", "a/fire, old.md"]) == ["Fire", "Flowers"]
    assert by_body(client, source_path=[]) == []
    assert by_query_string(client, "source_path=a/fire,+old.md") == ["Fire"]
    assert by_query_string(client, "source_path=b.md&source_path=a/fire,+old.md") == ["Fire", "Flowers"]


def test_tags_in_a_query_string_may_repeat_and_contain_commas(
    client: FlaskClient, library: dict[int, str]
) -> None:
    assert by_query_string(client, "tags=rock,wiki&tags_match=any") == ["Fire", "Flowers"]
    assert by_query_string(client, "tags=rock&tags=wiki&tags_match=any") == ["Fire", "Flowers"]
    assert by_query_string(client, "tag=Lyell,+Charles") == ["Fire"]
    assert by_query_string(client, "tag=Lyell,+Charles&tag=rock&tags=rock") == ["Fire"]
    assert by_query_string(client, "tag=Lyell,+Charles&tags=wiki&tags_match=any") == ["Fire", "Flowers"]


@pytest.mark.parametrize(
    ("filters", "field"),
    [
        ({"metadata": ["lang"]}, "filters.metadata"),
        ({"metadata": {"lang": ["de", "en"]}}, "filters.metadata.lang"),
        ({"metadata": {str(i): i for i in range(17)}}, "filters.metadata"),
        ({"source_path": 7}, "filters.source_path"),
        ({"source_path": ["a", 7]}, "filters.source_path.1"),
        ({"min_confidence": -1}, "filters.min_confidence"),
    ],
)
def test_invalid_filter_is_named(client: FlaskClient, filters: dict[str, Any], field: str) -> None:
    assert_problem(client.post(SEARCH, json={"query": "a", "filters": filters}), 422, field)


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ("metadata=lang:de", "metadata"),
        ("metadata=[1]", "metadata"),
        ('metadata={"a":1,"a":2}', "metadata"),
        ('metadata={"a":[1]}', "metadata.a"),
        ("min_confidence=-1", "min_confidence"),
        ("top_k=1&top_k=2", "top_k"),
        ("metadata={}&metadata={}", "metadata"),
        ("created_after=yesterday", "created_after"),
    ],
)
def test_invalid_query_parameter_is_named(client: FlaskClient, parameters: str, field: str) -> None:
    assert_problem(client.get(f"{SEARCH}?q=a&{parameters}"), 422, field)


@pytest.mark.parametrize(
    "place", ["/search?q=caf%E9", "/search?q=a&tags=caf%E9", "/documents?q=%FF", "/jobs?limit=1&%C3=1"]
)
def test_query_string_that_is_not_utf8_is_refused(client: FlaskClient, place: str) -> None:
    assert "not UTF-8" in assert_problem(client.get(f"{API}{place}"), 400)["detail"]
    assert client.get(f"{API}/search?q=caf%C3%A9").status_code == 200


def test_time_zone_with_a_space_for_its_plus_is_accepted(
    client: FlaskClient, library: dict[int, str]
) -> None:
    moments = ("2020-01-01T00:00:00+01:00", "2020-01-01T00:00:00.5%2B0100", "2020-01-01", "2020-01-01 10:00")
    for moment in moments:
        assert by_query_string(client, f"created_after={moment}") == ["Courts", "Fire", "Flowers"]
        assert by_query_string(client, f"created_before={moment}") == []


def test_chunk_is_returned_with_its_citation_and_neighbours(client: FlaskClient, store: Store) -> None:
    text = f"# Fire\n\n{VOLCANO}\n\n# Growth\n\n{FLOWER}\n\n# Courts\n\n{LAW}\n"
    document = store(text, title="Three", format="markdown", metadata={"lang": "en"})
    listed = client.get(f"{API}/documents/{document}/chunks").get_json()["chunks"]
    assert len(listed) == 3
    middle = client.get(f"{API}/chunks/{listed[1]['id']}?context=5").get_json()
    assert {name: middle[name] for name in listed[1]} == listed[1]
    assert middle["document"]["metadata"] == {"lang": "en"}
    assert middle["document"]["id"] == document
    around = [*middle["before"], *middle["after"]]
    assert [chunk["chunk_id"] for chunk in around] == [listed[0]["id"], listed[2]["id"]]
    lines = text.split("\n")
    for chunk in (*around, middle):
        assert text[chunk["start_char"] : chunk["end_char"]] == chunk["text"]
        assert chunk["text"] in "\n".join(lines[chunk["start_line"] - 1 : chunk["end_line"]])
    alone = client.get(f"{API}/chunks/{listed[1]['id']}").get_json()
    assert alone["before"] == alone["after"] == []

    client.delete(f"{API}/documents/{document}")
    assert_problem(client.get(f"{API}/chunks/{listed[1]['id']}"), 404)
    assert_problem(client.get(f"{API}/chunks/0"), 404)
    assert_problem(client.get(f"{API}/chunks/1?context=11"), 422, "context")


def test_neighbours_of_a_result_have_offsets_and_lines(client: FlaskClient, store: Store) -> None:
    two_lines = FLOWER.replace(". ", ".\n", 1)
    text = f"# Fire\n\n{VOLCANO}\n\n# Growth\n\n{two_lines}\n"
    store(text, title="Two", format="markdown")
    (result,) = client.post(
        SEARCH, json={"query": "volcano", "mode": "lexical", "context": 1, "top_k": 1}
    ).get_json()["results"]
    (neighbour,) = [*result["before"], *result["after"]]
    assert text[neighbour["start_char"] : neighbour["end_char"]] == neighbour["text"]
    lines = text.split("\n")[neighbour["start_line"] - 1 : neighbour["end_line"]]
    assert "\n".join(lines) == neighbour["text"]
    assert neighbour["end_line"] == neighbour["start_line"] + 1
