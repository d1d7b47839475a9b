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
    "chunk_index", "start_char", "end_char", "start_line", "end_line", "place", "modality", "time_start",
    "time_end", "section_path", "confidence", "coverage", "metadata",
    "top_reef_name", "labels", "awaits_rescore", "tags", "highlights", "scores", "provenance", "why", "reasons", "term_coverage",
    "relevance",
    "pinned", "further", "lacking",
}  # fmt: skip


def search(client: FlaskClient, query: str, **fields: Any) -> dict[str, Any]:
    response = client.post(f"{API}/search", json={"query": query, **fields})
    assert response.status_code == 200, response.get_data(as_text=True)
    body: dict[str, Any] = response.get_json()
    assert body["trace_id"] == response.headers["X-Trace-Id"]
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


def test_result_has_the_fields_of_the_contract(client: FlaskClient, library: dict[str, int]) -> None:
    body = search(client, "lava of a volcano", include_scores=True, context=1)
    assert body["total"] >= len(body["results"])
    assert set(body) == {
        "results",
        "total",
        "query_info",
        "weights",
        "trace_id",
        "took_ms",
        "warnings",
        "next_cursor",
        "has_more",
    }
    assert set(body["query_info"]) == {
        "top_reef", "confidence", "coverage", "top_reefs", "unknown_words", "missing_terms", "feedback",
            "near_words", "synonyms", "translations", "excluded", "pins",
    }  # fmt: skip
    assert set(body["query_info"]["top_reefs"][0]) == {"reef_id", "reef_name", "z_score", "own_z"}
    assert body["took_ms"] > 0
    result = body["results"][0]
    optional = {"shared_reefs", "matched_terms", "nearest_sentence", "before", "after"}
    assert set(result) == RESULT | optional
    assert result["document_id"] == library["fire"]
    assert result["document_title"] == "Fire and growth"
    assert result["source_path"] == "a/fire.md"
    assert result["section_path"] == ["Fire"]
    assert sorted(result["tags"]) == ["nature", "rock"]
    assert result["top_reef_name"] == "volcanoes and rocks"
    assert result["provenance"] == ["lexical", "reef"]
    assert set(result["scores"]) == {
        "lexical",
        "reef",
        "field_boost",
        "final",
        "lexical_raw",
        "reef_raw",
        "field_boost_parts",
        "dense",
        "dense_raw",
        "decay",
        "boosts",
        "exact_name",
        "identifiers",
    }
    assert result["scores"]["final"] == result["match_score"]
    assert 0 < result["scores"]["reef"] <= 1
    reason = result["shared_reefs"][0]
    assert set(reason) == {
        *("reef_id", "reef_name", "chunk_z", "query_z", "share"),
        *("probability", "is_reason", "query_words", "passage_words"),
    }
    assert reason["is_reason"]
    assert reason["query_words"]
    assert reason["passage_words"]
    assert len(result["shared_reefs"]) == result["n_shared_reefs"]
    assert [chunk["text"] for chunk in result["after"]] == [FLOWER]
    assert result["before"] == []
    words = {result["text"][start:end].lower() for start, end in result["highlights"]}
    assert {"lava", "volcano"} <= words


def test_optional_fields_are_left_out_by_default(client: FlaskClient, library: dict[str, int]) -> None:
    assert set(search(client, "volcano")["results"][0]) == RESULT


def test_result_has_the_offsets_and_lines_of_its_text(client: FlaskClient, library: dict[str, int]) -> None:
    result = search(client, "pollen of a flower")["results"][0]
    content = client.get(f"{API}/documents/{library['fire']}/content").get_data().decode()
    assert content[result["start_char"] : result["end_char"]] == result["text"] == FLOWER
    assert (result["start_line"], result["end_line"]) == (7, 7)


def test_filters_limit_the_results(client: FlaskClient, library: dict[str, int]) -> None:
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


def test_every_field_of_the_contract_is_accepted(client: FlaskClient, library: dict[str, int]) -> None:
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


