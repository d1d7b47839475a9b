"""A snapshot on PostgreSQL sends few messages, and still sees one state until its deadline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from test_postgres_database import COUNT, add_worker, end_connections

from shoal.errors import DatabaseUnavailableError, ReadTimeoutError, StorageError
from shoal.storage.database import Query
from shoal.storage.opening import open_database
from shoal.storage.postgres.database import PostgresDatabase


@pytest.fixture
def opened(empty_postgres: str, tmp_path: Path) -> Iterator[PostgresDatabase]:
    database = open_database(empty_postgres, tmp_path)
    assert isinstance(database, PostgresDatabase)
    yield database
    database.close()


def test_prefetched_rows_are_those_of_the_snapshot(opened: PostgresDatabase) -> None:
    add_worker(opened, "a")
    names = Query("SELECT name FROM workers WHERE pid = :pid ORDER BY name", {"pid": 1})
    none = Query("SELECT name FROM workers WHERE pid = :pid", {"pid": 2})
    with opened.snapshot() as snapshot:
        snapshot.prefetch([names, none, Query(COUNT)])
        add_worker(opened, "b")
        assert list(snapshot.tuples(*names)) == [("a",)]
        assert [row["name"] for row in snapshot.rows(*names)] == ["a"]
        assert (snapshot.value(*names), snapshot.first(*none), snapshot.value(COUNT)) == ("a", None, 1)
        assert snapshot.rows(names.statement, {"pid": 3}) == []
        assert snapshot.value(f"{COUNT} WHERE pid = 1") == 1, "another statement sees the same state"
    with opened.snapshot() as snapshot:
        assert list(snapshot.tuples(*names)) == [("a",), ("b",)]


def test_the_statements_of_a_message_have_one_deadline(opened: PostgresDatabase) -> None:
    opened.read_timeout = 0.5
    with pytest.raises(ReadTimeoutError), opened.snapshot() as snapshot:
        snapshot.prefetch([Query("SELECT pg_sleep(0.3)"), Query("SELECT pg_sleep(0.3), 2")])


def test_a_connection_serves_one_snapshot_after_another(opened: PostgresDatabase) -> None:
    pids = set()
    for number in range(5):
        with opened.snapshot() as snapshot:
            pids.add(snapshot.value("SELECT pg_backend_pid()"))
        with pytest.raises(StorageError), opened.snapshot() as snapshot:
            snapshot.value("SELECT 1 / 0")
        with opened.snapshot():
            pass
        add_worker(opened, f"w{number}")
    assert len(pids) == len(opened._idle) == 1


def test_a_connection_that_is_used_by_itself_has_begun_its_snapshot(opened: PostgresDatabase) -> None:
    with opened.snapshot() as snapshot:
        assert snapshot.connection.execute(COUNT).fetchone() == (0,)
        add_worker(opened, "a")
        assert snapshot.connection.execute(COUNT).fetchone() == (0,)
        assert snapshot.value(COUNT) == 0


def test_a_connection_lost_within_a_snapshot_is_not_replaced(opened: PostgresDatabase) -> None:
    def read() -> None:
        with opened.snapshot() as snapshot:
            assert snapshot.value(COUNT) == 0
            opened._idle.append(snapshot.connection)
            end_connections(opened)
            opened._idle.clear()
            snapshot.value(COUNT)

    with pytest.raises(DatabaseUnavailableError):
        read()
    with opened.snapshot() as snapshot:
        assert snapshot.value(COUNT) == 0
