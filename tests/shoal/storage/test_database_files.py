"""Writes are refused after a file of the database was removed or replaced, because they would be lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from shoal.errors import DatabaseReplacedError
from shoal.storage.database import Database
from shoal.storage.opening import open_database

NAMES = "SELECT name FROM workers ORDER BY name"


def add_worker(database: Database, name: str) -> None:
    with database.write() as transaction:
        transaction.execute(
            "INSERT INTO workers VALUES (:name, 'host', 1, 1, '1', 'then', 0)", {"name": name}
        )


def names(database: Database) -> list[str]:
    with database.snapshot() as snapshot:
        return [row[0] for row in snapshot.rows(NAMES)]


def names_after_a_crash(database: Database, folder: Path) -> list[str]:
    """Read the names from a copy of the files, as a process does that starts after a power failure."""
    folder.mkdir()
    for suffix in ("", "-wal"):
        path = Path(f"{database.path}{suffix}")
        if path.exists():
            shutil.copyfile(path, f"{folder / 'after.db'}{suffix}")
    restarted = open_database(f"sqlite:///{folder / 'after.db'}")
    try:
        return names(restarted)
    finally:
        restarted.close()


@pytest.mark.parametrize("suffix", ["-wal", "-shm", ""])
def test_writes_are_refused_after_a_file_is_removed(database: Database, suffix: str) -> None:
    add_worker(database, "before")
    assert names(database) == ["before"]
    database.check_usable()
    Path(f"{database.path}{suffix}").unlink()
    with pytest.raises(DatabaseReplacedError):
        add_worker(database, "after")
    with pytest.raises(DatabaseReplacedError):
        database.check_usable()
    # Open connections can still read.
    assert names(database) == ["before"]


def test_commits_before_the_removal_of_the_wal_are_kept(database: Database, tmp_path: Path) -> None:
    add_worker(database, "before")
    assert names(database) == ["before"]
    Path(f"{database.path}-wal").unlink()
    with pytest.raises(DatabaseReplacedError):
        add_worker(database, "after")
    assert names_after_a_crash(database, tmp_path / "crashed") == ["before"]


def test_the_removal_of_the_wal_during_a_write_is_detected(database: Database, tmp_path: Path) -> None:
    def write() -> None:
        with database.write() as transaction:
            transaction.execute("INSERT INTO workers VALUES ('a', 'host', 1, 1, '1', 'then', 0)")
            Path(f"{database.path}-wal").unlink()

    assert names(database) == []
    with pytest.raises(DatabaseReplacedError):
        write()
    # The row was committed before the removal was detected, so it is kept.
    assert names_after_a_crash(database, tmp_path / "crashed") == ["a"]


def test_writes_to_a_replaced_database_are_refused(database: Database, tmp_path: Path) -> None:
    add_worker(database, "before")
    other = tmp_path / "other.db"
    shutil.copyfile(database.path, other)
    other.replace(database.path)
    with pytest.raises(DatabaseReplacedError):
        add_worker(database, "after")


def test_a_connection_to_other_files_is_refused(database: Database) -> None:
    with database.snapshot():
        Path(f"{database.path}-wal").unlink()
        with pytest.raises(DatabaseReplacedError), database.snapshot():
            pytest.fail("a second connection was opened")
    assert not Path(f"{database.path}-wal").exists()


def test_a_wal_removed_by_the_last_close_is_no_error(database: Database) -> None:
    add_worker(database, "a")
    database.close()
    assert not Path(f"{database.path}-wal").exists()
    other = open_database(database.url)
    add_worker(other, "b")
    add_worker(database, "c")
    other.close()
    assert names(database) == ["a", "b", "c"]
