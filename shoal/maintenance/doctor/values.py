"""Finds values that Shoal never stores: a wrong type, invalid UTF-8 or JSON, or an unknown name.

SQLite does not enforce any of this, so a damaged value shows only when it is read. PostgreSQL enforces types
and UTF-8, but neither JSON nor names.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from shoal.jobs.queue.states import DROPPED, RECEIVING, STORED, WAVE_DONE, Stage
from shoal.maintenance.doctor.findings import MAX_EXAMPLES, Check, CheckContext, Finding
from shoal.models.documents import DocFormat
from shoal.models.jobs import JobKind, JobStatus
from shoal.models.notes import DECIDED_BY, KINDS, PINNED_BY, PROPOSAL_STATUSES, SOURCES
from shoal.storage.copies.tables import copied_tables
from shoal.storage.database import Snapshot

TABLES = """
    SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'
    ORDER BY rootpage
"""
COLUMNS = "SELECT name, type FROM pragma_table_info(:table)"

STORED_AS = {
    "INTEGER": ("integer", "null"),
    "REAL": ("real", "integer", "null"),
    "TEXT": ("text", "null"),
    "BLOB": ("blob", "null"),
}
"""SQLite storage classes allowed for each declared type."""

JSON = {
    "documents": {"report": "object", "metadata": "object"},
    "sections": {"path": "array"},
    "chunks": {"metadata": "object"},
    "jobs": {"plan": "array"},
    "job_items": {"tags": "array", "metadata": "object", "warnings": "array"},
    "job_item_cuts": {"cuts": "array"},
    "observed_documents": {"settings": "object"},
    "notes": {"metadata": "object", "prerequisites": "object", "pin_tags": "array"},
    "note_tag_set_matches": {"tag_set": "array"},
    "note_feedback": {"tag_scores": "object"},
    "note_history": {"before": "object"},
    "agent_sessions": {"tags": "array"},
    "hook_events": {"note_ids": "array"},
    "note_merges": {"absorbed_ids": "array", "before": "object"},
    "merge_proposals": {"note_ids": "array"},
}
"""Columns that hold JSON, with its type."""

NAMES: dict[str, dict[str, Collection[str]]] = {
    "documents": {"format": tuple(DocFormat)},
    "jobs": {"kind": tuple(JobKind), "status": (*JobStatus, RECEIVING, DROPPED)},
    "waves": {"stage": (*Stage, WAVE_DONE)},
    "job_items": {"format": tuple(DocFormat), "status": STORED},
    "notes": {"kind": KINDS, "source": SOURCES, "pinned_by": PINNED_BY},
    "note_merges": {"decided_by": DECIDED_BY},
    "merge_proposals": {"status": PROPOSAL_STATUSES},
}
"""Columns that hold one of several names."""


class InvalidValue(NamedTuple):
    """A value that Shoal never stores: the row it belongs to, and what is wrong."""

    owner: str
    reason: str


def _values(context: CheckContext) -> Sequence[Finding]:
    n = 0
    shown: list[str] = []
    with context.database.snapshot() as snapshot:
        for value in _all_invalid(snapshot) if context.database.is_sqlite else _invalid_texts(snapshot):
            n += 1
            if len(shown) < MAX_EXAMPLES:
                shown.append(f"{value.owner}: {value.reason}")
    if not n:
        return []
    return [
        Finding(
            "values",
            f"{n:,} values are invalid",
            "damage or another program has changed them; operations that read them fail or return wrong "
            "results",
            "`shoal restore` a backup; without one, `shoal delete` the listed documents and ingest them "
            "again",
            n=n,
            examples=tuple(shown),
        )
    ]


def _all_invalid(snapshot: Snapshot) -> Iterator[InvalidValue]:
    for (table,) in snapshot.rows(TABLES):
        yield from _invalid_values(snapshot, table)


def _invalid_texts(snapshot: Snapshot) -> Iterator[InvalidValue]:
    """The values of PostgreSQL that are no JSON of their kind, or none of the names of their column."""
    for table in sorted({*JSON, *NAMES}):
        shapes, names = JSON.get(table, {}), NAMES.get(table, {})
        columns = {name: kind for name, kind in _columns_of(table).items() if name in {*shapes, *names}}
        owner = _owner(table, list(_columns_of(table))).removeprefix("CAST(").removesuffix(" AS BLOB)")
        for row_owner, *values in snapshot.tuples(f"SELECT {owner}, {', '.join(columns)} FROM {table}"):
            for name, value in zip(columns, values, strict=True):
                if value is None:
                    continue
                if name in shapes and not _is_json(value, shapes[name]):
                    yield InvalidValue(row_owner, f"{table}.{name} is not a JSON {shapes[name]}")
                if name in names and value not in names[name]:
                    yield InvalidValue(row_owner, f"{table}.{name} is none of {', '.join(names[name])}")


def _columns_of(table: str) -> dict[str, str]:
    """The columns of a table of this version, in order, with their types on PostgreSQL."""
    described = next(each for each in copied_tables() if each.name == table)
    return dict(zip(described.columns, described.types, strict=True))


def _is_json(text: str, shape: str) -> bool:
    try:
        return isinstance(json.loads(text), dict if shape == "object" else list)
    except (ValueError, RecursionError):
        return False


def _invalid_values(snapshot: Snapshot, table: str) -> Iterator[InvalidValue]:
    columns = {
        name: kind.partition("(")[0].replace("VARCHAR", "TEXT")
        for name, kind in snapshot.rows(COLUMNS, {"table": table})
    }
    faults = dict(_faults(table, columns))
    owner = _owner(table, list(columns))
    if faults:
        any_fault = " OR ".join(faults.values())
        for row_owner, *flags in snapshot.tuples(
            f"SELECT {owner}, {', '.join(faults.values())} FROM {table} WHERE {any_fault}"
        ):
            reasons = (reason for reason, is_invalid in zip(faults, flags, strict=True) if is_invalid)
            yield from (InvalidValue(_owner_text(row_owner), f"{table}.{reason}") for reason in reasons)
    texts = [name for name, kind in columns.items() if kind == "TEXT"]
    if texts:
        yield from _not_utf8(snapshot, table, texts, owner)


def _faults(table: str, columns: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Possible faults of the columns of a table, each with its SQL condition."""
    for name, kind in columns.items():
        if kind in STORED_AS:
            yield f"{name} is not stored as {kind}", f"typeof({name}) NOT IN {STORED_AS[kind]}"
    for name, shape in JSON.get(table, {}).items():
        if name in columns:
            is_wrong_type = f"CASE WHEN json_valid({name}) THEN json_type({name}) <> '{shape}' ELSE 1 END"
            yield f"{name} is not a JSON {shape}", f"({name} IS NOT NULL AND {is_wrong_type})"
    for name, allowed in NAMES.get(table, {}).items():
        if name in columns:
            listed = ", ".join(f"'{value}'" for value in allowed)
            yield f"{name} is none of {', '.join(allowed)}", f"{name} NOT IN ({listed})"


