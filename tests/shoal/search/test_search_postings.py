"""Postings in memory give the same ranking as SQL, and follow changes of the database."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest
from generated_libraries import (
    MANY,
    N_REEFS,
    NO_FILTERS,
    SCORER,
    Library,
    document_facts,
    filters,
    libraries,
    open_library,
    profiles,
    queries,
    rank_by_reefs,
)
from hypothesis import given
from hypothesis import strategies as st
from scored_documents import CHECKSUM, make_scored

from shoal.models import QueryReef, ScoredDocument, SearchFilters
from shoal.search import postings
from shoal.search.filters import compile_filters
from shoal.search.ranking import Ranked
from shoal.storage import document_writer
from shoal.storage.chunk_queries import get_chunks
from shoal.storage.database import Database, Snapshot
from shoal.support.clock import timestamp


def store(database: Database, scored: ScoredDocument) -> int:
    with database.write() as transaction:
        return document_writer.insert_document(transaction, scored, now=timestamp())


def rescore(database: Database, document_id: int, profile: Any, version: int) -> None:
    """Give every chunk of a document a new profile."""
    with database.snapshot() as snapshot:
        old = get_chunks(snapshot, document_id).chunks
    new = make_scored([chunk.text for chunk in old], [profile] * len(old)).chunks
    due = [(stored.id, rescored, True) for stored, rescored in zip(old, new, strict=True)]
    with database.write() as transaction:
        document_writer.rescore_chunks(
            transaction, document_id, due, vocabulary_version=version, data_checksum=CHECKSUM
        )


def ranking(snapshot: Snapshot, loaded: postings.Postings | None, query: list[QueryReef]) -> list[Ranked]:
    """The ranking from the postings in memory or, without them, in SQL."""
    return rank_by_reefs(snapshot, query, NO_FILTERS, loaded, n=100, max_per_document=2)


def load(snapshot: Snapshot) -> postings.Postings:
    cache = postings.PostingsCache()
    cache.load(snapshot, N_REEFS)
    loaded = cache.of(snapshot, N_REEFS)
    assert loaded is not None
    return loaded


@MANY
@given(
    library=libraries,
    query=queries,
    search_filters=filters,
    limit=st.none() | st.integers(1, 3),
    n=st.integers(1, 9),
)
def test_memory_and_sql_give_the_same_ranking(
    library: Library,
    query: list[QueryReef],
    search_filters: SearchFilters,
    limit: int | None,
    n: int,
) -> None:
    compiled_filters = compile_filters(search_filters, SCORER, label_threshold=0.5)
    with open_library(library) as database, database.snapshot() as snapshot:
        in_memory, in_sql = (
            rank_by_reefs(snapshot, query, compiled_filters, loaded, n=n, max_per_document=limit)
            for loaded in (load(snapshot), None)
        )
        assert in_memory == in_sql


steps = st.lists(
    st.one_of(
        document_facts.map(lambda facts: ("add", facts)),
        st.integers(0, 20).map(lambda i: ("delete", i)),
        st.tuples(st.integers(0, 20), profiles).map(lambda facts: ("rescore", facts)),
        st.integers(0, 20).map(lambda i: ("reopen", i)),
    ),
    max_size=12,
)


@MANY
@given(steps=steps, query=queries)
def test_cached_postings_follow_added_deleted_and_rescored_chunks(
    steps: list[tuple[str, Any]], query: list[QueryReef]
) -> None:
    """The newest state is always complete. An older snapshot that is still open gets its own ranking or
    none."""
    cache = postings.PostingsCache()
    stored: list[int] = []
    with open_library([]) as database, contextlib.ExitStack() as opened:
        older: list[Snapshot] = []
        for number, (action, detail) in enumerate(steps):
            if action == "add":
                texts = [f"text {number} {j}" for j in range(len(detail[0]))]
                stored.append(store(database, make_scored(texts, [chunk[0] for chunk in detail[0]])))
            elif action == "delete" and stored:
                with database.write() as transaction:
                    document_writer.delete_document(transaction, stored.pop(detail % len(stored)))
            elif action == "rescore" and stored:
                rescore(database, stored[detail[0] % len(stored)], detail[1], version=number + 1)
            elif action == "reopen" and older:
                snapshot = older[detail % len(older)]
                loaded = cache.of(snapshot, N_REEFS)
                assert loaded is None or ranking(snapshot, loaded, query) == ranking(snapshot, None, query)
                continue
            snapshot = opened.enter_context(database.snapshot())
            older.append(snapshot)
            cache.load(snapshot, N_REEFS)
            loaded = cache.of(snapshot, N_REEFS)
            assert loaded is not None
            assert ranking(snapshot, loaded, query) == ranking(snapshot, None, query)
            assert loaded.state.n_chunks == snapshot.value("SELECT COUNT(*) FROM chunks")
            assert len(loaded.blocks) <= 1 + loaded.state.n_chunks.bit_length()


def test_older_snapshot_gets_its_own_postings_or_none(database: Database) -> None:
    query = [QueryReef(1, "reef 1", 1.0)]
    cache = postings.PostingsCache()
    store(database, make_scored(["first"]))
    with database.snapshot() as before:
        expected = ranking(before, None, query)
        store(database, make_scored(["second"]))
        with database.snapshot() as after:
            cache.load(after, N_REEFS)
        assert ranking(before, cache.of(before, N_REEFS), query) == expected
        with database.write() as transaction:
            document_writer.delete_document(transaction, 1)
        with database.snapshot() as after:
            cache.load(after, N_REEFS)
        assert cache.of(before, N_REEFS) is None, "its postings are no longer cached"
    with database.snapshot() as after:
        loaded = cache.of(after, N_REEFS)
        assert loaded is not None
        assert [chunk.document_id for chunk in ranking(after, loaded, query)] == [2]


def test_single_search_does_not_load_the_postings(database: Database) -> None:
    cache = postings.PostingsCache()
    with database.snapshot() as snapshot:
        loaded = [cache.of(snapshot, N_REEFS) for _ in range(postings.SEARCHES_BEFORE_LOADING + 1)]
    assert loaded[:-1] == [None] * postings.SEARCHES_BEFORE_LOADING
    assert loaded[-1] is not None


def test_many_new_chunks_are_read_in_the_background_while_searches_use_sql(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "MAX_NEW_CHUNKS", 2)
    cache = postings.PostingsCache(database)
    with database.snapshot() as snapshot:
        cache.load(snapshot, N_REEFS)
    for i in range(3):
        store(database, make_scored([f"text {i}"]))
    with database.snapshot() as snapshot:
        assert cache.of(snapshot, N_REEFS) is None
    for thread in threading.enumerate():
        if thread.name == "postings":
            thread.join(120)
    with database.snapshot() as snapshot:
        loaded = cache.of(snapshot, N_REEFS)
        assert loaded is not None
        assert loaded.state.n_chunks == 3


def test_large_blocks_are_merged_in_the_background(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "MAX_MERGED_CHUNKS", 2)
    monkeypatch.setattr(postings, "MAX_SMALL_BLOCKS", 3)
    query = [QueryReef(1, "reef 1", 1.0)]
    cache = postings.PostingsCache(database)
    with database.snapshot() as snapshot:
        cache.load(snapshot, N_REEFS)
    sizes = []
    for i in range(12):
        store(database, make_scored([f"text {i}"]))
        with database.snapshot() as snapshot:
            loaded = cache.of(snapshot, N_REEFS)
            assert loaded is not None
            assert ranking(snapshot, loaded, query) == ranking(snapshot, None, query)
        sizes.append(max(len(block.chunk_ids) for block in loaded.blocks))
        for thread in threading.enumerate():
            if thread.name == "postings":
                thread.join(120)
    assert sizes[:6] == [1, 2, 2, 2, 2, 2], "a search merges at most two chunks here"
    assert max(sizes) > 2, "the thread merges all blocks"


def test_search_does_not_wait_for_another_that_reads_postings(database: Database) -> None:
    cache = postings.PostingsCache(database)
    with database.snapshot() as snapshot:
        cache.load(snapshot, N_REEFS)
    store(database, make_scored(["text"]))
    with cache._reading, database.snapshot() as snapshot:
        assert cache.of(snapshot, N_REEFS) is None
    with database.snapshot() as snapshot:
        assert cache.of(snapshot, N_REEFS) is not None
