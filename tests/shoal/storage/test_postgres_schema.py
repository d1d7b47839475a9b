"""The triggers and views of both stores have the same effects."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from postgres_schemas import URL, new_schema

from shoal.storage import revisions
from shoal.storage.column_values import pack_context
from shoal.storage.postgres import migration
from shoal.storage.profiles import reef_ids_of
from shoal.storage.totals import TABLES

psycopg = pytest.importorskip("psycopg")

T = "'2026-01-01'"
COMPARED = (
    *(totals.table for totals in TABLES),
    *("field_state", "changed_fields", "rescore_state", "stale_documents", "document_words", "chunk_vectors"),
    *("note_categories", "merge_proposals", "note_merges", "merge_proposal_notes", "note_merge_notes"),
    *("acronyms", "acronym_documents", "unindexed_vectors", "document_tags"),
    *("chunk_reefs", "chunk_islands", "document_texts"),
)


class Stores:
    """The same schema on both stores; each example leaves both empty."""

    def __init__(self, sqlite: sqlite3.Connection, postgres: Any) -> None:
        self.sqlite, self.postgres = sqlite, postgres

    def execute(self, statement: str) -> None:
        self.sqlite.execute(re.sub(r"CAST\('\\x([0-9a-f]*)' AS BYTEA\)", r"X'\1'", statement))
        self.postgres.execute(statement)

    def rows(self, table: str) -> tuple[list[Any], list[Any]]:
        columns = [name for name, *_ in self.sqlite.execute(f"SELECT * FROM {table}").description]
        statement = f"SELECT {', '.join(columns)} FROM {table}"
        ours = [tuple(row) for row in self.sqlite.execute(statement)]
        theirs = [tuple(row) for row in self.postgres.execute(statement)]
        return sorted(ours, key=repr), sorted(theirs, key=repr)


@pytest.fixture(scope="module")
def stores(migrated_file: Path) -> Iterator[Stores]:
    with (
        new_schema() as schema,
        closing(sqlite3.connect(migrated_file.as_uri() + "?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(":memory:", isolation_level=None)) as sqlite,
        psycopg.connect(URL, autocommit=True) as postgres,
    ):
        source.backup(sqlite)
        sqlite.execute("PRAGMA foreign_keys = ON")
        postgres.execute(f"SET search_path = {schema}")
        with postgres.transaction():
            migration.apply(postgres, schema, revisions.statements("postgresql"))
            postgres.execute("UPDATE schema_revision SET revision = %s", (revisions.HEAD,))
        reefs = ", ".join(
            f"('d', {reef}, 'reef {reef}', {reef % 3}, 'island {reef % 3}', {(1, 0.125, 1 / 3**0.5)[reef % 3]})"
            for reef in range(9)
        )
        stores = Stores(sqlite, postgres)
        stores.execute(f"INSERT INTO reefs VALUES {reefs}")
        yield stores


ids = st.integers(1, 4)
paths = st.sampled_from(["a", "a/b", "a/b/c", "a/bc", "b", "a-b", "b/é"])
owners = st.sampled_from(["ann", "bob"])
some_paths = st.sets(paths, min_size=1, max_size=4).map(sorted)
some_ids = st.sets(ids, min_size=1, max_size=4).map(sorted)


def among(values: list[Any]) -> str:
    return "(" + ", ".join(repr(value) for value in values) + ")"


def document(i: int, n: int) -> str:
    columns = (
        "id, title, content_hash, format, n_bytes, n_chunks, n_sentences, coverage, created_at, updated_at"
    )
    return f"INSERT INTO documents ({columns}, text_after) VALUES " + ", ".join(
        f"({k}, 'title', 'hash {k}', 'markdown', {10 * k + n}, {n}, 1, 1, {T}, {T}, '.')"
        for k in range(i, i + 2)
    )


def section(i: int) -> str:
    return (
        "INSERT INTO sections (id, document_id, section_index, level, path, heading_start, heading_end, start_char,"
        f" end_char) SELECT id, id, 0, 0, '[]', 0, 0, 0, 0 FROM documents WHERE id = {i} ON CONFLICT DO NOTHING"
    )


def chunks(i: int, cells: list[tuple[int | None, int]], profile: bytes) -> str:
    profile = profile[: len(profile) // 7 * 7]
    values = ", ".join(
        f"({10 * i + k}, {i}, {i}, {k}, 0, 1, 1, 1, 1, 1, 1, 1, CAST({'NULL' if reef is None else reef} AS BIGINT), {percent / 1000},"
        f" 0, 0, 0, 0, 1, 0, 'd', CAST('\\x{profile.hex()}' AS BYTEA), CAST('\\x{reef_ids_of(profile).hex()}' AS BYTEA), 'text {k}', '{k} ')"
        for k, (reef, percent) in enumerate(cells)
    )
    return (
        "INSERT INTO chunks (id, document_id, section_id, chunk_index, start_char, end_char, start_line, end_line,"
        " sentence_count, confidence, coverage, matched_words, top_reef_id, top_reef_probability, arch_score_0,"
        " arch_score_1, arch_score_2, arch_score_3, norm, vocabulary_version, data_checksum, profile, reef_ids,"
        " text,"
        f" text_before) SELECT * FROM (VALUES {values}) v"
        f" WHERE EXISTS (SELECT 1 FROM sections WHERE id = {i}) ON CONFLICT DO NOTHING"
    )


def note(i: int, owner: str) -> str:
    return (
        "INSERT INTO notes (id, owner, kind, title, text, text_hash, domain, source, metadata, prerequisites,"
        " verified, pin_tags, occurrence_count, times_matched, dedup_verified, dedup_attempts, profile, words,"
        " data_checksum, vocabulary_version, change_number, created_at, updated_at) VALUES"
        f" ({i}, '{owner}', 'lesson', '', 'text', 'hash', '', 'agent', '{{}}', '{{}}', 0, '[]', 1, 0, 0, 0, CAST('\\x' AS BYTEA),"
        f" CAST('\\x' AS BYTEA), 'd', 0, {i}, {T}, {T}) ON CONFLICT DO NOTHING"
    )


def of_notes(table: str, columns: str, values: str, note_ids: list[int]) -> str:
    """Insert a row for each of these notes that exist."""
    return (
        f"INSERT INTO {table} ({columns}) SELECT n.id, {values} FROM notes n WHERE n.id IN {among(note_ids)}"
        " ON CONFLICT DO NOTHING"
    )


def categories(note_ids: list[int], some: list[str]) -> str:
    values = ", ".join(f"({path!r})" for path in some)
    return (
        "INSERT INTO note_categories (note_id, path) SELECT n.id, v.column1 FROM notes n"
        f" CROSS JOIN (VALUES {values}) v WHERE n.id IN {among(note_ids)} ON CONFLICT DO NOTHING"
    )


def acronym_documents(some: list[int]) -> str:
    return (
        "INSERT INTO acronym_documents SELECT a.id, d.id, 0, 1 FROM acronyms a CROSS JOIN documents d"
        f" WHERE d.id IN {among(some)} ON CONFLICT DO NOTHING"
    )


cells = st.lists(st.tuples(st.sampled_from([None, 1, 2]), st.integers(0, 1000)), min_size=1, max_size=5)
profiles = st.lists(
    st.tuples(st.integers(0, 10), *(st.integers(0, 255) for _ in range(6))), min_size=0, max_size=6
).map(lambda rows: b"".join(bytes(row) for row in rows))
changes = st.one_of(
    st.builds(document, st.sampled_from([1, 3]), st.integers(0, 9)).map(
        lambda s: f"{s} ON CONFLICT DO NOTHING"
    ),
    ids.map(section),
    st.builds(chunks, ids, cells, profiles),
    st.builds(
        "UPDATE documents SET n_chunks = {1}, n_bytes = 7 WHERE id <> {0}".format, ids, st.integers(0, 9)
    ),
    st.builds(
        "UPDATE documents SET title = '{1}' WHERE id = {0}".format, ids, st.sampled_from(["title", "new"])
    ),
    st.builds("UPDATE documents SET source_path = 'x' WHERE id = {}".format, ids),
    some_ids.map(lambda some: f"DELETE FROM documents WHERE id IN {among(some)}"),
    st.builds(
        lambda some, tag: (
            f"INSERT INTO document_tags SELECT id, '{tag}' FROM documents WHERE id IN {among(some)}"
            " ON CONFLICT DO NOTHING"
        ),
        some_ids,
        st.sampled_from(["x", "y"]),
    ),
    some_ids.map(lambda some: f"DELETE FROM document_tags WHERE document_id IN {among(some)}"),
    st.builds(
        "UPDATE chunks SET top_reef_id = {0}, top_reef_probability = {1} / 1000.0 WHERE chunk_index < 2".format,
        st.sampled_from(["NULL", "1", "2"]),
        st.integers(0, 1000),
    ),
    st.builds(
        "INSERT INTO stale_documents SELECT id, {0}, CAST('\\x01' AS BYTEA) FROM documents WHERE id > {1}"
        " ON CONFLICT (document_id) DO UPDATE SET n_chunks = excluded.n_chunks".format,
        st.integers(1, 9),
        ids,
    ),
    some_ids.map(lambda some: f"DELETE FROM stale_documents WHERE document_id IN {among(some)}"),
    ids.map(
        "INSERT INTO document_words (id, document_id, data_checksum) SELECT id, id, 'd' FROM documents WHERE id > {}"
        " ON CONFLICT DO NOTHING".format
    ),
    st.just(
        "INSERT INTO chunk_vectors SELECT id, 1, CAST('\\x00' AS BYTEA) FROM chunks WHERE true ON CONFLICT DO NOTHING"
    ),
    st.just(
        "INSERT INTO unindexed_vectors SELECT chunk_id, 0 FROM chunk_vectors WHERE true ON CONFLICT DO NOTHING"
    ),
    st.builds(note, ids, owners),
    st.builds(categories, some_ids, some_paths),
    some_paths.map(lambda some: f"DELETE FROM note_categories WHERE path IN {among(some)}"),
    st.builds(
        lambda some, at: f"UPDATE notes SET deprecated_at = {at} WHERE id IN {among(some)}",
        some_ids,
        st.sampled_from([T, "NULL"]),
    ),
    ids.map("UPDATE notes SET text_hash = 'other' WHERE id = {}".format),
    some_ids.map(lambda some: f"DELETE FROM notes WHERE id IN {among(some)}"),
    ids.map(
        lambda i: (
            "INSERT INTO merge_proposals (id, owner, note_ids, similarity, is_opposite, canonical_text, reason,"
            f" status, created_at) VALUES ({i}, 'ann', '{i}', 1, 0, 'text', 'why', 'open', {T}) ON CONFLICT DO NOTHING"
        )
    ),
    st.builds(
        lambda i, some: of_notes("merge_proposal_notes", "note_id, proposal_id", f"{i}", some), ids, some_ids
    ),
    ids.map(
        lambda i: (
            "INSERT INTO note_merges (id, owner, run_id, survivor_id, absorbed_ids, canonical_text, confidence,"
            f" reason, decided_by, before, created_at) VALUES ({i}, 'ann', '', {i}, '[]', 'text', 1, 'why', 'agent',"
            f" 'rows', {T}) ON CONFLICT DO NOTHING"
        )
    ),
    st.builds(lambda i, some: of_notes("note_merge_notes", "note_id, merge_id", f"{i}", some), ids, some_ids),
    ids.map(
        lambda i: (
            "INSERT INTO acronyms (id, acronym, expansion, key, status, created_at) VALUES"
            f" ({i}, 'A', 'a', '{i}', 'proposed', {T}) ON CONFLICT DO NOTHING"
        )
    ),
    some_ids.map(acronym_documents),
    some_ids.map(lambda some: f"DELETE FROM acronyms WHERE id IN {among(some)}"),
    some_ids.map(lambda some: f"DELETE FROM acronym_documents WHERE document_id IN {among(some)}"),
)


START = (document(1, 2), section(1), section(2), note(1, "ann"), categories([1], ["a/b", "a/b/c"]))


@settings(max_examples=25)
@given(st.lists(changes, min_size=5, max_size=25))
def test_the_same_changes_leave_the_same_totals_and_views(stores: Stores, statements: list[str]) -> None:
    stores.execute("BEGIN")
    try:
        for statement in (*START, *statements):
            stores.execute(statement)
        for table in COMPARED:
            ours, theirs = stores.rows(table)
            assert theirs == ours, table
    finally:
        stores.execute("ROLLBACK")


def test_views_round_sums_in_the_middle_of_two_values_the_same(stores: Stores) -> None:
    stores.execute("BEGIN")
    try:
        stores.execute(document(1, 300))
        stores.execute(section(1))
        for k in range(1, 400, 2):  # of an island whose scale is 1/8: multiples of 0.0005
            profile = bytes([4, k % 256, k // 256, 0, 0, 1, 0])
            stores.execute(chunks(1, [(None, 0)], profile).replace("(10, 1, 1, 0,", f"({k}, 1, 1, {k},"))
        ours, theirs = stores.rows("chunk_islands")
        assert len(ours) == 200
        assert theirs == ours
    finally:
        stores.execute("ROLLBACK")


def test_both_stores_have_the_same_parts(stores: Stores) -> None:
    parts = {
        (kind, name)
        for kind, name in stores.sqlite.execute("SELECT type, name FROM sqlite_master WHERE sql IS NOT NULL")
        if name not in ("sqlite_sequence", "idx_documents_names")
    }
    found = {
        *stores.postgres.execute(
            "SELECT CASE relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' ELSE 'index' END, relname FROM pg_class c"
            " WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'v', 'i')"
            " AND NOT EXISTS (SELECT 1 FROM pg_constraint o WHERE o.conindid = c.oid)"
        ),
        *stores.postgres.execute(
            "SELECT 'trigger', tgname FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid"
            " WHERE relnamespace = current_schema()::regnamespace AND NOT tgisinternal"
        ),
    }
    assert parts - found == set()
    # Keys too long for PostgreSQL, notifications, and what machines with an index of their own read.
    assert {name for _, name in found - parts} == {
        *("skip_long_path", "skip_long_url", "skip_long_tag_set"),
        *("notify_changes", "notify_waves"),
        *("idx_changed_documents_revision", "idx_unindexed_vectors_revision"),
    }


def test_both_stores_have_the_same_columns_and_first_rows(stores: Stores) -> None:
    tables = [
        name
        for (name,) in stores.sqlite.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'sqlite_sequence'"
        )
    ]
    for table in tables:
        ours = [
            (row[1], bool(row[3] or row[5])) for row in stores.sqlite.execute(f"PRAGMA table_info({table})")
        ]
        theirs = stores.postgres.execute(
            "SELECT column_name, is_nullable = 'NO' FROM information_schema.columns"
            " WHERE table_schema = current_schema() AND table_name = %s",
            (table,),
        ).fetchall()
        assert sorted(theirs) == sorted(ours), table
        if table == "index_state":
            # The epoch is random.
            assert [len(rows) for rows in stores.rows(table)] == [1, 1]
            continue
        first, others = stores.rows(table)
        assert others == first, table


def test_views_of_learned_and_observed_words_are_the_same(stores: Stores) -> None:
    context, empty = pack_context((3, 7, 200), (64, 70016, 1)).hex(), ""
    statements = (
        document(4, 1),
        "INSERT INTO vocabulary_versions (version, created_at, n_words) VALUES (1, 'then', 1), (2, 'then', 1)",
        (
            "INSERT INTO custom_words (id, word, from_version, word_hash, word_id, specificity, idf_q, weight_q,"
            " n_occurrences, n_documents, created_at) VALUES (1, 'zorblat', 1, 5, 900, 1, 2, 3, 9, 1, 'then'),"
            " (2, 'zorblat', 2, 5, 900, 1, 2, 3, 9, 1, 'then'), (3, 'soon', 3, 6, 901, 1, 2, 3, 9, 1, 'then')"
        ),
        "INSERT INTO word_reefs VALUES (1, 3, 10, 0.5, 0), (2, 7, 20, 0.25, 0.5), (3, 9, 1, 1, 0)",
        (
            "INSERT INTO observed_documents VALUES (6, 'hash 4', 4, 0, 'pending', 1, 'd', 'Old', 'plaintext', '{}'),"
            " (7, 'hash 9', 4, 0, 'pending', 0, 'd', 'Old', 'plaintext', '{}')"
        ),
        (
            f"INSERT INTO observed_words VALUES (6, 0, '', 1, 1, 1, '[]', CAST('\\x{empty}' AS BYTEA), 1),"
            f" (6, 1, 'zorblat', 4, 1, 1, '[]', CAST('\\x{context}' AS BYTEA), 4),"
            f" (7, 2, 'frob tandle', 2, 1, 1, '[]', CAST('\\x{empty}' AS BYTEA), 0)"
        ),
    )
    try:
        for statement in statements:
            stores.execute(statement)
        ours, theirs = stores.rows("custom_word_reefs")
        assert ours == theirs == [(900, 7, 20, 0.25, 0.5)]
        ours, theirs = (
            [(*row[:4], json.loads(row[4])) for row in rows] for rows in stores.rows("word_observations")
        )
        assert ours == theirs
        assert [(row[1], row[2], len(row[4])) for row in ours] == [
            ("zorblat", 4, 3),
            ("frob tandle", None, 0),
        ]
    finally:
        for table in ("documents", "observed_documents", "custom_words", "vocabulary_versions"):
            stores.execute(f"DELETE FROM {table}")
