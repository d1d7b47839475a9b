"""Reranking over HTTP, in the client, in the metrics and in the console."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_encoder import FakeEncoder
from fake_scorer import FakeScorer
from flask.testing import FlaskClient
from surface import API, FLOWER, LAW, VOLCANO, assert_problem, prepare

from shoal.engine import Engine
from shoal.settings import Settings
from shoal_api import create_app

QUERY = "lava of a volcano and a flower"


@pytest.fixture
def reranking(settings: Settings, migrated: Path) -> Iterator[FlaskClient]:
    """A client of a service with an encoder and three documents."""
    yield from _service(settings, migrated, FakeEncoder(same={"petals": "lava"}))


@pytest.fixture
def without(settings: Settings, migrated: Path) -> Iterator[FlaskClient]:
    """The same without an encoder."""
    yield from _service(settings, migrated, None)


def _service(settings: Settings, migrated: Path, encoder: FakeEncoder | None) -> Iterator[FlaskClient]:
    prepare(settings, migrated)
    with Engine(settings=settings, scorer=FakeScorer(), encoder=encoder) as engine:
        for title, content in (("Fire", VOLCANO), ("Growth", FLOWER), ("Courts", LAW)):
            engine.ingest(content=f"{content} A volcano and lava and a flower.", title=title)
        yield create_app(settings, engine=engine).test_client()


def post(client: FlaskClient, **fields: Any) -> Any:
    response = client.post(f"{API}/search", json={"query": QUERY, **fields})
    assert response.status_code == 200, response.get_data(as_text=True)
    return response.get_json()


def test_a_search_says_what_reranked_it(reranking: FlaskClient) -> None:
    body = post(reranking, rerank=2)
    assert set(body["rerank"]) == {"name", "revision", "n", "ms", "fallback"}
    assert (body["rerank"]["name"], body["rerank"]["n"], body["rerank"]["fallback"]) == ("fake", 2, None)
    first, second, *others = body["results"]
    for result in (first, second):
        assert set(result["rerank"]) == {
            "blend_rank", "similarity", "score", "blend_part", "similarity_part",
        }  # fmt: skip
    assert others
    assert all("rerank" not in result for result in others)


def test_a_search_without_it_has_no_more_fields(reranking: FlaskClient) -> None:
    body = post(reranking)
    assert "rerank" not in body
    assert all("rerank" not in result for result in body["results"])


def test_query_parameters_rerank_as_a_body_does(reranking: FlaskClient) -> None:
    response = reranking.get(f"{API}/search", query_string={"q": QUERY, "rerank": 2})
    assert response.status_code == 200
    assert response.get_json()["results"] == post(reranking, rerank=2)["results"]


@pytest.mark.parametrize("value", [-1, 101, "many", 1.5])
def test_a_wrong_number_is_a_problem(reranking: FlaskClient, value: Any) -> None:
    response = reranking.post(f"{API}/search", json={"query": QUERY, "rerank": value})
    assert_problem(response, 422)
    assert "rerank" in response.get_data(as_text=True)
    response = reranking.get(f"{API}/search", query_string={"q": QUERY, "rerank": value})
    assert_problem(response, 422)


def test_without_an_encoder_the_blend_comes_with_a_warning(without: FlaskClient) -> None:
    body = post(without, rerank=20)
    assert body["rerank"]["fallback"] == "no_encoder"
    assert "not reranked" in body["warnings"][-1]
    assert body["results"] == post(without)["results"]


def test_an_explanation_has_both(reranking: FlaskClient) -> None:
    chunk_id = post(reranking, rerank=20)["results"][0]["chunk_id"]
    response = reranking.post(f"{API}/explain", json={"query": QUERY, "chunk_id": chunk_id, "rerank": 20})
    body = response.get_json()
    assert (response.status_code, body["rerank"]["name"]) == (200, "fake")
    assert body["target"]["rank"] == 1
    assert body["target"]["rerank"]["similarity"] > 0
    plain = reranking.post(f"{API}/explain", json={"query": QUERY, "chunk_id": chunk_id}).get_json()
    assert (plain["rerank"], plain["target"]["rerank"]) == (None, None)


def test_notes_among_passages_are_a_problem(reranking: FlaskClient) -> None:
    response = reranking.post(f"{API}/search", json={"query": QUERY, "units": ["chunk", "note"], "rerank": 5})
    assert_problem(response, 422)


def test_the_metrics_count_outcomes(reranking: FlaskClient, without: FlaskClient) -> None:
    post(reranking, rerank=2)
    assert 'shoal_rerank_seconds_count{outcome="reranked"} 1.0' in reranking.get("/metrics").text
    post(without, rerank=2)
    assert 'shoal_rerank_seconds_count{outcome="no_encoder"} 1.0' in without.get("/metrics").text


def test_the_console_offers_it_where_there_is_an_encoder(
    reranking: FlaskClient, without: FlaskClient
) -> None:
    assert 'name="rerank"' in reranking.get("/").text
    assert 'name="rerank"' not in without.get("/").text
    page = reranking.get("/", query_string={"q": QUERY, "rerank": "20"}).text
    assert re.search("The first [0-9] results were reranked by fake", page)
    assert "by its score, similarity" in page
    assert "first 20 reranked" in page
    plain = reranking.get("/", query_string={"q": QUERY}).text
    assert "In order of their score." in plain
    assert "by its score, similarity" not in plain
    assert reranking.get("/", query_string={"q": QUERY, "rerank": "x"}).status_code == 422
