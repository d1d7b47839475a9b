"""Statements as PostgreSQL understands them.

Shoal has one text of a statement for both stores wherever both can say it. This module translates what
differs in form only: parameters, the hints of SQLite's planner, the empty list, and LIKE, which SQLite
compares without regard to the case of ASCII letters. Functions of SQLite that PostgreSQL lacks are functions
of the schema (`schema/functions.sql`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.types.bool import BoolDumper
from psycopg.types.string import StrDumperUnknown, TextLoader

ESCAPE = "\U0010fffe"
"""A code point that Unicode reserves for the internal use of programs; text seldom has it."""


def escaped(text: str) -> str:
    """Return a text as PostgreSQL can hold it."""
    if "\0" in text or ESCAPE in text:
        return text.replace(ESCAPE, f"{ESCAPE}1").replace("\0", f"{ESCAPE}0")
    return text


def unescaped(text: str) -> str:
    """Return the text that `escaped` was given."""
    if ESCAPE in text:
        return text.replace(f"{ESCAPE}0", "\0").replace(f"{ESCAPE}1", ESCAPE)
    return text


class _StrDumper(StrDumperUnknown):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(escaped(obj))


class _TextLoader(TextLoader):
    def load(self, data: Buffer) -> bytes | str:
        text = super().load(data)
        return unescaped(text) if isinstance(text, str) else text


class _BoolDumper(BoolDumper):
    oid = 20  # bigint

    def dump(self, obj: bool) -> Buffer | None:
        return b"1" if obj else b"0"

    def quote(self, obj: bool) -> Buffer:
        return b"1" if obj else b"0"


class _BoolLoader(Loader):
    def load(self, data: Buffer) -> int:
        return int(bytes(data) == b"t")


class _NumberLoader(Loader):
    """Loads a NUMERIC, the type of sums of BIGINT."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data)
        return int(text) if text.lstrip(b"-").isdigit() else float(text)


def adapt(connection: Connection) -> None:
    """Let a connection exchange values like this."""
    adapters = connection.adapters
    adapters.register_dumper(str, _StrDumper)
    adapters.register_dumper(bool, _BoolDumper)
    adapters.register_loader("text", _TextLoader)
    adapters.register_loader("bool", _BoolLoader)
    adapters.register_loader("numeric", _NumberLoader)


class NamedRow(tuple[Any, ...]):
    """A row of a result; its columns are accessible by position and by name."""

    __slots__ = ()
    _places: dict[str, int]

    def __getitem__(self, key: Any) -> Any:
        return tuple.__getitem__(self, self._places[key] if isinstance(key, str) else key)

    def keys(self) -> Sequence[str]:
        """The names of the columns."""
        return list(self._places)


@functools.lru_cache(maxsize=2_000)
def row_class(names: tuple[str, ...]) -> Callable[[Sequence[Any]], NamedRow]:
    """Return the class of rows with these columns."""
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        places.setdefault(name, place)
    return type("NamedRow", (NamedRow,), {"__slots__": (), "_places": places})


_TOKEN = re.compile(
    r"""
    '(?:[^']|'')*'                      # a literal
    | --[^\n]*                          # a comment
    | ::
    | :(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<position>\?)
    | (?P<percent>%)
    | (?P<hint>\bINDEXED\ BY\ \w+|\bNOT\ INDEXED\b)
    | \b(?P<before_plus>WHERE|AND|ON|OR)\ \+(?=[a-z])
    | (?P<not_in>\bNOT\ IN\ \(\))
    | (?P<in>\bIN\ \(\))
    | \bLIMIT\ :(?P<limit>\w+)
    | (?P<like>\bLIKE\b)
    | \bIS\ NOT\ :(?P<differs>\w+)
    | \bIS\ :(?P<same>\w+)
    """,
    re.VERBOSE,
)
_INSERTED = re.compile(
    r"\s*INSERT\s+INTO\s+\w+\s*\([^()]*\)\s*VALUES\s*"
    r"(?P<values>\((?:[^()]|\([^()]*\))*\))\s*(?:ON\s+CONFLICT\s*(?:\([^()]*\)\s*)?DO\s+NOTHING\s*)?$"
)
_COPIED = re.compile(
    r"\s*INSERT\s+INTO\s+(?P<table>\w+)\s*\((?P<columns>[^()]*)\)\s*"
    r"VALUES\s*\((?P<values>(?:\s*(?::\w+|\?)\s*,)*\s*(?::\w+|\?)\s*)\)\s*$"
)
MAX_CACHED = 4_000


