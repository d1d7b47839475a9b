"""A copy of a library holds every row of its source, whatever stops it on the way, or it is no library."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from libraries import make
from postgres_schemas import new_schema, url_of

from shoal.cli.app import run
from shoal.engine import Engine
from shoal.errors import CopyError, DatabaseUnavailableError, NotFoundError, SchemaError
from shoal.jobs import in_process
from shoal.maintenance.copying import CopyStep, copy_library
from shoal.maintenance.stored_values import JSON, NAMES, RANGES
from shoal.settings import Settings
from shoal.storage import copies, migrate
from shoal.storage import copies as target_progress
from shoal.storage.copies import MAX_KEY_BYTES, copied_tables
from shoal.storage.opening import open_database
from shoal.storage.postgres.database import PostgresDatabase

T = "2026-01-01T00:00:00.000Z"
FEW = 4
"""Rows of the tables of a full library that are copied in several batches; the others have two."""
IN_BATCHES = (
    "document",
    "section",
    "chunk",
    "job",
    "wave",
    "observed",
    "word_evidence",
    "imported",
    "file_stamps",
)


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy small libraries in many steps."""
    monkeypatch.setattr(copies, "BATCH_ROWS", 3)


@pytest.fixture
def source(tmp_path: Path, migrated_file: Path) -> str:
    """The URL of a library on SQLite with rows in every table."""
    path = tmp_path / "source.db"
    path.write_bytes(migrated_file.read_bytes())
    with closing(sqlite3.connect(path)) as connection, connection:
        fill(connection)
    return f"sqlite:///{path}"


SQLITE, POSTGRES = "sqlite", "postgresql"
on_sqlite = pytest.mark.parametrize("target", [SQLITE], indirect=True)
on_postgres = pytest.mark.parametrize("target", [POSTGRES], indirect=True)


@pytest.fixture(params=[SQLITE, POSTGRES])
def target(request: pytest.FixtureRequest, tmp_path: Path, migrated_file: Path) -> Iterator[str]:
    """The URL of an empty library on SQLite, or of a schema of PostgreSQL that does not exist yet."""
    if request.param == SQLITE:
        (tmp_path / "target.db").write_bytes(migrated_file.read_bytes())
        yield f"sqlite:///{tmp_path / 'target.db'}"
        return
    with new_schema() as schema:
        yield url_of(schema)


def fill(connection: sqlite3.Connection) -> None:
    """Insert rows into every table, without regard to what they mean: each value is one that its column may
    hold."""
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    for table in copied_tables():
        sql = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table.name,)).fetchone()[0]
        n_rows = FEW if table.name.startswith(IN_BATCHES) else 2
        for i in range(1, 2 if "CHECK (id = 1)" in sql else n_rows + 1):
            values = [
                value_of(table.name, column, kind, i)
                for column, kind in zip(table.columns, table.types, strict=True)
            ]
            places = ", ".join("?" * len(values))
            connection.execute(
                f"INSERT OR REPLACE INTO {table.name} ({', '.join(table.columns)}) VALUES ({places})", values
            )
    connection.execute("UPDATE sqlite_sequence SET seq = 100 WHERE name = 'documents'")
    for _, sql in triggers:
        connection.execute(sql)


def value_of(table: str, column: str, kind: str, i: int) -> Any:
    if (table, column) == ("jobs", "status"):
        return "succeeded"
    if (table, column) == ("acronyms", "status"):
        return "confirmed"
    if column == "match_kind":
        return "exact"
    if column in JSON.get(table, {}):
        text = ("\\N\t\n\r", "é 𝔘 \U0010fffe", "ab")[i % 3]
        return json.dumps({"a": text} if JSON[table][column] == "object" else [text], ensure_ascii=False)
    if column in NAMES.get(table, {}):
        return next(iter(NAMES[table][column]))
    if kind == "int8":
        return (i, 2**63 - 1, -(2**63))[i % 3] if column in ("word_hash", "text_hash", "mtime_ns") else i
    if kind == "float8" and column in RANGES.get(table, {}):
        return i / 7
    if kind == "float8":
        return (i / 7, -1e300, 5e-324)[i % 3]
    if kind == "bytea":
        return bytes(range(i, i + 9)) + b"\0\xff\\"
    if column in ("idempotency_key", "name", "key", "word", "trace_id", "delivery_id"):
        return f"{column} {i}"
    return f"{column} {i}: " + ("\\N\t\n\r", "é 𝔘 \U0010fffe", "a\0b")[i % 3]


