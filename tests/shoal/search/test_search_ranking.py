"""Rankings equal those of the plain model, and the ranking by reefs the overlap of the stored profiles."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from generated_libraries import (
    MANY,
    SCORER,
    WORDS,
    Library,
    fill,
    filters,
    index_of,
    libraries,
    open_library,
    queries,
    rank_by_reefs,
    rank_query,
)
from hypothesis import given
from hypothesis import strategies as st
from postgres_schemas import sqlite_only
from ranking_model import ModelRanking, read_documents
from scored_documents import CHECKSUM, make_scored

from shoal import SearchFilters
from shoal.index.upkeep import update_index
from shoal.models.documents import DocFormat
from shoal.models.queries import QueryReef
from shoal.models.search import Fusion, SearchMode, TagsMatch, Weights
from shoal.search import library_index, ordering, results, signals
from shoal.search.filters import compile_filters
from shoal.search.library_index import IndexCache
from shoal.search.ranking import Ranked
from shoal.storage import document_writer, staleness
from shoal.storage.chunk_queries import TEXT_TYPES
from shoal.storage.database import Database, Snapshot
from shoal.support.clock import timestamp

pieces = st.one_of(
    st.sampled_from([*WORDS, "Storms", "weather", "absent"]),
    st.builds("{}{}".format, st.sampled_from(["-", "title:"]), st.sampled_from(WORDS)),
    st.builds('{}"{} {}"'.format, st.sampled_from(["", "-"]), st.sampled_from(WORDS), st.sampled_from(WORDS)),
)
texts_of_queries = st.lists(pieces, max_size=4).map(" ".join)
weights = st.sampled_from([Weights(0.475, 0.475, 0.05), Weights(0.75, 0.25, 0.0), Weights(0.0, 0.5, 0.5)])


LABEL_THRESHOLD = 0.5


def brute_force(snapshot: Snapshot, query: Sequence[QueryReef]) -> list[tuple[float, int, int, int]]:
    """(score, chunk, document, number of shared reefs) of each chunk that shares a reef, best first."""
    query_z = {reef.reef_id: reef.z_score for reef in query}
    ranked = []
    for document in read_documents(snapshot):
        for chunk in document.chunks:
            norm = sum(z * z for z in chunk.reefs.values()) ** 0.5
            shared = [z / norm * query_z[reef_id] for reef_id, z in chunk.reefs.items() if reef_id in query_z]
            if shared:
                ranked.append((sum(shared), chunk.chunk_id, document.document_id, len(shared)))
    return sorted(ranked, key=lambda chunk: (-round(chunk[0], 4), chunk[1]))


def meets(snapshot: Snapshot, chunk_id: int, search_filters: SearchFilters) -> bool:
    """Whether a chunk meets the filters, from its row and that of its document."""
    chunk = snapshot.first("SELECT * FROM chunks WHERE id = :id", {"id": chunk_id})
    document = snapshot.first("SELECT * FROM documents WHERE id = :id", {"id": chunk["document_id"]})
    tags = {
        row[0]
        for row in snapshot.rows(
            "SELECT tag FROM document_tags WHERE document_id = :id", {"id": document["id"]}
        )
    }
    stored = json.loads(document["metadata"])
    archs = [chunk[f"arch_score_{i}"] for i in range(4)]
    top = chunk["top_reef_id"] if chunk["top_reef_probability"] >= LABEL_THRESHOLD else None
    required_tags = set(search_filters.tags)
    return all(
        [
            required_tags <= tags
            if search_filters.tags_match is TagsMatch.all
            else not required_tags or bool(required_tags & tags),
            search_filters.min_confidence is None or chunk["confidence"] >= search_filters.min_confidence,
            search_filters.min_coverage is None or chunk["coverage"] >= search_filters.min_coverage,
            search_filters.reef_ids is None or top in search_filters.reef_ids,
            search_filters.island_ids is None or (top is not None and top // 2 in search_filters.island_ids),
            search_filters.archipelago is None
            or all(
                archs[search_filters.archipelago] > other
                for i, other in enumerate(archs)
                if i != search_filters.archipelago
            ),
            search_filters.document_ids is None or document["id"] in search_filters.document_ids,
            search_filters.format is None or document["format"] == search_filters.format,
            search_filters.source_path is None or document["source_path"] in search_filters.source_path,
            search_filters.name_contains is None
            or search_filters.name_contains.lower()
            in f"{document['title']}\0{document['source_path']}".lower(),
            search_filters.file_type in (None, ".md")
            or TEXT_TYPES.get(search_filters.file_type) == document["format"],
            *(
                (type(stored.get(key)), stored.get(key)) == (type(value), value)
                for key, value in (search_filters.metadata or {}).items()
            ),
        ]
    )


def at_most(per_document: int | None, ranked: list[Ranked]) -> list[Ranked]:
    counts: dict[int, int] = {}
    kept = []
    for chunk in ranked:
        counts[chunk.document_id] = counts.get(chunk.document_id, 0) + 1
        if per_document is None or counts[chunk.document_id] <= per_document:
            kept.append(chunk)
    return kept


@MANY
@given(
    library=libraries,
    n_indexed=st.integers(0, 6),
    text=texts_of_queries,
    reefs=queries,
    weights=weights,
    fusion=st.sampled_from(Fusion),
)
def test_rankings_are_those_of_the_model(
    library: Library, n_indexed: int, text: str, reefs: list[QueryReef], weights: Weights, fusion: Fusion
) -> None:
    """Wherever the documents are: in a segment or in memory."""
    with open_library(library[:n_indexed]) as database:
        update_index(database)
        fill(database, library[n_indexed:], first=n_indexed)
        with database.snapshot() as snapshot:
            index, model = index_of(database, snapshot), ModelRanking(snapshot)
            for mode in SearchMode:
                ranking = rank_query(snapshot, index, text, reefs, mode=mode, weights=weights, fusion=fusion)
                assert ranking.first(1000, None) == model.ranked(
                    text, reefs, mode=mode, weights=weights, fusion=fusion
                )


@MANY
@given(library=libraries, query=queries)
def test_ranking_is_the_overlap_of_the_stored_profiles(
    library: Library,
    query: list[QueryReef],
) -> None:
    with open_library(library) as database, database.snapshot() as snapshot:
        index = index_of(database, snapshot)
        ranked = rank_by_reefs(snapshot, index, query)
        expected = brute_force(snapshot, query)
        assert [chunk.n_shared for chunk in sorted(ranked, key=lambda chunk: chunk.chunk_id)] == [
            chunk[3] for chunk in sorted(expected, key=lambda chunk: chunk[1])
        ]
        assert {chunk.chunk_id for chunk in ranked} == {chunk[1] for chunk in expected}
        # Scores that differ by more than rounding to whole weights are in the right order.
        scores = {chunk_id: score for score, chunk_id, _, _ in expected}
        for chunk, following in itertools.pairwise(ranked):
            assert scores[chunk.chunk_id] >= scores[following.chunk_id] - 1e-3
            assert (chunk.reef_raw, -chunk.chunk_id) > (following.reef_raw, -following.chunk_id), "ties by id"
        for chunk in ranked:
            assert chunk.score == pytest.approx(scores[chunk.chunk_id], abs=1e-3)


@MANY
@given(
    library=libraries,
    query=queries,
    search_filters=filters,
    limit=st.none() | st.integers(1, 3),
    n=st.integers(1, 9),
)
def test_filtered_ranking_equals_the_ranking_with_other_chunks_removed(
    library: Library,
    query: list[QueryReef],
    search_filters: SearchFilters,
    limit: int | None,
    n: int,
) -> None:
    with open_library(library) as database, database.snapshot() as snapshot:
        index = index_of(database, snapshot)
        everything = rank_by_reefs(snapshot, index, query)
        eligible = [chunk for chunk in everything if meets(snapshot, chunk.chunk_id, search_filters)]
        compiled_filters = compile_filters(search_filters, SCORER, label_threshold=LABEL_THRESHOLD)
        ranked = rank_by_reefs(snapshot, index, query, compiled_filters, n=n, max_per_document=limit)
        assert ranked == at_most(limit, eligible)[:n]


def test_long_document_does_not_crowd_out_the_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best chunks all belong to one document, so the ranking has to go deeper than its first round."""
    monkeypatch.setattr(ordering, "FIRST_DEPTH", 2)
    monkeypatch.setattr(ordering, "DEPTH_FACTOR", 2)
    flat = (0.0, 0.0, 0.0, 0.0)
    long = [({1: 1.0}, 1.0, flat, "")] * 50
    short = [({1: 1.0, 2: 3.0 + i}, 1.0, flat, "") for i in range(4)]
    fill(database, [(long, set(), 1.0, DocFormat.markdown, ""), (short, set(), 1.0, DocFormat.plaintext, "")])
    with database.snapshot() as snapshot:
        index = index_of(database, snapshot)
        ranked = rank_by_reefs(snapshot, index, [QueryReef(1, "reef 1", 2.0)], n=5, max_per_document=2)
    assert [(chunk.document_id, chunk.chunk_id) for chunk in ranked] == [(1, 1), (1, 2), (2, 51), (2, 52)]


