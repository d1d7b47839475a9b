"""Snapshots are consistent, readers do not wait for writers, and driver errors are translated."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import DatabaseUnavailableError, SchemaError, StorageError
from shoal.storage.database import ConstraintError, Database, Snapshot, Transaction, listed
from shoal.storage.opening import open_database
from shoal.storage.sqlite import database as module

pytestmark = pytest.mark.skipif(
    os.environ.get("SHOAL_TEST_POSTGRES") == "1", reason="SQLite's own; see test_postgres_database.py"
)

COUNT = "SELECT COUNT(*) FROM workers"


def add_worker(database: Database, name: str) -> None:
    with database.write() as transaction:
        transaction.execute(
            "INSERT INTO workers VALUES (:name, 'host', 1, 1, '1', 'then', 0)", {"name": name}
        )


def test_a_snapshot_does_not_see_later_writes(database: Database) -> None:
    with database.snapshot() as snapshot:
        assert snapshot.value(COUNT) == 0
        add_worker(database, "a")
        assert snapshot.value(COUNT) == 0
    with database.snapshot() as snapshot:
        assert snapshot.value(COUNT) == 1


def test_a_new_reader_does_not_wait_for_a_writer(database: Database) -> None:
    with database.write() as transaction:
        transaction.execute("DELETE FROM workers")
        other = open_database(database.url)
        with other.snapshot() as snapshot:
            assert snapshot.value(COUNT) == 0
        other.close()


def test_rows_have_columns_by_name_and_position_or_are_tuples(database: Database) -> None:
    add_worker(database, "a")
    statement = "SELECT name, pid FROM workers WHERE name = :name"
    with database.snapshot() as snapshot:
        (row,) = snapshot.rows(statement, {"name": "a"})
        assert (row["name"], row[1]) == ("a", 1)
        assert list(snapshot.tuples(statement, {"name": "a"})) == [("a", 1)]
        assert snapshot.first(statement, {"name": "b"}) is None
        assert snapshot.value(statement, {"name": "b"}) is None


def test_listed_makes_placeholders_and_parameters() -> None:
    assert listed("id", [7, 9]) == (":id_0, :id_1", {"id_0": 7, "id_1": 9})
    assert listed("id", []) == ("", {})


def test_a_write_that_raises_is_rolled_back(database: Database) -> None:
    def fail() -> None:
        with database.write() as transaction:
            transaction.execute("INSERT INTO workers VALUES ('a', 'host', 1, 1, '1', 'then', 0)")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with database.snapshot() as snapshot:
        assert snapshot.value(COUNT) == 0


def test_a_snapshot_works_after_one_that_raised(database: Database) -> None:
    for _ in range(3):
        with pytest.raises(SchemaError), database.snapshot() as snapshot:
            snapshot.rows("SELECT * FROM nowhere")
        with pytest.raises(ZeroDivisionError), database.snapshot():
            _ = 1 / 0
    with database.snapshot() as snapshot:
        assert snapshot.value(COUNT) == 0


def test_a_writer_without_the_lock_raises(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with database.write():
        monkeypatch.setattr(module, "_PRAGMA_OF_WAITING", "PRAGMA busy_timeout = 50")
        other = open_database(database.url)
        with pytest.raises(DatabaseUnavailableError, match="busy"), other.write():
            pytest.fail("two writers at once")
        other.close()


def test_a_writer_waits_no_longer_than_it_wants(database: Database) -> None:
    other = open_database(database.url)
    with database.write():
        started = time.monotonic()
        with pytest.raises(DatabaseUnavailableError, match="busy"), other.write(seconds=0.05):
            pytest.fail("two writers at once")
        assert time.monotonic() - started < module.BUSY_TIMEOUT_MS / 1000
    with other.write(seconds=0.05) as transaction:
        assert transaction.value("PRAGMA busy_timeout") == module.BUSY_TIMEOUT_MS
    other.close()


def test_a_writer_asks_often_for_a_lock_that_is_free_soon(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = open_database(database.url)
    pauses: list[float] = []
    with contextlib.ExitStack() as first:
        first.enter_context(database.write())

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:
                first.close()

        monkeypatch.setattr(module.time, "sleep", sleep)
        with other.write() as transaction:
            assert transaction.value("PRAGMA busy_timeout") == module.BUSY_TIMEOUT_MS
    other.close()
    assert len(pauses) == 3
    assert max(pauses) <= 0.001


def test_a_snapshot_waits_while_another_connection_creates_the_database(tmp_path: Path) -> None:
    """Until a database is in WAL mode, SQLite does not wait for a connection that is switching it to WAL
    mode."""
    path = tmp_path / "new.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE cells (x)")
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.2, lambda: other.execute("ROLLBACK"))
    release.start()
    database = open_database(f"sqlite:///{path}")
    with database.snapshot() as snapshot:
        assert snapshot.value("PRAGMA journal_mode") == "wal"
    database.close()
    release.join()
    other.close()


def test_a_snapshot_stops_waiting_for_a_new_database_at_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("CREATE TABLE cells (x)")
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(module, "BUSY_TIMEOUT_MS", 50)
    database = open_database(f"sqlite:///{path}")
    with pytest.raises(DatabaseUnavailableError, match="busy"), database.snapshot():
        pytest.fail("another holds the database")
    database.close()
    other.close()


def test_snapshots_of_many_threads_use_separate_connections(database: Database) -> None:
    """Threads share the connections, but each snapshot must have its own."""
    failures: list[BaseException] = []

    def read() -> None:
        try:
            for _ in range(100):
                with database.snapshot() as snapshot:
                    assert snapshot.value("SELECT COUNT(*) + 41 FROM workers WHERE name = 'a'") == 42
        except BaseException as error:
            failures.append(error)

    add_worker(database, "a")
    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_forked_child_has_its_own_connections(database: Database) -> None:
    add_worker(database, "parent")
    with database.snapshot() as snapshot:
        assert snapshot.value(COUNT) == 1
    child = os.fork()
    if child == 0:
        status = 1
        try:
            add_worker(database, "child")
            with database.snapshot() as snapshot:
                status = 0 if snapshot.value(COUNT) == 2 else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    add_worker(database, "parent again")
    with database.snapshot() as snapshot:
        assert snapshot.value(COUNT) == 3
        assert snapshot.value("PRAGMA integrity_check") == "ok"


def test_closing_the_last_connection_removes_the_wal(database: Database) -> None:
    add_worker(database, "a")
    wal = Path(f"{database.path}-wal")
    assert wal.exists()
    database.close()
    assert not wal.exists()
    with sqlite3.connect(database.path) as connection:
        assert connection.execute(COUNT).fetchone() == (1,)


INSERT = "INSERT INTO workers VALUES (:name, 'host', :pid, 1, '1', 'then', 0)"


def in_transaction(database: Database) -> list[bool]:
    return [connection.in_transaction for connection in database._idle]


def test_writes_report_changed_rows_and_read_their_own_changes(database: Database) -> None:
    with database.write() as transaction:
        assert transaction.execute(INSERT, {"name": "a", "pid": 1}) == 1
        assert transaction.write_many(INSERT, [{"name": name, "pid": 2} for name in "bc"]) == 2
        assert transaction.write_many(INSERT, []) == 0
        assert transaction.write_many("UPDATE workers SET pid = ? WHERE pid = ?", [(4, 1), (5, 9)]) == 1
        assert transaction.execute("UPDATE workers SET pid = 3 WHERE pid = 2") == 2
        assert transaction.first("DELETE FROM workers WHERE pid = 4 RETURNING name, pid")["name"] == "a"
        assert transaction.value(COUNT) == 2
    with database.snapshot() as snapshot:
        assert list(snapshot.tuples("SELECT name, pid FROM workers ORDER BY name")) == [("b", 3), ("c", 3)]


def test_a_violated_constraint_raises(database: Database) -> None:
    add_worker(database, "a")
    with pytest.raises(ConstraintError):
        add_worker(database, "a")


def test_one_thread_reuses_one_connection_for_reads_and_writes(database: Database) -> None:
    with database.snapshot() as snapshot:
        connection = snapshot.connection
    for _ in range(3):
        with database.write() as transaction:
            assert transaction.connection is connection
        with database.snapshot() as snapshot:
            assert snapshot.connection is connection
    assert database._idle == [connection]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, sqlite3.OperationalError])
def test_no_connection_returns_to_the_pool_inside_a_transaction(
    database: Database, error: type[BaseException]
) -> None:
    def fail(block: Callable[[], AbstractContextManager[Snapshot]]) -> None:
        with block() as transaction:
            transaction.rows(INSERT.replace("INSERT", "EXPLAIN INSERT"), {"name": "a", "pid": 1})
            if isinstance(transaction, Transaction):
                transaction.execute(INSERT, {"name": "a", "pid": 1})
            raise error

    for block in (database.write, database.snapshot):
        with pytest.raises((error, StorageError)):
            fail(block)
        assert in_transaction(database) == [False]
    add_worker(database, "a")


def test_an_interrupt_right_after_the_begin_rolls_back(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C may arrive before the block that would roll back."""

    def interrupted(_: sqlite3.Connection) -> Transaction:
        raise KeyboardInterrupt

    add_worker(database, "a")
    monkeypatch.setattr(module, "SqliteTransaction", interrupted)
    with pytest.raises(KeyboardInterrupt):
        add_worker(database, "b")
    monkeypatch.undo()
    assert in_transaction(database) == [False]
    add_worker(database, "c")


def test_a_connection_whose_rollback_fails_is_closed(database: Database) -> None:
    class Broken(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            if sql == "ROLLBACK":
                raise sqlite3.OperationalError("disk I/O error")
            return super().execute(sql, *parameters)

    broken = sqlite3.connect(database.path, factory=Broken, isolation_level=None)
    with database.snapshot():
        pass
    database._idle.pop().close()
    database._idle.append(broken)
    with pytest.raises(StorageError), database.snapshot():
        pass
    assert database._idle == []
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        broken.cursor()
    add_worker(database, "a")


@pytest.mark.parametrize("method", ["snapshot", "write"])
def test_a_result_that_is_not_read_to_the_end_keeps_no_old_state(database: Database, method: str) -> None:
    for name in "abc":
        add_worker(database, name)
    with getattr(database, method)() as snapshot:
        names = snapshot.tuples("SELECT name FROM workers")
        assert next(names) == ("a",)
    other = open_database(database.url)
    add_worker(other, "d")
    other.close()
    add_worker(database, "e")
    with database.snapshot() as snapshot:
        assert snapshot.value(COUNT) == 5
