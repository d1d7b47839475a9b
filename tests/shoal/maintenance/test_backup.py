"""A backup is a complete copy of one moment, or nothing. A restore is complete, or changes nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from fake_scorer import FakeScorer
from indexed_library import assert_indexed
from libraries import TEXTS, documents, exported, index_of, make, run_until_killed, titles

from shoal.cli.app import run
from shoal.cli.session import write_file
from shoal.engine import Engine
from shoal.errors import (
    BackupError,
    DamagedIndexError,
    DatabaseInUseError,
    DiskFullError,
    NotFoundError,
    ShoalError,
)
from shoal.index.files import IndexFiles
from shoal.index.upkeep import update_index
from shoal.maintenance import backup
from shoal.maintenance.backup import create_backup, restore
from shoal.maintenance.doctor import Severity
from shoal.storage import migrate
from shoal.storage.opening import open_database


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy small libraries in many steps."""
    monkeypatch.setattr(backup, "PAGES", 5)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return make(tmp_path / "shoal.db", 3)


KILLED = """
import os, signal, sys
from pathlib import Path
from shoal.maintenance import backup
backup.PAGES = 5
seen = []
def watch(done, total):
    seen.append(done)
    if len(seen) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
"""
BACKUP_KILLED = KILLED + "backup.create_backup(Path(sys.argv[1]), Path(sys.argv[2]), force=True, watch=watch)"
RESTORE_KILLED = KILLED + "backup.restore(Path(sys.argv[1]), Path(sys.argv[2]), watch=watch)"


# --- Backing up ---


def test_backup_is_one_file_with_all_data(library: Path, tmp_path: Path) -> None:
    copy = create_backup(library, tmp_path / "copy.db")
    assert (copy.n_documents, copy.schema) == (3, migrate.HEAD)
    assert copy.n_bytes == (tmp_path / "copy.db").stat().st_size
    assert sorted(path.name for path in tmp_path.glob("*copy*")) == ["copy.db"]
    assert exported(tmp_path / "copy.db") == exported(library)


def test_copy_without_the_files_of_the_index_is_whole_and_can_be_searched(
    library: Path, tmp_path: Path
) -> None:
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        before = [result.chunk_id for result in engine.search("rock", mode="lexical").results]
    create_backup(library, tmp_path / "copy.db")
    restore(tmp_path / "restored.db", tmp_path / "copy.db")
    for path in (tmp_path / "copy.db", tmp_path / "restored.db"):
        with Engine(db_path=path, scorer=FakeScorer()) as engine:
            assert not [
                each for each in engine.maintenance.doctor().findings if each.severity == Severity.error
            ]
            found = [result.chunk_id for result in engine.search("rock", mode="lexical").results]
        assert found == before != []


def test_backup_shows_the_moment_of_its_start_despite_writes(library: Path, tmp_path: Path) -> None:
    before = exported(library)
    steps: list[int] = []
    with Engine(db_path=library, scorer=FakeScorer()) as engine:

        def watch(done: int, _total: int) -> None:
            steps.append(done)
            if len(steps) <= 3:
                engine.ingest(title="New", content=f"A market price and a wage, number {len(steps)}.")

        engine.maintenance.backup(tmp_path / "copy.db", watch=watch)
    assert len(titles(library)) == 6
    assert exported(tmp_path / "copy.db") == before
    # The copy never restarted.
    assert steps == sorted(steps)
    assert len(steps) > 10


