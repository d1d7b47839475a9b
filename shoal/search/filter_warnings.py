"""Filter warnings: filters that nothing in the library can meet, with suggestions."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from shoal.models import SearchFilters
from shoal.search.filters import document_conditions, metadata_conditions
from shoal.storage.database import IDS_PER_STATEMENT, Snapshot, listed
from shoal.storage.document_queries import literal
from shoal.storage.json_text import compact_json

MAX_NAMED = 3
"""Missing tags, ids and paths that are named; the others are counted."""
SHOWN_CHARS = 60
"""Longest value, requested or stored, that a warning shows in full."""
SAMPLE = 1000
"""Most frequent tags, and documents with metadata, that are searched for suggestions."""

TAGS_AMONG = "SELECT DISTINCT tag FROM document_tags WHERE tag IN ({names})"
FREQUENT_TAGS = "SELECT tag FROM document_tags GROUP BY tag ORDER BY COUNT(*) DESC, tag LIMIT :n"
IDS_AMONG = "SELECT id FROM documents WHERE id IN ({ids})"
PATHS_AMONG = "SELECT DISTINCT source_path FROM documents WHERE source_path IN ({names})"
# The same name in another folder or in another case; all paths are in one index.
PATHS_LIKE = (
    "SELECT source_path FROM documents WHERE source_path LIKE :ending ESCAPE '!' ORDER BY source_path LIMIT 1"
)
ANY_WITH = "SELECT 1 FROM documents d WHERE {condition} LIMIT 1"
VALUE_OF_KEY = """
    SELECT m.type, m.atom FROM documents d, json_each(d.metadata) m
    WHERE d.metadata <> '{}' AND INSTR(d.metadata, :text) > 0 AND m.key = :key LIMIT 1
"""
STORED_KEYS = """
    SELECT DISTINCT m.key
    FROM (SELECT metadata FROM documents WHERE metadata <> '{}' LIMIT :n) d, json_each(d.metadata) m
    LIMIT :n
"""

NAMES = {"name_contains": "a title or source path with", "file_type": "the type"}
"""In warnings, the filters of names and types."""
TYPE_NAMES = {
    "text": "a string",
    "integer": "a number",
    "real": "a number",
    "true": "true or false",
    "false": "true or false",
    "null": "null",
    "array": "a list, which filters do not compare",
    "object": "an object, which filters do not compare",
}
"""Names, in warnings, of the types of SQLite's JSON."""


def find_filter_warnings(
    snapshot: Snapshot, filters: SearchFilters, *, is_met: bool = False
) -> tuple[str, ...]:
    """Return a warning for each filter value that no document has.

    `is_met`: some chunk meets all filters. Metadata, which is slow to search, needs no check then.
    """
    return (
        *_of_tags(snapshot, filters.tags),
        *_of_ids(snapshot, filters.document_ids or ()),
        *_of_paths(snapshot, filters.source_path or ()),
        *(() if is_met else _of_names(snapshot, filters)),
        *_of_metadata(snapshot, {} if is_met else filters.metadata or {}),
    )


def _of_tags(snapshot: Snapshot, tags: Sequence[str]) -> Iterator[str]:
    missing = _missing(snapshot, TAGS_AMONG, tags)
    if not missing:
        return
    tags_in_use = [row[0] for row in snapshot.rows(FREQUENT_TAGS, {"n": SAMPLE})]
    for tag in missing[:MAX_NAMED]:
        yield f"no document has the tag {_shortened(tag)}{_hint(_closest(tag, tags_in_use))}"
    yield from _remaining(missing, "tags that no document has")


def _of_ids(snapshot: Snapshot, ids: Sequence[int]) -> Iterator[str]:
    stored: set[int] = set()
    for start in range(0, len(ids), IDS_PER_STATEMENT):
        names, values = listed("id", ids[start : start + IDS_PER_STATEMENT])
        stored |= {row[0] for row in snapshot.rows(IDS_AMONG.format(ids=names), values)}
    missing = [document_id for document_id in ids if document_id not in stored]
    for document_id in missing[:MAX_NAMED]:
        yield f"there is no document {document_id}"
    yield from _remaining(missing, "document_ids that do not exist")


def _of_paths(snapshot: Snapshot, paths: Sequence[str]) -> Iterator[str]:
    missing = _missing(snapshot, PATHS_AMONG, paths)
    for path in missing[:MAX_NAMED]:
        name = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
        similar_path = snapshot.value(PATHS_LIKE, {"ending": f"%{literal(name)}"}) if name else None
        yield f"no document has the source path {_shortened(path)}{_hint(similar_path)}"
    yield from _remaining(missing, "source paths that no document has")


def _of_names(snapshot: Snapshot, filters: SearchFilters) -> Iterator[str]:
    conditions = {
        name: (condition, values) for name, condition, values in document_conditions(filters) if name in NAMES
    }
    for name, (condition, values) in conditions.items():
        if not snapshot.first(ANY_WITH.format(condition=condition.replace("c.document_id", "d.id")), values):
            yield f"no document has {NAMES[name]} {_shortened(str(getattr(filters, name)))}"


def _of_metadata(snapshot: Snapshot, metadata: Mapping[str, Any]) -> Iterator[str]:
    for (key, value), (_, condition, values) in zip(
        metadata.items(), metadata_conditions(metadata), strict=True
    ):
        if snapshot.first(ANY_WITH.format(condition=condition.replace("c.document_id", "d.id")), values):
            continue
        row = snapshot.first(VALUE_OF_KEY, {"key": key, "text": f"{compact_json(key)}:"})
        if row is None:
            stored_keys = [key_row[0] for key_row in snapshot.rows(STORED_KEYS, {"n": SAMPLE})]
            hint = _hint(_closest(key, stored_keys))
            yield f"no document has the key {_shortened(key)} in its metadata{hint}"
            continue
        warning = f"no document has {_shortened(key)} = {_shortened(compact_json(value))} in its metadata"
        stored_type, stored = row
        if TYPE_NAMES[stored_type] == TYPE_NAMES[_json_type(value)]:
            yield warning
        else:
            is_shown = stored_type in ("text", "integer", "real")
            example = f", such as {_shortened(compact_json(stored))}" if is_shown else ""
            yield f"{warning}; the stored value is {TYPE_NAMES[stored_type]}{example}"


def _json_type(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return compact_json(value)
    return "text" if isinstance(value, str) else "real"


def _missing(snapshot: Snapshot, statement: str, names: Sequence[str]) -> list[str]:
    stored: set[str] = set()
    for start in range(0, len(names), IDS_PER_STATEMENT):
        placeholders, values = listed("name", names[start : start + IDS_PER_STATEMENT])
        stored |= {row[0] for row in snapshot.rows(statement.format(names=placeholders), values)}
    return [name for name in names if name not in stored]


def _remaining(missing: Sequence[object], description: str) -> Iterator[str]:
    n_remaining = len(missing) - MAX_NAMED
    if n_remaining > 0:
        yield f"and {n_remaining:,} more {description}"


def _closest(name: str, stored: Iterable[str]) -> str | None:
    """The stored name that differs only in case, else the one with the most similar spelling."""
    stored = list(stored)
    same = (candidate for candidate in stored if candidate.casefold() == name.casefold())
    similar = difflib.get_close_matches(name[:SHOWN_CHARS], stored, n=1)
    return next(islice(same, 1), similar[0] if similar else None)


def _hint(name: str | None) -> str:
    return "" if name is None else f"; did you mean {_shortened(name)}?"


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
