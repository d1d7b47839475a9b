"""A database is migrated to this version's schema exactly once, or left unchanged."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace as Namespace
from typing import Any

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from fake_scorer import FakeScorer
from faults import DONE, KILLED, full_from, killed_at
from indexed_library import assert_indexed, chunks_with
from recorded_schema import RecordedSchema
from scored_documents import CHECKSUM, make_scored

from shoal.errors import BackupError, DiskFullError, SchemaError
from shoal.jobs.queue import lease
from shoal.jobs.queue.claims import claim
from shoal.jobs.queue.queries import get_items, get_job
from shoal.jobs.queue.states import Stage
from shoal.jobs.stages.runner import handlers_for, process
from shoal.maintenance.backup import create_backup
from shoal.maintenance.restore import restore
from shoal.models.documents import ScoredDocument
from shoal.search.indexing import update_index
from shoal.settings import Settings
from shoal.storage import (
    chunk_rows,
    evidence,
    index_tables,
    migrate,
    observations,
    staleness,
    totals,
    vocabulary_queries,
)
from shoal.storage.chunk_queries import get_chunks
from shoal.storage.database import Database, Transaction
from shoal.storage.document_queries import get_content, get_document
from shoal.storage.opening import open_database
from shoal.storage.packed_contexts import pack_context
from shoal.storage.schema import foreign_triggers
from shoal.storage.statistics import chunks_by_reef
from shoal.storage.vocabulary_records import StoredRow
from shoal.support.sha256 import sha256_of

pytestmark = pytest.mark.skipif(
    os.environ.get("SHOAL_TEST_POSTGRES") == "1", reason="SQLite's own; see test_postgres_database.py"
)

LONG = bool(os.environ.get("SHOAL_TEST_LONG"))


@pytest.fixture(autouse=True)
def _all_migrations(recorded_schema: RecordedSchema, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every migration, also of an empty database."""
    monkeypatch.setattr(migrate, "apply", recorded_schema.migrate)


@pytest.fixture
def empty(tmp_path: Path) -> Database:
    return open_database(f"sqlite:///{tmp_path / 'shoal.db'}")


def schema(path: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(path) as connection:
        return connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()


def test_head_is_the_newest_script() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate.script_folder()))
    assert ScriptDirectory.from_config(config).get_heads() == [migrate.HEAD]


def test_an_empty_database_is_migrated_once(empty: Database) -> None:
    with pytest.raises(SchemaError, match="shoal migrate"):
        migrate.check(empty)
    assert migrate.upgrade(empty) is True
    assert migrate.upgrade(empty) is False
    assert migrate.current_revision(empty) == migrate.HEAD
    migrate.check(empty)


def upgrade_in_process(
    url: str, barrier: multiprocessing.synchronize.Barrier, results: multiprocessing.Queue
) -> None:  # type: ignore[type-arg]
    database = open_database(url)
    barrier.wait()
    try:
        results.put(migrate.upgrade(database))
    except BaseException as error:
        results.put(repr(error))


def test_processes_that_start_together_migrate_once(empty: Database) -> None:
    context = multiprocessing.get_context("spawn")
    n = 3
    barrier, results = context.Barrier(n), context.Queue()
    processes = [
        context.Process(target=upgrade_in_process, args=(empty.url, barrier, results)) for _ in range(n)
    ]
    for child in processes:
        child.start()
    upgraded = [results.get(timeout=60) for _ in range(n)]
    for child in processes:
        child.join()
    assert sorted(map(str, upgraded)) == ["False", "False", "True"]
    migrate.check(empty)


def test_a_newer_schema_is_refused_and_unchanged(empty: Database) -> None:
    migrate.upgrade(empty)
    with empty.write() as transaction:
        transaction.execute("UPDATE alembic_version SET version_num = '9999'")
    before = schema(empty.path)
    for operation in (migrate.upgrade, migrate.check):
        with pytest.raises(SchemaError, match="newer Shoal"):
            operation(empty)
    assert schema(empty.path) == before


def test_the_database_of_another_program_is_refused_and_unchanged(empty: Database) -> None:
    with sqlite3.connect(empty.path) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    before = schema(empty.path)
    with pytest.raises(SchemaError, match="is the database of another program"):
        migrate.upgrade(empty)
    assert schema(empty.path) == before


