"""With a shortlist, documents are ranked first, as wholes, and only passages of the best are results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer

from shoal import Engine
from shoal.errors import QueryError
from shoal.models.search import SearchMode
from shoal.settings import Settings

SPREAD = {
    "title": "Spread",
    "chunks": [
        {"text": f"{words} is here to stay."} for words in ("The magma", "A crater", "The basalt", "Lava")
    ],
    "tags": ["spread"],
}
"""Each word of the query once, in another passage."""
ONE = {"title": "One", "content": "Magma magma of a crater here."}
OTHERS = [{"title": f"Other {n}", "content": f"The jury met {n} times about the law."} for n in range(6)]
QUERY = "magma crater basalt lava"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(
        db_path=tmp_path / "shoal.db", scorer=FakeScorer(), settings=Settings(learning=False)
    ) as engine:
        engine.ingest_many([ONE, SPREAD, *OTHERS])
        yield engine


def titles(engine: Engine, query: str = QUERY, **arguments: Any) -> list[str]:
    response = engine.search(query, **arguments)
    return list(dict.fromkeys(result.document_title for result in response.results))


def test_a_document_counts_as_a_whole(engine: Engine) -> None:
    assert titles(engine, mode="lexical")[0] == "One"
    assert titles(engine, mode="lexical", shortlist=1) == ["Spread"]
    response = engine.search(QUERY, shortlist=1)
    assert {result.text for result in response.results} == {each["text"] for each in SPREAD["chunks"]}
    assert response.total == 4


@pytest.mark.parametrize("mode", [mode for mode in SearchMode if mode is not SearchMode.dense])
def test_a_long_shortlist_changes_nothing(engine: Engine, mode: SearchMode) -> None:
    every, short = (engine.search(QUERY, mode=mode, shortlist=n).results for n in (0, 1000))
    assert [(each.chunk_id, each.match_score) for each in every] == [
        (each.chunk_id, each.match_score) for each in short
    ]


def test_filters_choose_before_the_shortlist_and_change_no_score(engine: Engine) -> None:
    arguments: dict[str, Any] = {"filter": 'NOT tags = "spread"', "mode": "lexical"}
    assert titles(engine, shortlist=1, **arguments) == titles(engine, **arguments) == ["One"]
    scores = [
        {each.chunk_id: each.match_score for each in engine.search(QUERY, **more).results}
        for more in ({}, {"shortlist": 1})
    ]
    assert scores[1].items() <= scores[0].items()


def test_a_shortlist_holds_for_learned_segments_and_after_changes(engine: Engine) -> None:
    assert titles(engine, mode="lexical", shortlist=1) == ["Spread"]
    (spread,) = engine.documents.list(q="Spread").documents
    engine.documents.delete(spread.id)
    assert titles(engine, mode="lexical", shortlist=1) == ["One"]
    engine.ingest(title="New", content="Magma and lava of the crater are basalt.")
    assert titles(engine, mode="lexical", shortlist=1) == ["New"]


def test_a_pinned_document_comes_first_all_the_same(engine: Engine) -> None:
    (other,) = engine.documents.list(q="Other 3").documents
    engine.pins.add(QUERY, [other.id])
    assert titles(engine, shortlist=1) == ["Other 3", "Spread"]


def test_pages_of_a_shortlist_follow_each_other(engine: Engine) -> None:
    first = engine.search(QUERY, shortlist=1, top_k=2)
    second = engine.search(QUERY, shortlist=1, top_k=2, cursor=first.next_cursor)
    assert (len(first.results), len(second.results)) == (2, 2)
    ids = [each.chunk_id for page in (first, second) for each in page.results]
    assert ids == [each.chunk_id for each in engine.search(QUERY, shortlist=1).results]
    assert second.next_cursor is None


def test_explain_says_that_a_document_is_not_on_the_shortlist(engine: Engine) -> None:
    (one,) = engine.documents.list(q="One").documents
    target = engine.explain(QUERY, document_id=one.id, shortlist=1).target
    assert target is not None
    assert target.rank is None
    assert [(each.reason, each.message) for each in target.kept_out] == [
        ("shortlist", "its document has rank 2, and the shortlist has 1")
    ]
    target = engine.explain(QUERY, document_id=one.id, shortlist=2).target
    assert target is not None
    assert target.rank is not None


@pytest.mark.parametrize("size", [-1, 1001, "3", True, 1.5])
def test_a_size_that_is_none_is_refused(engine: Engine, size: object) -> None:
    with pytest.raises(QueryError) as refused:
        engine.search(QUERY, shortlist=size)  # type: ignore[arg-type]
    assert refused.value.field == "shortlist"


def test_an_empty_library_has_an_empty_shortlist(tmp_path: Path) -> None:
    with Engine(db_path=tmp_path / "empty.db", scorer=FakeScorer()) as empty:
        assert empty.search(QUERY, shortlist=3).results == []
