"""Explanations agree with the search that they explain."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_scorer import FakeScorer

from shoal.engine import Engine
from shoal.errors import NotFoundError, QueryError
from shoal.settings import Settings

RAIN = "Rain and storm. Wind and rain. Snow in the cold season, and heat."
COURTS = "A judge and a jury. The court weighs evidence. A witness of the crime."


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    with Engine(settings=settings, scorer=FakeScorer()) as opened:
        for i in range(4):
            opened.ingest(
                title=f"Rain {i}", content=RAIN + f" Storm number {i}." + " More rain." * i, tags=["wet"]
            )
        opened.ingest(title="Courts", content=COURTS, tags=["dry"])
        yield opened


def test_words_have_the_right_status(engine: Engine) -> None:
    query = "The storm of 1987 brought qwertz rains"
    words = engine.explain(query).words
    assert [(word.text, word.status, word.word) for word in words] == [
        ("The", "stop", None),
        ("storm", "known", "storm"),
        ("of", "stop", None),
        ("1987", "number", None),
        ("brought", "unknown", None),
        ("qwertz", "unknown", None),
        ("rains", "known", "rain"),
    ]
    assert all(query[word.start_char : word.end_char] == word.text for word in words)
    assert [reef.reef_name for reef in words[1].reefs] == ["weather and climate", "metals and glass"]


def test_profile_is_that_of_the_search(engine: Engine) -> None:
    explanation = engine.explain("rain and courts")
    reply = engine.search("rain and courts", include_scores=True)
    assert explanation.query_info == reply.query_info
    query_z = {reef.reef_id: reef.z_score for reef in explanation.reefs}
    shared = [reef for result in reply.results for reef in result.shared_reefs or ()]
    assert shared
    assert all(query_z[reef.reef_id] == reef.query_z for reef in shared)
    assert explanation.target is None


def test_ranks_are_those_of_the_search(engine: Engine) -> None:
    reply = engine.search("rain and storm", max_per_document=1, include_scores=True)
    assert len(reply.results) > 2
    for rank, result in enumerate(reply.results, start=1):
        target = engine.explain("rain and storm", document_id=result.document_id, max_per_document=1).target
        assert target is not None
        assert (target.rank, target.chunk_id, target.score) == (rank, result.chunk_id, result.match_score)
        assert target.shared_reefs == result.shared_reefs
        assert (target.document_title, target.kept_out) == (result.document_title, ())


@pytest.mark.parametrize(
    ("search", "reason", "words"),
    [
        ({"tags": ["dry"]}, "filter", "tags"),
        ({"filters": {"min_confidence": 1000}}, "filter", "min_confidence"),
        ({"filters": {"document_ids": []}}, "filter", "document_ids"),
        ({"top_k": 1}, "top_k", "only the first 1 "),
    ],
)
def test_explanation_names_what_kept_a_document_out(
    engine: Engine, search: dict, reason: str, words: str
) -> None:
    last = engine.search("rain", max_per_document=1).results[-1]
    assert last.document_id not in [r.document_id for r in engine.search("rain", **search).results]
    target = engine.explain("rain", document_id=last.document_id, **search).target
    assert target is not None
    assert [kept_out.reason for kept_out in target.kept_out] == [reason]
    assert words in target.kept_out[0].message
    assert (target.rank is None) == (reason == "filter")


def test_result_of_a_page_by_cursor_is_not_kept_out(engine: Engine) -> None:
    cursor = engine.search("rain", top_k=2, max_per_document=1).next_cursor
    search = {"top_k": 1, "max_per_document": 1, "cursor": cursor}
    (third,) = engine.search("rain", **search).results
    target = engine.explain("rain", document_id=third.document_id, **search).target
    assert target is not None
    assert (target.rank, target.kept_out) == (3, ())


def test_explanation_names_the_limit_per_document(settings: Settings) -> None:
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        content = "# Rain\n\nRain falls.\n\n# Storm\n\nRain and a jury fall.\n"
        engine.ingest(title="Two", content=content, format="markdown")
        best, other = engine.search("rain", max_per_document=0).results
        target = engine.explain("rain", chunk_id=other.chunk_id, max_per_document=1).target
        assert target is not None
        assert (target.rank, [kept_out.reason for kept_out in target.kept_out]) == (
            None,
            ["max_per_document"],
        )
        target = engine.explain("rain", chunk_id=other.chunk_id, max_per_document=2).target
        assert target is not None
        assert (target.rank, target.kept_out) == (2, ())
        target = engine.explain("rain", document_id=1, max_per_document=1).target
        assert target is not None
        assert (target.chunk_id, target.rank) == (best.chunk_id, 1)


def test_explanation_says_that_the_best_of_each_document_come_first(settings: Settings) -> None:
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        content = "\n\n".join(f"# Part {n}\n\nRain falls.\n" for n in range(5))
        engine.ingest(title="Rain", content=content, format="markdown")
        engine.ingest(title="Other", content="A storm brings rain and snow to a jury.")
        ranked = engine.search("rain").results
        assert [result.document_title for result in ranked] == ["Rain"] * 3 + ["Other"] + ["Rain"] * 2
        assert [result.further for result in ranked] == [False] * 4 + [True] * 2
        assert ranked[3].match_score < ranked[4].match_score
        for rank, result in enumerate(ranked, start=1):
            target = engine.explain("rain", chunk_id=result.chunk_id, top_k=3).target
            assert target is not None
            reasons = ["top_k"] if rank > 3 else []
            reasons += ["max_per_document"] if result.further else []
            assert (target.rank, [reason.reason for reason in target.kept_out]) == (rank, reasons)
        assert target is not None
        assert "it comes after the best 3 of every document" in target.kept_out[-1].message


def test_explanation_says_that_no_reef_is_shared(engine: Engine) -> None:
    for query in ("qwertz", "nectar of the hive"):
        target = engine.explain(query, document_id=5, mode="reef").target
        assert target is not None
        assert (target.rank, target.score, target.shared_reefs) == (None, 0.0, ())
        assert [kept_out.reason for kept_out in target.kept_out] == ["no shared reef"]


def test_document_and_chunk_must_exist_and_belong_together(engine: Engine) -> None:
    with pytest.raises(NotFoundError, match="document 77"):
        engine.explain("rain", document_id=77)
    with pytest.raises(NotFoundError, match="chunk 77"):
        engine.explain("rain", chunk_id=77)
    with pytest.raises(QueryError) as error:
        engine.explain("rain", document_id=5, chunk_id=1)
    assert error.value.field == "chunk_id"
    for invalid_id in (0, True, "1", 2**63):
        with pytest.raises(QueryError):
            engine.explain("rain", document_id=invalid_id)  # type: ignore[arg-type]


def test_explanation_names_required_and_excluded_words(engine: Engine) -> None:
    explanation = engine.explain('rain -snow -"cold season" -thunder', document_id=1)
    assert explanation.excluded == ("snow", '"cold season"', "thunder")
    assert explanation.target is not None
    (reason,) = explanation.target.kept_out
    assert (reason.reason, reason.message) == (
        "excluded",
        'it contains what the query excludes: snow, "cold season"',
    )
    explanation = engine.explain('"rain and storm" "storm and rain" title:courts', document_id=1)
    assert explanation.required == ('"rain and storm"', '"storm and rain"', "title:courts")
    assert explanation.target is not None
    messages = {kept_out.reason: kept_out.message for kept_out in explanation.target.kept_out}
    assert messages["phrase"].endswith(': "storm and rain"')
    assert messages["title"] == "its title does not contain what the query requires: title:courts"


@pytest.mark.parametrize("mode", ["hybrid", "reef", "lexical"])
def test_ranks_and_scores_are_those_of_the_search_in_every_mode(engine: Engine, mode: str) -> None:
    reply = engine.search("rain storm jury", mode=mode, max_per_document=2, include_scores=True)
    assert len(reply.results) > 3
    for rank, result in enumerate(reply.results, start=1):
        explanation = engine.explain(
            "rain storm jury", chunk_id=result.chunk_id, mode=mode, max_per_document=2
        )
        assert explanation.weights == reply.weights
        target = explanation.target
        assert target is not None
        assert (target.rank, target.score, target.kept_out) == (rank, result.match_score, ())
        assert target.scores == result.scores
        assert target.shared_reefs == result.shared_reefs
        assert target.matched_terms == result.matched_terms
        assert (target.why, target.reasons) == (result.why, result.reasons)
        assert target.relevance == result.relevance
    first = engine.explain("rain storm jury", mode=mode, max_per_document=2).counterfactuals
    assert first is not None
    assert (first.why, first.reasons) == (reply.results[0].why, reply.results[0].reasons)
    assert first.why


@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_explanation_says_that_nothing_matches(engine: Engine, mode: str) -> None:
    target = engine.explain("nectar of the hive", document_id=5, mode=mode).target
    assert target is not None
    assert (target.rank, target.would_rank, target.matched_terms) == (None, None, ())
    assert (target.why, target.reasons) == ("", ())
    assert [kept_out.reason for kept_out in target.kept_out] == ["no match"]


def test_would_rank_is_the_rank_without_the_filter(engine: Engine) -> None:
    everything = [result.document_id for result in engine.search("rain", max_per_document=1).results]
    target = engine.explain("rain", document_id=everything[0], tags=["dry"]).target
    assert target is not None
    assert (target.rank, target.would_rank) == (None, 1)
    assert target.why


@pytest.mark.parametrize("mode", ["hybrid", "reef", "lexical"])
@pytest.mark.parametrize("limit", [1, 2, None])
def test_would_rank_equals_the_rank_in_the_unfiltered_search(
    engine: Engine, mode: str, limit: int | None
) -> None:
    results = engine.search("rain storm jury", mode=mode, max_per_document=limit, top_k=50).results
    assert len(results) > 3
    for rank, result in enumerate(results, start=1):
        for query, filters in (
            ("rain storm jury", {"min_confidence": 1e9}),
            ("rain storm jury", {"document_ids": [result.document_id + 1]}),
            ('rain storm jury title:"nowhere to be found"', {}),
        ):
            if mode == "reef" and not filters:
                continue
            target = engine.explain(
                query, chunk_id=result.chunk_id, mode=mode, max_per_document=limit, filters=filters
            ).target
            assert target is not None
            assert (target.rank, target.would_rank) == (None, rank), query


def test_document_is_explained_by_a_chunk_that_meets_the_filters(settings: Settings) -> None:
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        content = "# Rain\n\nRain drops and rain rains.\n\n# Storm\n\nRain and a jury fall. Frost stays.\n"
        engine.ingest(title="Two", content=content, format="markdown")
        best = engine.search("rain", max_per_document=0).results[0]
        query = "rain -frost" if "Frost" in best.text else "rain -drops"
        target = engine.explain(query, document_id=1).target
        results = engine.search(query).results
        assert target is not None
        assert [result.chunk_id for result in results] == [target.chunk_id]
        assert target.rank == 1
