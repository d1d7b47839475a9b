"""A database is migrated to this version's schema exactly once, or left unchanged."""

from __future__ import annotations

import lzma
import multiprocessing
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from faults import DONE, KILLED, full_from, killed_at
from scored_documents import make_scored

from shoal.engine import Engine
from shoal.errors import BackupError, SchemaError
from shoal.maintenance.backup import restore
from shoal.maintenance.doctor import CheckContext, Report, run_checks
from shoal.settings import Settings
from shoal.storage import document_writer, migrate, revisions
from shoal.storage.chunk_queries import get_chunks
from shoal.storage.database import Database
from shoal.storage.opening import open_database
from shoal.storage.schema import foreign_triggers, missing_parts
from shoal.support.clock import timestamp

pytestmark = pytest.mark.skipif(
    os.environ.get("SHOAL_TEST_POSTGRES") == "1", reason="SQLite's own; see test_postgres_migration.py"
)

BEFORE = Path(__file__).with_name("library_0033.db.xz")
"""A library of the last version with another runner of migrations: two documents and a note."""


@pytest.fixture
def empty(tmp_path: Path) -> Database:
    return open_database(f"sqlite:///{tmp_path / 'shoal.db'}")


def schema(path: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(path) as connection:
        return connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()


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
        transaction.execute("UPDATE schema_revision SET revision = '9999'")
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


def examine(path: Path, *, repair: bool = False) -> Report:
    context = CheckContext(Settings(database_url=f"sqlite:///{path}", learning=False), FakeScorer())
    try:
        return run_checks(context, repair=repair)
    finally:
        context.close()


def test_an_older_library_is_refused_with_the_commit_that_upgrades_it(
    empty: Database, tmp_path: Path
) -> None:
    migrate.upgrade(empty)
    with empty.write() as transaction:
        transaction.execute("UPDATE schema_revision SET revision = '0032'")
    before = schema(empty.path)
    for operation in (migrate.upgrade, migrate.check):
        with pytest.raises(SchemaError, match=f"has schema 0032.*the commit {migrate.LAST_TO_UPGRADE}"):
            operation(empty)
    assert schema(empty.path) == before
    empty.close()
    for is_repair in (False, True):
        [finding] = examine(empty.path, repair=is_repair).findings
        assert migrate.LAST_TO_UPGRADE in finding.advice
        assert not finding.can_repair
    with pytest.raises(
        BackupError, match=f"^shoal.db has schema 0032.*{migrate.LAST_TO_UPGRADE}.*`shoal restore`"
    ):
        restore(tmp_path / "new.db", empty.path)
    assert not (tmp_path / "new.db").exists()


@pytest.fixture
def before(tmp_path: Path) -> Path:
    path = tmp_path / "before.db"
    path.write_bytes(lzma.decompress(BEFORE.read_bytes()))
    return path


def assert_works(path: Path) -> None:
    """Assert that a library of BEFORE is one of this version, has all that it had, and is used on."""
    with Engine(path, scorer=FakeScorer(), learning=False) as engine:
        assert migrate.current_revision(engine.database) == migrate.HEAD
        with engine.database.snapshot() as snapshot:
            assert missing_parts(snapshot) == []
            assert foreign_triggers(snapshot) == []
        [fire, rain] = sorted(engine.documents.list().documents, key=lambda document: document.id)
        assert (fire.title, fire.source_path, fire.tags) == ("Fire", "notes/fire.md", ("hot", "sample"))
        assert engine.documents.content(rain.id) == "Rain fell all day."
        assert "Lava rose" in engine.retrieve("lava").results[0].content
        notes = engine.notes.of("ann")
        assert [(note.text, note.categories) for note in notes.list().notes] == [("Lava is hot.", ("a/b",))]
        notes.add("Ash fell.", categories=["a"])
        assert notes.categories() == [("a", 1, 2), ("a/b", 1, 1)]
        engine.ingest(title="Ash", content="Ash fell for days.")
        engine.documents.delete(rain.id)
    assert examine(path).findings == ()


def test_a_library_of_the_version_before_is_stamped_and_works(before: Path) -> None:
    opened = open_database(f"sqlite:///{before}")
    assert migrate.current_revision(opened) == "0033"
    with pytest.raises(SchemaError, match="run `shoal migrate`"):
        migrate.check(opened)
    opened.close()
    assert_works(before)


def test_a_backup_of_the_version_before_is_restored(before: Path, tmp_path: Path) -> None:
    assert restore(tmp_path / "new.db", before).copy.schema == "0033"
    assert_works(tmp_path / "new.db")


@pytest.mark.parametrize("fault", [killed_at, full_from])
@pytest.mark.parametrize("start", ["empty", "before"])
def test_a_migration_with_a_fault_at_any_write_is_finished_by_the_next(
    tmp_path: Path, before: Path, start: str, fault: Callable[..., tuple[int, str]]
) -> None:
    for place in (1, 2, 3):
        path = tmp_path / f"{place}.db"
        if start == "before":
            shutil.copy(before, path)
        url = f"sqlite:///{path}"
        code, message = fault(place, lambda url=url: migrate.upgrade(open_database(url)))
        assert code == KILLED if fault is killed_at else (code == DONE or "free some" in message), message
        database = open_database(url)
        assert migrate.current_revision(database) in (None if start == "empty" else "0033", migrate.HEAD)
        migrate.upgrade(database)
        migrate.check(database)
        with database.snapshot() as snapshot:
            assert missing_parts(snapshot) == []
        database.close()


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the revisions, with a later one."""
    folder = tmp_path / "migrations"
    shutil.copytree(revisions.FOLDER, folder)
    (folder / "9000_shelves.sql").write_text(
        "-- Shelves\nCREATE TABLE shelves (\n    id INTEGER PRIMARY KEY,\n    label TEXT\n);\n"
        "INSERT INTO shelves (label) VALUES ('50 %; or less');\nDROP INDEX idx_chunks_confidence;\n"
    )
    (folder / "9000_shelves.sqlite.sql").write_text(
        "CREATE TRIGGER shelf AFTER INSERT ON shelves BEGIN\n    DELETE FROM shelves;\n    SELECT 1;\nEND;\n"
    )
    (folder / "9000_shelves.postgresql.sql").write_text("SELECT 'not for SQLite'::text;\n")
    monkeypatch.setattr(revisions, "FOLDER", folder)
    monkeypatch.setattr(migrate, "HEAD", "9000")
    return folder


@pytest.mark.parametrize("start", ["empty", "before", "initial"])
def test_a_later_revision_is_applied_once(before: Path, later: Path, tmp_path: Path, start: str) -> None:
    database = open_database(f"sqlite:///{before if start == 'before' else tmp_path / 'new.db'}")
    if start == "initial":
        with database.write() as transaction:
            further = set(revisions.statements("sqlite", after="0034"))
            for statement in revisions.statements("sqlite"):
                if statement not in further and "confidence" not in statement.split("ON")[0]:
                    transaction.execute(statement)
            transaction.execute("CREATE INDEX idx_chunks_confidence ON chunks(confidence)")
    assert migrate.upgrade(database) is True
    assert migrate.upgrade(database) is False
    assert migrate.current_revision(database) == "9000"
    with database.write() as transaction:
        assert [tuple(row) for row in transaction.rows("SELECT * FROM shelves")] == [(1, "50 %; or less")]
        transaction.execute("INSERT INTO shelves (label) VALUES ('x')")
        assert transaction.rows("SELECT * FROM shelves") == []
        names = [row[0] for row in transaction.rows("SELECT name FROM sqlite_master")]
    assert "idx_chunks_confidence" not in names
    assert "alembic_version" not in names


def test_a_failed_migration_changes_nothing(empty: Database, later: Path) -> None:
    (later / "9000_shelves.sql").write_text("CREATE TABLE documents (id INTEGER);\n")
    with pytest.raises(Exception, match="refused an operation"):
        migrate.upgrade(empty)
    assert schema(empty.path) == []
    (later / "9000_shelves.sql").unlink()
    (later / "9000_shelves.sqlite.sql").unlink()
    assert migrate.upgrade(empty) is True


def test_a_new_database_uses_incremental_vacuum_and_wal(empty: Database) -> None:
    migrate.upgrade(empty)
    with empty.snapshot() as snapshot:
        assert snapshot.value("PRAGMA auto_vacuum") == 2, "incremental"
        assert snapshot.value("PRAGMA journal_mode") == "wal"


def test_views_unpack_profiles_in_any_sqlite(empty: Database) -> None:
    migrate.upgrade(empty)
    reefs: list[dict[int, Any]] = [{3: 40.0, 200: 2.5}, {}, {255: 0.004, 0: 262.0}]
    with empty.write() as transaction:
        scored = make_scored([f"Lava rose on day {i}." for i in range(3)], reefs)
        document_writer.insert_document(transaction, scored, now=timestamp())
    with empty.snapshot() as snapshot:
        chunks = get_chunks(snapshot, 1).chunks
    assert [len(chunk.reefs) for chunk in chunks] == [2, 0, 2]
    with sqlite3.connect(empty.path) as connection:
        for chunk in chunks:
            rows = connection.execute(
                """SELECT reef_id, z_score, raw_bm25, n_contributing_words, probability
                   FROM chunk_reefs WHERE chunk_id = ? ORDER BY rank""",
                (chunk.id,),
            ).fetchall()
            assert rows == [(reef[0], *reef[2:]) for reef in chunk.reefs]
