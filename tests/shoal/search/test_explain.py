"""An explanation says what a search does, and agrees with it."""

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


def test_words_are_told_apart(engine: Engine) -> None:
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


def test_the_profile_is_that_of_the_search(engine: Engine) -> None:
    explanation, reply = engine.explain("rain and courts"), engine.search("rain and courts")
    assert explanation.query_info == reply.query_info
    assert explanation.reefs[: len(reply.query_info.top_reefs)] == reply.query_info.top_reefs
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
    ("asked", "reason", "words"),
    [
        ({"tags": ["dry"]}, "filter", "tags"),
        ({"filters": {"min_confidence": 1000}}, "filter", "min_confidence"),
        ({"filters": {"document_ids": []}}, "filter", "document_ids"),
        ({"top_k": 1}, "top_k", "only the first 1 "),
    ],
)
def test_it_names_what_kept_a_document_out(engine: Engine, asked: dict, reason: str, words: str) -> None:
    last = engine.search("rain", max_per_document=1).results[-1]
    assert last.document_id not in [r.document_id for r in engine.search("rain", **asked).results]
    target = engine.explain("rain", document_id=last.document_id, **asked).target
    assert target is not None
    assert [one.reason for one in target.kept_out] == [reason]
    assert words in target.kept_out[0].message
    assert (target.rank is None) == (reason == "filter")


def test_it_says_when_better_chunks_of_the_same_document_come_first(settings: Settings) -> None:
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        content = "# Rain\n\nRain falls.\n\n# Storm\n\nRain and a jury fall.\n"
        engine.ingest(title="Two", content=content, format="markdown")
        best, other = engine.search("rain", max_per_document=None).results
        target = engine.explain("rain", chunk_id=other.chunk_id, max_per_document=1).target
        assert target is not None
        assert (target.rank, [one.reason for one in target.kept_out]) == (None, ["max_per_document"])
        target = engine.explain("rain", chunk_id=other.chunk_id, max_per_document=2).target
        assert target is not None
        assert (target.rank, target.kept_out) == (2, ())
        target = engine.explain("rain", document_id=1, max_per_document=1).target
        assert target is not None
        assert (target.chunk_id, target.rank) == (best.chunk_id, 1)


def test_it_says_when_nothing_is_shared(engine: Engine) -> None:
    for query in ("qwertz", "nectar of the hive"):
        target = engine.explain(query, document_id=5, mode="reef").target
        assert target is not None
        assert (target.rank, target.score, target.shared_reefs) == (None, 0.0, ())
        assert [one.reason for one in target.kept_out] == ["no shared reef"]


def test_targets_must_exist_and_belong_together(engine: Engine) -> None:
    with pytest.raises(NotFoundError, match="document 77"):
        engine.explain("rain", document_id=77)
    with pytest.raises(NotFoundError, match="chunk 77"):
        engine.explain("rain", chunk_id=77)
    with pytest.raises(QueryError) as caught:
        engine.explain("rain", document_id=5, chunk_id=1)
    assert caught.value.field == "chunk_id"
    for wrong in (0, True, "1", 2**63):
        with pytest.raises(QueryError):
            engine.explain("rain", document_id=wrong)  # type: ignore[arg-type]
