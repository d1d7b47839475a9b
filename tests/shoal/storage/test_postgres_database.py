"""A library on PostgreSQL behaves as one on SQLite, survives lost connections, and tells what to do."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from fake_scorer import FakeScorer
from postgres_schemas import MigratedSchema

from shoal.engine import Engine
from shoal.errors import (
    DatabaseUnavailableError,
    ReadOnlyDatabaseError,
    ReadTimeoutError,
    SchemaError,
)
from shoal.maintenance.export import export
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.database import ConstraintError
from shoal.storage.opening import open_database
from shoal.storage.postgres import database as module
from shoal.storage.postgres.address import with_schema
from shoal.storage.postgres.database import PostgresDatabase
from shoal.storage.postgres.statements import ESCAPE, ROWS_COPIED
from shoal.storage.postgres.transactions import lock_key

COUNT = "SELECT COUNT(*) FROM workers"
INSERT = "INSERT INTO workers VALUES (:name, 'host', :pid, 1, '1', 'then', 0)"
NUMBERS = "SELECT i, repeat('x', :n) FROM generate_series(1, :last) i ORDER BY i"
TEXTS = [
    "The volcano erupts.\n\nLava flows to the sea, and the whale swims away from it.",
    "The whale\0sings in the deep sea.\n\nA shark hunts in the sea.",
    f"# Rain\n\nRain {ESCAPE} falls on the volcano, and the river carries ash to the sea.",
]


@pytest.fixture
def opened(empty_postgres: str, tmp_path: Path) -> Iterator[PostgresDatabase]:
    database = open_database(empty_postgres, tmp_path)
    assert isinstance(database, PostgresDatabase)
    yield database
    database.close()


def add_worker(database: PostgresDatabase, name: str) -> None:
    with database.write() as transaction:
        transaction.execute(INSERT, {"name": name, "pid": 1})


def end_connections(database: PostgresDatabase) -> None:
    """What a restart of the server does to the connections of a process."""
    pids = [connection.info.backend_pid for connection in database._idle]
    with psycopg.connect(database.address.url, autocommit=True) as other:
        for pid in pids:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


def test_canonical_exports_of_both_stores_are_equal(empty_postgres: str, tmp_path: Path) -> None:
    exports = []
    for url in (f"sqlite:///{tmp_path / 'shoal.db'}", empty_postgres):
        settings = Settings(database_url=url, data_dir=str(tmp_path / "data"))
        with Engine(settings=settings, scorer=FakeScorer()) as engine:
            for number, text in enumerate(TEXTS):
                engine.ingest(title=f"Text {number}", content=text, tags=["sea"], metadata={"n": number})
            engine.documents.delete(1)
            engine.ingest(title="Again", content=TEXTS[0])
            exports.append(list(export(engine.database, canonical=True)))
            assert [hit.document_title for hit in engine.search("whale sings").results][:1] == ["Text 1"]
    assert len(exports[0]) > len(TEXTS)
    assert exports[0] == exports[1]


@pytest.mark.parametrize("text", ["a\0b", f"{ESCAPE}0", f"\0{ESCAPE}\0", "it's 100 % \\ ü", ""])
def test_every_text_comes_back_as_it_was(opened: PostgresDatabase, text: str) -> None:
    add_worker(opened, text)
    with opened.snapshot() as snapshot:
        assert snapshot.value("SELECT name FROM workers WHERE name = :name", {"name": text}) == text
        assert list(snapshot.tuples("SELECT name FROM workers")) == [(text,)]


def test_values_have_the_types_that_sqlite_gives(opened: PostgresDatabase) -> None:
    with opened.snapshot() as snapshot:
        row = snapshot.first(
            "SELECT 1 = 1 AS yes, SUM(i) AS total, AVG(i) AS mean FROM (VALUES (1), (2)) v (i)"
        )
        assert [type(value) for value in row] == [int, int, float]
        assert (row["yes"], row["total"], row[2], dict(row)["mean"]) == (1, 3, 1.5, 1.5)
        assert snapshot.value("SELECT :flag + 1", {"flag": True}) == 2
        assert snapshot.value("SELECT 5 IN ()") == 0
        assert snapshot.value("SELECT 5 NOT IN ()") == 1
        assert snapshot.rows("SELECT 'a_b' LIKE 'A!_%' ESCAPE '!'")[0][0] == 1


def test_streams_of_one_snapshot_can_be_read_in_turns(opened: PostgresDatabase) -> None:
    with opened.snapshot() as snapshot:
        first = snapshot.tuples(NUMBERS, {"n": 100, "last": 3_000})
        second = snapshot.tuples(NUMBERS, {"n": 10, "last": 1_000})
        assert [row[0] for row, _ in zip(first, second, strict=False)] == list(range(1, 1_001))
        assert snapshot.value("SELECT 1") == 1
        assert [row[0] for row in first] == list(range(1_002, 3_001))


def test_rows_are_written_together_and_counted(opened: PostgresDatabase) -> None:
    with opened.write() as transaction:
        rows = [{"name": f"w{i}", "pid": i} for i in range(2_500)]
        assert transaction.write_many(INSERT, rows) == 2_500
        assert transaction.write_many(f"{INSERT} ON CONFLICT DO NOTHING", rows) == 0
        changes = [(-1, f"w{i}") for i in range(5)]
        assert transaction.write_many("UPDATE workers SET pid = ? WHERE name = ?", changes) == 5
        assert transaction.value("SELECT COUNT(*) FROM workers WHERE pid = -1") == 5
    with pytest.raises(ConstraintError):
        add_worker(opened, "w0")


def test_reads_end_at_the_deadline(opened: PostgresDatabase) -> None:
    def sleep() -> None:
        with opened.snapshot() as snapshot:
            snapshot.value("SELECT pg_sleep(20)")

    opened.read_timeout = 0.2
    with pytest.raises(ReadTimeoutError):
        sleep()
    with opened.snapshot(limited=False) as snapshot:
        assert snapshot.value("SELECT 1 FROM pg_sleep(0.3)") == 1


def test_a_restart_of_the_server_is_not_noticed_between_transactions(opened: PostgresDatabase) -> None:
    add_worker(opened, "a")
    end_connections(opened)
    add_worker(opened, "b")
    end_connections(opened)
    with opened.snapshot() as snapshot:
        assert snapshot.value(COUNT) == 2


def test_a_connection_lost_in_a_transaction_stores_nothing(opened: PostgresDatabase) -> None:
    def write() -> None:
        with opened.write() as transaction:
            transaction.execute(INSERT, {"name": "a", "pid": 1})
            opened._idle.append(transaction.connection)
            end_connections(opened)
            opened._idle.clear()
            transaction.execute(INSERT, {"name": "b", "pid": 1})

    with pytest.raises(DatabaseUnavailableError, match="stopping or starting"):
        write()
    with opened.snapshot() as snapshot:
        assert snapshot.value(COUNT) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"url": "postgresql://root@127.0.0.1:1/test"}, "see that it runs"),
        ({"database": "no_such_database"}, "createdb"),
        ({"user": "no_such_user"}, "correct user and password"),
        ({"url": "postgresql://127.0.0.1/test?schema=Robert'); DROP"}, "lower-case letters"),
        ({"url": "postgresql://127.0.0.1/test?colour=red"}, "does not know"),
    ],
)
def test_a_server_that_cannot_be_used_says_what_to_do(
    opened: PostgresDatabase, change: dict[str, str], message: str
) -> None:
    url = psycopg.conninfo.conninfo_to_dict(opened.address.url)
    host = f"{url.get('host', '127.0.0.1')}:{url.get('port', 5432)}"
    user, database = change.get("user", url.get("user")), change.get("database", url.get("dbname"))
    given = change.get("url", f"postgresql://{user}@{host}/{database}")
    with pytest.raises(DatabaseUnavailableError, match=message):
        open_database(given).now()


def test_a_standby_is_read_only(opened: PostgresDatabase) -> None:
    def write() -> None:
        with opened.write() as transaction:
            transaction.execute("SET LOCAL transaction_read_only = on")
            transaction.execute(INSERT, {"name": "a", "pid": 1})

    with pytest.raises(ReadOnlyDatabaseError, match="primary"):
        write()


def test_an_empty_schema_asks_for_a_migration(opened: PostgresDatabase) -> None:
    missing = open_database(f"{opened.address.url}?schema=shoal_test_missing")
    with pytest.raises(SchemaError, match="shoal migrate"), missing.snapshot() as snapshot:
        snapshot.value(COUNT)
    missing.close()


def test_writers_take_turns(opened: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened.write() as transaction:
        transaction.execute(INSERT, {"name": "a", "pid": 1})
        with opened.snapshot() as snapshot:
            assert snapshot.value(COUNT) == 0
        settings = module._SETTINGS.replace(str(module.LOCK_TIMEOUT_MS), "50")
        monkeypatch.setattr(module, "_SETTINGS", settings)
        other = open_database(opened.url)
        with pytest.raises(DatabaseUnavailableError, match="busy"), other.write():
            pytest.fail("two writers at once")
        other.close()
        with pytest.raises(DatabaseUnavailableError, match="busy"), opened.write(seconds=0.0):
            pytest.fail("two writers at once")


def test_one_process_or_thread_is_alone(opened: PostgresDatabase) -> None:
    holders: list[int] = []

    def hold() -> None:
        for _ in range(5):
            with opened.alone("sync"):
                holders.append(1)
                assert len(holders) == 1
                holders.pop()

    with opened.alone_if_free("sync") as is_free, opened.alone_if_free("index") as is_other_free:
        assert is_free
        assert is_other_free
        with opened.alone_if_free("sync") as is_free_again:
            assert not is_free_again
    threads = [threading.Thread(target=hold) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with opened.alone_if_free("sync") as is_free:
        assert is_free


def test_a_forked_child_has_its_own_connections(opened: PostgresDatabase) -> None:
    add_worker(opened, "parent")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            add_worker(opened, "child")
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    add_worker(opened, "parent again")
    with opened.snapshot() as snapshot:
        assert snapshot.value(COUNT) == 3


def test_the_password_is_not_shown(migrated_schema: MigratedSchema) -> None:
    database = open_database("postgresql://me:secret@host/db?schema=lib&sslpassword=secret")
    assert database.location == "postgresql://me@host/db?schema=lib"
    assert "secret" not in database.name
    settings = replace(Settings(), database_url="postgresql://me:secret@host/db")
    assert settings.database_place == "postgresql://me:***@host/db"


def end_locks(database: PostgresDatabase, what: str) -> None:
    """End the connections that hold the lock for an operation."""
    key = lock_key(database.schema, what)
    with psycopg.connect(database.address.url, autocommit=True) as other:
        held = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid::bigint = %s"
        for (pid,) in other.execute(held, [key & 0xFFFFFFFF]).fetchall():
            other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


@pytest.mark.parametrize("waits", [True, False])
def test_nothing_is_stored_after_a_lock_was_lost(opened: PostgresDatabase, waits: bool) -> None:
    with opened.alone("sync") if waits else opened.alone_if_free("sync"):
        add_worker(opened, "before")
        end_locks(opened, "sync")
        with pytest.raises(DatabaseUnavailableError, match='held the lock for "sync"'):
            add_worker(opened, "after")
        other = threading.Thread(target=add_worker, args=(opened, "other"))
        other.start()
        other.join()
    add_worker(opened, "free")
    with opened.snapshot() as snapshot:
        names = [row["name"] for row in snapshot.rows("SELECT name FROM workers ORDER BY name")]
    assert names == ["before", "free", "other"]


def test_a_new_holder_of_a_lost_lock_waits_for_the_transaction_of_the_former(
    opened: PostgresDatabase,
) -> None:
    seen: list[int] = []

    def take_over() -> None:
        with opened.alone("sync"), opened.snapshot() as snapshot:
            seen.append(snapshot.value(COUNT))

    with opened.alone("sync"):
        with opened.write() as transaction:
            transaction.execute(INSERT, {"name": "a", "pid": 1})
            end_locks(opened, "sync")
            other = threading.Thread(target=take_over)
            other.start()
            other.join(0.2)
            assert not seen
        other.join(10)
    assert seen == [1]


@pytest.mark.parametrize("n_rows", [ROWS_COPIED - 1, ROWS_COPIED])
@pytest.mark.parametrize("places", ["?, ?, ?", ":document_id, :n_chunks, :chunks"])
def test_many_rows_are_stored_as_few_are(opened: PostgresDatabase, n_rows: int, places: str) -> None:
    names = ("document_id", "n_chunks", "chunks")
    values = [(i, True, bytes(range(i)) + b"\\\n\t") for i in range(n_rows)]
    rows = values if "?" in places else [dict(zip(names, row, strict=True)) for row in values]
    with opened.write() as transaction:
        statement = f"INSERT INTO stale_documents ({', '.join(names)}) VALUES ({places})"
        assert transaction.write_many(statement, rows) == n_rows
        stored = transaction.rows(
            "SELECT document_id, n_chunks, chunks FROM stale_documents ORDER BY document_id"
        )
        assert [tuple(row) for row in stored] == [(i, 1, data) for i, _, data in values]


def test_a_copied_text_is_the_same(opened: PostgresDatabase) -> None:
    texts = [f"\\N\t\n\r\\. {ESCAPE} \0 é𝔘 {i}" for i in range(ROWS_COPIED)]
    statement = """
        INSERT INTO file_stamps (path, size, mtime_ns, ctime_ns, basis, file_hash) VALUES (?, ?, ?, ?, ?, ?)
    """
    with opened.write() as transaction:
        assert transaction.write_many(statement, [(text, 1, 2, 3, "b", "h") for text in texts]) == len(texts)
        paths = [row["path"] for row in transaction.rows("SELECT path FROM file_stamps")]
    assert sorted(paths) == sorted(texts)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:se/cret@host/db",
        "postgresql://me:se@cret@host/db",
        "postgresql://me:se?cret=1@host/db",
        "postgresql://me:secret%zz@host/db",
        "postgresql://me:secret@[::1]x/db",
        "postgresql://me:secret@host/db?schema=Wrong",
        "postgresql://me:secret@host/db?password=cret&colour",
    ],
)
def test_a_malformed_url_says_what_to_do_and_no_part_of_the_password(url: str) -> None:
    with pytest.raises(DatabaseUnavailableError, match="URL") as caught:
        open_database(url)
    assert "cret" not in str(caught.value)
    assert caught.value.__cause__ is None


HOSTS = "postgresql://me:p%40ss%20word@a:5432,b:5433,[::1]:5434/db"
OPTIONS = "target_session_attrs=read-write&options=-c%20geqo%3Doff&application_name=a+b"


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        (f"{HOSTS}?{OPTIONS}&schema=lib", f"{HOSTS}?{OPTIONS}"),
        (f"{HOSTS}?schema=lib&{OPTIONS}", f"{HOSTS}?{OPTIONS}"),
        (f"{HOSTS}?schema=lib", HOSTS),
        (
            "postgresql:///db?host=a,b&port=5432,5433&schema=lib&target_session_attrs=read-write",
            "postgresql:///db?host=a,b&port=5432,5433&target_session_attrs=read-write",
        ),
    ],
)
def test_libpq_sees_the_url_as_it_was_written(url: str, seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    urls: list[str] = []

    def connect(given: str, **_: object) -> None:
        urls.append(given)
        raise psycopg.OperationalError("refused")

    monkeypatch.setattr(psycopg, "connect", connect)
    for address in (url, with_schema(url, "lib"), with_schema(with_schema(url, "other"), "lib")):
        database = open_database(address)
        assert isinstance(database, PostgresDatabase)
        assert (database.schema, database.address.name) == ("lib", "schema lib of database db")
        assert "ss%20word" not in database.location
        with pytest.raises(DatabaseUnavailableError):
            database.now()
    assert urls == [seen] * 3


def test_of_several_hosts_the_one_that_takes_writes_is_used(migrated_schema: MigratedSchema) -> None:
    server = psycopg.conninfo.conninfo_to_dict(open_database(migrated_schema.url).address.url)  # type: ignore[attr-defined]
    if "password" in server:
        pytest.skip("the server needs a password")
    host, port = server.get("host", "127.0.0.1"), server.get("port", 5432)
    url = (
        f"postgresql://{server.get('user', 'root')}@/{server['dbname']}?host=127.0.0.1,{host}&port=1,{port}"
        "&target_session_attrs=read-write"
    )
    database = open_database(with_schema(url, open_database(migrated_schema.url).schema))  # type: ignore[attr-defined]
    assert migrate.current_revision(database) == migrate.HEAD
    database.close()


def test_an_engine_of_an_older_version_writes_nothing_and_says_so(
    empty_postgres: str, tmp_path: Path
) -> None:
    settings = replace(Settings(), database_url=empty_postgres, data_dir=str(tmp_path), learning=False)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        engine.ingest(content=TEXTS[0])
        with closing(open_database(empty_postgres)) as newer, newer.write() as transaction:
            transaction.execute("UPDATE schema_revision SET revision = '9999'")
        with pytest.raises(SchemaError, match="another version"):
            engine.ingest(content=TEXTS[2])
        assert engine.search("volcano").results, "it still reads"