LIBRARY_OF_0001 = """
    INSERT INTO documents (id, title, content_hash, format, n_bytes, n_chunks, n_sentences, coverage,
        created_at, updated_at, content)
        VALUES (7, 'Old', 'abc', 'plaintext', 9, 1, 1, 1.0, 'then', 'then', 'Lava rose');
    INSERT INTO document_tags VALUES (7, 'hot');
    INSERT INTO sections VALUES (3, 7, 0, 0, '[]', 0, 0, 0, 9);
    INSERT INTO chunks (id, document_id, section_id, chunk_index, start_char, end_char, start_line, end_line,
        sentence_count, confidence, coverage, matched_words, top_reef_id, top_reef_name, arch_score_0,
        arch_score_1, arch_score_2, arch_score_3, norm, vocabulary_version, data_checksum, text)
        VALUES (5, 7, 3, 0, 0, 9, 1, 1, 1, 1.0, 1.0, 2, 1, 'fire', 0, 0, 0, 0, 2.0, 0, 'data', 'Lava rose');
    INSERT INTO chunk_reefs VALUES (5, 1, 'fire', 2.0, 1.0, 2, 0);
    INSERT INTO reef_postings VALUES (1, 5, 1000000);
    INSERT INTO chunk_fts (rowid, title, headings, text)
        SELECT chunk_id, title, headings, text FROM chunk_texts;
    INSERT INTO jobs (id, kind, status, plan, total, created_at, updated_at)
        VALUES (4, 'ingest', 'enqueued', '["score"]', 1, 'then', 'then');
    INSERT INTO waves (job_id, n, stage, total, pending, bytes) VALUES (4, 0, 'score', 1, 1, 4);
    INSERT INTO job_items (id, job_id, seq, wave, title, format, n_bytes, content_hash, status, updated_at)
        VALUES (9, 4, 0, 0, 'New', 'plaintext', 4, 'def', 'enqueued', 'then');
    INSERT INTO job_items (id, job_id, seq, wave, title, format, n_bytes, status, error, updated_at)
        VALUES (10, 4, 1, 0, 'Bad', 'plaintext', 4, 'failed', 'is not text', 'then');
    INSERT INTO job_item_contents VALUES (9, 'Rain');
"""


def test_migrating_the_first_revision_keeps_content_and_open_jobs(empty: Database) -> None:
    with empty.write() as transaction:
        migrate.apply(transaction.connection, "0001")
        for statement in LIBRARY_OF_0001.split(";\n"):
            transaction.execute(statement)
    with pytest.raises(SchemaError, match="run `shoal migrate`"):
        migrate.check(empty)
    assert migrate.upgrade(empty) is True
    with empty.snapshot() as snapshot:
        assert get_document(snapshot, 7).tags == ("hot",)
        [chunk] = get_chunks(snapshot, 7).chunks
        assert (chunk.id, chunk.text, chunk.reefs[0].z_score) == (5, "Lava rose", 2.0)
    assert chunks_with(empty, "lava") == [5]
    # The item that was accepted before is processed, and the next ids follow the old ones.
    settings = Settings(database_url=empty.url)
    batch = claim(empty, lease.new_owner(), settings)
    assert batch is not None
    assert [(item.id, item.stage, item.vocabulary_version) for item in batch.items] == [
        (9, Stage.score, None)
    ]
    process(batch, empty, handlers_for(empty, FakeScorer(), settings), settings)
    items = get_items(empty, 4)
    assert items[0].document_id == 8
    assert (items[1].error, items[1].error_code) == ("is not text", None)
    assert newest(empty) == (0, None)


def test_migrating_renames_counters_and_the_stages_of_open_rescores(empty: Database) -> None:
    with empty.write() as transaction:
        migrate.apply(transaction.connection, "0006")
        for statement in (
            "INSERT INTO tallies (name, label, value) VALUES ('searches', 'lexical', 3)",
            """INSERT INTO jobs (id, kind, status, plan, total, created_at, updated_at)
               VALUES (4, 'rescore', 'processing', '["survey", "relearn", "rescore"]', 1, 'then', 'then')""",
            """INSERT INTO waves (job_id, n, stage, total, pending, bytes, nudged_at)
               VALUES (4, 0, 'survey', 1, 1, 4, 7.5)""",
        ):
            transaction.execute(statement)
    migrate.upgrade(empty)
    with empty.snapshot() as snapshot:
        assert snapshot.tuples("SELECT name, label, value FROM counters").fetchall() == [
            ("searches", "lexical", 3.0)
        ]
        assert snapshot.tuples("SELECT stage, notified_at FROM waves").fetchall() == [("rediscover", 7.5)]
    job = get_job(empty, 4)
    assert job.plan == (Stage.rediscover, Stage.relearn, Stage.rescore)


