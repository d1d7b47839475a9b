"""A read ends at its deadline, wherever it is, and does not affect other reads."""

from __future__ import annotations

import os
import threading
import time

import pytest

from shoal.errors import ReadTimeoutError
from shoal.storage.database import Database

pytestmark = pytest.mark.skipif(
    os.environ.get("SHOAL_TEST_POSTGRES") == "1", reason="SQLite's own; see test_postgres_database.py"
)

ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"
MANY = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000) SELECT i FROM n"
LONG = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3000000) SELECT COUNT(*) FROM n"


@pytest.mark.timeout(60)
def test_a_statement_is_interrupted_at_the_deadline(database: Database) -> None:
    database.read_timeout = 0.3
    with pytest.raises(ReadTimeoutError, match="seconds and was stopped"), database.snapshot() as snapshot:
        snapshot.value(ENDLESS)
    database.read_timeout = 30
    # The same connection is used, and nothing interrupts it any more.
    for _ in range(20):
        with database.snapshot() as snapshot:
            assert snapshot.value("SELECT 1") == 1


def test_time_between_statements_counts(database: Database) -> None:
    database.read_timeout = 60
    for method in ("rows", "tuples", "first", "value"):
        with database.snapshot() as snapshot:
            assert snapshot.value("SELECT 1") == 1
            snapshot.deadline._end = time.monotonic()
            with pytest.raises(ReadTimeoutError):
                getattr(snapshot, method)("SELECT 1")


def test_time_between_rows_counts(database: Database) -> None:
    database.read_timeout = 0.2
    rows: list[object] = []

    def read_slowly() -> None:
        with database.snapshot() as snapshot:
            for row in snapshot.tuples(MANY):
                rows.append(row)
                time.sleep(0.01)

    with pytest.raises(ReadTimeoutError):
        read_slowly()
    assert 0 < len(rows) < 1000


def test_unlimited_reads_and_writes_have_no_deadline(database: Database) -> None:
    database.read_timeout = 0.02
    with database.snapshot(limited=False) as snapshot:
        assert snapshot.value(LONG) == 3_000_000
        time.sleep(0.1)
        assert snapshot.value("SELECT 1") == 1
    with database.write() as transaction:
        assert transaction.value(LONG) == 3_000_000


def test_a_late_interrupt_does_not_hit_another_read(database: Database) -> None:
    """Connections are reused; a late interrupt must not hit the next read."""
    failures: list[BaseException] = []

    def read_endlessly() -> None:
        with database.snapshot() as snapshot:
            snapshot.deadline._end = time.monotonic() - 1
            snapshot.connection.execute(ENDLESS).fetchall()

    def read_past_deadline() -> None:
        for _ in range(10):
            with pytest.raises(ReadTimeoutError):
                read_endlessly()

    def read_quickly() -> None:
        try:
            for _ in range(300):
                with database.snapshot() as snapshot:
                    assert len(snapshot.rows(MANY)) == 1000
        except BaseException as error:
            failures.append(error)

    database.read_timeout = 60
    targets = (read_past_deadline, read_quickly, read_past_deadline, read_quickly)
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_at_most_max_idle_connections_stay_open(database: Database) -> None:
    barrier = threading.Barrier(database.max_idle + 5)

    def read() -> None:
        with database.snapshot():
            barrier.wait()

    threads = [threading.Thread(target=read) for _ in range(barrier.parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(database._idle) == database.max_idle
