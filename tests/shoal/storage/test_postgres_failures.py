"""A PostgreSQL that ends connections, stops statements or takes no changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from cut_connections import CutableServer
from waiting import until

from shoal.errors import (
    CommitUnknownError,
    DamagedDatabaseError,
    DatabaseUnavailableError,
    DiskFullError,
    ReadOnlyDatabaseError,
    SchemaError,
    StorageError,
)
from shoal.storage.opening import open_database
from shoal.storage.postgres import database as module
from shoal.storage.postgres import statements
from shoal.storage.postgres.database import PostgresDatabase

INSERT = "INSERT INTO workers VALUES (:name, 'host', 1, 1, '1', 'then', 0)"
NAMES = "SELECT name FROM workers ORDER BY name"
COMMIT = b"COMMIT\0"
IS_CONNECTED = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"

Open = Callable[..., PostgresDatabase]


@pytest.fixture
def opened(empty_postgres: str, tmp_path: Path) -> Iterator[Open]:
    """A function that opens an empty library: with options of the server, or through another port."""
    databases: list[PostgresDatabase] = []

    def open_one(options: str = "", server: CutableServer | None = None) -> PostgresDatabase:
        url = empty_postgres
        if options:
            url += f"&options={quote(options)}"
        if server is not None:
            url += f"&host=127.0.0.1&port={server.port}"
        database = open_database(url, tmp_path)
        assert isinstance(database, PostgresDatabase)
        databases.append(database)
        return database

    yield open_one
    for database in databases:
        database.close()


@pytest.fixture
def server(empty_postgres: str) -> Iterator[CutableServer]:
    """The server behind a port that can be cut."""
    database = open_database(empty_postgres)
    assert isinstance(database, PostgresDatabase)
    at = psycopg.conninfo.conninfo_to_dict(database.address.url)
    with psycopg.connect(database.address.url) as connection:
        if connection.info.host.startswith("/"):
            pytest.skip("the server listens on a Unix socket")
    cutable = CutableServer(str(at.get("host", "127.0.0.1")), int(at.get("port") or 5432))
    yield cutable
    cutable.cut()


def add(database: PostgresDatabase, name: str) -> None:
    with database.write() as transaction:
        transaction.execute(INSERT, {"name": name})


def names(database: PostgresDatabase) -> list[str]:
    with database.snapshot() as snapshot:
        return [name for (name,) in snapshot.tuples(NAMES)]


def end(database: PostgresDatabase, pid: int) -> None:
    with psycopg.connect(database.address.url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


# Commits


def test_a_connection_that_ends_before_its_commit_stores_nothing(opened: Open) -> None:
    database = opened()

    def write() -> None:
        with database.write() as transaction:
            transaction.execute(INSERT, {"name": "a"})
            end(database, transaction.connection.info.backend_pid)

    with pytest.raises(DatabaseUnavailableError, match="nothing was stored"):
        write()
    assert names(database) == []


def test_a_commit_whose_answer_is_lost_is_stored_once(opened: Open, server: CutableServer) -> None:
    database = opened(server=server)
    add(database, "before")
    server.break_off_at(COMMIT)
    add(database, "a")
    assert names(database) == ["a", "before"]


def test_a_commit_is_unknown_if_the_server_cannot_be_asked(
    opened: Open, server: CutableServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OUTCOME_SECONDS", 0.3)
    database = opened(server=server)
    server.break_off_at(COMMIT, for_good=True)
    with pytest.raises(CommitUnknownError, match="look before you repeat"):
        add(database, "a")
    server.reconnect()
    assert names(database) == ["a"]


def test_a_commit_is_unknown_if_the_server_lost_its_state(
    opened: Open, server: CutableServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash or a failover may give the number of a lost transaction to another one."""
    database = opened(server=server)
    monkeypatch.setattr(module, "_OUTCOME", module._OUTCOME.replace(module._CONTINUITY, "'after a crash'"))
    server.break_off_at(COMMIT)
    with pytest.raises(CommitUnknownError):
        add(database, "a")


# Settings of the server