def test_created_filters_compare_times(database: Database) -> None:
    with database.write() as transaction:
        for day in (1, 2, 3):
            now = f"2026-01-0{day}T00:00:00.000Z"
            document_writer.insert_document(transaction, make_scored([f"day {day}"]), now=now)
    search_filters = SearchFilters(
        created_after="2026-01-02T00:00:00.000Z", created_before="2026-01-03T00:00:00.000Z"
    )
    compiled_filters = compile_filters(search_filters, SCORER, label_threshold=LABEL_THRESHOLD)
    with database.snapshot() as snapshot:
        index = index_of(database, snapshot)
        ranked = rank_by_reefs(snapshot, index, [QueryReef(1, "r", 1.0)], compiled_filters)
    assert [chunk.document_id for chunk in ranked] == [2]


def test_chunks_of_other_data_are_detected_and_left_out(database: Database) -> None:
    with database.write() as transaction:
        document_writer.insert_document(transaction, make_scored(["ours"]), now=timestamp())
    with database.snapshot() as snapshot:
        assert not staleness.any_other_data(snapshot, CHECKSUM)
    with database.write() as transaction:
        for other in ("0" * 64, "~" * 64):
            scored = dataclasses.replace(make_scored([f"theirs {other[0]}"]), data_checksum=other)
            document_writer.insert_document(transaction, scored, now=timestamp())
    with database.snapshot() as snapshot:
        assert staleness.any_other_data(snapshot, CHECKSUM)
        assert staleness.count_other_data(snapshot, CHECKSUM) == 2
        assert staleness.find_other_data(snapshot, CHECKSUM).tolist() == [2, 3]
        index = index_of(database, snapshot)
        everything = rank_query(snapshot, index, "", [QueryReef(1, "r", 1.0)], mode=SearchMode.reef)
        ours = rank_query(
            snapshot, index, "", [QueryReef(1, "r", 1.0)], mode=SearchMode.reef, other_data=CHECKSUM
        )
    assert [chunk.chunk_id for chunk in everything.first(9, None)] == [1, 2, 3]
    assert [chunk.chunk_id for chunk in ours.first(9, None)] == [1]