def test_backup_reports_its_progress(library: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    copy = create_backup(library, tmp_path / "copy.db", watch=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (copy.n_bytes, copy.n_bytes)


def test_backup_replaces_an_existing_file_only_with_force(library: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_text("dear diary")
    with pytest.raises(BackupError, match="exists; choose another name, or use --force"):
        create_backup(library, target, watch=lambda *_: pytest.fail("copied for nothing"))
    assert target.read_text() == "dear diary"
    create_backup(library, target, force=True)
    assert exported(target) == exported(library)


def test_backup_does_not_replace_a_file_that_appears_meanwhile(library: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    with pytest.raises(BackupError, match="exists by now"):
        create_backup(library, target, watch=lambda *_: target.write_text("dear diary") and None)
    assert target.read_text() == "dear diary"
    assert not list(tmp_path.glob("*.partial"))


def test_killed_backup_leaves_the_previous_one(library: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    create_backup(library, target)
    before = exported(target)
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.ingest(**documents()[3])
    run_until_killed(BACKUP_KILLED, library, target)
    assert exported(target) == before
    assert len(list(tmp_path.glob(".copy.db.*.partial"))) == 1
    create_backup(library, target, force=True)
    assert titles(target) == list(TEXTS)
    assert not list(tmp_path.glob("*.partial*"))


def test_backup_of_a_damaged_library_is_an_error(library: Path, tmp_path: Path) -> None:
    with sqlite3.connect(library) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("DELETE FROM sections")
    with pytest.raises(BackupError, match="refer to missing rows"):
        create_backup(library, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
    assert not list(tmp_path.glob("*.partial*"))


def test_backup_creates_the_folder_of_its_target(library: Path, tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "copy.db"
    create_backup(library, target)
    assert exported(target) == exported(library)
    file = tmp_path / "a file"
    file.write_text("dear diary")
    with pytest.raises(BackupError, match="cannot create the folder"):
        create_backup(library, file / "copy.db")


def test_backup_rejects_unusable_targets(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotFoundError, match="no database"):
        create_backup(tmp_path / "none.db", tmp_path / "copy.db")
    with pytest.raises(BackupError, match="is a folder"):
        create_backup(library, tmp_path)
    with pytest.raises(BackupError, match="the database itself"):
        create_backup(library, library, force=True)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 99, 1))
    with pytest.raises(DiskFullError, match="has 1 free bytes"):
        create_backup(library, tmp_path / "copy.db")


# --- Restoring ---


def test_restore_brings_the_backup_back_and_keeps_the_previous_library(library: Path, tmp_path: Path) -> None:
    create_backup(library, tmp_path / "copy.db")
    as_backed_up = exported(library)
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.documents.delete(1)
        engine.ingest(**documents()[3])
    as_before = exported(library)
    restored = restore(library, tmp_path / "copy.db")
    assert exported(library) == as_backed_up
    assert restored.aside is not None
    assert exported(restored.aside) == as_before
    assert exported(tmp_path / "copy.db") == as_backed_up
    # The restored library accepts new documents.
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        assert engine.ingest(**documents()[3]).id == 4


def test_restore_creates_a_missing_library(library: Path, tmp_path: Path) -> None:
    create_backup(library, tmp_path / "copy.db")
    expected = exported(library)
    assert restore(tmp_path / "other.db", tmp_path / "copy.db").aside is None
    assert exported(tmp_path / "other.db") == expected


def test_restore_ignores_the_log_of_a_deleted_library(library: Path, tmp_path: Path) -> None:
    create_backup(library, tmp_path / "copy.db")
    expected = exported(library)
    log = tmp_path / "shoal.db-wal"
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.ingest(**documents()[3])
        log_bytes = log.read_bytes()
    library.unlink()
    log.write_bytes(log_bytes)
    restore(library, tmp_path / "copy.db")
    assert exported(library) == expected


def test_restore_refuses_a_library_in_use(library: Path, tmp_path: Path) -> None:
    create_backup(library, tmp_path / "copy.db")
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.ingest(**documents()[3])
        with pytest.raises(DatabaseInUseError, match="stop the service"):
            restore(library, tmp_path / "copy.db")
        assert engine.status().n_documents == 4
    assert titles(library) == list(TEXTS)
    assert not list(tmp_path.glob("*before-restore*"))


def test_killed_restore_leaves_the_library_unchanged(library: Path, tmp_path: Path) -> None:
    create_backup(library, tmp_path / "copy.db")
    as_backed_up = exported(library)
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.ingest(**documents()[3])
    as_before = exported(library)
    run_until_killed(RESTORE_KILLED, library, tmp_path / "copy.db")
    assert exported(library) == as_before
    restore(library, tmp_path / "copy.db")
    assert exported(library) == as_backed_up


def test_restore_moves_an_unreadable_library_aside(library: Path, tmp_path: Path) -> None:
    create_backup(library, tmp_path / "copy.db")
    expected = exported(library)
    library.write_bytes(b"\xff" * 20_000)
    restored = restore(library, tmp_path / "copy.db")
    assert exported(library) == expected
    assert restored.aside is not None
    assert restored.aside.read_bytes() == b"\xff" * 20_000


def test_restore_of_an_unusable_copy_changes_nothing(library: Path, tmp_path: Path) -> None:
    expected = exported(library)
    copy = tmp_path / "copy.db"
    create_backup(library, copy)
    content = copy.read_bytes()

    def assert_refused(match: str) -> None:
        with pytest.raises(BackupError, match=match):
            restore(library, copy)

    copy.write_bytes(b"dear diary" * 1000)
    assert_refused("not a Shoal database")
    copy.write_bytes(content[: len(content) // 2])
    assert_refused("damaged")
    copy.write_bytes(b"")
    assert_refused("not a Shoal database")
    copy.write_bytes(content)
    with sqlite3.connect(copy) as connection:
        connection.execute("UPDATE schema_revision SET revision = '9999'")
    assert_refused("newer version of Shoal")
    with pytest.raises(NotFoundError):
        restore(library, tmp_path / "none.db")
    with pytest.raises(BackupError, match="itself"):
        restore(library, library)
    assert exported(library) == expected
    assert not list(tmp_path.glob("*before-restore*"))


def found(path: Path, query: str) -> list[str]:
    """Titles of the documents that contain the words of a query, from the index of the library."""
    with Engine(db_path=path, scorer=FakeScorer()) as engine:
        titles = [result.document_title for result in engine.search(query, mode="lexical").results]
        assert_indexed(engine.database)
    return titles


@pytest.mark.parametrize("lost", [True, False])
def test_restored_library_has_the_index_of_its_state(library: Path, tmp_path: Path, lost: bool) -> None:
    create_backup(library, tmp_path / "copy.db")
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.documents.delete(1)
        engine.documents.replace(2, content="A judge sleeps.")
        engine.ingest(**documents()[3])
        engine.maintenance.rescore()
        assert update_index(engine.database)
    if lost:
        shutil.rmtree(index_of(library))
    restored = restore(library, tmp_path / "copy.db")
    assert found(library, "volcano") == ["Fire"]
    assert found(library, "storm") == ["Weather"]
    assert found(library, "judge") == ["Courts"]
    assert found(library, "pollen") == []
    assert restored.aside is not None
    assert found(restored.aside, "pollen") == ["Garden"]


def test_restored_library_builds_its_index_where_none_was(library: Path, tmp_path: Path) -> None:
    create_backup(library, tmp_path / "copy.db")
    restore(tmp_path / "other.db", tmp_path / "copy.db")
    assert found(tmp_path / "other.db", "volcano") == ["Fire"]
    with Engine(db_path=tmp_path / "other.db", scorer=FakeScorer()) as engine:
        assert update_index(engine.database)
    assert list(index_of(tmp_path / "other.db").iterdir())
    assert found(tmp_path / "other.db", "volcano") == ["Fire"]


def test_index_of_a_restored_library_reads_no_file_outside_its_folder(library: Path, tmp_path: Path) -> None:
    [segment] = index_of(library).iterdir()
    elsewhere = tmp_path / segment.name
    segment.rename(elsewhere)
    copy = make(tmp_path / "copy.db", 3)
    for name in (f"../{segment.name}", str(elsewhere)):
        with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
            connection.execute("UPDATE index_segments SET file_name = ?", (name,))
        restore(library, copy)
        with pytest.raises(DamagedIndexError, match="invalid name"):
            IndexFiles(open_database(f"sqlite:///{library}")).open(name)
        assert found(library, "volcano") == ["Fire"]
    assert elsewhere.is_file()


@pytest.mark.parametrize(
    ("statements", "match"),
    [
        (["CREATE TRIGGER t AFTER INSERT ON documents BEGIN DELETE FROM documents; END"], "triggers.*: t;"),
        (
            [
                "DROP TRIGGER total_deleted_document",
                "CREATE TRIGGER total_deleted_document AFTER DELETE ON documents BEGIN DELETE FROM chunks; END",
            ],
            "triggers.*: total_deleted_document;",
        ),
        (["ALTER TABLE counters RENAME TO t", "CREATE VIEW counters AS SELECT * FROM t"], "has no counters"),
        (["DROP TABLE jobs"], "has no jobs"),
        (["DELETE FROM schema_revision"], "does not name its schema"),
        (["UPDATE schema_revision SET revision = 'x'"], "does not name its schema"),
        (["UPDATE schema_revision SET revision = '0001'"], "Shoal at the commit .* first"),
        # The copy claims an older schema than it has, so that its migration fails half-way.
        (["UPDATE schema_revision SET revision = '0033'"], "cannot be migrated to this version's schema"),
    ],
)
def test_restore_of_a_manipulated_copy_changes_nothing(
    library: Path, tmp_path: Path, statements: list[str], match: str
) -> None:
    expected = library.read_bytes()
    copy = make(tmp_path / "copy.db", 1)
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
    names = sorted(path.name for path in tmp_path.iterdir())
    for target in (library, tmp_path / "new.db"):
        with pytest.raises(BackupError, match=match):
            restore(target, copy)
    assert library.read_bytes() == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == names


@pytest.mark.timeout(60)
def test_pipes_links_and_folders_are_neither_restored_nor_replaced(library: Path, tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link.db"
    os.mkfifo(pipe)
    linked = make(tmp_path / "linked.db", 1)
    link.symlink_to(linked)
    for source in (pipe, tmp_path):
        with pytest.raises(BackupError, match="is not a file"):
            restore(library, source)
    for target in (pipe, link):
        with pytest.raises(BackupError, match="not a regular file"):
            create_backup(library, target, force=True)
        with pytest.raises(ShoalError, match="no regular file"):
            write_file(["a line"], target)
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert titles(linked) == list(TEXTS)[:1]


@pytest.mark.parametrize("command", ["backup", "export"])
def test_full_disk_leaves_no_file(library: Path, tmp_path: Path, command: str) -> None:
    target = tmp_path / "copies" / "copy"
    target.parent.mkdir()
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.ingest(content="Rain and storm over the sea. " * 5000)
    program = (
        "import resource, signal, sys; from shoal.cli.app import run; "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); sys.exit(run(sys.argv[1:]))"
    )
    process = subprocess.run(
        [sys.executable, "-c", program, "--db", str(library), command, str(target)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 1
    assert re.search("error: (there is no space left|the backup was not made|File too large)", process.stderr)
    assert list(target.parent.iterdir()) == []


def test_restore_does_not_overwrite_a_database_of_another_program(library: Path, tmp_path: Path) -> None:
    create_backup(library, tmp_path / "copy.db")
    other = tmp_path / "recipes.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    with pytest.raises(BackupError, match="belongs to another program"):
        restore(other, tmp_path / "copy.db")


# --- The commands ---


def test_backup_and_restore_commands_report_their_results(
    library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy.db"
    assert run(["--db", str(library), "backup", str(copy)]) == 0
    assert "3 documents" in capsys.readouterr().out
    assert run(["--db", str(library), "backup", str(copy)]) == 1
    assert "--force" in capsys.readouterr().err
    assert run(["--db", str(library), "--json", "backup", str(copy), "--force"]) == 0
    assert json.loads(capsys.readouterr().out)["documents"] == 3
    assert run(["--db", str(library), "restore", str(copy)]) == 0
    assert "the previous library is in" in capsys.readouterr().out
    assert run(["--db", str(library), "--json", "restore", str(copy)]) == 0
    assert Path(json.loads(capsys.readouterr().out)["aside"]).exists()
