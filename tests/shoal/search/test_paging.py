"""Pages by cursor: the same results as by offset, and a defined place in a library that changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_encoder import FakeEncoder
from fake_scorer import FakeScorer

from shoal import Engine
from shoal.errors import QueryError
from shoal.models.search import SearchResponse
from shoal.search.audit import search_arguments
from shoal.search.request import CHANGED
from shoal.settings import Settings

QUERY = "lava of a volcano rock"
N_DOCUMENTS = 12


def text_of(number: int) -> str:
    return (
        f"# Fire\n\nLava rose in the volcano {number}. Ash fell on rock {number % 3}.\n\n"
        f"# Stone\n\nMagma is hot lava. The rock cooled.\n\n# Sea\n\nThe rock stood in the sea {number}.\n"
    )


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    settings = Settings(learning=False)
    with Engine(
        db_path=tmp_path / "shoal.db", scorer=FakeScorer(), settings=settings, encoder=FakeEncoder()
    ) as engine:
        engine.ingest_many(
            {"title": f"Title {i}", "content": text_of(i), "format": "markdown"} for i in range(N_DOCUMENTS)
        )
        yield engine


def ids(response: SearchResponse) -> list[int]:
    return [result.chunk_id for result in response.results]


def read_pages(engine: Engine, top_k: int, **search: object) -> list[int]:
    found: list[int] = []
    cursor = None
    while True:
        page = engine.search(QUERY, top_k=top_k, cursor=cursor, **search)  # type: ignore[arg-type]
        assert page.warnings == () or "changed" not in " ".join(page.warnings)
        found += ids(page)
        cursor = page.next_cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 0, None])
@pytest.mark.parametrize("mode", ["hybrid", "lexical", "reef"])
def test_pages_by_cursor_are_the_whole_ranking(engine: Engine, limit: int | None, mode: str) -> None:
    whole = ids(engine.search(QUERY, top_k=100, max_per_document=limit, mode=mode))
    assert len(whole) > N_DOCUMENTS - 1
    assert read_pages(engine, 5, max_per_document=limit, mode=mode) == whole


def test_pages_of_reranked_results_have_each_result_once(engine: Engine) -> None:
    whole = ids(engine.search(QUERY, top_k=100, rerank=7, max_per_document=2))
    for top_k in (3, 5, 7):
        assert read_pages(engine, top_k, rerank=7, max_per_document=2) == whole


def test_page_continues_after_its_last_result_when_documents_are_added(engine: Engine) -> None:
    first = engine.search(QUERY, top_k=6, max_per_document=0)
    # Better than all others, so that every result moves down.
    engine.ingest(content="Lava, volcano, rock. " * 3, title="Lava of a volcano rock")
    whole = ids(engine.search(QUERY, top_k=100, max_per_document=0))
    second = engine.search(QUERY, top_k=100, max_per_document=0, cursor=first.next_cursor)
    assert ids(second) == whole[whole.index(first.results[-1].chunk_id) + 1 :]
    assert not set(ids(first)) & set(ids(second))
    assert any("has changed" in warning for warning in second.warnings)


def test_page_continues_after_the_result_before_a_deleted_one(engine: Engine) -> None:
    first = engine.search(QUERY, top_k=6, max_per_document=1)
    last, before = first.results[-1], first.results[-2]
    engine.documents.delete(last.document_id)
    whole = ids(engine.search(QUERY, top_k=100, max_per_document=1))
    second = engine.search(QUERY, top_k=100, max_per_document=1, cursor=first.next_cursor)
    assert ids(second) == whole[whole.index(before.chunk_id) + 1 :]


def test_page_continues_where_the_last_results_stood_when_all_are_gone(engine: Engine) -> None:
    whole = ids(engine.search(QUERY, top_k=100, max_per_document=1))
    first = engine.search(QUERY, top_k=6, max_per_document=1)
    for result in first.results[-3:]:
        engine.documents.delete(result.document_id)
    second = engine.search(QUERY, top_k=100, max_per_document=1, cursor=first.next_cursor)
    assert set(whole[6:]) <= set(ids(second))
    assert any("results may come twice" in warning for warning in second.warnings)


@pytest.mark.parametrize(
    "add",
    [
        lambda engine, query: engine.pins.add(query, [1]),
        lambda engine, query: engine.vocabulary.synonyms.add(["ash"], root=query.split()[0]),
    ],
)
def test_pins_and_synonyms_of_the_query_are_changes_of_the_library(
    engine: Engine, add: Callable[[Engine, str], object]
) -> None:
    first = engine.search(QUERY, top_k=6)
    add(engine, "sea")
    assert CHANGED not in engine.search(QUERY, cursor=first.next_cursor).warnings
    add(engine, QUERY)
    assert CHANGED in engine.search(QUERY, cursor=first.next_cursor).warnings
    first = engine.search(QUERY, top_k=6)
    assert CHANGED not in engine.search(QUERY, cursor=first.next_cursor).warnings


@pytest.mark.parametrize("mode", ["hybrid", "lexical", "reef"])
@pytest.mark.parametrize("search", [{}, {"sort": "title"}, {"max_per_document": 0}])
def test_nothing_is_skipped_if_all_results_of_the_page_before_are_deleted(
    engine: Engine, mode: str, search: dict[str, str | int]
) -> None:
    arguments: dict[str, object] = {"mode": mode, **search}
    first = engine.search(QUERY, top_k=6, **arguments)  # type: ignore[arg-type]
    for document_id in {result.document_id for result in first.results}:
        engine.delete_document(document_id)
    left = set(ids(engine.search(QUERY, top_k=100, **arguments)))  # type: ignore[arg-type]
    found, cursor = set[int](), first.next_cursor
    while cursor is not None:
        page = engine.search(QUERY, top_k=6, cursor=cursor, **arguments)  # type: ignore[arg-type]
        found.update(ids(page))
        cursor = page.next_cursor
    assert found == left


def test_last_page_has_no_cursor(engine: Engine) -> None:
    whole = engine.search(QUERY, top_k=100)
    assert whole.next_cursor is None
    n = len(whole.results)
    assert engine.search(QUERY, top_k=n).next_cursor is None
    assert engine.search(QUERY, top_k=n - 1).next_cursor is not None
    assert engine.search("nothing of this stands here").next_cursor is None


def test_cursor_counts_results_that_min_relevance_removes(engine: Engine) -> None:
    relevances = sorted(result.relevance for result in engine.search(QUERY, top_k=100).results)
    least = relevances[len(relevances) // 2]
    whole = ids(engine.search(QUERY, top_k=100, min_relevance=least))
    assert read_pages(engine, 4, min_relevance=least) == whole


def test_cursor_of_another_search_or_damaged_is_refused(engine: Engine) -> None:
    cursor = engine.search(QUERY, top_k=2).next_cursor
    assert cursor is not None
    assert engine.search(QUERY, top_k=7, cursor=cursor).results, "the size of a page may change"
    for search in ({"mode": "lexical"}, {"max_per_document": 1}, {"tags": ["x"]}, {"filter": 'title = "x"'}):
        with pytest.raises(QueryError, match="another search") as error:
            engine.search(QUERY, cursor=cursor, **search)  # type: ignore[arg-type]
        assert error.value.field == "cursor"
    with pytest.raises(QueryError, match="another search"):
        engine.search("the sea", cursor=cursor)
    with pytest.raises(QueryError, match="give one of them"):
        engine.search(QUERY, cursor=cursor, offset=3)
    changed = ("B" if cursor[8] == "A" else "A").join([cursor[:8], cursor[9:]])
    for bad in (
        "",
        "x",
        cursor[:-1],
        cursor + "A",
        changed,
        "é",
        cursor * 9,
        " " + cursor,
        7,
        ["x"],
        "=" * 40,
    ):
        with pytest.raises(QueryError, match="is not a cursor"):
            engine.search(QUERY, cursor=bad)  # type: ignore[arg-type]


def test_audit_entry_repeats_a_page_by_cursor(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    settings = Settings(learning=False, audit="full", audit_file=str(log))
    with Engine(db_path=tmp_path / "shoal.db", scorer=FakeScorer(), settings=settings) as engine:
        engine.ingest_many({"title": f"{i}", "content": text_of(i)} for i in range(6))
        first = engine.search(QUERY, top_k=2)
        second = engine.search(QUERY, top_k=2, cursor=first.next_cursor)
        entry = json.loads(log.read_text().splitlines()[-1])
        assert ids(engine.search(**search_arguments(entry))) == ids(second)
