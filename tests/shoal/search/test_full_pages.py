"""A page is full if enough passages match, although the best of each document come first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer

from shoal import Engine
from shoal.models.search import SearchResult
from shoal.search.request import BEST_FIRST
from shoal.settings import Settings

QUERY = "lava"
N_LONG, N_SHORT = 8, 2
N_PASSAGES = 2 * N_LONG + 3 * N_SHORT


def document(n_passages: int, words: str) -> dict[str, Any]:
    parts = (f"# Part {number}\n\nLava rose {words} {number}.\n" for number in range(n_passages))
    return {"content": "\n\n".join(parts), "format": "markdown"}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """Two long documents, and three short ones whose passages are longer and so match less well."""
    with Engine(
        db_path=tmp_path / "shoal.db", scorer=FakeScorer(), settings=Settings(learning=False)
    ) as engine:
        longer = "over the rock of the sea and the sand of the shore"
        engine.ingest_many(
            [{"title": f"Long {n}", **document(N_LONG, f"high {n}")} for n in range(2)]
            + [{"title": f"Short {n}", **document(N_SHORT, f"{longer} {n}")} for n in range(3)]
        )
        yield engine


def titles(results: Any) -> list[str]:
    return [result.document_title for result in results]


def ids(results: Any) -> list[int]:
    return [result.chunk_id for result in results]


def in_order(results: Any) -> list[int]:
    """The results as an explicit rule: the best of each document, then the others, by score."""
    seen: dict[int, int] = {}
    best, further = [], []
    for result in results:
        seen[result.document_id] = seen.get(result.document_id, 0) + 1
        (best if seen[result.document_id] <= BEST_FIRST.n else further).append(result.chunk_id)
    return [*best, *further]


def test_one_document_fills_the_page(tmp_path: Path) -> None:
    with Engine(
        db_path=tmp_path / "one.db", scorer=FakeScorer(), settings=Settings(learning=False)
    ) as engine:
        engine.ingest(title="Alone", **document(20, "high"))
        results = engine.search(QUERY, top_k=10).results
        assert len(results) == 10
        assert [result.further for result in results] == [False] * 3 + [True] * 7
        assert ids(results) == ids(engine.search(QUERY, top_k=10, max_per_document=0).results)
        assert len(engine.search(QUERY, top_k=10, max_per_document=3).results) == 3
        assert len(engine.retrieve(QUERY, top_k=10).results) == 10
        assert len(engine.search_units(QUERY, top_k=10).results) == 10


@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_best_of_each_document_come_first_and_then_the_others(engine: Engine, mode: str) -> None:
    by_score = engine.search(QUERY, top_k=100, max_per_document=0, mode=mode).results
    assert len(by_score) == N_PASSAGES
    found = engine.search(QUERY, top_k=100, mode=mode).results
    assert ids(found) == in_order(by_score)
    n_first = 2 * BEST_FIRST.n + 3 * N_SHORT
    assert [result.further for result in found] == [False] * n_first + [True] * (N_PASSAGES - n_first)
    assert ids(found[:n_first]) == ids(engine.search(QUERY, top_k=100, max_per_document=3, mode=mode).results)


@pytest.mark.parametrize("top_k", [1, 4, 7, 10])
@pytest.mark.parametrize("sort", [None, "title", "-title"])
def test_pages_are_full_and_continue_each_other(engine: Engine, top_k: int, sort: str | None) -> None:
    whole = engine.search(QUERY, top_k=100, sort=sort).results
    assert len(whole) == N_PASSAGES
    by_offset, by_cursor, cursor = [], [], None
    for offset in itertools.count(0, top_k):
        page = engine.search(QUERY, top_k=top_k, offset=offset, sort=sort).results
        same = engine.search(QUERY, top_k=top_k, cursor=cursor, sort=sort)
        assert len(page) == min(top_k, N_PASSAGES - offset)
        by_offset += page
        by_cursor += same.results
        cursor = same.next_cursor
        if cursor is None:
            break
    assert by_offset == whole
    assert by_cursor == whole


def test_page_continues_among_the_further_results_of_a_changed_library(engine: Engine) -> None:
    first = engine.search(QUERY, top_k=15)
    last = first.results[-1]
    assert last.further
    engine.ingest(title="New", content="Lava, lava and lava.")
    whole = engine.search(QUERY, top_k=100).results
    second = engine.search(QUERY, top_k=100, cursor=first.next_cursor).results
    assert ids(second) == ids(whole)[ids(whole).index(last.chunk_id) + 1 :]


def test_filters_and_less_relevant_results(engine: Engine) -> None:
    found = engine.search(QUERY, top_k=6, filter='title = "Long 1"').results
    assert titles(found) == ["Long 1"] * 6
    least = sorted(result.relevance for result in engine.search(QUERY, top_k=100).results)[-5]
    for result in engine.search(QUERY, top_k=100, min_relevance=least).results:
        assert result.relevance >= least


def test_batch_and_its_fused_ranking_have_the_same_rule(engine: Engine) -> None:
    queries = [QUERY, "lava high"]
    arguments = {"top_k": 100}
    batch = engine.search_many([{"query": query, **arguments} for query in queries])
    for query, answer in zip(queries, batch.answers, strict=True):
        assert answer.response is not None
        assert ids(answer.response.results) == ids(engine.search(query, top_k=100).results)
    fused = engine.search_many([{"query": query, "top_k": 100} for query in queries], fused=True, top_k=15)
    assert fused.fused is not None
    assert len(fused.fused) == 15
    n_first = sum(not each.result.further for each in fused.fused)
    assert n_first == 2 * BEST_FIRST.n + 3 * N_SHORT
    first: list[SearchResult] = [each.result for each in fused.fused[:n_first]]
    assert all(count <= BEST_FIRST.n for count in map(titles(first).count, titles(first)))
    strict = engine.search_many(
        [{"query": query, "top_k": 100} for query in queries], fused=True, top_k=15, max_per_document=3
    )
    assert [each.result.chunk_id for each in strict.fused or ()] == ids(first)
    unlimited = engine.search_many(
        [{"query": query, "top_k": 100} for query in queries], fused=True, top_k=100, max_per_document=0
    )
    scores = [each.fused_score for each in unlimited.fused or ()]
    assert len(scores) == N_PASSAGES
    assert scores == sorted(scores, reverse=True)


def test_folded_results_leave_the_page_full(engine: Engine) -> None:
    whole = engine.search(QUERY, top_k=100, fold_similar=True).results
    n_folded = sum(len(result.folded or ()) for result in whole)
    assert n_folded
    assert len(whole) + n_folded == N_PASSAGES
    assert sorted(result.further for result in whole) == [result.further for result in whole]
