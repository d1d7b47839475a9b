"""The schema of a library on PostgreSQL: its creation, its revisions, and its parts.

A new library gets the baseline (`baseline.py`), then the later revisions. A revision is a script in
`migrations/versions` with two constants: `SQLITE` and `POSTGRESQL`, the statements for each store.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from shoal.errors import SchemaError
from shoal.storage.postgres import baseline

if TYPE_CHECKING:
    from alembic.script import Script

_HERE = "current_schema()::regnamespace"
REVISION = "SELECT version_num FROM alembic_version"
HAS_TABLE = f"SELECT 1 FROM pg_class WHERE relname = %s AND relkind = 'r' AND relnamespace = {_HERE}"
ANY_TABLE = f"""
    SELECT 1 FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND relnamespace = {_HERE} LIMIT 1
"""
HAS_SCHEMA = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
SET_REVISION = "UPDATE alembic_version SET version_num = %s"
# A migration of a large library takes longer than a statement of a service may.
NO_TIMEOUTS = "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0"

PARTS = f"""
    SELECT CASE relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' ELSE 'index' END, relname
    FROM pg_class WHERE relnamespace = {_HERE} AND relkind IN ('r', 'v', 'i')
    UNION ALL
    SELECT 'function', proname FROM pg_proc WHERE pronamespace = {_HERE}
    UNION ALL
    SELECT 'trigger', tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE c.relnamespace = {_HERE} AND NOT t.tgisinternal
"""
TRIGGERS = f"""
    SELECT t.tgname, p.prosrc
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
    WHERE c.relnamespace = {_HERE} AND NOT t.tgisinternal ORDER BY t.tgname
"""

_PART = re.compile(r"(?:CREATE|(DROP)) (?:UNIQUE )?(TABLE|VIEW|INDEX|FUNCTION|TRIGGER) (?:IF EXISTS )?(\w+)")
_BODY = re.compile(r"AS \$\$(.*)\$\$", re.DOTALL)
_FUNCTION = re.compile(r"EXECUTE FUNCTION (\w+)")
# Statements of the baseline begin in the first column, and the lines inside them do not.
_END = re.compile(r"(?<=;)\n(?=CREATE|INSERT|--|\n|\Z)")
_COMMENT = re.compile(r"^--.*\n?", re.MULTILINE)

Connection = psycopg.Connection[Any]
Part = tuple[str, str, str]
"""Type, name and SQL of a table, view, index, function or trigger."""

log = logging.getLogger(__name__)


def revision_of(connection: Connection) -> str | None:
    """Read the revision of the library in the schema of a connection; None if it is missing or empty."""
    if connection.execute(HAS_TABLE, ("alembic_version",)).fetchone() is None:
        return None
    row = connection.execute(REVISION).fetchone()
    return None if row is None else str(row[0])


def has_tables(connection: Connection) -> bool:
    """Whether the schema of a connection has any table or view."""
    return connection.execute(ANY_TABLE).fetchone() is not None


def create_schema(connection: Connection, schema: str) -> None:
    """Create a schema unless it exists. Raises SchemaError if the user may not."""
    if connection.execute(HAS_SCHEMA, (schema,)).fetchone():
        return
    try:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    except psycopg.errors.InsufficientPrivilege as error:
        user = connection.info.user
        raise SchemaError(
            f"the user {user} may not create the schema {schema}; an owner of the database must run: "
            f'CREATE SCHEMA {schema} AUTHORIZATION "{user}"'
        ) from error


def apply(connection: Connection, schema: str) -> None:
    """Bring the library in a schema to the newest revision, within the open transaction of a connection whose
    search path is this schema. A missing schema is created.

    Raises SchemaError if the user may not create the schema or a part of it.
    """
    connection.execute(NO_TIMEOUTS)
    create_schema(connection, schema)
    try:
        revision = revision_of(connection)
        if revision is None:
            connection.execute(baseline.script().encode())
            revision = baseline.REVISION
        for script in revisions_after(revision):
            for statement in statements_of(script):
                connection.execute(statement.encode())
            connection.execute(SET_REVISION, (script.revision,))
    except psycopg.errors.InsufficientPrivilege as error:
        user = connection.info.user
        raise SchemaError(
            f"the user {user} may not change the schema {schema}; an owner of the database must run: "
            f'ALTER SCHEMA {schema} OWNER TO "{user}"'
        ) from error


def revisions_after(revision: str) -> list[Script]:
    """List the scripts of the revisions after one, oldest first."""
    from alembic.script import ScriptDirectory

    from shoal.storage import migrate

    if revision == migrate.HEAD:
        return []
    scripts = ScriptDirectory(str(migrate.script_folder()))
    return list(reversed(list(scripts.iterate_revisions("head", revision))))


def statements_of(script: Script) -> Sequence[str]:
    """Return the statements of a revision for PostgreSQL."""
    statements: Sequence[str] = script.module.POSTGRESQL
    return statements


@functools.cache
def expected_parts() -> tuple[Part, ...]:
    """List the parts of the schema at the newest revision, in the order in which they can be created."""
    parts: dict[tuple[str, str], Part] = {}
    for statement in (*_statements(baseline.script()), *_later_statements()):
        match = _PART.match(statement)
        if match is None:
            continue
        is_drop, kind, name = match.groups()
        key = kind.lower(), name
        parts.pop(key, None)
        if not is_drop:
            parts[key] = *key, statement
    return tuple(parts.values())


def missing_parts(connection: Connection) -> list[Part]:
    """List the parts of this version that the schema of a connection lacks."""
    present = set(connection.execute(PARTS).fetchall())
    return [part for part in expected_parts() if part[:2] not in present]


def foreign_triggers(connection: Connection) -> list[str]:
    """List the triggers that are not of this version, or whose functions are not, word for word."""
    bodies = {
        name: match[1]
        for kind, name, text in expected_parts()
        if kind == "function" and (match := _BODY.search(text))
    }
    own = {
        (name, bodies[match[1]])
        for kind, name, text in expected_parts()
        if kind == "trigger" and (match := _FUNCTION.search(text))
    }
    return [name for name, body in connection.execute(TRIGGERS) if (name, body) not in own]


def _later_statements() -> Iterator[str]:
    for script in revisions_after(baseline.REVISION):
        yield from (statement.strip() for statement in statements_of(script))


def _statements(script: str) -> Iterator[str]:
    for text in _END.split(script):
        statement = _COMMENT.sub("", text).strip()
        if statement:
            yield statement.rstrip(";")
