"""A read ends when its time is over, wherever it is, and nothing else is disturbed by that."""

from __future__ import annotations

import threading
import time

import pytest

from shoal.errors import ReadTimeoutError
from shoal.storage import database as module
from shoal.storage.database import Database

ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"
MANY = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000) SELECT i FROM n"
LONG = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3000000) SELECT COUNT(*) FROM n"


@pytest.mark.timeout(60)
def test_a_statement_is_interrupted(database: Database) -> None:
    database.read_timeout = 0.3
    with pytest.raises(ReadTimeoutError, match="seconds and was stopped"), database.snapshot() as snapshot:
        snapshot.value(ENDLESS)
    with pytest.raises(ReadTimeoutError), database.read() as connection:
        connection.exec_driver_sql(ENDLESS).scalar()
    database.read_timeout = 30
    # By the same connections, which nothing interrupts any more.
    for _ in range(20):
        with database.snapshot() as snapshot, database.read() as connection:
            assert snapshot.value("SELECT 1") == connection.exec_driver_sql("SELECT 1").scalar() == 1


def test_what_python_does_between_statements_counts(database: Database) -> None:
    database.read_timeout = 0.05
    for method in ("rows", "tuples", "first", "value"):
        with database.snapshot() as snapshot:
            assert snapshot.value("SELECT 1") == 1
            time.sleep(0.06)
            with pytest.raises(ReadTimeoutError):
                getattr(snapshot, method)("SELECT 1")


def test_what_python_does_between_rows_counts(database: Database) -> None:
    database.read_timeout = 0.2
    read: list[object] = []

    def read_slowly() -> None:
        with database.snapshot() as snapshot:
            for row in snapshot.tuples(MANY):
                read.append(row)
                time.sleep(0.01)

    with pytest.raises(ReadTimeoutError):
        read_slowly()
    assert 0 < len(read) < 1000


def test_what_is_not_limited_takes_its_time(database: Database) -> None:
    database.read_timeout = 0.02
    with database.snapshot(limited=False) as snapshot:
        assert snapshot.value(LONG) == 3_000_000
        time.sleep(0.1)
        assert snapshot.value("SELECT 1") == 1
    with database.write() as connection:
        assert connection.exec_driver_sql(LONG).scalar() == 3_000_000


def test_no_read_is_interrupted_for_another(database: Database) -> None:
    """Connections are used again; an interrupt that comes late must not meet the next read."""
    failures: list[BaseException] = []

    def read_endlessly() -> None:
        with database.snapshot() as snapshot:
            snapshot._deadline._end = time.monotonic() - 1
            snapshot._connection.execute(ENDLESS).fetchall()

    def late() -> None:
        for _ in range(10):
            with pytest.raises(ReadTimeoutError):
                read_endlessly()

    def quick() -> None:
        try:
            for _ in range(300):
                with database.snapshot() as snapshot:
                    assert len(snapshot.rows(MANY)) == 1000
        except BaseException as error:
            failures.append(error)

    database.read_timeout = 60
    threads = [threading.Thread(target=target) for target in (late, quick, late, quick)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_connections_beyond_a_number_are_not_kept(database: Database) -> None:
    together = threading.Barrier(module.MAX_READERS + 5)

    def look() -> None:
        with database.snapshot():
            together.wait()

    threads = [threading.Thread(target=look) for _ in range(together.parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(database._readers) == module.MAX_READERS
