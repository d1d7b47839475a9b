"""Search over HTTP: the JSON of the contract, field by field."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, FLOWER, LAW, VOLCANO, Store, assert_problem

from shoal.engine import Engine
from shoal.settings import Settings
from shoal_api import create_app

RESULT = {
    "text", "match_score", "n_shared_reefs", "document_id", "document_title", "source_path", "chunk_id",
    "chunk_index", "start_char", "end_char", "start_line", "end_line", "section_path", "confidence", "coverage", "metadata",
    "top_reef_name", "tags", "highlights", "scores", "provenance", "term_coverage",
}  # fmt: skip


def search(client: FlaskClient, query: str, **fields: Any) -> dict[str, Any]:
    answer = client.post(f"{API}/search", json={"query": query, **fields})
    assert answer.status_code == 200, answer.get_data(as_text=True)
    body: dict[str, Any] = answer.get_json()
    assert body["trace_id"] == answer.headers["X-Trace-Id"]
    return body


@pytest.fixture
def library(store: Store) -> dict[str, int]:
    text = f"# Fire\n\n{VOLCANO}\n\n# Growth\n\n{FLOWER}\n"
    return {
        "fire": store(
            text, title="Fire and growth", format="markdown", tags=["nature", "rock"], source_path="a/fire.md"
        ),
        "law": store(LAW, title="Courts", tags=["law"]),
    }


def test_a_result_has_the_fields_of_the_contract(client: FlaskClient, library: dict[str, int]) -> None:
    body = search(client, "lava of a volcano", include_scores=True, context=1)
    assert set(body) == {"results", "query_info", "weights", "trace_id", "took_ms", "warnings"}
    assert set(body["query_info"]) == {
        "top_reef", "confidence", "coverage", "top_reefs", "unknown_words", "missing_terms", "feedback",
    }  # fmt: skip
    assert set(body["query_info"]["top_reefs"][0]) == {"reef_id", "reef_name", "z_score", "own_z"}
    assert body["took_ms"] > 0
    result = body["results"][0]
    assert set(result) == RESULT | {"shared_reefs", "matched_terms", "before", "after"}
    assert result["document_id"] == library["fire"]
    assert result["document_title"] == "Fire and growth"
    assert result["source_path"] == "a/fire.md"
    assert result["section_path"] == ["Fire"]
    assert sorted(result["tags"]) == ["nature", "rock"]
    assert result["top_reef_name"] == "volcanoes and rocks"
    assert result["provenance"] == ["lexical", "reef"]
    assert set(result["scores"]) == {"lexical", "reef", "field_boost", "final", "lexical_raw", "reef_raw"}
    assert result["scores"]["final"] == result["match_score"]
    assert 0 < result["scores"]["reef"] <= 1
    assert set(result["shared_reefs"][0]) == {"reef_id", "reef_name", "chunk_z", "query_z", "share"}
    assert len(result["shared_reefs"]) == result["n_shared_reefs"]
    assert [chunk["text"] for chunk in result["after"]] == [FLOWER]
    assert result["before"] == []
    words = {result["text"][start:end].lower() for start, end in result["highlights"]}
    assert {"lava", "volcano"} <= words


def test_what_was_not_asked_for_is_left_out(client: FlaskClient, library: dict[str, int]) -> None:
    assert set(search(client, "volcano")["results"][0]) == RESULT


def test_a_result_cites_its_document(client: FlaskClient, library: dict[str, int]) -> None:
    result = search(client, "pollen of a flower")["results"][0]
    content = client.get(f"{API}/documents/{library['fire']}/content").get_data().decode()
    assert content[result["start_char"] : result["end_char"]] == result["text"] == FLOWER
    assert (result["start_line"], result["end_line"]) == (7, 7)


def test_filters_narrow_the_results(client: FlaskClient, library: dict[str, int]) -> None:
    query = "volcano flower judge"

    def documents(**filters: Any) -> set[int]:
        return {result["document_id"] for result in search(client, query, filters=filters)["results"]}

    fire, law = library["fire"], library["law"]
    assert documents() == {fire, law}
    assert documents(tags=["law"]) == {law}
    assert documents(tags=["law", "rock"]) == set()
    assert documents(tags=["law", "rock"], tags_match="any") == {fire, law}
    assert documents(document_ids=[fire]) == {fire}
    assert documents(document_ids=[]) == set()
    assert documents(document_ids=None) == {fire, law}
    assert documents(format="markdown") == {fire}
    assert documents(created_after="2020-01-01") == {fire, law}
    assert documents(created_after="2999-01-01T00:00:00Z") == set()
    assert documents(created_before="2020-01-01T00:00:00+02:00") == set()
    assert documents(min_coverage=1.0, min_confidence=1e9) == set()
    assert search(client, query, filters=None)["results"]


def test_the_whole_request_of_the_contract_is_understood(
    client: FlaskClient, library: dict[str, int]
) -> None:
    filters = {
        "tags": ["rock"], "tags_match": "all", "min_confidence": None, "min_coverage": None, "reef_ids": None,
        "island_ids": None, "archipelago": None, "document_ids": None, "format": None, "created_after": None,
        "created_before": None,
    }  # fmt: skip
    body = search(
        client, "volcano", top_k=10, mode="reef", preset="balanced", weights=None, fusion="blend",
        max_per_document=3, include_scores=True, context=0, offset=0, filters=filters,
    )  # fmt: skip
    assert body["results"][0]["document_id"] == library["fire"]


def test_results_come_page_by_page(client: FlaskClient, library: dict[str, int]) -> None:
    query = "volcano flower judge"
    everything = [result["chunk_id"] for result in search(client, query)["results"]]
    assert len(everything) >= 3
    pages = [search(client, query, top_k=1, offset=n)["results"][0]["chunk_id"] for n in range(3)]
    assert pages == everything[:3]
    one_each = search(client, query, max_per_document=1)["results"]
    assert len({result["document_id"] for result in one_each}) == len(one_each)


def test_an_address_searches_like_a_body(client: FlaskClient, library: dict[str, int]) -> None:
    answer = client.get(
        f"{API}/search?q=volcano+flower+judge&top_k=2&tags=law,rock&tags_match=any&include_scores=true"
        f"&document_ids={library['fire']}"
    )
    assert answer.status_code == 200
    body = search(
        client, "volcano flower judge", top_k=2, include_scores=True,
        filters={"tags": ["law", "rock"], "tags_match": "any", "document_ids": [library["fire"]]},
    )  # fmt: skip
    assert answer.get_json()["results"] == body["results"]
    assert body["results"]
    nothing = client.get(f"{API}/search?q=volcano&document_ids=")
    assert nothing.get_json()["results"] == []


@pytest.mark.parametrize("query", ["the of and", "xyzzy qwrtp", "123", "?!", "\u0000", "' OR 1=1 --", '"(*'])
def test_a_query_without_a_known_word_finds_nothing_and_says_so(
    client: FlaskClient, library: dict[str, int], query: str
) -> None:
    body = search(client, query)
    assert body["results"] == []
    assert body["warnings"]


def test_a_query_that_nothing_answers_looks_like_it(client: FlaskClient, library: dict[str, int]) -> None:
    body = search(client, "volcano of Xyzzy and Obadiah")
    assert body["query_info"]["missing_terms"] == ["Xyzzy", "Obadiah"]
    assert body["warnings"][0] == "in no passage of this library: Xyzzy, Obadiah"
    best = body["results"][0]
    assert best["match_score"] > 0.9
    assert best["term_coverage"] < 0.3
    explained = client.post(
        f"{API}/explain", json={"query": "volcano of Xyzzy and Obadiah", "document_id": 1}
    )
    assert explained.get_json()["target"]["term_coverage"] == best["term_coverage"]
    assert search(client, "the of")["query_info"]["missing_terms"] == []


def test_an_empty_library_is_searched_in_vain(client: FlaskClient) -> None:
    assert search(client, "volcano")["results"] == []


def test_scores_order_the_results(client: FlaskClient, library: dict[str, int]) -> None:
    scores = [result["match_score"] for result in search(client, "volcano flower")["results"]]
    assert scores == sorted(scores, reverse=True)


def test_an_explanation_tells_what_became_of_every_word(client: FlaskClient, library: dict[str, int]) -> None:
    answer = client.post(f"{API}/explain", json={"query": "the lava of Xyzzy"})
    assert answer.status_code == 200
    body = answer.get_json()
    assert {word["text"]: word["status"] for word in body["words"]} == {
        "the": "stop", "lava": "known", "of": "stop", "Xyzzy": "unknown",
    }  # fmt: skip
    lava = body["words"][1]
    assert body["query"][lava["start_char"] : lava["end_char"]] == "lava"
    assert lava["reefs"][0]["reef_name"] == "volcanoes and rocks"
    assert body["query_info"]["unknown_words"] == ["xyzzy"]
    assert body["reefs"][0]["reef_name"] == body["query_info"]["top_reef"] == "volcanoes and rocks"
    assert body["target"] is None
    assert body["trace_id"] == answer.headers["X-Trace-Id"]


def test_an_explanation_tells_where_a_document_ranks_and_what_kept_it_out(
    client: FlaskClient, library: dict[str, int]
) -> None:
    def target(**fields: Any) -> dict[str, Any]:
        answer = client.post(f"{API}/explain", json={"query": "lava of a volcano", **fields})
        assert answer.status_code == 200, answer.get_data(as_text=True)
        found: dict[str, Any] = answer.get_json()["target"]
        return found

    found = target(document_id=library["fire"])
    best = search(client, "lava of a volcano")["results"][0]
    assert (found["rank"], found["chunk_id"], found["kept_out"]) == (1, best["chunk_id"], [])
    assert found["score"] == pytest.approx(best["match_score"])
    assert target(chunk_id=best["chunk_id"])["document_id"] == library["fire"]
    filtered = target(document_id=library["fire"], filters={"tags": ["law"]})
    assert filtered["rank"] is None
    assert filtered["kept_out"][0]["reason"] == "filter"


def test_explaining_what_is_not_there_is_not_found(client: FlaskClient, library: dict[str, int]) -> None:
    for wanted in ({"document_id": 4711}, {"chunk_id": 4711}):
        assert_problem(client.post(f"{API}/explain", json={"query": "lava", **wanted}), 404)
    for wanted in ({"document_id": 0}, {"chunk_id": "1"}, {"chunk_id": 2**63}):
        assert_problem(
            client.post(f"{API}/explain", json={"query": "lava", **wanted}), 422, next(iter(wanted))
        )


def test_weights_and_every_filter_fit_an_address(client: FlaskClient, library: dict[str, int]) -> None:
    fields = "weights=lexical:1,reef:3&min_coverage=0.1&created_after=2020-01-01&created_before=2999-01-01T00:00:00Z"
    answer = client.get(f"{API}/search?q=volcano+flower+judge&fusion=rrf&preset=precise&{fields}")
    assert answer.status_code == 200, answer.get_data(as_text=True)
    body = search(
        client, "volcano flower judge", fusion="rrf", weights={"lexical": 1, "reef": 3},
        filters={"min_coverage": 0.1, "created_after": "2020-01-01", "created_before": "2999-01-01T00:00:00Z"},
    )  # fmt: skip
    assert answer.get_json()["results"] == body["results"]
    assert (
        answer.get_json()["weights"] == body["weights"] == {"lexical": 0.25, "reef": 0.75, "field_boost": 0.0}
    )
    islands = client.get(f"{API}/search?q=volcano&island_ids=0,1&archipelago=0")
    assert islands.status_code == 200


@pytest.mark.parametrize(
    ("asked", "field"),
    [("weights=1", "weights"), ("weights=lexical", "weights"), ("weights=lexical:x", "weights"), ("weights=", "weights"),
     ("weights=lexical:1,lexical:2", "weights"), ("weights=words:1", "weights.words"), ("weights=reef:-1", "weights.reef"),
     ("weights=reef:nan", "weights.reef"), ("weights=reef:0", "weights"), ("archipelago=4", "archipelago"),
     ("island_ids=x", "island_ids"), ("created_after=soon", "created_after"), ("mode=words", "mode")],
)  # fmt: skip
def test_what_makes_no_sense_in_an_address_is_refused(empty: FlaskClient, asked: str, field: str) -> None:
    assert_problem(empty.get(f"{API}/search?q=volcano&{asked}"), 422, field)


def test_an_explanation_tells_what_the_query_demands_and_what_a_score_is_made_of(
    client: FlaskClient, library: dict[str, int]
) -> None:
    asked = {
        "query": "lava volcano -frost",
        "document_id": library["fire"],
        "weights": {"lexical": 1, "reef": 1},
    }
    body = client.post(f"{API}/explain", json=asked).get_json()
    assert (body["mode"], body["excluded"], body["required"]) == ("hybrid", ["frost"], [])
    assert body["weights"] == {"lexical": 0.5, "reef": 0.5, "field_boost": 0.0}
    assert {"lava", "volcano"} <= set(body["terms"])
    target = body["target"]
    assert {one["term"] for one in target["matched_terms"]} >= {"lava", "volcano"}
    assert target["scores"]["final"] == target["score"]
    assert target["would_rank"] == target["rank"] == 1


def test_the_audit_log_knows_a_search_by_the_trace_id_of_its_answer(
    settings: Settings, engine: Engine, library: dict[str, int], tmp_path: Path
) -> None:
    log = tmp_path / "audit.jsonl"
    noting = dataclasses.replace(settings, audit="summary", audit_file=str(log))
    with Engine(settings=noting, scorer=engine.scorer) as opened:
        client = create_app(noting, engine=opened).test_client()
        bodies = [
            search(client, "lava of a volcano"),
            client.get(f"{API}/search?q=volcano").get_json(),
        ]
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert [entry["trace_id"] for entry in entries] == [body["trace_id"] for body in bodies]
