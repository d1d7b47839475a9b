"""What the schema of a library on PostgreSQL needs beside its statements, and a comparison of its parts."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any

import psycopg
from psycopg import sql

from shoal.errors import SchemaError
from shoal.storage import revisions
from shoal.storage.revisions import SchemaPart

_HERE = "current_schema()::regnamespace"
ANY_TABLE = f"""
    SELECT 1 FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND relnamespace = {_HERE} LIMIT 1
"""
HAS_SCHEMA = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
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

_BODY = re.compile(r"AS \$\$(.*)\$\$", re.DOTALL)
_FUNCTION = re.compile(r"EXECUTE FUNCTION (\w+)")

Connection = psycopg.Connection[Any]


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


def apply(connection: Connection, schema: str, statements: Iterable[str]) -> None:
    """Execute statements in a schema, within the open transaction of a connection whose search path is this
    schema: the statements name none. A missing schema is created.

    Raises SchemaError if the user may not create the schema or a part of it.
    """
    connection.execute(NO_TIMEOUTS)
    create_schema(connection, schema)
    try:
        # In one call.
        connection.execute(";\n".join(statements).encode())
    except psycopg.errors.InsufficientPrivilege as error:
        user = connection.info.user
        raise SchemaError(
            f"the user {user} may not change the schema {schema}; an owner of the database must run: "
            f'ALTER SCHEMA {schema} OWNER TO "{user}"'
        ) from error


@functools.cache
def expected_parts() -> tuple[SchemaPart, ...]:
    """List the parts of the schema at the newest revision, in the order in which they can be created."""
    return tuple(revisions.parts("postgresql"))


def missing_parts(connection: Connection) -> list[SchemaPart]:
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