def test_migrating_packs_the_contexts_of_observations_and_sums(empty: Database) -> None:
    with empty.write() as transaction:
        migrate.apply(transaction.connection, "0009")
        for statement in (
            """INSERT INTO observed_documents
               VALUES (6, 'abc', 4, 0, 'learned', 1, 'data/2', 'Old', 'plaintext', '{}')""",
            "INSERT INTO word_observations VALUES (6, 1, 'zorblat', 9, 9, 2, '[]', '[3,64,7,70000]')",
            "INSERT INTO word_observations VALUES (6, 2, 'frob tandle', 2, 0, 1, '[9,2,2,2,2]', '[]')",
            "INSERT INTO word_evidence VALUES ('zorblat', 1, 1, 9, 9, 1, 2, '[]', '[3,64,7,70000]')",
        ):
            transaction.execute(statement)
    migrate.upgrade(empty)
    zorblat = StoredRow(1, "zorblat", 9, 9, 1, 2, "[]", pack_context((3, 7), (64, 70000)))
    with empty.snapshot() as snapshot:
        assert list(observations.rows_of(snapshot, [6])) == [
            zorblat,
            StoredRow(2, "frob tandle", 2, 0, 1, 1, "[9,2,2,2,2]", b""),
        ]
        assert list(evidence.in_force(snapshot, ["zorblat"], 1)) == [zorblat]


def test_migrating_gives_the_tables_the_columns_of_the_specification(empty: Database) -> None:
    with empty.write() as transaction:
        migrate.apply(transaction.connection, "0032")
        for statement in (
            """INSERT INTO documents (id, title, content_hash, format, n_bytes, n_chunks, n_sentences, coverage,
                   created_at, updated_at, text_after)
               VALUES (4, 'Old', 'abc', 'markdown', 1, 2, 1, 1, 'then', 'then', '')""",
            """INSERT INTO sections (id, document_id, section_index, level, path, heading_start, heading_end,
                   start_char, end_char)
               VALUES (1, 4, 0, 0, '[]', 0, 0, 0, 9), (2, 4, 1, 2, '["Höhe","\\"A\\""]', 0, 0, 0, 9)""",
            """INSERT INTO chunks (id, document_id, section_id, chunk_index, start_char, end_char, start_line,
                   end_line, sentence_count, confidence, coverage, matched_words, top_reef_probability,
                   arch_score_0, arch_score_1, arch_score_2, arch_score_3, norm, vocabulary_version,
                   data_checksum, profile, text)
               VALUES (1, 4, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 0, '', x'', 'a'),
                   (2, 4, 2, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 0, '',
                    x'00fa000100026407060003000001', 'b')""",
            "INSERT INTO vocabulary_versions (version, created_at, n_words) VALUES (1, 'then', 1), (2, 'then', 1)",
            """INSERT INTO custom_words (id, word, from_version, retired, word_hash, word_id, specificity, idf_q,
                   weight_q, n_occurrences, n_documents, created_at)
               VALUES (1, 'zorblat', 1, 0, 5, 900, 1, 2, 3, 9, 1, 'then'),
                   (2, 'zorblat', 2, 0, 5, 900, 1, 2, 3, 9, 1, 'then'),
                   (3, 'gone', 1, 0, 6, 901, 1, 2, 3, 9, 1, 'then'),
                   (4, 'gone', 2, 1, 6, 901, 1, 2, 3, 0, 0, 'then')""",
            "INSERT INTO custom_word_reefs VALUES (1, 3, 10, 0.5, 0), (2, 7, 20, 0.25, 0.5), (3, 9, 1, 1, 0)",
            """INSERT INTO observed_documents
               VALUES (6, 'abc', 4, 0, 'learned', 1, 'data/2', 'Old', 'plaintext', '{}')""",
        ):
            transaction.execute(statement)
        transaction.write_many(
            "INSERT INTO word_observations VALUES (6, ?, ?, ?, 9, 2, '[]', ?)",
            [
                (0, "", 1, pack_context((1,), (1,))),
                (1, "zorblat", 4, pack_context((3, 7), (64, 70016))),
                (2, "frob tandle", 2, b""),
            ],
        )
    migrate.upgrade(empty)
    with sqlite3.connect(empty.path) as connection:

        def rows(statement: str) -> list[tuple[Any, ...]]:
            return connection.execute(statement).fetchall()

        assert rows("SELECT word_id, reef_id, bm25_q, association_strength FROM custom_word_reefs") == [
            (900, 7, 20, 0.25)
        ]
        observed = rows("SELECT id, word, document_id, sentence_idx, context_reefs FROM word_observations")
        assert [row[:4] for row in observed] == [(1, "zorblat", 4, None), (2, "frob tandle", 4, None)]
        assert [json.loads(row[4]) for row in observed] == [
            [
                {"reef_id": 3, "z_score": 0.25, "weight": 4},
                {"reef_id": 7, "z_score": 273.5, "weight": 4},
            ],
            [],
        ]
        assert [json.loads(row[0]) for row in rows("SELECT metadata FROM chunks ORDER BY id")] == [
            {},
            {"headings": ["Höhe", '"A"']},
        ]
        assert rows("SELECT chunk_id, reef_id, rank, z_score FROM chunk_reefs ORDER BY rank") == [
            (2, 0, 0, 1.0),
            (2, 7, 1, 0.024),
        ]