def test_a_connection_that_the_server_ended_while_it_was_idle_is_not_noticed(opened: Open) -> None:
    database = opened("-c idle_session_timeout=20ms")
    add(database, "a")
    (connection,) = database._idle
    with psycopg.connect(database.address.url, autocommit=True, options="") as other:
        until(lambda: other.execute(IS_CONNECTED, [connection.info.backend_pid]).fetchone() is None)
    add(database, "b")
    assert names(database) == ["a", "b"]


def test_a_limit_of_statements_ends_no_long_read(opened: Open) -> None:
    database = opened("-c statement_timeout=20ms")
    with database.snapshot(limited=False) as snapshot:
        assert snapshot.value("SELECT 1 FROM pg_sleep(0.1)") == 1


def test_a_server_that_takes_no_changes_can_be_read(opened: Open) -> None:
    database = opened("-c default_transaction_read_only=on")
    assert names(database) == []
    with pytest.raises(ReadOnlyDatabaseError, match="default_transaction_read_only"):
        add(database, "a")
    # The next connection may lead to a server that takes changes.
    assert not database._idle
    assert names(database) == []


STATES: list[tuple[str, type[StorageError], str]] = [
    ("53300", DatabaseUnavailableError, "max_connections"),
    ("57014", DatabaseUnavailableError, "stop a statement"),
    ("57P01", DatabaseUnavailableError, "stopping or starting"),
    ("57P05", DatabaseUnavailableError, "closed the connection"),
    ("25P04", DatabaseUnavailableError, "closed the connection"),
    ("08006", DatabaseUnavailableError, "closed the connection"),
    ("55P03", DatabaseUnavailableError, "busy"),
    ("40P01", DatabaseUnavailableError, "busy"),
    ("40001", DatabaseUnavailableError, "busy"),
    ("58030", DatabaseUnavailableError, "disk of the database server fails"),
    ("58P01", DatabaseUnavailableError, "disk of the database server fails"),
    ("53200", DatabaseUnavailableError, "out of memory"),
    ("28P01", DatabaseUnavailableError, "correct user and password"),
    ("3D000", DatabaseUnavailableError, "createdb"),
    ("25006", ReadOnlyDatabaseError, "primary"),
    ("53100", DiskFullError, "nothing was stored"),
    ("42P01", SchemaError, "shoal migrate"),
    ("XX001", DamagedDatabaseError, "shoal doctor"),
    ("XX000", StorageError, "refused an operation"),
]


@pytest.mark.parametrize(("state", "kind", "advice"), STATES, ids=[state for state, *_ in STATES])
def test_an_error_of_the_server_says_what_to_do(state: str, kind: type[StorageError], advice: str) -> None:
    error: Any = psycopg.errors.lookup(state)("secret")
    translated = statements.translate_error(error, "schema x of database y")
    assert type(translated) is kind
    assert advice in str(translated)
    assert "secret" not in str(translated)


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("0A000", "cannot set transaction read-write mode during recovery"),
        ("55000", "recovery is in progress"),
    ],
)
def test_a_standby_is_read_only(state: str, text: str) -> None:
    for given, is_standby in ((text, True), ("something else", False)):
        error: Any = psycopg.errors.lookup(state)(given)
        translated = statements.translate_error(error, "schema x")
        assert isinstance(translated, ReadOnlyDatabaseError) == is_standby


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("FATAL:  sorry, too many clients already", "max_connections"),
        ("FATAL:  remaining connection slots are reserved for roles with the SUPERUSER", "max_connections"),
        ('FATAL:  database "x" does not exist', "createdb"),
        ("FATAL:  the database system is starting up", "stopping or starting"),
        ("FATAL:  the database system is not yet accepting connections", "stopping or starting"),
        ("FATAL:  the database system is in recovery mode", "stopping or starting"),
        ("connection refused", "see that it runs"),
    ],
)
def test_a_connection_that_fails_says_what_to_do(text: str, advice: str) -> None:
    """libpq tells no code."""
    translated = statements.translate_error(psycopg.OperationalError(text), "schema x")
    assert type(translated) is DatabaseUnavailableError
    assert advice in str(translated)