def _not_utf8(snapshot: Snapshot, table: str, columns: Sequence[str], owner: str) -> Iterator[InvalidValue]:
    """Values that are not UTF-8.

    Their owners are looked up only if there are any, because tables may be long.
    """
    blobs = ", ".join(f"CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) END" for name in columns)
    if all(_is_utf8(value) for row in snapshot.tuples(f"SELECT {blobs} FROM {table}") for value in row):
        return
    for row_owner, *values in snapshot.tuples(f"SELECT {owner}, {blobs} FROM {table}"):
        for name, value in zip(columns, values, strict=True):
            if not _is_utf8(value):
                yield InvalidValue(_owner_text(row_owner), f"{table}.{name} is not UTF-8")


def _is_utf8(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False


def _owner(table: str, columns: Sequence[str]) -> str:
    """SQL for the owner of a row as bytes: its document, job or note if it has one, else the row itself."""
    own = f"'{table}.{columns[0]} ' || {columns[0]}"
    if table in ("documents", "jobs", "notes"):
        own = f"'{table[:-1]} ' || id"
    elif "job_id" in columns:
        own = f"COALESCE('job ' || job_id, {own})"
    elif "document_id" in columns:
        own = f"COALESCE('document ' || document_id, {own})"
    elif "note_id" in columns:
        own = f"COALESCE('note ' || note_id, {own})"
    elif "chunk_id" in columns:
        own = f"COALESCE('document ' || (SELECT document_id FROM chunks WHERE id = chunk_id), {own})"
    return f"CAST({own} AS BLOB)"


def _owner_text(owner: bytes | None) -> str:
    return (owner or b"a row").decode(errors="replace")


CHECKS = (Check("values", "the type and format of every value", _values, reads_all=True),)
