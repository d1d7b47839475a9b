"""A schema of PostgreSQL becomes a library of this version exactly once, or stays unchanged."""

from __future__ import annotations

import multiprocessing
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from faults import KILLED, killed_at
from older_schema import statements_to_stamped
from postgres_schemas import URL, new_schema, url_of

from shoal.errors import SchemaError
from shoal.storage import migrate, revisions
from shoal.storage.database import Database
from shoal.storage.opening import open_database
from shoal.storage.postgres import migration
from shoal.storage.schema import foreign_triggers, missing_parts

psycopg = pytest.importorskip("psycopg")


@pytest.fixture
def empty() -> Iterator[Database]:
    """A database whose schema does not exist yet."""
    with new_schema() as schema, closing(open_database(url_of(schema))) as database:
        yield database


def upgrade_in_process(url: str, barrier: Any, results: Any) -> None:
    with closing(open_database(url)) as database:
        barrier.wait()
        try:
            results.put(str(migrate.upgrade(database)))
        except BaseException as error:
            results.put(repr(error))


def test_processes_that_start_together_create_one_library(empty: Database) -> None:
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(3), context.Queue()
    processes = [
        context.Process(target=upgrade_in_process, args=(empty.url, barrier, results)) for _ in range(3)
    ]
    for process in processes:
        process.start()
    assert sorted(results.get(timeout=60) for _ in processes) == ["False", "False", "True"]
    for process in processes:
        process.join()
    migrate.check(empty)
    with empty.snapshot() as snapshot:
        assert missing_parts(snapshot) == []
        assert foreign_triggers(snapshot) == []


def test_missing_parts_and_foreign_triggers_are_found(empty: Database) -> None:
    migrate.upgrade(empty)
    with empty.write() as transaction:
        connection = transaction.connection
        connection.execute("DROP INDEX idx_chunks_confidence")
        connection.execute("DROP TABLE query_clicks")
        connection.execute("DROP TRIGGER total_inserted_tag ON document_tags")
        connection.execute(
            "CREATE TRIGGER mine AFTER INSERT ON notes FOR EACH ROW EXECUTE FUNCTION count_inserted_note()"
        )
        connection.execute(
            "CREATE OR REPLACE FUNCTION acronym_lost() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RETURN NULL; END $$"
        )
        missing = {part[:2] for part in missing_parts(transaction)}
        assert foreign_triggers(transaction) == ["acronym_lost", "mine"]
    assert missing == {
        ("index", "idx_chunks_confidence"),
        ("table", "query_clicks"),
        ("index", "idx_query_clicks"),
        ("trigger", "total_inserted_tag"),
    }


def test_empty_newer_and_foreign_schemas_are_refused(empty: Database) -> None:
    with pytest.raises(SchemaError, match="empty; run `shoal migrate`"):
        migrate.check(empty)
    migrate.upgrade(empty)
    with empty.write() as transaction:
        transaction.execute("UPDATE schema_revision SET revision = '9999'")
    for operation in (migrate.check, migrate.upgrade):
        with pytest.raises(SchemaError, match="newer Shoal"):
            operation(empty)
    with empty.write() as transaction:
        transaction.connection.execute("DROP TABLE schema_revision")
    with pytest.raises(SchemaError, match="database of another program"):
        migrate.upgrade(empty)


def test_user_without_rights_is_told_the_statement_to_run() -> None:
    role = f"pgschema_{secrets.token_hex(4)}"
    with new_schema() as schema, psycopg.connect(URL, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        try:
            url = re.sub(r"//[^@]*@", f"//{role}@", url_of(schema))
            with closing(open_database(url)) as database:
                with pytest.raises(SchemaError, match=f'CREATE SCHEMA {schema} AUTHORIZATION "{role}"'):
                    migrate.upgrade(database)
                connection.execute(f"CREATE SCHEMA {schema}; GRANT USAGE ON SCHEMA {schema} TO {role}")
                with pytest.raises(SchemaError, match=f'ALTER SCHEMA {schema} OWNER TO "{role}"'):
                    migrate.upgrade(database)
                connection.execute(f"ALTER SCHEMA {schema} OWNER TO {role}")
                assert migrate.upgrade(database) is True
        finally:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE; DROP ROLE {role}")


def test_an_older_library_is_refused_and_that_of_the_version_before_is_stamped(empty: Database) -> None:
    migrate.upgrade(empty)
    with empty.write() as transaction:
        transaction.execute("UPDATE schema_revision SET revision = '0032'")
    for operation in (migrate.check, migrate.upgrade):
        with pytest.raises(SchemaError, match=f"has schema 0032.*the commit {migrate.LAST_TO_UPGRADE}"):
            operation(empty)
    with empty.write() as transaction:
        for statement in statements_to_stamped("postgresql"):
            transaction.execute(statement)
    with pytest.raises(SchemaError, match="run `shoal migrate`"):
        migrate.check(empty)
    assert migrate.upgrade(empty) is True
    migrate.check(empty)
    with empty.snapshot() as snapshot:
        assert missing_parts(snapshot) == []
        assert foreign_triggers(snapshot) == []


def test_a_migration_that_is_killed_is_repeated(empty: Database) -> None:
    for place in (1, 2):
        code, message = killed_at(place, lambda: migrate.upgrade(open_database(empty.url)))
        assert code == KILLED, message
        assert migrate.current_revision(empty) is None
    assert migrate.upgrade(empty) is True
    with empty.snapshot() as snapshot:
        assert missing_parts(snapshot) == []


def test_later_revision_is_applied_once(
    empty: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    migrate.upgrade(empty)
    folder = tmp_path / "migrations"
    shutil.copytree(revisions.FOLDER, folder)
    (folder / "9000_shelves.sql").write_text(
        "CREATE TABLE shelves (\n    id INTEGER PRIMARY KEY,\n    label TEXT DEFAULT '50 %',\n    mark BLOB\n);\n"
        "CREATE INDEX idx_shelves ON shelves(label);\nINSERT INTO shelves (mark) VALUES (x'ff00');\n"
    )
    (folder / "9000_shelves.postgresql.sql").write_text("DROP INDEX idx_chunks_confidence;\n")
    (folder / "9000_shelves.sqlite.sql").write_text("no statement of PostgreSQL;\n")
    monkeypatch.setattr(revisions, "FOLDER", folder)
    monkeypatch.setattr(migrate, "HEAD", "9000")
    migration.expected_parts.cache_clear()
    try:
        assert migrate.upgrade(empty) is True
        assert migrate.upgrade(empty) is False
        assert migrate.current_revision(empty) == "9000"
        with empty.snapshot() as snapshot:
            assert missing_parts(snapshot) == []
            assert tuple(snapshot.first("SELECT * FROM shelves")) == (1, "50 %", b"\xff\x00")
    finally:
        migration.expected_parts.cache_clear()
