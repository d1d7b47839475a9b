"""Statements as PostgreSQL understands them.

Shoal has one text of a statement for both stores wherever both can say it. This module translates what
differs in form only: parameters, the hints of SQLite's planner, the empty list, and LIKE, which SQLite
compares without regard to the case of ASCII letters. Functions of SQLite that PostgreSQL lacks are functions
of the schema (`schema/functions.sql`).
"""

from __future__ import annotations

import functools
import re

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