def contents(url: str) -> dict[str, list[Any]]:
    """The rows of a library by table."""
    with closing(open_database(url)) as database, database.snapshot() as snapshot:
        return {
            table.name: sorted(
                (row for batch in copies.read(snapshot.connection, table, "1 = 1") for row in batch), key=repr
            )
            for table in copied_tables()
        }


def expected(url: str) -> dict[str, list[Any]]:
    """The rows that a copy of a library has: the owner of the lock of learning is forgotten."""
    found = contents(url)
    found["learning"] = [(*row[:3], None) for row in found["learning"]]
    return found


def next_id(url: str, table: str = "document_words") -> int:
    """The id of the next row of a table."""
    with closing(open_database(url)) as database, database.write() as transaction:
        statement = f"INSERT INTO {table} (document_id, data_checksum) VALUES (9999, 'd') RETURNING id"
        return int(transaction.value(statement))


def test_copy_has_every_row_and_is_a_library_whose_ids_go_on(source: str, target: str) -> None:
    before = contents(source)
    assert min(map(len, before.values())) >= 1
    result = copy_library(source, target)
    assert contents(target) == expected(source)
    assert contents(source) == before
    assert result.is_source_unchanged
    assert result.n_rows == {name: len(found) for name, found in before.items()}
    assert result.n_documents == FEW
    with closing(open_database(target)) as database:
        migrate.check(database)
        with database.write() as transaction:
            number = transaction.value(
                "INSERT INTO documents (title, content_hash, format, n_bytes, n_chunks, n_sentences, coverage,"
                " created_at, updated_at) VALUES ('', 'h', '', 0, 0, 0, 0, '', '') RETURNING id"
            )
            totals = transaction.first("SELECT n_documents FROM library_totals")
    assert number == 101
    with closing(sqlite3.connect(source.removeprefix("sqlite:///"))) as connection:
        assert totals[0] == connection.execute("SELECT n_documents FROM library_totals").fetchone()[0] + 1
    assert next_id(target) == FEW + 1


