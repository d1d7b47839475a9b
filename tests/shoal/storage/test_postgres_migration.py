"""A schema of PostgreSQL becomes a library of this version exactly once, or stays unchanged."""

from __future__ import annotations

import multiprocessing
import re
import secrets
from collections.abc import Iterator
from contextlib import closing
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from postgres_schemas import URL, new_schema, url_of

from shoal.errors import SchemaError
from shoal.storage import migrate
from shoal.storage.database import Database
from shoal.storage.opening import open_database
from shoal.storage.postgres import baseline, migration
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
        transaction.execute("UPDATE alembic_version SET version_num = '9999'")
    for operation in (migrate.check, migrate.upgrade):
        with pytest.raises(SchemaError, match="newer Shoal"):
            operation(empty)
    with empty.write() as transaction:
        transaction.connection.execute("DROP TABLE alembic_version")
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


def scripts_after_the_baseline() -> list[Any]:
    scripts = ScriptDirectory(str(migrate.script_folder()))
    return [script for script in scripts.walk_revisions() if script.revision > baseline.REVISION]


def test_every_revision_after_the_baseline_has_statements_for_both_stores() -> None:
    for script in scripts_after_the_baseline():
        for name in ("SQLITE", "POSTGRESQL"):
            statements = getattr(script.module, name, None)
            assert statements, f"{script.revision} has no {name}"
            assert not isinstance(statements, str)


def test_later_revision_is_applied_once(empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate.upgrade(empty)
    module = ModuleType("later")
    module.__dict__["POSTGRESQL"] = (
        "CREATE TABLE shelves (id BIGINT PRIMARY KEY, label TEXT COLLATE \"C\" DEFAULT '50 %')",
        "CREATE INDEX idx_shelves ON shelves(label)",
        "DROP INDEX idx_chunks_confidence",
    )
    script = SimpleNamespace(revision="9000", module=module)
    revisions_after = migration.revisions_after

    def later(revision: str) -> list[Any]:
        return [*revisions_after(revision), script] if revision < "9000" else []

    monkeypatch.setattr(migration, "revisions_after", later)
    monkeypatch.setattr(migrate, "HEAD", "9000")
    migration.expected_parts.cache_clear()
    try:
        assert migrate.upgrade(empty) is True
        assert migrate.upgrade(empty) is False
        assert migrate.current_revision(empty) == "9000"
        with empty.snapshot() as snapshot:
            assert missing_parts(snapshot) == []
    finally:
        migration.expected_parts.cache_clear()
