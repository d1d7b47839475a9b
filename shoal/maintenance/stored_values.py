"""What a library may hold: values that fit their columns, and texts that match their hashes.

Shoal never stores values that have a wrong type, are no UTF-8 or JSON, an unknown name, a number out of
range, or an offset outside of the text. SQLite enforces none of this, so a damaged value shows only when it
is read. PostgreSQL enforces types and UTF-8. The doctor, backup, restore and copy read values by this
declaration, and so does the diagnosis of an unexpected error.

The chunks of a document hold its text, each its own and what stands before it. Its SHA-256 was stored with
it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from shoal.errors import DamagedDatabaseError
from shoal.jobs.queue.states import DROPPED, RECEIVING, STORED, WAVE_DONE
from shoal.models.documents import DocFormat
from shoal.models.jobs import JobKind, JobStatus, Stage
from shoal.models.notes import DECIDED_BY, KINDS, PINNED_BY, PROPOSAL_STATUSES, SOURCES
from shoal.storage.copies import copied_tables
from shoal.storage.database import Database, Snapshot

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

TEXTS = "array of texts"
JSON = {
    "documents": {"report": "object", "metadata": "object", "rights": "object"},
    "sections": {"path": TEXTS},
    "chunks": {"metadata": "object", "locator": "object"},
    "jobs": {"plan": "array"},
    "job_items": {"tags": "array", "metadata": "object", "warnings": "array", "rights": "object"},
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


Bound = float | str
"""A number, or an expression over the columns of the row."""
N_BYTES = "(SELECT d.n_bytes FROM documents d WHERE d.id = {table}.document_id)"
"""No offset in the text of a document is larger. `doctor` compares offsets with the text itself."""
RANGES: dict[str, dict[str, tuple[Bound, Bound | None]]] = {
    "documents": {
        **dict.fromkeys(("n_bytes", "n_chunks", "n_sentences"), (0, None)),
        "coverage": (0, 1),
    },
    "sections": {
        **dict.fromkeys(("section_index", "level"), (0, None)),
        "heading_start": (0, N_BYTES),
        "heading_end": ("heading_start", N_BYTES),
        "start_char": (0, N_BYTES),
        "end_char": ("start_char", N_BYTES),
    },
    "chunks": {
        **dict.fromkeys(("chunk_index", "sentence_count", "matched_words", "norm"), (0, None)),
        "start_char": (0, N_BYTES),
        "end_char": ("start_char", N_BYTES),
        "start_line": (1, None),
        "end_line": ("start_line", None),
        "coverage": (0, 1),
        "top_reef_probability": (0, 1),
    },
    "acronym_documents": {"start_char": (0, None), "end_char": ("start_char", None)},
    "jobs": dict.fromkeys(
        ("total", "n_succeeded", "n_failed", "n_duplicate", "n_canceled", "n_skipped", "bytes_total"),
        (0, None),
    ),
    "waves": dict.fromkeys(("n", "total", "pending", "bytes", "attempts"), (0, None)),
    "job_items": dict.fromkeys(("seq", "wave", "n_bytes", "attempts", "interruptions"), (0, None)),
    "document_files": {"n_bytes": (0, None)},
    "notes": dict.fromkeys(("occurrence_count", "times_matched"), (0, None)),
}
"""Columns of numbers, with the least and the greatest value; None for no limit."""


class InvalidValue(NamedTuple):
    """A value that Shoal never stores: the row it belongs to, and what is wrong."""

    owner: str
    reason: str

    def __str__(self) -> str:
        return f"{self.owner}: {self.reason}"


def invalid_values(snapshot: Snapshot) -> Iterator[InvalidValue]:
    """Yield the values of a library that Shoal never stores."""
    if snapshot.is_sqlite:
        for (table,) in snapshot.rows(TABLES):
            yield from _invalid_values(snapshot, table)
    else:
        yield from _invalid_texts(snapshot)
        yield from _out_of_range(snapshot)


def describe_damage(snapshot: Snapshot) -> str | None:
    """Return what is wrong with the stored values, in a sentence without its end; None if nothing is."""
    found = invalid_values(snapshot)
    first = next(found, None)
    if first is None:
        return None
    n = 1 + sum(1 for _ in found)
    return str(first) if n == 1 else f"{first}, and {n - 1:,} more values are invalid"


def _out_of_range(snapshot: Snapshot) -> Iterator[InvalidValue]:
    """The numbers of PostgreSQL that are out of the range of their column."""
    for table, ranges in RANGES.items():
        owner = _owner(table, list(_columns_of(table))).removeprefix("CAST(").removesuffix(" AS BLOB)")
        for name, bounds in ranges.items():
            rows = snapshot.tuples(f"SELECT {owner} FROM {table} WHERE {_is_outside(table, name, bounds)}")
            for (row_owner,) in rows:
                yield InvalidValue(row_owner, f"{table}.{name} {_out_of(bounds)}")


def _is_outside(table: str, name: str, bounds: tuple[Bound, Bound | None]) -> str:
    """The condition of SQL for a number out of range."""
    low, high = (str(bound).format(table=table) for bound in bounds)
    return f"({name} < {low})" if bounds[1] is None else f"({name} < {low} OR {name} > {high})"


def _out_of(bounds: tuple[Bound, Bound | None]) -> str:
    low, high = ("the size of the text" if bound == N_BYTES else bound for bound in bounds)
    return f"is less than {low}" if high is None else f"is not between {low} and {high}"


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
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if shape == TEXTS:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    return isinstance(value, dict if shape == "object" else list)


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
            is_other = f"json_type({name}) <> '{shape.partition(' ')[0]}'"
            if shape == TEXTS:
                is_other += f" OR EXISTS (SELECT 1 FROM json_each({table}.{name}) WHERE type <> 'text')"
            is_wrong_type = f"CASE WHEN json_valid({name}) THEN {is_other} ELSE 1 END"
            yield f"{name} is not a JSON {shape}", f"({name} IS NOT NULL AND {is_wrong_type})"
    for name, allowed in NAMES.get(table, {}).items():
        if name in columns:
            listed = ", ".join(f"'{value}'" for value in allowed)
            yield f"{name} is none of {', '.join(allowed)}", f"{name} NOT IN ({listed})"
    for name, bounds in RANGES.get(table, {}).items():
        if name in columns:
            is_number = f"typeof({name}) IN ('integer', 'real')"
            yield f"{name} {_out_of(bounds)}", f"({is_number} AND {_is_outside(table, name, bounds)})"


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


# Texts of SQLite as bytes: a damaged text may not be valid UTF-8, or no text. PostgreSQL checks that itself.
DOCUMENTS = """
    SELECT id, COALESCE(text_hash, content_hash), n_bytes, n_chunks, {is_text}, {text} FROM documents
    ORDER BY id
