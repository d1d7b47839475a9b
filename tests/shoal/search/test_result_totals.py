"""How many passages match: exact, with the filters, and the same on every page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer

from shoal import Engine
from shoal.settings import Settings

QUERY = "lava of a volcano"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(
        db_path=tmp_path / "shoal.db", scorer=FakeScorer(), settings=Settings(learning=False)
    ) as engine:
        for number in range(6):
            parts = [f"# Part {part}\n\nLava rose {number} times {part}." for part in range(5)]
            content = "\n\n".join([*parts, f"# Law\n\nThe judge asked jury {number}."])
            engine.ingest(
                title=f"Title {number}",
                content=content,
                format="markdown",
                tags=["odd"] if number % 2 else [],
            )
        yield engine


@pytest.mark.parametrize("mode", ["hybrid", "lexical", "reef"])
@pytest.mark.parametrize("filters", [{}, {"tags": ["odd"]}, {"filter": "title = 'Title 3'"}])
def test_total_is_the_number_of_results_without_limits(
    engine: Engine, mode: str, filters: dict[str, Any]
) -> None:
    everything = engine.search(QUERY, top_k=100, max_per_document=0, mode=mode, **filters)
    assert everything.total == len(everything.results) == 5 * len({r.document_id for r in everything.results})
    assert everything.total_documents is None
    for arguments in (
        {"top_k": 1},
        {"offset": 4},
        {"offset": 1000},
        {"max_per_document": 1},
        {"min_relevance": 1.0},
        {"fold_similar": True},
        {"sort": "title"},
        {"max_tokens": 1},
    ):
        response = engine.search(QUERY, mode=mode, **filters, **arguments)
        assert response.total == everything.total, arguments


def test_total_is_the_same_on_all_pages_by_cursor(engine: Engine) -> None:
    totals, n_results, cursor = [], 0, None
    while True:
        page = engine.search(QUERY, top_k=4, cursor=cursor)
        totals.append(page.total)
        n_results += len(page.results)
        cursor = page.next_cursor
        if cursor is None:
            break
    assert set(totals) == {n_results} == {30}


def test_total_counts_what_the_query_leaves(engine: Engine) -> None:
    assert engine.search("lava -judge").total == 30
    assert engine.search("judge -lava", mode="lexical").total == 6
    assert engine.search('"rose 2"', mode="lexical").total == 5
    assert engine.search("nothing of this stands here").total == 0
    engine.pins.add("lava", [], hidden=[{"document_id": 1}])
    assert engine.search("lava").total == 25


def test_documents_are_counted_too(engine: Engine) -> None:
    response = engine.search(QUERY, group_by="document", top_k=2, filters={"tags": ["odd"]})
    assert len(response.documents or ()) == 2
    assert (response.total, response.total_documents) == (15, 3)
    assert sum(document.n_matches for document in response.documents or ()) == 10


def test_batches_and_searches_with_notes_have_totals(engine: Engine) -> None:
    batch = engine.search_many([QUERY, {"query": QUERY, "tags": ["odd"]}], fused=True)
    assert [answer.response and answer.response.total for answer in batch.answers] == [30, 15]
    engine.notes.of("ann").add("Lava of a volcano is hot.")
    units = engine.search_units(QUERY, owner="ann", top_k=3)
    assert units.total == 31
    assert engine.search_units(QUERY, owner="ann", units=["note"]).total == 1