def test_pages_continue_the_ranking(client: FlaskClient, library: dict[str, int]) -> None:
    query = "volcano flower judge"
    chunk_ids = [result["chunk_id"] for result in search(client, query)["results"]]
    assert len(chunk_ids) >= 3
    pages = [search(client, query, top_k=1, offset=n)["results"][0]["chunk_id"] for n in range(3)]
    assert pages == chunk_ids[:3]
    one_per_document = search(client, query, max_per_document=1)["results"]
    assert len({result["document_id"] for result in one_per_document}) == len(one_per_document)


def test_get_search_equals_post_search(client: FlaskClient, library: dict[str, int]) -> None:
    response = client.get(
        f"{API}/search?q=volcano+flower+judge&top_k=2&tags=law,rock&tags_match=any&include_scores=true"
        f"&document_ids={library['fire']}"
    )
    assert response.status_code == 200
    body = search(
        client, "volcano flower judge", top_k=2, include_scores=True,
        filters={"tags": ["law", "rock"], "tags_match": "any", "document_ids": [library["fire"]]},
    )  # fmt: skip
    assert response.get_json()["results"] == body["results"]
    assert body["results"]
    empty = client.get(f"{API}/search?q=volcano&document_ids=")
    assert empty.get_json()["results"] == []


@pytest.mark.parametrize("query", ["xyzzy qwrtp", "123", "?!", "\u0000", "' OR 1=1 --", '"(*'])
def test_query_without_a_known_word_has_no_results_and_a_warning(
    client: FlaskClient, library: dict[str, int], query: str
) -> None:
    body = search(client, query)
    assert body["results"] == []
    assert body["warnings"]


def test_missing_words_give_a_warning_and_a_low_term_coverage(
    client: FlaskClient, library: dict[str, int]
) -> None:
    body = search(client, "volcano of Xyzzy and Obadiah")
    assert body["query_info"]["missing_terms"] == ["Xyzzy", "Obadiah"]
    assert body["warnings"][0] == "in no passage of this library: Xyzzy, Obadiah"
    best = body["results"][0]
    assert best["match_score"] > 0.9
    assert best["term_coverage"] < 0.3
    assert best["relevance"] < search(client, "volcano")["results"][0]["relevance"]
    explained = client.post(
        f"{API}/explain", json={"query": "volcano of Xyzzy and Obadiah", "document_id": 1}
    )
    target = explained.get_json()["target"]
    assert (target["term_coverage"], target["relevance"]) == (best["term_coverage"], best["relevance"])
    assert [part["name"] for part in target["relevance_parts"]] == [
        "start", "term_coverage", "adjacent_terms", "reef_similarity",
    ]  # fmt: skip
    assert set(target["relevance_parts"][0]) == {"name", "value", "contribution", "description"}
    assert search(client, "the of")["query_info"]["missing_terms"] == ['"the of"']


def test_min_relevance_removes_results_in_a_body_and_an_address(
    client: FlaskClient, library: dict[str, int]
) -> None:
    results = search(client, "volcano and judge")["results"]
    limit = max(result["relevance"] for result in results)
    expected = [result for result in results if result["relevance"] >= limit]
    assert 0 < len(expected) < len(results)
    assert search(client, "volcano and judge", min_relevance=limit)["results"] == expected
    address = f"{API}/search?q=volcano+and+judge&min_relevance="
    assert client.get(f"{address}{limit}").get_json()["results"] == expected
    for wrong in ("1.5", "-1", "nan", "much"):
        answer = client.get(f"{address}{wrong}")
        assert answer.status_code in (400, 422)
        assert "min_relevance" in answer.get_data(as_text=True)
    answer = client.post(f"{API}/search", json={"query": "volcano", "min_relevance": 1.5})
    assert "min_relevance" in answer.get_data(as_text=True)


def test_empty_library_has_no_results(client: FlaskClient) -> None:
    assert search(client, "volcano")["results"] == []