@functools.lru_cache(maxsize=MAX_CACHED)
def translated(statement: str) -> str:
    """Return a statement with parameters in the form of psycopg."""
    return _TOKEN.sub(_replacement, statement)


@functools.lru_cache(maxsize=MAX_CACHED)
def rows_of_insert(statement: str) -> tuple[str, str, str] | None:
    """Split an INSERT of one row, translated, into what stands before the row, the row, and what follows it.

    None for another statement, and for one that may change a row twice: its rows must be written one by one.
    """
    found = _INSERTED.match(statement)
    if found is None:
        return None
    start, end = found.span("values")
    return translated(statement[:start]), translated(statement[start:end]), translated(statement[end:])


@functools.lru_cache(maxsize=MAX_CACHED)
def copy_of_insert(statement: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the COPY that stores the rows of an INSERT of parameters alone, and the names of its parameters
    in the order of the columns; no names if they are positional. None for another statement."""
    found = _COPIED.match(statement)
    if found is None:
        return None
    values = [value.strip() for value in found["values"].split(",")]
    names = tuple(value[1:] for value in values) if values[0] != "?" else ()
    return f"COPY {found['table']} ({found['columns']}) FROM STDIN", names


def _replacement(match: re.Match[str]) -> str:
    kind, text = match.lastgroup, match.group()
    if kind is None:
        return text.replace("%", "%%")
    value = match.group(kind)
    if kind == "name":
        return f"%({value})s"
    if kind == "position":
        return "%s"
    if kind == "percent":
        return "%%"
    if kind == "before_plus":
        return f"{value} "
    if kind == "limit":
        # A negative limit is none.
        return f"LIMIT NULLIF(%({value})s::bigint, -1)"
    if kind == "differs":
        return f"IS DISTINCT FROM %({value})s"
    if kind == "same":
        return f"IS NOT DISTINCT FROM %({value})s"
    return {"hint": "", "not_in": "<> ALL ('{}')", "in": "= ANY ('{}')", "like": "ILIKE"}[kind]


ROWS_COPIED = 32
"""From so many rows on, they are copied: COPY takes a round trip more."""
STATEMENT_BYTES = 1 << 20
"""Rows that one statement writes, as text."""
ROWS_TOGETHER = 1_000
"""Rows that one statement writes."""

Connection = psycopg.Connection[Any]
Cursor = psycopg.ClientCursor[Any]
Rows = Sequence[Mapping[str, Any] | Sequence[Any]]


def write_rows(connection: Connection, statement: str, rows: Rows) -> int:
    """Run a statement once per row, as `Transaction.write_many`; return the number of changed rows."""
    if not rows:
        return 0
    copy = copy_of_insert(statement) if len(rows) >= ROWS_COPIED else None
    if copy is not None:
        return _copied(connection, *copy, rows)
    cursor = psycopg.ClientCursor(connection)
    parts = rows_of_insert(statement)
    if parts is None:
        query = translated(statement)
        return sum(_changed(cursor, "; ".join(batch)) for batch in _batches(cursor, query, rows))
    before, row, after = parts
    start, end = cursor.mogrify(before, {}), cursor.mogrify(after, {})
    return sum(_changed(cursor, f"{start}{', '.join(batch)}{end}") for batch in _batches(cursor, row, rows))


def _copied(connection: Connection, statement: str, names: Sequence[str], rows: Sequence[Any]) -> int:
    """Store rows with COPY, which the server takes about twice as fast as an INSERT."""
    cursor = psycopg.Cursor(connection)
    with cursor.copy(statement.encode()) as copy:
        for row in rows:
            copy.write_row([row[name] for name in names] if names else row)
    return cursor.rowcount


def _batches(cursor: Cursor, query: str, rows: Sequence[Any]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for row in rows:
        text = cursor.mogrify(query, row)
        if batch and (size + len(text) > STATEMENT_BYTES or len(batch) == ROWS_TOGETHER):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    yield batch


def _changed(cursor: Cursor, statements: str) -> int:
    cursor.execute(statements.encode())
    n_changed = cursor.rowcount
    while cursor.nextset():
        n_changed += cursor.rowcount
    return n_changed
