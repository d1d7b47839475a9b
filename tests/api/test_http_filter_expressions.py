"""The filter of searches and listings over HTTP and in the console: expression, object, and errors in place."""

from __future__ import annotations

import html
from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, FLOWER, LAW, VOLCANO, Store, assert_problem

SEARCH, DOCUMENTS = f"{API}/search", f"{API}/documents"
EXPRESSION = 'tags = "rock" OR year < 2000 AND NOT draft = true'


@pytest.fixture
def library(store: Store) -> dict[str, int]:
    return {
        "Fire": store(VOLCANO, title="Fire", tags=["rock"], metadata={"year": 2020}),
        "Flowers": store(FLOWER, title="Flowers", metadata={"year": 1990}),
        "Courts": store(LAW, title="Courts", metadata={"year": 1980, "draft": True}),
    }


def titles(response: Any) -> list[str]:
    assert response.status_code == 200, response.get_data(as_text=True)
    return sorted({result["document_title"] for result in response.get_json()["results"]})


def test_filter_is_taken_by_every_search(client: FlaskClient, library: dict[str, int]) -> None:
    query = "volcano flower court"
    as_object = {"$or": [{"tags": "rock"}, {"year": {"$lt": 2000}, "$not": {"draft": True}}]}
    for given in (EXPRESSION, as_object):
        body = {"query": query, "filter": given}
        assert titles(client.post(SEARCH, json=body)) == ["Fire", "Flowers"]
        retrieved = client.post(f"{API}/retrieve", json=body).get_json()["results"]
        assert {each["metadata"]["title"] for each in retrieved} == {"Fire", "Flowers"}
        target = client.post(f"{API}/explain", json={**body, "document_id": library["Courts"]}).get_json()[
            "target"
        ]
        assert [each["message"] for each in target["kept_out"]] == [
            'it does not meet the filter any of tags = "rock", year < 2000 AND NOT draft = true'
        ]
    assert titles(client.get(SEARCH, query_string={"q": query, "filter": EXPRESSION})) == ["Fire", "Flowers"]
    assert titles(client.post(SEARCH, json={"query": query, "filter": None})) == ["Courts", "Fire", "Flowers"]
    both = {"query": query, "filter": "year < 2000", "filters": {"metadata": {"draft": True}}}
    assert titles(client.post(SEARCH, json=both)) == ["Courts"]


def test_documents_are_listed_by_filter(client: FlaskClient, library: dict[str, int]) -> None:
    listed = client.get(DOCUMENTS, query_string={"filter": EXPRESSION, "limit": 1}).get_json()
    assert listed["total"] == 2
    assert [document["title"] for document in listed["documents"]] == ["Fire"]
    assert client.delete(f"{DOCUMENTS}/{library['Fire']}").status_code in (202, 204)
    both = {"filter": EXPRESSION, "q": "flow"}
    assert client.get(DOCUMENTS, query_string=both).get_json()["total"] == 1
    assert_problem(client.get(DOCUMENTS, query_string={"filter": "page = 1"}), 422)


def test_error_has_the_place_and_a_code(client: FlaskClient, library: dict[str, int]) -> None:
    expression = "year < 2000 AND titel = x"
    for response in (
        client.post(SEARCH, json={"query": "x", "filter": expression}),
        client.get(SEARCH, query_string={"q": "x", "filter": expression}),
        client.post(f"{API}/retrieve", json={"query": "x", "filter": expression}),
        client.get(DOCUMENTS, query_string={"filter": expression}),
    ):
        problem = assert_problem(response, 422)
        assert problem["code"] == "invalid_filter"
        assert expression[problem["start"] : problem["end"]] == "titel"
        assert "did you mean title?" in problem["errors"]["filter"][0]
    unknown = assert_problem(client.post(SEARCH, json={"query": "x", "filter": {"year": {"gte": 1}}}), 422)
    assert "start" not in unknown
    assert "did you mean $gte?" in unknown["errors"]["filter"][0]
    for wrong in (1, [], True, {"reef": 999_999}, {"reef": "no such reef"}):
        assert_problem(client.post(SEARCH, json={"query": "x", "filter": wrong}), 422)


def test_warnings_name_contradictions_and_missing_keys(client: FlaskClient, library: dict[str, int]) -> None:
    def warnings(expression: str) -> list[str]:
        body = client.post(SEARCH, json={"query": "volcano", "filter": expression}).get_json()
        warned: list[str] = body["warnings"]
        return [warning for warning in warned if "meets" in warning or "metadata" in warning]

    assert warnings("year > 2000 AND tags = rock AND year < 1990") == [
        "nothing meets both year > 2000 and year < 1990"
    ]
    assert warnings("yaer = 2020") == ["no document has the key yaer in its metadata; did you mean year?"]
    assert warnings("year = 3000") == ["nothing meets year = 3000"]
    assert warnings("year = 2020 OR yaer = 1") == [
        "no document has the key yaer in its metadata; did you mean year?"
    ]
    assert warnings("year = 2020") == []


def test_console_filters_and_shows_the_error_in_place(client: FlaskClient, library: dict[str, int]) -> None:
    page = client.get("/", query_string={"q": "volcano flower court", "filter": EXPRESSION})
    text = html.unescape(page.get_data(as_text=True))
    assert page.status_code == 200
    assert "Flowers" in text
    assert "Courts" not in text
    assert f'value="{EXPRESSION}"' in text
    refused = client.get("/", query_string={"q": "x", "filter": "year < 2000 AND titel = <b>"})
    text = refused.get_data(as_text=True)
    assert refused.status_code == 422
    assert "<mark>titel</mark>" in text
    assert 'aria-invalid="true"' in text
    assert "<b>" not in text