def test_results_are_ordered_by_score(client: FlaskClient, library: dict[str, int]) -> None:
    scores = [result["match_score"] for result in search(client, "volcano flower")["results"]]
    assert scores == sorted(scores, reverse=True)


def test_explanation_gives_the_status_of_every_word(client: FlaskClient, library: dict[str, int]) -> None:
    response = client.post(f"{API}/explain", json={"query": "the lava of Xyzzy"})
    assert response.status_code == 200
    body = response.get_json()
    assert {word["text"]: word["status"] for word in body["words"]} == {
        "the": "stop", "lava": "known", "of": "stop", "Xyzzy": "unknown",
    }  # fmt: skip
    lava = body["words"][1]
    assert body["query"][lava["start_char"] : lava["end_char"]] == "lava"
    assert lava["reefs"][0]["reef_name"] == "volcanoes and rocks"
    assert body["query_info"]["unknown_words"] == ["xyzzy"]
    assert body["reefs"][0]["reef_name"] == body["query_info"]["top_reef"] == "volcanoes and rocks"
    assert body["target"] is None
    assert body["trace_id"] == response.headers["X-Trace-Id"]


def test_explanation_gives_the_rank_of_a_document_or_the_filter_that_removed_it(
    client: FlaskClient, library: dict[str, int]
) -> None:
    def explain_target(**fields: Any) -> dict[str, Any]:
        response = client.post(f"{API}/explain", json={"query": "lava of a volcano", **fields})
        assert response.status_code == 200, response.get_data(as_text=True)
        target: dict[str, Any] = response.get_json()["target"]
        return target

    target = explain_target(document_id=library["fire"])
    best = search(client, "lava of a volcano")["results"][0]
    assert (target["rank"], target["chunk_id"], target["kept_out"]) == (1, best["chunk_id"], [])
    assert target["score"] == pytest.approx(best["match_score"])
    assert explain_target(chunk_id=best["chunk_id"])["document_id"] == library["fire"]
    filtered = explain_target(document_id=library["fire"], filters={"tags": ["law"]})
    assert filtered["rank"] is None
    assert filtered["kept_out"][0]["reason"] == "filter"


def test_explaining_a_missing_target_returns_404(client: FlaskClient, library: dict[str, int]) -> None:
    for fields in ({"document_id": 4711}, {"chunk_id": 4711}):
        assert_problem(client.post(f"{API}/explain", json={"query": "lava", **fields}), 404)
    for fields in ({"document_id": 0}, {"chunk_id": "1"}, {"chunk_id": 2**63}):
        assert_problem(
            client.post(f"{API}/explain", json={"query": "lava", **fields}), 422, next(iter(fields))
        )


def test_get_search_accepts_weights_and_all_filters(client: FlaskClient, library: dict[str, int]) -> None:
    fields = "weights=lexical:1,reef:3&min_coverage=0.1&created_after=2020-01-01&created_before=2999-01-01T00:00:00Z"
    response = client.get(f"{API}/search?q=volcano+flower+judge&fusion=rrf&preset=precise&{fields}")
    assert response.status_code == 200, response.get_data(as_text=True)
    body = search(
        client, "volcano flower judge", fusion="rrf", weights={"lexical": 1, "reef": 3},
        filters={"min_coverage": 0.1, "created_after": "2020-01-01", "created_before": "2999-01-01T00:00:00Z"},
    )  # fmt: skip
    assert response.get_json()["results"] == body["results"]
    assert (
        response.get_json()["weights"]
        == body["weights"]
        == {"lexical": 0.25, "reef": 0.75, "field_boost": 0.0, "dense": 0.0}
    )
    islands = client.get(f"{API}/search?q=volcano&island_ids=0,1&archipelago=0")
    assert islands.status_code == 200