@on_postgres
def test_copy_is_vacuumed_and_complete_also_without(
    source: str, target: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    copy_library(source, target)
    with closing(open_database(target)) as database, database.snapshot() as snapshot:
        vacuumed = snapshot.connection.execute(
            "SELECT relname FROM pg_stat_all_tables WHERE schemaname = current_schema() "
            "AND vacuum_count = 1 AND analyze_count = 1"
        ).fetchall()
    assert {name for (name,) in vacuumed} == {table.name for table in copied_tables()}

    def fail(*_: object) -> None:
        raise DatabaseUnavailableError("a lock")

    monkeypatch.setattr(PostgresDatabase, "vacuum", fail)
    with new_schema() as schema:
        copy_library(source, url_of(schema))
        assert contents(url_of(schema)) == expected(source)
    assert "left to autovacuum: a lock" in caplog.text


def test_copy_of_a_copy_equals_its_source(source: str, tmp_path: Path) -> None:
    with new_schema() as schema:
        copy_library(source, url_of(schema))
        copy_library(url_of(schema), f"sqlite:///{tmp_path / 'back.db'}")
    assert contents(f"sqlite:///{tmp_path / 'back.db'}") == expected(source)


@pytest.mark.parametrize(
    ("target", "place"), [(SQLITE, 2), (POSTGRES, 50), (SQLITE, 120)], indirect=["target"]
)
def test_killed_copy_is_no_library_and_continues(source: str, target: str, place: int) -> None:
    assert killed(lambda: copy_library(source, target, watch=killer(place)))
    with closing(open_database(target)) as database:
        for operation in (migrate.check, migrate.upgrade):
            with pytest.raises(SchemaError, match="unfinished copy"):
                operation(database)
    assert copy_library(source, target).was_continued
    assert contents(target) == expected(source)


@pytest.mark.parametrize(
    ("target", "step"),
    [(SQLITE, "prepare"), (POSTGRES, "create_parts"), (SQLITE, "finish")],
    indirect=["target"],
)
def test_copy_killed_at_a_step_continues(
    source: str, target: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = getattr(target_progress, step)

    def kill(*arguments: Any) -> None:
        function(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patch:
        patch.setattr(target_progress, step, kill)
        assert killed(lambda: copy_library(source, target))
    copy_library(source, target)
    assert contents(target) == expected(source)


def killer(place: int) -> Callable[[CopyStep], None]:
    """A watcher that kills its process at a step, counted from 1."""
    steps = itertools.count(1)
    return lambda _: os.kill(os.getpid(), signal.SIGKILL) if next(steps) == place else None


def killed(copy: Callable[[], object]) -> bool:
    """Whether a copy, in a process of its own, kills itself."""
    process = os.fork()
    if process == 0:
        try:
            copy()
        finally:
            os._exit(1)
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def interrupted(source: str, target: str, **options: Any) -> None:
    """Begin a copy, and stop in the middle of it."""
    steps = itertools.count(1)

    def stop(_: CopyStep) -> None:
        if next(steps) == 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_library(source, target, watch=stop, **options)


def change(url: str, statement: str) -> None:
    with closing(open_database(url)) as database, database.write() as transaction:
        transaction.execute(statement)


@on_sqlite
def test_source_that_changed_since_the_interruption_is_copied_again_only_on_demand(
    source: str, target: str
) -> None:
    interrupted(source, target)
    change(source, "UPDATE documents SET report = '{}', title = 'other' WHERE id = 2")
    with pytest.raises(CopyError, match=r"changed since this copy was interrupted.*--restart"):
        copy_library(source, target)
    assert not copy_library(source, target, restart=True).was_continued
    assert contents(target) == expected(source)


@on_sqlite
def test_unfinished_copy_of_another_library_is_kept(source: str, target: str, tmp_path: Path) -> None:
    interrupted(source, target)
    other = f"sqlite:///{make(tmp_path / 'other.db', 1)}"
    with pytest.raises(CopyError, match=r"unfinished copy of .*source\.db"):
        copy_library(other, target)
    assert copy_library(source, target).was_continued


@on_sqlite
def test_unfinished_copy_of_another_version_is_refused(source: str, target: str) -> None:
    interrupted(source, target)
    change(target, "UPDATE copy_origin SET revision = '0001'")
    for restart in (False, True):
        with pytest.raises(CopyError, match="another version of Shoal"):
            copy_library(source, target, restart=restart)


@on_sqlite
def test_target_changed_by_another_program_is_not_called_a_copy(source: str, target: str) -> None:
    interrupted(source, target)
    change(target, "UPDATE documents SET title = 'other' WHERE id = 2")
    with pytest.raises(CopyError, match="does not hold what was copied"):
        copy_library(source, target)
    copy_library(source, target, restart=True)
    assert contents(target) == expected(source)


@on_sqlite
def test_target_with_a_library_is_refused_and_unchanged(source: str, target: str) -> None:
    copy_library(source, target)
    change(target, "UPDATE documents SET title = 'mine'")
    before = contents(target)
    for options in ({}, {"restart": True}):
        with pytest.raises(CopyError, match="already holds a library with documents"):
            copy_library(source, target, **options)
    assert contents(target) == before


@on_sqlite
def test_change_during_the_copy_is_reported(source: str, target: str) -> None:
    def edit(step: CopyStep) -> None:
        if step.n_done == 3:
            change(source, "UPDATE documents SET title = 'later' WHERE id = 4")

    before = expected(source)
    assert not copy_library(source, target, watch=edit).is_source_unchanged
    assert contents(target) == before


@on_sqlite
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM saved_searches WHERE id = 1",
        "DELETE FROM synonyms WHERE id = 1",
        "UPDATE acronyms SET status = 'rejected', decided_at = 'z' WHERE id = 1",
        "DELETE FROM pins WHERE id = 1",
        "UPDATE pins SET query = 'new', updated_at = 'z' WHERE id = 1",
        "INSERT INTO pins VALUES (9, 'new', 'new', 'exact', '', '')",
        "UPDATE webhook_deliveries SET status = 'failed', updated_at = 'z' WHERE id = 1",
        """INSERT INTO webhook_deliveries (delivery_id, saved_search_id, event, n_passages, body, status, due_at,
            created_at, updated_at) VALUES ('new', 1, 'test', 0, '{}', 'waiting', 0, '', '')""",
        "INSERT INTO query_clicks (query_id, document_id, created_at) VALUES (1, 99, '')",
    ],
)
def test_change_beside_the_documents_is_reported(source: str, target: str, statement: str) -> None:
    changes = iter([statement])

    def edit(step: CopyStep) -> None:
        if step.doing == "checking" and (due := next(changes, None)):
            change(source, due)

    assert not copy_library(source, target, watch=edit).is_source_unchanged


@on_sqlite
def test_open_jobs_are_refused_or_left_out(source: str, target: str) -> None:
    change(source, "UPDATE jobs SET status = 'processing' WHERE id = 2")
    change(source, "UPDATE jobs SET status = 'dropped' WHERE id = 3")
    change(source, "UPDATE observed_documents SET state = 'pending' WHERE id = 1")
    with pytest.raises(CopyError, match="1 jobs of the source are not finished, the first is job 2"):
        copy_library(source, target)
    assert copy_library(source, target, without_jobs=True).jobs_left_out == 2
    found = contents(target)
    assert [row[0] for row in found["jobs"]] == [1, 4]
    assert [row[0] for row in found["waves"]] == [1, 4]
    for table in ("job_item_contents", "job_item_files", "job_item_cuts", "job_item_responses"):
        assert [row[0] for row in found[table]] == [1, 4]
    with closing(open_database(target)) as database, database.snapshot() as snapshot:
        assert snapshot.value("SELECT state FROM observed_documents WHERE id = 1") == "removed"


@on_sqlite
def test_job_of_a_killed_command_is_left_out_or_removed(tmp_path: Path, target: str) -> None:
    settings = Settings(database_url=f"sqlite:///{make(tmp_path / 'killed.db')}")
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        killed = subprocess.Popen([sys.executable, "-c", ""])
        killed.wait()
        upload = in_process.open_upload(engine.database, settings).begin()
        upload.add_stored(1, "Fire", None, 10)
        upload.finish()
        with engine.database.write() as transaction:
            pids = {"old": f":{os.getpid()}:", "new": f":{killed.pid}:"}
            transaction.execute("UPDATE jobs SET local_owner = REPLACE(local_owner, :old, :new)", pids)
        with pytest.raises(CopyError, match="`shoal doctor --repair` removes its job"):
            copy_library(settings.database_url, target)
        engine.maintenance.doctor(repair=True)
    assert copy_library(settings.database_url, target).jobs_left_out == 0


@on_postgres
def test_keys_too_long_for_postgresql_are_left_out_of_caches(source: str, target: str) -> None:
    path = "/é" * (MAX_KEY_BYTES // 3 + 1)
    change(source, f"UPDATE file_stamps SET path = '{path}' WHERE path LIKE '%2%'")
    result = copy_library(source, target)
    assert result.left_out == {"file_stamps": 1}


@on_postgres
def test_what_cannot_be_copied_says_why(source: str, target: str, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no database"):
        copy_library(f"sqlite:///{tmp_path / 'none.db'}", target)
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(CopyError, match="the same library"):
        copy_library(source, source)
    with (
        closing(open_database(target)) as database,
        database.alone("copy"),
        pytest.raises(CopyError, match="another process copies"),
    ):
        copy_library(source, target)
    change(source, "UPDATE schema_revision SET revision = '0033'")
    with pytest.raises(SchemaError, match="shoal migrate"):
        copy_library(source, target)


def test_copied_library_answers_like_its_source(tmp_path: Path, target: str) -> None:
    path = make(tmp_path / "shoal.db")
    copy_library(f"sqlite:///{path}", target)
    copied = Settings(database_url=target, data_dir=str(tmp_path / "data"))
    with (
        Engine(db_path=path, scorer=FakeScorer()) as ours,
        Engine(settings=copied, scorer=FakeScorer()) as theirs,
    ):
        for canonical in (True, False):
            assert list(theirs.maintenance.export(canonical=canonical)) == list(
                ours.maintenance.export(canonical=canonical)
            )
        for query in ("volcano", "a judge of rocks"):
            found = [
                [(hit.chunk_id, hit.match_score) for hit in engine.search(query).results]
                for engine in (ours, theirs)
            ]
            assert found[0] == found[1] != []
        assert theirs.ingest(content="New. A comet is ice and rock.", title="New").n_chunks == 1


@on_sqlite
def test_command_copies_and_says_what(source: str, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = source.removeprefix("sqlite:///")
    assert run(["copy", path, target, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["n_documents"], result["is_source_unchanged"]) == (FEW, True)
    assert run(["copy", path, target]) != 0
    assert "already holds a library" in capsys.readouterr().err
    assert run(["copy", path, "mysql://host/db"]) == 2
    assert "TARGET" in capsys.readouterr().err
