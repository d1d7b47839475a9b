"""Sort, decay and boosts over HTTP, in the console, in the client and on the command line."""

from __future__ import annotations

import html
import io
import re
from typing import Any

import pytest
from fake_scorer import FakeScorer
from flask.testing import FlaskClient
from rich.console import Console
from surface import API, FLOWER, VOLCANO, Store, assert_problem

from shoal.cli.results import print_search
from shoal.cli.session import json_form
from shoal.client.requests import parse_part
from shoal.engine import Engine
from shoal.models.search import SearchResponse
from shoal.settings import Settings

SEARCH = f"{API}/search"
QUERY = "volcano flower"
NOW = "2026-03-01T00:00:00.000Z"


@pytest.fixture(autouse=True)
def library(store: Store) -> None:
    store(VOLCANO, title="Fire", tags=["rock"], metadata={"date": "2026-01-30"})
    store(FLOWER, title="Flowers", metadata={"date": "2026-02-27"})


def titles(response: Any) -> list[str]:
    assert response.status_code == 200, response.get_data(as_text=True)
    return list(dict.fromkeys(result["document_title"] for result in response.get_json()["results"]))


def test_sort_in_body_and_address(client: FlaskClient) -> None:
    for sort, expected in (("-date", ["Flowers", "Fire"]), ("title", ["Fire", "Flowers"])):
        assert titles(client.get(SEARCH, query_string={"q": QUERY, "sort": sort})) == expected
        response = client.post(SEARCH, json={"query": QUERY, "sort": [sort]})
        assert titles(response) == expected
    assert response.get_json()["results"][0]["sort_values"] == ["Fire"]
    assert "sort_values" not in client.get(SEARCH, query_string={"q": QUERY}).get_json()["results"][0]
    body = {"query": QUERY, "sort": "title", "document_id": 1}
    assert client.post(f"{API}/explain", json=body).get_json()["target"]["sort_values"] == ["Fire"]


def test_decay_and_boosts_in_body_and_address(client: FlaskClient) -> None:
    decay = {"field": "date", "half_life_days": 30, "weight": 0.5, "now": NOW}
    body = {"query": QUERY, "decay": decay, "boosts": [{"filter": "tags = rock", "weight": 0.25}]}
    answer = client.post(SEARCH, json=body).get_json()
    by_title = {result["document_title"]: result["scores"] for result in answer["results"]}
    assert by_title["Fire"]["decay"] == 0.25
    assert by_title["Fire"]["boosts"] == [{"filter": 'tags = "rock"', "weight": 0.25, "value": 0.25}]
    assert by_title["Flowers"]["boosts"][0]["value"] == 0
    assert answer["now"] == NOW
    address = {
        "q": QUERY,
        "decay": f"date:30:0.5@{NOW}",
        "boosts": ["0.25:tags = rock", "0.1:title IN [x, y]"],
    }
    again = client.get(SEARCH, query_string=address).get_json()
    assert again["results"][0]["scores"]["final"] == answer["results"][0]["scores"]["final"]
    target = client.post(f"{API}/explain", json={**body, "document_id": 1}).get_json()["target"]
    for name in ("decay", "boosts", "final"):
        assert target["scores"][name] == by_title["Fire"][name]
    response = parse_part(SearchResponse, answer, None)  # type: ignore[arg-type]
    assert response.now == NOW
    assert response.results[0].scores.boosts is not None
    assert response.results[0].scores.boosts[0].weight == 0.25