@pytest.mark.parametrize(
    ("parameters", "field"),
    [("weights=1", "weights"), ("weights=lexical", "weights"), ("weights=lexical:x", "weights"), ("weights=", "weights"),
     ("weights=lexical:1,lexical:2", "weights"), ("weights=words:1", "weights.words"), ("weights=reef:-1", "weights.reef"),
     ("weights=reef:nan", "weights.reef"), ("weights=reef:0", "weights"), ("archipelago=4", "archipelago"),
     ("island_ids=x", "island_ids"), ("created_after=soon", "created_after"), ("mode=words", "mode")],
)  # fmt: skip
def test_invalid_query_parameter_is_named(empty: FlaskClient, parameters: str, field: str) -> None:
    assert_problem(empty.get(f"{API}/search?q=volcano&{parameters}"), 422, field)


def test_explanation_gives_required_and_excluded_words_and_score_parts(
    client: FlaskClient, library: dict[str, int]
) -> None:
    request = {
        "query": "lava volcano -frost",
        "document_id": library["fire"],
        "weights": {"lexical": 1, "reef": 1},
    }
    body = client.post(f"{API}/explain", json=request).get_json()
    assert (body["mode"], body["excluded"], body["required"]) == ("hybrid", ["frost"], [])
    assert body["weights"] == {"lexical": 0.5, "reef": 0.5, "field_boost": 0.0, "dense": 0.0}
    assert {"lava", "volcano"} <= set(body["terms"])
    target = body["target"]
    assert {match["term"] for match in target["matched_terms"]} >= {"lava", "volcano"}
    assert target["scores"]["final"] == target["score"]
    assert target["would_rank"] == target["rank"] == 1


def test_audit_log_has_the_trace_id_of_the_response(
    settings: Settings, engine: Engine, library: dict[str, int], tmp_path: Path
) -> None:
    log = tmp_path / "audit.jsonl"
    audited = dataclasses.replace(settings, audit="summary", audit_file=str(log))
    with Engine(settings=audited, scorer=engine.scorer) as opened:
        client = create_app(audited, engine=opened).test_client()
        bodies = [
            search(client, "lava of a volcano"),
            client.get(f"{API}/search?q=volcano").get_json(),
        ]
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert [entry["trace_id"] for entry in entries] == [body["trace_id"] for body in bodies]


def test_expand_adds_evidence_and_takes_two_values(client: FlaskClient, library: dict[str, int]) -> None:
    assert search(client, "volcano", expand="time")["results"][0]["evidence"] is None
    assert "evidence" not in search(client, "volcano", expand="none")["results"][0]
    by_address = client.get(f"{API}/search?q=volcano&expand=time").get_json()
    assert by_address["results"][0]["evidence"] is None
    for wrong in ("space", "", 1, None, ["time"]):
        response = client.post(f"{API}/search", json={"query": "volcano", "expand": wrong})
        assert response.status_code == 422
        assert list(response.get_json()["errors"]) == ["expand"]
    assert client.get(f"{API}/search?q=volcano&expand=space").status_code == 422


def test_presets_of_the_settings_are_offered_everywhere(settings: Settings, engine: Engine) -> None:
    defined = dataclasses.replace(settings, presets="manuals=0.6,0.3,0.1")
    with Engine(settings=defined, scorer=engine.scorer) as other:
        client = create_app(defined, engine=other).test_client()
        engine.ingest(title="Volcano", content=VOLCANO)
        for preset, lexical in (("manuals", 0.6), ("job_matching", 0.55), ("corpus", 0.35)):
            by_body = search(client, "volcano", preset=preset)
            by_address = client.get(f"{API}/search?q=volcano&preset={preset}").get_json()
            assert by_body["weights"]["lexical"] == by_address["weights"]["lexical"] == pytest.approx(lexical)
            assert f'<option value="{preset}"' in client.get("/").text
            page = client.get(f"/?q=volcano&preset={preset}")
            assert page.status_code == 200
        assert client.get(f"{API}/status").get_json()["presets"]["manuals"]["reef"] == 0.3
        unknown = client.post(f"{API}/search", json={"query": "volcano", "preset": "manual"})
        assert "corpus, manuals" in assert_problem(unknown, 422, "preset")["errors"]["preset"][0]
        assert client.get("/?q=volcano&preset=manual").status_code == 422
