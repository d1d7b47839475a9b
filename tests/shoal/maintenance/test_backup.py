"""A backup is a whole copy of one moment, or nothing; a restore is the copy, or changes nothing."""

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
from libraries import TEXTS, documents, exported, make, run_until_killed, titles

from shoal.cli.app import run
from shoal.cli.files import write_file
from shoal.engine import Engine
from shoal.errors import BackupError, DatabaseInUseError, DiskFullError, NotFoundError, ShoalError
from shoal.maintenance import backup
from shoal.maintenance.backup import back_up
from shoal.maintenance.restore import restore
from shoal.storage import migrate
from shoal.storage.database import Database


@pytest.fixture(autouse=True)
def _many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small libraries take many steps, too."""
    monkeypatch.setattr(backup, "PAGES", 5)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return make(tmp_path / "shoal.db", 3)


KILLED = """
import os, signal, sys
from pathlib import Path
from shoal.maintenance import backup, restore
backup.PAGES = 5
seen = []
def watch(done, total):
    seen.append(done)
    if len(seen) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
"""
BACKUP_KILLED = KILLED + "backup.back_up(Path(sys.argv[1]), Path(sys.argv[2]), force=True, watch=watch)"
RESTORE_KILLED = KILLED + "restore.restore(Path(sys.argv[1]), Path(sys.argv[2]), watch=watch)"


# --- Backing up ---


def test_a_backup_is_one_file_with_everything(library: Path, tmp_path: Path) -> None:
    made = back_up(library, tmp_path / "copy.db")
    assert (made.n_documents, made.schema) == (3, migrate.HEAD)
    assert made.n_bytes == (tmp_path / "copy.db").stat().st_size
    assert sorted(path.name for path in tmp_path.glob("*copy*")) == ["copy.db"]
    assert exported(tmp_path / "copy.db") == exported(library)


def test_a_backup_shows_the_moment_it_began_whatever_is_written_meanwhile(
    library: Path, tmp_path: Path
) -> None:
    before = exported(library)
    steps: list[int] = []
    with Engine(db_path=library, scorer=FakeScorer()) as engine:

        def watch(done: int, _total: int) -> None:
            steps.append(done)
            if len(steps) <= 3:
                engine.ingest(title="New", content=f"A market price and a wage, number {len(steps)}.")

        back_up(library, tmp_path / "copy.db", watch=watch)
    assert len(titles(library)) == 6
    assert exported(tmp_path / "copy.db") == before
    # It never began again.
    assert steps == sorted(steps)
    assert len(steps) > 10


def test_a_backup_tells_how_far_it_is(library: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    made = back_up(library, tmp_path / "copy.db", watch=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (made.n_bytes, made.n_bytes)


def test_a_file_is_replaced_only_when_asked_to(library: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_text("dear diary")
    with pytest.raises(BackupError, match="exists; choose another name, or --force"):
        back_up(library, target, watch=lambda *_: pytest.fail("copied for nothing"))
    assert target.read_text() == "dear diary"
    back_up(library, target, force=True)
    assert exported(target) == exported(library)


def test_a_file_that_appears_meanwhile_is_not_replaced(library: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    with pytest.raises(BackupError, match="exists by now"):
        back_up(library, target, watch=lambda *_: target.write_text("dear diary") and None)
    assert target.read_text() == "dear diary"
    assert not list(tmp_path.glob("*.partial"))


def test_a_backup_that_is_killed_leaves_the_one_before(library: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    back_up(library, target)
    before = exported(target)
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.ingest(**documents()[3])
    run_until_killed(BACKUP_KILLED, library, target)
    assert exported(target) == before
    assert len(list(tmp_path.glob(".copy.db.*.partial"))) == 1
    back_up(library, target, force=True)
    assert titles(target) == list(TEXTS)
    assert not list(tmp_path.glob("*.partial*"))


def test_a_damaged_library_is_not_backed_up_as_if_it_were_whole(library: Path, tmp_path: Path) -> None:
    with sqlite3.connect(library) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("DELETE FROM sections")
    with pytest.raises(BackupError, match="belong to nothing"):
        back_up(library, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
    assert not list(tmp_path.glob("*.partial*"))


def test_places_where_no_copy_can_be_are_named(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotFoundError, match="no database"):
        back_up(tmp_path / "none.db", tmp_path / "copy.db")
    with pytest.raises(BackupError, match="no folder"):
        back_up(library, tmp_path / "nowhere" / "copy.db")
    with pytest.raises(BackupError, match="is a folder"):
        back_up(library, tmp_path)
    with pytest.raises(BackupError, match="the database itself"):
        back_up(library, library, force=True)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 99, 1))
    with pytest.raises(DiskFullError, match="has 1 bytes left"):
        back_up(library, tmp_path / "copy.db")


# --- Restoring ---


def test_a_library_is_what_it_was_and_the_one_before_is_kept(library: Path, tmp_path: Path) -> None:
    back_up(library, tmp_path / "copy.db")
    as_backed_up = exported(library)
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.delete_document(1)
        engine.ingest(**documents()[3])
    as_before = exported(library)
    done = restore(library, tmp_path / "copy.db")
    assert exported(library) == as_backed_up
    assert done.aside is not None
    assert exported(done.aside) == as_before
    assert exported(tmp_path / "copy.db") == as_backed_up
    # It is in use again as any other.
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        assert engine.ingest(**documents()[3]).id == 4


def test_a_library_that_is_gone_is_restored(library: Path, tmp_path: Path) -> None:
    back_up(library, tmp_path / "copy.db")
    expected = exported(library)
    assert restore(tmp_path / "other.db", tmp_path / "copy.db").aside is None
    assert exported(tmp_path / "other.db") == expected


def test_the_log_of_a_library_that_is_gone_does_not_become_part_of_the_restored_one(
    library: Path, tmp_path: Path
) -> None:
    back_up(library, tmp_path / "copy.db")
    expected = exported(library)
    log = tmp_path / "shoal.db-wal"
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.ingest(**documents()[3])
        kept = log.read_bytes()
    library.unlink()
    log.write_bytes(kept)
    restore(library, tmp_path / "copy.db")
    assert exported(library) == expected


def test_a_library_in_use_is_not_touched(library: Path, tmp_path: Path) -> None:
    back_up(library, tmp_path / "copy.db")
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.ingest(**documents()[3])
        with pytest.raises(DatabaseInUseError, match="stop the service"):
            restore(library, tmp_path / "copy.db")
        assert engine.status()["n_documents"] == 4
    assert titles(library) == list(TEXTS)
    assert not list(tmp_path.glob("*before-restore*"))


def test_a_restore_that_is_killed_leaves_the_library_as_it_was(library: Path, tmp_path: Path) -> None:
    back_up(library, tmp_path / "copy.db")
    as_backed_up = exported(library)
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.ingest(**documents()[3])
    as_before = exported(library)
    run_until_killed(RESTORE_KILLED, library, tmp_path / "copy.db")
    assert exported(library) == as_before
    restore(library, tmp_path / "copy.db")
    assert exported(library) == as_backed_up


def test_a_library_too_damaged_to_be_read_is_moved_aside(library: Path, tmp_path: Path) -> None:
    back_up(library, tmp_path / "copy.db")
    expected = exported(library)
    library.write_bytes(b"\xff" * 20_000)
    done = restore(library, tmp_path / "copy.db")
    assert exported(library) == expected
    assert done.aside is not None
    assert done.aside.read_bytes() == b"\xff" * 20_000


def test_a_copy_that_cannot_be_used_changes_nothing(library: Path, tmp_path: Path) -> None:
    expected = exported(library)
    copy = tmp_path / "copy.db"
    back_up(library, copy)
    whole = copy.read_bytes()

    def refused(match: str) -> None:
        with pytest.raises(BackupError, match=match):
            restore(library, copy)

    copy.write_bytes(b"dear diary" * 1000)
    refused("not a Shoal database")
    copy.write_bytes(whole[: len(whole) // 2])
    refused("damaged")
    copy.write_bytes(b"")
    refused("not a Shoal database")
    copy.write_bytes(whole)
    with sqlite3.connect(copy) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    refused("newer Shoal")
    with pytest.raises(NotFoundError):
        restore(library, tmp_path / "none.db")
    with pytest.raises(BackupError, match="itself"):
        restore(library, library)
    assert exported(library) == expected
    assert not list(tmp_path.glob("*before-restore*"))


@pytest.mark.parametrize(
    ("statements", "match"),
    [
        (["CREATE TRIGGER t AFTER INSERT ON documents BEGIN DELETE FROM documents; END"], "triggers.*: t;"),
        (["ALTER TABLE counters RENAME TO t", "CREATE VIEW counters AS SELECT * FROM t"], "has no counters"),
        (["DROP TABLE jobs"], "has no jobs"),
        (["DELETE FROM alembic_version"], "does not say which schema"),
        (["UPDATE alembic_version SET version_num = 'x'"], "does not say which schema"),
        # It says that it is older than it is, so that its migrations fail half-way.
        (["UPDATE alembic_version SET version_num = '0001'"], "cannot be brought to this version's schema"),
    ],
)
def test_a_copy_that_was_tampered_with_changes_nothing(
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
def test_what_is_no_file_is_neither_restored_from_nor_replaced(library: Path, tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link.db"
    os.mkfifo(pipe)
    kept = make(tmp_path / "kept.db", 1)
    link.symlink_to(kept)
    for source in (pipe, tmp_path):
        with pytest.raises(BackupError, match="is no file"):
            restore(library, source)
    for target in (pipe, link):
        with pytest.raises(BackupError, match="no regular file"):
            back_up(library, target, force=True)
        with pytest.raises(ShoalError, match="no regular file"):
            write_file(["a line"], target)
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert titles(kept) == list(TEXTS)[:1]


@pytest.mark.parametrize("command", ["backup", "export"])
def test_a_disk_that_fills_up_leaves_no_file(library: Path, tmp_path: Path, command: str) -> None:
    target = tmp_path / "copies" / "copy"
    target.parent.mkdir()
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.ingest(content="Rain and storm over the sea. " * 5000)
    program = (
        "import resource, signal, sys; from shoal.cli.app import run; "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); sys.exit(run(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--db", str(library), command, str(target)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert re.search("error: (there is no space left|the backup was not made|File too large)", done.stderr)
    assert list(target.parent.iterdir()) == []


def test_a_database_of_something_else_is_not_overwritten(library: Path, tmp_path: Path) -> None:
    back_up(library, tmp_path / "copy.db")
    other = tmp_path / "recipes.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    with pytest.raises(BackupError, match="something else"):
        restore(other, tmp_path / "copy.db")


def test_a_backup_of_an_older_version_is_brought_up_to_date(tmp_path: Path) -> None:
    from alembic import command
    from alembic.config import Config

    old = tmp_path / "old.db"
    config = Config()
    config.set_main_option("script_location", str(migrate.script_folder()))
    database = Database(f"sqlite:///{old}")
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0002")
    database.close()
    done = restore(tmp_path / "shoal.db", old)
    assert done.copy.schema == "0002"
    restored = Database(f"sqlite:///{tmp_path / 'shoal.db'}")
    migrate.check(restored)
    restored.close()
    assert titles(tmp_path / "shoal.db") == []


# --- The commands ---


def test_the_commands_tell_what_they_did(
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
