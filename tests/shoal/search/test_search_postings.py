"""Postings kept in memory rank as the SQL does, and follow the database."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_libraries import (
    MANY,
    N_REEFS,
    NONE,
    SCORER,
    Library,
    a_library,
    document_facts,
    filters,
    libraries,
    profiles,
    queries,
)
from scored_documents import CHECKSUM, make_scored

from shoal.models import QueryReef, ScoredDocument, SearchFilters
from shoal.search import postings, reef_ranking
from shoal.search.filters import compile_filters
from shoal.storage import document_writer
from shoal.storage.chunk_queries import get_chunks
from shoal.storage.database import Database, Snapshot
from shoal.support.clock import timestamp


def store(database: Database, scored: ScoredDocument) -> int:
    with database.write() as connection:
        return document_writer.insert_document(connection, scored, now=timestamp())


def rescore(database: Database, document_id: int, profile: Any, version: int) -> None:
    """Give every chunk of a document another profile."""
    with database.snapshot() as snapshot:
        old = get_chunks(snapshot, document_id).chunks
    new = make_scored([chunk.text for chunk in old], [profile] * len(old)).chunks
    due = [(one.id, other, True) for one, other in zip(old, new, strict=True)]
    with database.write() as connection:
        document_writer.rescore_chunks(
            connection, document_id, due, vocabulary_version=version, data_checksum=CHECKSUM
        )


def ranking(
    snapshot: Snapshot, loaded: postings.Postings | None, query: list[QueryReef]
) -> list[reef_ranking.Ranked]:
    """By the postings, or by SQL where there are none."""
    limits = {"n": 100, "max_per_document": 2}
    if loaded is None:
        return reef_ranking.rank(snapshot, query, NONE, **limits)
    return postings.rank(snapshot, loaded, query, NONE, **limits)


def load(snapshot: Snapshot) -> postings.Postings:
    kept = postings.PostingsCache()
    kept.load(snapshot, N_REEFS)
    loaded = kept.of(snapshot, N_REEFS)
    assert loaded is not None
    return loaded


@MANY
@given(
    library=libraries, query=queries, asked=filters, most=st.none() | st.integers(1, 3), n=st.integers(1, 9)
)
def test_memory_and_sql_rank_alike(
    library: Library,
    query: list[QueryReef],
    asked: SearchFilters,
    most: int | None,
    n: int,
) -> None:
    compiled_filters = compile_filters(asked, SCORER)
    with a_library(library) as database, database.snapshot() as snapshot:
        limits = {"n": n, "max_per_document": most}
        found = postings.rank(snapshot, load(snapshot), query, compiled_filters, **limits)
        assert found == reef_ranking.rank(snapshot, query, compiled_filters, **limits)


steps = st.lists(
    st.one_of(
        document_facts.map(lambda facts: ("add", facts)),
        st.integers(0, 20).map(lambda i: ("delete", i)),
        st.tuples(st.integers(0, 20), profiles).map(lambda facts: ("rescore", facts)),
        st.integers(0, 20).map(lambda i: ("look again", i)),
    ),
    max_size=12,
)


@MANY
@given(steps=steps, query=queries)
def test_kept_postings_follow_what_is_added_deleted_and_scored_anew(
    steps: list[tuple[str, Any]], query: list[QueryReef]
) -> None:
    """Of the newest state they always have all; an older one, still open somewhere, gets its own ranking or none."""
    kept = postings.PostingsCache()
    stored: list[int] = []
    with a_library([]) as database, contextlib.ExitStack() as opened:
        older: list[Snapshot] = []
        for number, (what, detail) in enumerate(steps):
            if what == "add":
                texts = [f"text {number} {j}" for j in range(len(detail[0]))]
                stored.append(store(database, make_scored(texts, [chunk[0] for chunk in detail[0]])))
            elif what == "delete" and stored:
                with database.write() as connection:
                    document_writer.delete_document(connection, stored.pop(detail % len(stored)))
            elif what == "rescore" and stored:
                rescore(database, stored[detail[0] % len(stored)], detail[1], version=number + 1)
            elif what == "look again" and older:
                snapshot = older[detail % len(older)]
                loaded = kept.of(snapshot, N_REEFS)
                assert loaded is None or ranking(snapshot, loaded, query) == ranking(snapshot, None, query)
                continue
            snapshot = opened.enter_context(database.snapshot())
            older.append(snapshot)
            kept.load(snapshot, N_REEFS)
            loaded = kept.of(snapshot, N_REEFS)
            assert loaded is not None
            assert ranking(snapshot, loaded, query) == ranking(snapshot, None, query)
            assert loaded.state.n_chunks == snapshot.value("SELECT COUNT(*) FROM chunks")
            assert len(loaded.blocks) <= 1 + loaded.state.n_chunks.bit_length()


def test_an_older_snapshot_is_served_what_it_shows_or_nothing(database: Database) -> None:
    query = [QueryReef(1, "reef 1", 1.0)]
    kept = postings.PostingsCache()
    store(database, make_scored(["first"]))
    with database.snapshot() as before:
        shown = ranking(before, None, query)
        store(database, make_scored(["second"]))
        with database.snapshot() as after:
            kept.load(after, N_REEFS)
        assert ranking(before, kept.of(before, N_REEFS), query) == shown
        with database.write() as connection:
            document_writer.delete_document(connection, 1)
        with database.snapshot() as after:
            kept.load(after, N_REEFS)
        assert kept.of(before, N_REEFS) is None, "what it shows is no longer kept"
    with database.snapshot() as after:
        loaded = kept.of(after, N_REEFS)
        assert loaded is not None
        assert [one.document_id for one in ranking(after, loaded, query)] == [2]


def test_a_single_search_does_not_load_the_postings(database: Database) -> None:
    kept = postings.PostingsCache()
    with database.snapshot() as snapshot:
        answers = [kept.of(snapshot, N_REEFS) for _ in range(postings.SEARCHES_BEFORE_LOADING + 1)]
    assert answers[:-1] == [None] * postings.SEARCHES_BEFORE_LOADING
    assert answers[-1] is not None


def test_many_new_chunks_are_read_aside_and_searched_in_sql_meanwhile(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "MAX_NEW_CHUNKS", 2)
    kept = postings.PostingsCache(database)
    with database.snapshot() as snapshot:
        kept.load(snapshot, N_REEFS)
    for i in range(3):
        store(database, make_scored([f"text {i}"]))
    with database.snapshot() as snapshot:
        assert kept.of(snapshot, N_REEFS) is None
    for thread in threading.enumerate():
        if thread.name == "postings":
            thread.join(120)
    with database.snapshot() as snapshot:
        found = kept.of(snapshot, N_REEFS)
        assert found is not None
        assert found.state.n_chunks == 3


def test_blocks_that_are_large_are_merged_aside(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "MAX_MERGED_CHUNKS", 2)
    monkeypatch.setattr(postings, "MAX_SMALL_BLOCKS", 3)
    query = [QueryReef(1, "reef 1", 1.0)]
    kept = postings.PostingsCache(database)
    with database.snapshot() as snapshot:
        kept.load(snapshot, N_REEFS)
    sizes = []
    for i in range(12):
        store(database, make_scored([f"text {i}"]))
        with database.snapshot() as snapshot:
            found = kept.of(snapshot, N_REEFS)
            assert found is not None
            assert ranking(snapshot, found, query) == ranking(snapshot, None, query)
        sizes.append(max(len(block.chunk_ids) for block in found.blocks))
        for thread in threading.enumerate():
            if thread.name == "postings":
                thread.join(120)
    assert sizes[:6] == [1, 2, 2, 2, 2, 2], "a search merges no more than two chunks here"
    assert max(sizes) > 2, "the thread all of them"


def test_a_search_does_not_wait_for_another_that_reads_postings(database: Database) -> None:
    kept = postings.PostingsCache(database)
    with database.snapshot() as snapshot:
        kept.load(snapshot, N_REEFS)
    store(database, make_scored(["text"]))
    with kept._reading, database.snapshot() as snapshot:
        assert kept.of(snapshot, N_REEFS) is None
    with database.snapshot() as snapshot:
        assert kept.of(snapshot, N_REEFS) is not None
