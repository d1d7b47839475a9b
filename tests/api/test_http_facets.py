"""Facets over HTTP and with the client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from live_service import live

from shoal.client import Client, InvalidError
from shoal.engine import Engine
from shoal.settings import Settings
from shoal_api import create_app

LAVA = "Lava rose in the volcano. Ash fell on the rock."
DOCUMENTS = [
    {"tags": ["fire", "rock"], "metadata": {"year": 2020, "by": {"name": "Ann"}}, "source_path": "a/x/1.md"},
    {"tags": ["fire"], "metadata": {"year": 2021, "by": {"name": "Bob"}}, "source_path": "a/2.txt"},
    {"tags": ["rock, hard"], "metadata": {"year": 2020}},
]


@pytest.fixture
def engine(tmp_path: Path) -> Any:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/shoal.db", learning=False)
    with Engine(settings=settings, scorer=FakeScorer()) as opened:
        for number, fields in enumerate(DOCUMENTS):
            opened.ingest(content=f"{LAVA} Number {number}.", **fields)
        yield opened


@pytest.fixture
def http(engine: Engine) -> Any:
    return create_app(engine=engine).test_client()


def counts(facet: dict[str, Any]) -> dict[Any, int]:
    return {value["value"]: value["count"] for value in facet["values"]}


def test_a_search_has_the_facets_that_were_asked_for(http: Any) -> None:
    body = {"query": "lava", "facets": ["tags", {"field": "year", "interval": 2, "limit": 5}], "top_k": 1}
    answer = http.post("/api/v1/search", json=body).get_json()
    assert len(answer["results"]) == 1
    tags, years = answer["facets"]
    assert counts(tags) == {"fire": 2, "rock": 1, "rock, hard": 1}
    assert (years["interval"], counts(years)) == (2, {2020: 3})
    assert "facets" not in http.post("/api/v1/search", json={"query": "lava"}).get_json()


def test_facets_of_an_address_ignore_the_filter_on_their_own_field(http: Any) -> None:
    query = {"q": "lava", "facets": "tags,by.name", "filter": "by.name = Ann AND tags = fire"}
    tags, names = http.get("/api/v1/search", query_string=query).get_json()["facets"]
    assert counts(tags) == {"fire": 1, "rock": 1}
    assert counts(names) == {"Ann": 1, "Bob": 1}
    assert [value["is_selected"] for value in names["values"]] == [True, False]


def test_the_library_has_facets_of_its_own(http: Any) -> None:
    by_address = http.get("/api/v1/facets?facets=folder,format,created:year&facet_limit=1").get_json()
    folders, formats, created = by_address["facets"]
    assert (counts(folders), folders["n_values"], folders["n_missing"]) == ({"a": 2}, 2, 1)
    assert formats["n_documents"] == by_address["n_documents"] == 3
    assert created["n_other"] == 0
    body = {"facets": ["tags"], "filters": {"metadata": {"year": 2020}}, "filter": "tags = fire"}
    by_body = http.post("/api/v1/facets", json=body).get_json()
    assert counts(by_body["facets"][0]) == {"fire": 1, "rock": 1, "rock, hard": 1}
    assert by_body["n_documents"] == 1
    metrics = http.get("/metrics").get_data(as_text=True)
    assert "shoal_facets_seconds_count 2.0" in metrics


@pytest.mark.parametrize(
    ("method", "path", "sent", "field"),
    [
        ("get", "/api/v1/facets", {}, "facets"),
        ("get", "/api/v1/facets", {"facets": ""}, "facets"),
        ("get", "/api/v1/facets", {"facets": "tags,tittle"}, "facets[1]"),
        ("get", "/api/v1/facets", {"facets": "tags", "facet_limit": "0"}, "facet_limit"),
        ("get", "/api/v1/search", {"q": "lava", "facets": "tags:month"}, "facets[0]"),
        ("get", "/api/v1/facets", {"facets": "tags", "filter": "tags ="}, "filter"),
        ("post", "/api/v1/facets", {"facets": ["tags"] * 21}, "facets"),
        ("post", "/api/v1/facets", {"facets": [["tags"]]}, "facets[0]"),
        ("post", "/api/v1/search", {"query": "lava", "facets": "tags"}, "facets"),
        (
            "post",
            "/api/v1/search",
            {"query": "lava", "facets": [{"field": "tags", "limit": 1e9}]},
            "facets[0].limit",
        ),
        (
            "post",
            "/api/v1/search",
            {"query": "lava", "facets": ["tags"], "units": ["chunk", "note"]},
            "facets",
        ),
    ],
)
def test_bad_facets_are_named(http: Any, method: str, path: str, sent: dict[str, Any], field: str) -> None:
    response = http.get(path, query_string=sent) if method == "get" else http.post(path, json=sent)
    assert response.status_code == 422
    assert field in response.get_json()["errors"]


def test_a_key_that_no_document_has_is_named_with_a_near_one(engine: Engine) -> None:
    response = engine.search("lava", facets=["yeer"])
    (warning,) = engine.facets(["yeer"]).warnings
    assert warning == "no document has the key yeer in its metadata; did you mean year?"
    assert warning in response.warnings


def test_the_client_counts_like_the_engine(engine: Engine) -> None:
    with live(engine) as service, Client(service.url) as client:
        asked = ["tags", "metadata.year", "reef", "created:month"]
        expected = service.engine.search("lava", facets=asked, facet_limit=2).facets
        assert client.search("lava", facets=asked, facet_limit=2).facets == expected
        assert client.search("lava").facets is None
        of_library = client.facets(asked, filter="tags = fire")
        assert of_library.facets == service.engine.facets(asked, filter="tags = fire").facets
        with pytest.raises(InvalidError):
            client.facets(["tags:month"])