def test_chunks_of_other_data_are_read_once_for_a_state(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.write() as transaction:
        for text, checksum in (("ours", CHECKSUM), ("theirs", "0" * 64)):
            scored = dataclasses.replace(make_scored([text]), data_checksum=checksum)
            document_writer.insert_document(transaction, scored, now=timestamp())
    reads = []

    def counted(*arguments: Any) -> Any:
        reads.append(arguments)
        return staleness.find_other_data(*arguments)

    monkeypatch.setattr(library_index, "find_other_data", counted)
    cache = IndexCache(database)

    def found() -> list[int]:
        reefs = [QueryReef(1, "r", 1.0)]
        with database.snapshot() as snapshot:
            library = cache.of(snapshot)
            ranking = rank_query(snapshot, library, "", reefs, mode=SearchMode.reef, other_data=CHECKSUM)
            assert library.count_other_data(snapshot, CHECKSUM) == 2 - len(ranking.first(9, None))
            return [chunk.chunk_id for chunk in ranking.first(9, None)]

    assert [found(), found()] == [[1], [1]]
    assert len(reads) == 1
    # The new data give the same profile, so only the checksum is written.
    with database.write() as transaction:
        scored = make_scored(["theirs"])
        document_writer.rescore_chunks(transaction, 2, scored, [(2, scored.chunks[0], False)])
    assert found() == [1, 2]
    assert len(reads) == 2


@sqlite_only
def test_search_statements_scan_no_table(database: Database) -> None:
    """They use a key or an index, whatever the library contains; docs/search.md shows the plans."""
    for _ in range(3):
        store(database)
    statements: dict[str, dict[str, Any]] = {
        results.CITE.format(ids=":id_0, :id_1"): {"id_0": 1, "id_1": 2},
        signals.TAGGED.format(tags=":tag_0"): {"tag_0": "red"},
    }
    with database.snapshot() as snapshot:
        for statement, parameters in statements.items():
            plan = [row["detail"] for row in snapshot.rows(f"EXPLAIN QUERY PLAN {statement}", parameters)]
            assert plan
            assert not [line for line in plan if line.startswith("SCAN") or "staleness" in line], plan


def store(database: Database) -> None:
    with database.write() as transaction:
        number = transaction.value("SELECT COUNT(*) FROM documents")
        document_writer.insert_document(transaction, make_scored([f"text {number}"]), now=timestamp())