def test_documents_and_folded_results(client: FlaskClient, store: Store) -> None:
    for number in range(3):
        store(f"{VOLCANO} Copy {number}.", title=f"Copy {number}")
    given = {"group_by": "document", "fold_similar": True}
    answer = client.post(SEARCH, json={"query": QUERY, **given}).get_json()
    assert answer["results"] == []
    (first,) = [document for document in answer["documents"] if document["folded"]]
    assert len(first["folded"]) == 3
    assert first["passages"][0]["chunk_id"] == first["best_chunk_id"]
    assert first["passages"][0]["folded"] == first["folded"]
    assert "shared_reefs" not in first["passages"][0]
    assert "sort_values" not in first
    again = client.get(SEARCH, query_string={"q": QUERY, **given}).get_json()
    assert [each["document_id"] for each in again["documents"]] == [
        each["document_id"] for each in answer["documents"]
    ]
    response = parse_part(SearchResponse, answer, None)  # type: ignore[arg-type]
    assert response.documents is not None
    assert [each.document_id for each in response.documents] == [
        each["document_id"] for each in answer["documents"]
    ]
    plain = client.get(SEARCH, query_string={"q": QUERY}).get_json()
    assert "documents" not in plain
    assert "folded" not in plain["results"][0]
    page = client.get("/", query_string={"q": QUERY, **given}).get_data(as_text=True)
    assert "and 3 similar" in page
    assert "1 matching passage" in page
    assert "whole documents" in page
    refused = client.post(SEARCH, json={"query": QUERY, "group_by": "document", "max_per_document": 0})
    assert list(assert_problem(refused, 422)["errors"]) == ["max_per_document"]


def test_command_line_shows_documents(settings: Settings) -> None:
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        for number in range(3):
            engine.ingest(content=f"{VOLCANO} Copy {number}.", title=f"Copy {number}")
        found = engine.search("volcano", group_by="document", fold_similar=True)
        out = io.StringIO()
        print_search(Console(file=out, width=200), json_form(found), with_scores=False, query="volcano")
    assert "1. Fire" in out.getvalue()
    assert "1 matching passage" in out.getvalue()
    assert "and 3 similar (document " in out.getvalue()
    assert "1.1. Fire" in out.getvalue()


def test_errors_name_the_member(client: FlaskClient) -> None:
    for body, field in (
        ({"decay": {"field": "date", "half_life_days": 0, "weight": 1}}, "decay.half_life_days"),
        ({"boosts": [{"filter": "tags =", "weight": 1}]}, "boosts[0].filter"),
        ({"sort": ["titel"]}, "sort"),
        ({"sort": "title", "rerank": 5}, "rerank"),
        ({"sort": "title", "units": ["chunk", "note"]}, "sort"),
    ):
        problem = assert_problem(client.post(SEARCH, json={"query": QUERY, **body}), 422)
        assert list(problem["errors"]) == [field]


def test_console_sorts_and_shows_added_parts(client: FlaskClient) -> None:
    address = {"q": QUERY, "sort": "-date", "decay": "date:90:0.2", "boost": "0.25:tags = rock"}
    page = client.get("/", query_string=address).get_data(as_text=True)
    assert page.index(">Flowers</a></h2>") < page.index(">Fire</a></h2>")
    assert '<span class="sign boost">boost tags = &#34;rock&#34; 0.25</span>' in page
    assert '<span class="sign decay">date 0.' in page
    assert "sorted: newest first" in page
    refused = client.get("/", query_string={"q": QUERY, "boost": "0.25:tags ="})
    assert refused.status_code == 422


def test_console_keeps_every_boost(client: FlaskClient) -> None:
    boosts = ["0.25:tags = rock", "0.1:title = Flowers"]
    page = client.get("/", query_string={"q": QUERY, "boost": boosts}).get_data(as_text=True)
    assert re.findall(r'<input name="boost" value="([^"]*)"', page) == boosts
    without_last = re.search(r'href="([^"]+)" aria-label="Without: preferred 0.1:title = Flowers"', page)
    assert without_last is not None
    after = client.get(html.unescape(without_last[1])).get_data(as_text=True)
    assert re.findall(r'<input name="boost" value="([^"]*)"', after) == boosts[:1]
    link = re.search(r'href="([^"]+)">Only this document', page)
    assert link is not None
    only = client.get(html.unescape(link[1])).get_data(as_text=True)
    assert re.findall(r'<input name="boost" value="([^"]*)"', only) == boosts


def test_command_line_shows_added_parts(settings: Settings) -> None:
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        engine.ingest(content=VOLCANO, title="Fire", tags=["rock"])
        found = engine.search(
            "volcano", decay="date:30:0.5", boosts=["0.25:tags = rock"], include_scores=True
        )
        out = io.StringIO()
        print_search(Console(file=out, width=200), json_form(found), with_scores=True, query="volcano")
    assert "by the age of the document" in out.getvalue()
    assert '0.25 tags = "rock"' in out.getvalue()