def insert_with_content(transaction: Transaction, scored: ScoredDocument) -> int:
    """Write a document as before 0014: its whole text in its row, and again in its chunks."""
    draft = scored.draft
    row = (draft.title, draft.content_hash, draft.n_bytes, len(scored.chunks), draft.content)
    transaction.write_many(
        """INSERT INTO documents (title, content_hash, format, n_bytes, n_chunks, n_sentences, coverage,
               created_at, updated_at, content)
           VALUES (?, ?, 'markdown', ?, ?, 1, 1.0, 'then', 'then', ?)""",
        [row],
    )
    document_id: int = transaction.value("SELECT MAX(id) FROM documents")
    insert_chunks(transaction, document_id, scored)
    return document_id


def insert_chunks(transaction: Transaction, document_id: int, scored: ScoredDocument) -> None:
    """Write a section with the chunks of a document as before 0014."""
    section_id = transaction.value(
        """INSERT INTO sections (document_id, section_index, level, path, heading_start, heading_end,
               start_char, end_char) VALUES (:document_id, 0, 0, '[]', 0, 0, 0, 9) RETURNING id""",
        {"document_id": document_id},
    )
    transaction.write_many(
        f"""INSERT INTO chunks (document_id, section_id, chunk_index, text, start_char, end_char, start_line,
                end_line, sentence_count, confidence, coverage, matched_words, top_reef_id, top_reef_name,
                top_reef_probability, arch_score_0, arch_score_1, arch_score_2, arch_score_3, norm, profile,
                vocabulary_version, data_checksum)
            VALUES ({", ".join("?" * 23)})""",
        [
            (
                *(document_id, section_id, chunk.chunk_index, chunk.text, chunk.start_char, chunk.end_char),
                *(1, 1, 1, *chunk_rows.score_columns(chunk), 0, scored.data_checksum),
            )
            for chunk in scored.chunks
        ],
    )


def test_documents_of_the_full_text_index_are_searchable_after_migrating(empty: Database) -> None:
    with empty.write() as transaction:
        migrate.apply(transaction.connection, "0012")
        for text in ("Lava rose.", "Rain fell."):
            insert_with_content(transaction, make_scored([text]))
        transaction.execute("INSERT INTO chunk_fts (chunk_fts) VALUES ('rebuild')")
        transaction.execute("INSERT INTO rescored_documents (document_id) VALUES (1)")
    assert migrate.upgrade(empty) is True
    with empty.snapshot() as snapshot:
        assert [change.document_id for change in index_tables.open_changes(snapshot)] == [1, 2]
        left = {row[0] for row in snapshot.rows("SELECT name FROM sqlite_master")}
    assert not any(name.startswith(("chunk_fts", "chunk_texts", "rescored")) for name in left)
    assert chunks_with(empty, "lava") == [1], "before anything is written"
    assert update_index(empty) is True
    with empty.snapshot() as snapshot:
        assert not index_tables.is_any_open(snapshot)
    assert chunks_with(empty, "rain") == [2]
    assert_indexed(empty)