"""
# `section` is NULL if the section is missing or belongs to another document.
CHUNKS_OF = """
    SELECT c.chunk_index, c.start_char, c.end_char, s.id AS section, {is_text} AS is_text,
           {text_before} AS text_before, {text} AS text
    FROM chunks c LEFT JOIN sections s ON s.id = c.section_id AND s.document_id = c.document_id
    WHERE c.document_id = :document_id ORDER BY c.chunk_index
"""
ON_SQLITE = (
    DOCUMENTS.format(is_text="typeof(text_after) = 'text'", text="CAST(text_after AS BLOB)"),
    CHUNKS_OF.format(
        is_text="typeof(c.text) = 'text' AND typeof(c.text_before) = 'text'",
        text_before="CAST(c.text_before AS BLOB)",
        text="CAST(c.text AS BLOB)",
    ),
)
ON_POSTGRESQL = (
    DOCUMENTS.format(is_text="1", text="text_after"),
    CHUNKS_OF.format(is_text="1", text_before="c.text_before", text="c.text"),
)
SECTIONS_OUTSIDE = """
    SELECT 1 FROM sections
    WHERE document_id = :document_id
        AND (start_char > end_char OR end_char > :n_chars OR heading_end > :n_chars)
    LIMIT 1
"""


class Damaged(NamedTuple):
    """A document that is inconsistent with its text.

    `is_lost`: the text itself has changed since it was stored.
    """

    document_id: int
    reason: str
    is_lost: bool = False


def damaged_texts(snapshot: Snapshot) -> Iterator[Damaged]:
    """Yield the documents whose text has changed since it was stored, or whose passages or sections do not
    match it."""
    documents, chunks_of = ON_SQLITE if snapshot.is_sqlite else ON_POSTGRESQL
    for document_id, text_hash, n_bytes, n_chunks, is_text, text_after in snapshot.tuples(documents):
        chunks = snapshot.rows(chunks_of, {"document_id": document_id})
        texts = [text for chunk in chunks for text in (chunk["text_before"], chunk["text"])]
        parts = [text.encode() if isinstance(text, str) else text for text in (*texts, text_after)]
        lengths = _lengths(parts) if is_text and all(chunk["is_text"] for chunk in chunks) else None
        is_lost = lengths is None or _sha256(parts) != text_hash
        stored_bytes = sum(map(len, parts))
        if len(chunks) != n_chunks or not chunks:
            counts = f"{n_chunks} passages are recorded, there are {len(chunks)}"
            yield Damaged(document_id, counts, is_lost)
        elif lengths is None or is_lost:
            yield Damaged(document_id, "the SHA-256 of the text differs", is_lost=True)
        elif stored_bytes != n_bytes:
            yield Damaged(document_id, f"{n_bytes} bytes are recorded, the text has {stored_bytes}")
        elif fault := next(filter(None, _chunk_faults(chunks, lengths)), None):
            yield Damaged(document_id, fault)
        elif snapshot.value(SECTIONS_OUTSIDE, {"document_id": document_id, "n_chars": sum(lengths)}):
            yield Damaged(document_id, "a section lies outside of the text")


def describe_damaged_text(snapshot: Snapshot) -> str | None:
    """Return the first document whose text or offsets are damaged, and how; None if none is."""
    first = next(damaged_texts(snapshot), None)
    return None if first is None else f"document {first.document_id}: {first.reason}"


def _lengths(parts: Sequence[bytes]) -> list[int] | None:
    """The characters of each part of a text; None if one is not UTF-8."""
    try:
        return [len(part.decode()) for part in parts]
    except UnicodeDecodeError:
        return None


def _sha256(parts: Sequence[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _chunk_faults(chunks: Sequence[Any], lengths: Sequence[int]) -> Iterator[str | None]:
    """What is wrong with each chunk. `lengths`: the characters before each and of each, in turns."""
    offsets = list(itertools.accumulate(lengths))
    return (_fault(i, chunk, *offsets[2 * i : 2 * i + 2]) for i, chunk in enumerate(chunks))


def _fault(i: int, chunk: Any, start: int, end: int) -> str | None:
    if chunk["chunk_index"] != i:
        return f"passage #{i} is missing"
    if chunk["section"] is None:
        return f"passage #{i} has no section"
    if (chunk["start_char"], chunk["end_char"]) != (start, end):
        return f"passage #{i} differs from the text at its offsets"
    return None


SUSPECT = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, AssertionError)
"""What a value of a wrong type or out of range leads to. No error of Shoal is one of these."""


def damage_behind(error: BaseException, database: Database) -> DamagedDatabaseError | None:
    """Return the error that names a damaged value, or None if there is none, or it is not found in the time
    of a read. Reads the whole library."""
    if not isinstance(error, SUSPECT):
        return None
    try:
        with database.snapshot() as snapshot:
            value = next(invalid_values(snapshot), None)
    except DamagedDatabaseError as damage:
        return damage
    except Exception:  # the error to explain may happen again here
        return None
    return None if value is None else DamagedDatabaseError(str(value))
