"""Values that no Shoal would store: of another type than their column, no UTF-8, no JSON, or a name nobody knows.

SQLite holds columns to nothing of this, and a damaged value shows only where somebody reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from shoal.jobs.queue.states import DROPPED, RECEIVING, WAVE_DONE, Stage
from shoal.maintenance.doctor.findings import MOST_EXAMPLES, Check, CheckContext, Finding
from shoal.models import DocFormat, ItemStatus, JobKind, JobStatus
from shoal.storage.database import Snapshot

TABLES = """
    SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'
      AND name NOT LIKE 'chunk~_fts%' ESCAPE '~' ORDER BY rootpage
"""
COLUMNS = "SELECT name, type FROM pragma_table_info(:table)"

STORED_AS = {
    "INTEGER": ("integer", "null"),
    "REAL": ("real", "integer", "null"),
    "TEXT": ("text", "null"),
}
"""How SQLite may store what a column is declared as."""

JSON = {
    "documents": {"report": "object", "metadata": "object"},
    "sections": {"path": "array"},
    "chunks": {"metadata": "object"},
    "jobs": {"plan": "array"},
    "job_items": {"tags": "array", "metadata": "object", "warnings": "array"},
    "job_item_cuts": {"cuts": "array"},
    "observed_documents": {"settings": "object"},
}
"""Columns that hold JSON, and what it is."""

NAMES: dict[str, dict[str, Collection[str]]] = {
    "documents": {"format": tuple(DocFormat)},
    "jobs": {"kind": tuple(JobKind), "status": (*JobStatus, RECEIVING, DROPPED)},
    "waves": {"stage": (*Stage, WAVE_DONE)},
    "job_items": {"format": tuple(DocFormat), "status": tuple(ItemStatus)},
}
"""Columns that hold one of a few names."""


class Wrong(NamedTuple):
    """A value that no Shoal would store: what it belongs to, and what is wrong with it."""

    owner: str
    why: str


def _values(context: CheckContext) -> Sequence[Finding]:
    n = 0
    first: list[str] = []
    with context.database.snapshot() as snapshot:
        for (table,) in snapshot.rows(TABLES):
            for wrong in _wrong_values(snapshot, table):
                n += 1
                if len(first) < MOST_EXAMPLES:
                    first.append(f"{wrong.owner}: {wrong.why}")
    if not n:
        return []
    return [
        Finding(
            "values",
            f"values that no Shoal has stored: {n:,}",
            "what reads them fails or shows something else; damage, or another program, has changed them",
            "`shoal restore` a backup; without one, `shoal delete` the documents named and ingest them again",
            n=n,
            examples=tuple(first),
        )
    ]


def _wrong_values(snapshot: Snapshot, table: str) -> Iterator[Wrong]:
    columns = {
        name: kind.partition("(")[0].replace("VARCHAR", "TEXT")
        for name, kind in snapshot.rows(COLUMNS, {"table": table})
    }
    faults = dict(_faults(table, columns))
    owner = _owner(table, list(columns))
    if faults:
        any_fault = " OR ".join(faults.values())
        for whose, *is_wrong in snapshot.tuples(
            f"SELECT {owner}, {', '.join(faults.values())} FROM {table} WHERE {any_fault}"
        ):
            whys = (why for why, wrong in zip(faults, is_wrong, strict=True) if wrong)
            yield from (Wrong(_shown(whose), f"{table}.{why}") for why in whys)
    texts = [name for name, kind in columns.items() if kind == "TEXT"]
    if texts:
        yield from _not_utf8(snapshot, table, texts, owner)


def _faults(table: str, columns: dict[str, str]) -> Iterator[tuple[str, str]]:
    """What may be wrong with the values of a table, each with the condition in SQL."""
    for name, kind in columns.items():
        if kind in STORED_AS:
            yield f"{name} is not stored as {kind}", f"typeof({name}) NOT IN {STORED_AS[kind]}"
    for name, shape in JSON.get(table, {}).items():
        if name in columns:
            is_other = f"CASE WHEN json_valid({name}) THEN json_type({name}) <> '{shape}' ELSE 1 END"
            yield f"{name} is not a JSON {shape}", f"({name} IS NOT NULL AND {is_other})"
    for name, known in NAMES.get(table, {}).items():
        if name in columns:
            listed = ", ".join(f"'{each}'" for each in known)
            yield f"{name} is none of {', '.join(known)}", f"{name} NOT IN ({listed})"


def _not_utf8(snapshot: Snapshot, table: str, columns: Sequence[str], owner: str) -> Iterator[Wrong]:
    """Texts that cannot be read. Whose they are is looked up only where there are any: tables may be long."""
    blobs = ", ".join(f"CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) END" for name in columns)
    if all(_is_utf8(value) for row in snapshot.tuples(f"SELECT {blobs} FROM {table}") for value in row):
        return
    for whose, *values in snapshot.tuples(f"SELECT {owner}, {blobs} FROM {table}"):
        for name, value in zip(columns, values, strict=True):
            if not _is_utf8(value):
                yield Wrong(_shown(whose), f"{table}.{name} is not UTF-8")


def _is_utf8(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False


def _owner(table: str, columns: Sequence[str]) -> str:
    """SQL for what a row belongs to, as bytes: a document or a job where there is one."""
    own = f"'{table}.{columns[0]} ' || {columns[0]}"
    if table in ("documents", "jobs"):
        own = f"'{table[:-1]} ' || id"
    elif "job_id" in columns:
        own = f"COALESCE('job ' || job_id, {own})"
    elif "document_id" in columns:
        own = f"COALESCE('document ' || document_id, {own})"
    elif "chunk_id" in columns:
        own = f"COALESCE('document ' || (SELECT document_id FROM chunks WHERE id = chunk_id), {own})"
    return f"CAST({own} AS BLOB)"


def _shown(owner: bytes | None) -> str:
    return (owner or b"a row").decode(errors="replace")


CHECKS = (Check("values", "whether every value is one that is stored", _values, reads_all=True),)