def test_documents_with_older_scores_are_stale_after_migrating(empty: Database) -> None:
    with empty.write() as transaction:
        migrate.apply(transaction.connection, "0013")
        for texts in (["Lava rose."], ["Rain fell.", "Snow fell.", "Hail fell."]):
            insert_with_content(transaction, make_scored(texts))
        transaction.execute(
            "INSERT INTO vocabulary_versions SELECT 3, 'then', 1, 0, 1, data_checksum FROM chunks LIMIT 1"
        )
        transaction.execute("UPDATE chunks SET vocabulary_version = 3 WHERE document_id = 1")
    assert migrate.upgrade(empty) is True
    with empty.snapshot() as snapshot:
        assert list(snapshot.tuples("SELECT document_id, n_chunks, hex(chunks) FROM stale_documents")) == [
            (2, 3, "E0")
        ]
        assert staleness.count_stale(snapshot, CHECKSUM) == 3
    # Their words are not known, so all chunks become stale when any word changes.
    with empty.snapshot() as snapshot:
        outdated = staleness.find_outdated(snapshot, ["zorblat"], CHECKSUM)
    with empty.write() as transaction:
        staleness.mark_outdated(transaction, outdated, CHECKSUM)
    with empty.snapshot() as snapshot:
        assert staleness.count_stale(snapshot, CHECKSUM) == 4


def newest(database: Database) -> tuple[int, str | None]:
    with database.snapshot() as snapshot:
        return vocabulary_queries.newest(snapshot)


