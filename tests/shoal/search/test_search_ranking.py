"""The ranking is the overlap of profiles, computed here by brute force over the stored rows."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_libraries import MANY, N_REEFS, NONE, SCORER, Library, a_library, fill, filters, libraries, queries
from scored_documents import CHECKSUM, make_scored

from shoal.models import DocFormat, QueryReef, SearchFilters, TagsMatch
from shoal.search import field_boost, lexical_ranking, ordering, postings, reef_ranking, results
from shoal.search.filters import CompiledFilters, compile_filters
from shoal.search.reef_ranking import Ranked
from shoal.storage import document_writer
from shoal.storage.database import Database, Snapshot
from shoal.support.clock import timestamp

Rank = Callable[..., list[Ranked]]


def in_sql(
    snapshot: Snapshot, query: Sequence[QueryReef], compiled_filters: CompiledFilters, **limits: int | None
) -> list[Ranked]:
    return reef_ranking.rank(snapshot, query, compiled_filters, **limits)


def in_memory(
    snapshot: Snapshot, query: Sequence[QueryReef], compiled_filters: CompiledFilters, **limits: int | None
) -> list[Ranked]:
    kept = postings.PostingsCache()
    kept.load(snapshot, N_REEFS)
    loaded = kept.of(snapshot, N_REEFS)
    assert loaded is not None
    return postings.rank(snapshot, loaded, query, compiled_filters, **limits)


BOTH = pytest.mark.parametrize("rank", [in_sql, in_memory])


def brute_force(snapshot: Snapshot, query: Sequence[QueryReef]) -> list[tuple[float, int, int, int]]:
    """(score, chunk, document, shared reefs) of every chunk that shares a reef, best first, from `chunk_reefs`."""
    wanted = {reef.reef_id: reef.z_score for reef in query}
    found = []
    for chunk_id, document_id in snapshot.rows("SELECT id, document_id FROM chunks"):
        rows = snapshot.rows(
            "SELECT reef_id, z_score FROM chunk_reefs WHERE chunk_id = :id", {"id": chunk_id}
        )
        norm = sum(z * z for _, z in rows) ** 0.5
        shared = [z / norm * wanted[reef_id] for reef_id, z in rows if reef_id in wanted]
        if shared:
            found.append((sum(shared), chunk_id, document_id, len(shared)))
    return sorted(found, key=lambda one: (-round(one[0], 4), one[1]))


def meets(snapshot: Snapshot, chunk_id: int, asked: SearchFilters) -> bool:
    """Whether a chunk meets the filters, by looking at its row and its document's."""
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
    top = chunk["top_reef_id"]
    wanted = set(asked.tags)
    return all(
        [
            wanted <= tags if asked.tags_match is TagsMatch.all else not wanted or bool(wanted & tags),
            asked.min_confidence is None or chunk["confidence"] >= asked.min_confidence,
            asked.min_coverage is None or chunk["coverage"] >= asked.min_coverage,
            asked.reef_ids is None or top in asked.reef_ids,
            asked.island_ids is None or (top is not None and top // 2 in asked.island_ids),
            asked.archipelago is None
            or all(
                archs[asked.archipelago] > other for i, other in enumerate(archs) if i != asked.archipelago
            ),
            asked.document_ids is None or document["id"] in asked.document_ids,
            asked.format is None or document["format"] == asked.format,
            asked.source_path is None or document["source_path"] in asked.source_path,
            *(
                (type(stored.get(key)), stored.get(key)) == (type(value), value)
                for key, value in (asked.metadata or {}).items()
            ),
        ]
    )


def at_most(per_document: int | None, found: list[Ranked]) -> list[Ranked]:
    seen: dict[int, int] = {}
    kept = []
    for one in found:
        seen[one.document_id] = seen.get(one.document_id, 0) + 1
        if per_document is None or seen[one.document_id] <= per_document:
            kept.append(one)
    return kept


@BOTH
@MANY
@given(library=libraries, query=queries)
def test_the_ranking_is_the_overlap_of_the_stored_profiles(
    rank: Rank,
    library: Library,
    query: list[QueryReef],
) -> None:
    with a_library(library) as database, database.snapshot() as snapshot:
        found = rank(snapshot, query, NONE, n=1000, max_per_document=None)
        expected = brute_force(snapshot, query)
        assert [one.n_shared for one in sorted(found, key=lambda one: one.chunk_id)] == [
            one[3] for one in sorted(expected, key=lambda one: one[1])
        ]
        assert {one.chunk_id for one in found} == {one[1] for one in expected}
        # Scores that differ by more than rounding to millionths are in the right order.
        scores = {chunk: score for score, chunk, _, _ in expected}
        for one, other in itertools.pairwise(found):
            assert scores[one.chunk_id] >= scores[other.chunk_id] - 1e-4
            assert (one.overlap, -one.chunk_id) > (other.overlap, -other.chunk_id), "equal scores by chunk id"
        for one in found:
            assert one.score == pytest.approx(scores[one.chunk_id], abs=1e-4)


@BOTH
@MANY
@given(
    library=libraries, query=queries, asked=filters, most=st.none() | st.integers(1, 3), n=st.integers(1, 9)
)
def test_a_filtered_search_is_a_search_then_a_filter(
    rank: Rank,
    library: Library,
    query: list[QueryReef],
    asked: SearchFilters,
    most: int | None,
    n: int,
) -> None:
    with a_library(library) as database, database.snapshot() as snapshot:
        everything = rank(snapshot, query, NONE, n=1000, max_per_document=None)
        left = [one for one in everything if meets(snapshot, one.chunk_id, asked)]
        compiled_filters = compile_filters(asked, SCORER)
        found = rank(snapshot, query, compiled_filters, n=n, max_per_document=most)
        assert found == at_most(most, left)[:n]


@MANY
@given(library=libraries, query=queries, dense=st.sampled_from([0, reef_ranking.DENSE]))
def test_overlaps_are_those_that_sql_adds_up(library: Library, query: list[QueryReef], dense: int) -> None:
    with (
        a_library(library) as database,
        database.snapshot() as snapshot,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(reef_ranking, "DENSE", dense)
        found = reef_ranking.overlaps(snapshot, query)
        expected = reef_ranking.rank(snapshot, query, NONE, n=1000, max_per_document=None)
        by_id = sorted((one.chunk_id, one.overlap, one.n_shared) for one in expected)
        assert list(zip(*(array.tolist() for array in found), strict=True)) == by_id


@BOTH
def test_one_document_cannot_crowd_out_the_others_however_long_it_is(
    database: Database, monkeypatch: pytest.MonkeyPatch, rank: Rank
) -> None:
    """The best chunks are all of one document: the ranking has to go deeper than its first look."""
    for module in (reef_ranking, ordering):
        monkeypatch.setattr(module, "FIRST_DEPTH", 2)
        monkeypatch.setattr(module, "DEEPER", 2)
    flat = (0.0, 0.0, 0.0, 0.0)
    long = [({1: 1.0}, 1.0, flat, "")] * 50
    short = [({1: 1.0, 2: 3.0 + i}, 1.0, flat, "") for i in range(4)]
    fill(database, [(long, set(), 1.0, DocFormat.markdown, ""), (short, set(), 1.0, DocFormat.plaintext, "")])
    with database.snapshot() as snapshot:
        found = rank(snapshot, [QueryReef(1, "reef 1", 2.0)], NONE, n=5, max_per_document=2)
    assert [(one.document_id, one.chunk_id) for one in found] == [(1, 1), (1, 2), (2, 51), (2, 52)]


def test_ranking_reads_only_the_postings_of_the_query(database: Database) -> None:
    """By the primary key, with and without a filter; never all of a table but the few best."""
    query = [QueryReef(i, f"reef {i}", 1.0) for i in (1, 2, 5)]
    for asked in (SearchFilters(), SearchFilters(tags=("red",)), SearchFilters(document_ids=(1,))):
        compiled_filters = compile_filters(asked, SCORER)
        statement = reef_ranking.RANK.format(scored=reef_ranking._scored(query, compiled_filters))
        parameters = reef_ranking._parameters(query, compiled_filters) | {
            "n": 5,
            "max_per_document": 3,
            "depth": 200,
        }
        with database.snapshot() as snapshot:
            plan = [row["detail"] for row in snapshot.rows(f"EXPLAIN QUERY PLAN {statement}", parameters)]
        assert "SEARCH p USING PRIMARY KEY (reef_id=?)" in plan, plan
        assert "SEARCH c USING INTEGER PRIMARY KEY (rowid=?)" in plan, plan
        tables = {"chunks", "documents", "chunk_reefs", "reef_postings", "c", "p", "d"}
        assert not [line for line in plan if line.split()[0] == "SCAN" and line.split()[1] in tables], plan


def test_created_filters_compare_moments(database: Database) -> None:
    with database.write() as connection:
        for day in (1, 2, 3):
            moment = f"2026-01-0{day}T00:00:00.000Z"
            document_writer.insert_document(connection, make_scored([f"day {day}"]), now=moment)
    asked = SearchFilters(created_after="2026-01-02T00:00:00.000Z", created_before="2026-01-03T00:00:00.000Z")
    with database.snapshot() as snapshot:
        found = in_sql(
            snapshot, [QueryReef(1, "r", 1.0)], compile_filters(asked, SCORER), n=9, max_per_document=None
        )
    assert [one.document_id for one in found] == [2]


def test_chunks_of_other_data_can_be_told_and_left_out(database: Database) -> None:
    with database.write() as connection:
        document_writer.insert_document(connection, make_scored(["ours"]), now=timestamp())
    with database.snapshot() as snapshot:
        assert not reef_ranking.any_other_data(snapshot, CHECKSUM)
    with database.write() as connection:
        for other in ("0" * 64, "~" * 64):
            scored = dataclasses.replace(make_scored([f"theirs {other[0]}"]), data_checksum=other)
            document_writer.insert_document(connection, scored, now=timestamp())
    with database.snapshot() as snapshot:
        assert reef_ranking.any_other_data(snapshot, CHECKSUM)
        assert reef_ranking.count_other_data(snapshot, CHECKSUM) == 2
        ours = NONE.and_current_data(CHECKSUM)
        found = in_sql(snapshot, [QueryReef(1, "r", 1.0)], ours, n=9, max_per_document=None)
    assert [one.chunk_id for one in found] == [1]


def test_the_core_queries_of_a_search_read_no_table_through(database: Database) -> None:
    """But by a key or an index, whatever the library holds; docs/search.md shows the plans."""
    for _ in range(3):
        store(database)
    ids = {"id_0": 1, "id_1": 2}
    reefs = {"reef_0": 1, "reef_1": 2}
    statements = {
        reef_ranking.POSTINGS_OF.format(radix=reef_ranking.RADIX, reefs=":reef_0, :reef_1"): reefs,
        results.CITE.format(ids=":id_0, :id_1"): ids,
        results.SHARED_REEFS.format(ids=":id_0, :id_1", reefs=":reef_0, :reef_1"): {
            **ids,
            **reefs,
            "data_checksum": CHECKSUM,
        },
        field_boost.TAGGED.format(tags=":tag_0"): {"tag_0": "red"},
    }
    with database.snapshot() as snapshot:
        for statement, parameters in statements.items():
            plan = [row["detail"] for row in snapshot.rows(f"EXPLAIN QUERY PLAN {statement}", parameters)]
            assert plan
            assert not [line for line in plan if line.startswith("SCAN") or "staleness" in line], plan
        weights = {"expression": '"rain"', "weights": "bm25(1.0, 1.0, 1.0)"}
        plan = [
            row["detail"] for row in snapshot.rows(f"EXPLAIN QUERY PLAN {lexical_ranking.MATCHES}", weights)
        ]
        assert [line for line in plan if "VIRTUAL TABLE INDEX" in line] == plan, "the full-text index alone"


def store(database: Database) -> None:
    with database.write() as connection:
        number = connection.exec_driver_sql("SELECT COUNT(*) FROM documents").scalar()
        document_writer.insert_document(connection, make_scored([f"text {number}"]), now=timestamp())