def test_a_failed_migration_changes_nothing(
    empty: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scripts = tmp_path / "migrations"
    (scripts / "versions").mkdir(parents=True)
    (scripts / "env.py").write_text((migrate.script_folder() / "env.py").read_text())
    source = (migrate.script_folder() / "versions" / "0001_documents_chunks_jobs.py").read_text()
    (scripts / "versions" / "0001_documents_chunks_jobs.py").write_text(
        source + '    op.get_bind().exec_driver_sql("CREATE TABLE documents (id INTEGER)")\n'
    )
    monkeypatch.setattr(migrate, "script_folder", lambda: scripts)
    with pytest.raises(Exception, match="refused an operation"):
        migrate.upgrade(empty)
    assert schema(empty.path) == []
    monkeypatch.undo()
    assert migrate.upgrade(empty) is True


def test_a_new_database_uses_incremental_vacuum_and_wal(empty: Database) -> None:
    migrate.upgrade(empty)
    with empty.snapshot() as snapshot:
        assert snapshot.value("PRAGMA auto_vacuum") == 2, "incremental"
        assert snapshot.value("PRAGMA journal_mode") == "wal"


def script_of(revision: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of a migration, which the next migrations use, so that the test can change it."""
    get_revision = ScriptDirectory.get_revision
    script = get_revision(ScriptDirectory(str(migrate.script_folder())), revision)
    monkeypatch.setattr(
        ScriptDirectory,
        "get_revision",
        lambda self, name: script if name == revision else get_revision(self, name),
    )
    return script.module


PASSAGE = "Lava rose. "


def library_of_0009(database: Database, n_chunks: int) -> None:
    """Store chunks with reefs of two builds of the scorer data; every third chunk has none."""
    content = PASSAGE * n_chunks
    with database.write() as transaction:
        migrate.apply(transaction.connection, "0009")
        for statement in (
            f"""INSERT INTO documents (id, title, content_hash, format, n_bytes, n_chunks, n_sentences, coverage,
                   created_at, updated_at, content)
               VALUES (7, 'Old', '{sha256_of(content)}', 'plaintext', {len(content)}, {n_chunks}, {n_chunks},
                   1.0, 'then', 'then', '{content}')""",
            f"""INSERT INTO sections (id, document_id, section_index, level, path, heading_start, heading_end,
                   start_char, end_char) VALUES (3, 7, 0, 0, '[]', 0, 0, 0, {len(content)})""",
        ):
            transaction.execute(statement)
        for i in range(1, n_chunks + 1):
            add_chunk_of_0009(transaction, i)


def add_chunk_of_0009(transaction: Transaction, i: int) -> None:
    reefs = [] if i % 3 == 0 else [(i % 200, 40.0 + i / 1000, 0.25), ((i + 1) % 200, 2.0, 0.75)]
    transaction.write_many(
        """INSERT INTO chunks (id, document_id, section_id, chunk_index, start_char, end_char, start_line,
               end_line, sentence_count, confidence, coverage, matched_words, top_reef_id, top_reef_name,
               arch_score_0, arch_score_1, arch_score_2, arch_score_3, norm, vocabulary_version,
               data_checksum, text)
           VALUES (?, 7, 3, ?, ?, ?, 1, 1, 1, 1.0, 1.0, 2, NULL, NULL, 0, 0, 0, 0, 2.0, 0, ?, ?)""",
        [(i, i - 1, (i - 1) * len(PASSAGE), i * len(PASSAGE), "old data" if i % 2 else "data", PASSAGE)],
    )
    transaction.write_many(
        "INSERT INTO chunk_reefs VALUES (?, ?, ?, ?, 12.34, 300, ?, ?)",
        [(i, reef, f"reef {reef}", z, rank, chance) for rank, (reef, z, chance) in enumerate(reefs)],
    )


def test_profiles_are_converted_after_interruptions_and_changes(
    empty: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = script_of("0010", monkeypatch)
    monkeypatch.setattr(script, "NEXT", script.NEXT.replace(str(script.BATCH), "4"))
    library_of_0009(empty, 30)

    class KilledError(Exception):
        pass

    progress: list[int] = []

    def dies_after(n: int) -> Callable[[int], None]:
        def report(remaining: int) -> None:
            progress.append(remaining)
            if len(progress) == n:
                raise KilledError

        return report

    for n in (1, 3, 4):
        with pytest.raises(KilledError):
            migrate.upgrade(empty, dies_after(n))
        assert migrate.current_revision(empty) == "0009"
    assert progress == [26, 22, 18, 14]
    # An older process changes chunks that were converted, and others.
    with empty.write() as transaction:
        for statement in (
            "UPDATE chunk_reefs SET z_score = 50 WHERE chunk_id = 4 AND rank = 0",
            "DELETE FROM chunk_reefs WHERE chunk_id = 5",
            "DELETE FROM chunks WHERE id IN (7, 25, 30)",
            "UPDATE chunks SET confidence = 9 WHERE id = 8",
        ):
            transaction.execute(statement)
        add_chunk_of_0009(transaction, 40)
        transaction.execute("DELETE FROM chunks WHERE id = 40")
    assert migrate.upgrade(empty) is True
    with empty.snapshot() as snapshot:
        chunks = {chunk.id: chunk for chunk in get_chunks(snapshot, 7, label_threshold=0.5).chunks}
        assert list(chunks) == [i for i in range(1, 30) if i not in (7, 25)]
        for i, chunk in chunks.items():
            expected = () if i % 3 == 0 or i == 5 else (i % 200, (i + 1) % 200)
            assert tuple(reef.reef_id for reef in chunk.reefs) == expected
            assert [label.reef_name for label in chunk.labels] == [f"reef {reef}" for reef in expected[1:]]
            assert chunk.confidence == (9 if i == 8 else 1.0)
            assert chunk.data_checksum == ("old data" if i % 2 else "data")
        assert chunks[4].reefs[0][2:] == (50.0, 12.3, 255, 0.25)
        assert chunks[1].reefs[0].z_score == 40.0, "to the nearest of the steps"
        left = {row[0] for row in snapshot.rows("SELECT name FROM sqlite_master")}
        assert not left & {"reef_postings", "converted_chunks", *script.TRIGGERS}
    with empty.write() as transaction:
        ids = transaction.rows("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'")
    assert [row[0] for row in ids] == [40], "ids are never reused"
    migrate.check(empty)


def library_of_0013(database: Database, n_documents: int) -> list[ScoredDocument]:
    """Store documents of two chunks, with ids from 1 on."""
    documents = [
        make_scored([f"Rain fell on day {i}.", "Schäden: ∞."], [{1: 3.0}, {}], title=f"Day {i}")
        for i in range(1, n_documents + 1)
    ]
    with database.write() as transaction:
        migrate.apply(transaction.connection, "0013")
        for scored in documents:
            insert_with_content(transaction, scored)
    return documents


def contents(database: Database) -> dict[int, str]:
    """The texts of all documents, as programs and people read them."""
    with database.snapshot() as snapshot:
        rows = snapshot.rows("SELECT document_id, content FROM document_texts")
        texts = {row["document_id"]: row["content"] for row in rows}
        assert texts == {document_id: get_content(snapshot, document_id) for document_id in texts}
        for document_id, start, end, text in snapshot.tuples(
            "SELECT document_id, start_char, end_char, text FROM chunks"
        ):
            assert texts[document_id][start:end] == text
    return texts


def test_texts_are_divided_after_interruptions_and_changes(
    empty: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script_of("0014", monkeypatch), "BATCH", 4)
    documents = library_of_0013(empty, 9)
    expected = {i: scored.draft.content for i, scored in enumerate(documents, start=1)}

    class KilledError(Exception):
        pass

    progress: list[int] = []

    def dies(remaining: int) -> None:
        progress.append(remaining)
        raise KilledError

    for _ in range(2):
        with pytest.raises(KilledError):
            migrate.upgrade(empty, dies)
        assert migrate.current_revision(empty) == "0013"
    assert progress == [14, 10]
    # An older process replaces a document that was divided, deletes one, and adds one.
    longer = make_scored(["Snow fell.", "Frost stayed.", "Ice grew."], title="Day 2")
    draft = longer.draft
    with empty.write() as transaction:
        transaction.execute("DELETE FROM sections WHERE document_id = 2")
        transaction.execute(
            "UPDATE documents SET content = :content, n_chunks = 3, content_hash = :hash WHERE id = 2",
            {"content": draft.content, "hash": draft.content_hash},
        )
        insert_chunks(transaction, 2, longer)
        transaction.execute("DELETE FROM documents WHERE id IN (1, 9)")
        insert_with_content(transaction, make_scored(["New."]))
    assert migrate.upgrade(empty, progress.append) is True
    assert progress[2:] == [7, 3, 0]
    del expected[1], expected[9]
    assert contents(empty) == {**expected, 2: draft.content, 10: make_scored(["New."]).draft.content}
    with empty.snapshot() as snapshot:
        left = {row[0] for row in snapshot.rows("SELECT name FROM sqlite_master")}
        assert not any(name.startswith("divided") for name in left)
    migrate.check(empty)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE chunks SET text = 'something else' WHERE document_id = 2",
        "UPDATE chunks SET start_char = 'x' WHERE id = 3",
        "UPDATE chunks SET end_char = 10000 WHERE id = 4",
        "UPDATE chunks SET chunk_index = 7 WHERE id = 3",
    ],
)
def test_text_of_a_document_whose_chunks_do_not_match_it_is_kept_whole(empty: Database, damage: str) -> None:
    documents = library_of_0013(empty, 3)
    with empty.write() as transaction:
        transaction.execute(damage)
    migrate.upgrade(empty)
    with empty.snapshot() as snapshot:
        texts = [get_content(snapshot, i) for i in (1, 2, 3)]
        of_chunks = [row[0] for row in snapshot.rows("SELECT text FROM chunks WHERE document_id = 2")]
    assert texts == [scored.draft.content for scored in documents]
    assert of_chunks == ["", ""]


@pytest.mark.parametrize("content", ["CAST(x'ff41' AS TEXT)", "x'ff41'"])
def test_text_that_is_not_utf_8_is_kept(empty: Database, content: str) -> None:
    library_of_0013(empty, 2)
    with empty.write() as transaction:
        transaction.execute(f"UPDATE documents SET content = {content} WHERE id = 2")
    migrate.upgrade(empty)
    with empty.snapshot() as snapshot:
        kept = snapshot.value("SELECT CAST(text_after AS BLOB) FROM documents WHERE id = 2")
    assert kept == b"\xffA"


def test_totals_of_a_migrated_library_follow_its_writes(empty: Database) -> None:
    library_of_0009(empty, 9)
    migrate.upgrade(empty)
    labelled = {i + 1: 1 for i in range(1, 10) if i % 3}
    with empty.write() as transaction:
        assert chunks_by_reef(transaction, 0.75) == labelled
        transaction.execute("DELETE FROM chunks WHERE id = 1")
        transaction.execute("UPDATE chunks SET top_reef_id = 3 WHERE id = 4")
        assert chunks_by_reef(transaction, 0.75) == {3: 2, 6: 1, 8: 1, 9: 1}
        assert totals.wrong_totals(transaction) == []


def test_a_migration_without_enough_free_space_is_refused(
    empty: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    library_of_0009(empty, 3)
    monkeypatch.setattr(migrate.shutil, "disk_usage", lambda _: Namespace(free=1 << 20))
    with pytest.raises(DiskFullError, match="MB of free disk space"):
        migrate.upgrade(empty)
    monkeypatch.undo()
    assert migrate.current_revision(empty) == "0009"
    assert migrate.upgrade(empty) is True


def test_views_unpack_profiles_in_any_sqlite(empty: Database) -> None:
    library_of_0009(empty, 5)
    migrate.upgrade(empty)
    with empty.snapshot() as snapshot:
        chunks = get_chunks(snapshot, 7).chunks
    with sqlite3.connect(empty.path) as connection:
        for chunk in chunks:
            rows = connection.execute(
                """SELECT reef_id, reef_name, z_score, raw_bm25, n_contributing_words, probability
                   FROM chunk_reefs WHERE chunk_id = ? ORDER BY rank""",
                (chunk.id,),
            ).fetchall()
            assert rows == [tuple(reef) for reef in chunk.reefs]


def test_restore_finishes_an_interrupted_migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted = open_database(f"sqlite:///{tmp_path / 'old.db'}")
    library_of_0009(interrupted, 12)
    script = ScriptDirectory(str(migrate.script_folder())).get_revision("0010").module
    with interrupted.write() as transaction:
        script.prepare(transaction.connection, 5)
        assert transaction.value("SELECT COUNT(*) FROM converted_chunks") == 7
    interrupted.close()
    create_backup(tmp_path / "old.db", tmp_path / "copy.db")
    restore(tmp_path / "new.db", tmp_path / "copy.db")
    with open_database(f"sqlite:///{tmp_path / 'new.db'}").snapshot() as snapshot:
        assert [chunk.id for chunk in get_chunks(snapshot, 7).chunks] == list(range(1, 13))
        assert not foreign_triggers(snapshot)
    with sqlite3.connect(tmp_path / "copy.db") as connection:
        connection.execute("DROP TRIGGER converted_chunks_insert")
        connection.execute(
            "CREATE TRIGGER converted_chunks_insert AFTER INSERT ON chunks BEGIN DELETE FROM documents; END"
        )
    with pytest.raises(BackupError, match=r"triggers.*: converted_chunks_insert;"):
        restore(tmp_path / "other.db", tmp_path / "copy.db")


@pytest.mark.parametrize("fault", [killed_at, full_from])
def test_a_migration_with_a_fault_at_any_write_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[..., tuple[int, str]]
) -> None:
    script = ScriptDirectory(str(migrate.script_folder())).get_revision("0010").module
    monkeypatch.setattr(script, "NEXT", script.NEXT.replace(str(script.BATCH), "4"))
    monkeypatch.setattr(
        ScriptDirectory, "get_revision", lambda *_: Namespace(module=script, down_revision="0009")
    )
    old = open_database(f"sqlite:///{tmp_path / 'old.db'}")
    library_of_0009(old, 7)
    old.close()

    def opened(name: str) -> Database:
        shutil.copy(tmp_path / "old.db", tmp_path / name)
        return open_database(f"sqlite:///{tmp_path / name}")

    def rows(database: Database) -> list[list[tuple[Any, ...]]]:
        with database.snapshot() as snapshot:
            return [
                list(map(tuple, snapshot.rows(f"SELECT * FROM {table}")))
                for table in ("chunks", "chunk_reefs")
            ]

    undisturbed = opened("new.db")
    migrate.upgrade(undisturbed)
    # Beginning, end and commit of the schema before 0010, of each step of its preparation, and of the rest.
    for place in range(1, 3 * 5 + 1, 1 if LONG else 4):
        name = f"{place}.db"
        opened(name).close()
        code, message = fault(
            place, lambda name=name: migrate.upgrade(open_database(f"sqlite:///{tmp_path / name}"))
        )
        assert code == KILLED if fault is killed_at else (code == DONE or "free some" in message), message
        database = open_database(f"sqlite:///{tmp_path / name}")
        migrate.upgrade(database)
        assert rows(database) == rows(undisturbed)
