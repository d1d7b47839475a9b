"""What to say of filters that nothing in the library can meet: an empty page alone tells nobody why."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from shoal.models import SearchFilters
from shoal.search.filters import of_metadata
from shoal.storage.database import IDS_PER_STATEMENT, Snapshot, listed
from shoal.storage.document_queries import literal
from shoal.storage.json_text import compact_json

MOST_NAMED = 3
"""Of tags, ids and paths that nobody has; the others are counted."""
SHOWN_CHARS = 60
"""Of a text that was asked for or is stored."""
SAMPLE = 1000
"""Documents whose keys of metadata, and tags by frequency, that are looked through for what was meant."""

TAGS_AMONG = "SELECT DISTINCT tag FROM document_tags WHERE tag IN ({names})"
TAGS_KNOWN = "SELECT tag FROM document_tags GROUP BY tag ORDER BY COUNT(*) DESC, tag LIMIT :n"
IDS_AMONG = "SELECT id FROM documents WHERE id IN ({ids})"
PATHS_AMONG = "SELECT DISTINCT source_path FROM documents WHERE source_path IN ({names})"
# The same name in another folder, or in other letters; the index has all paths beside one another.
PATHS_LIKE = (
    "SELECT source_path FROM documents WHERE source_path LIKE :ending ESCAPE '!' ORDER BY source_path LIMIT 1"
)
ANY_WITH = "SELECT 1 FROM documents d WHERE {condition} LIMIT 1"
VALUE_OF_KEY = """
    SELECT m.type, m.atom FROM documents d, json_each(d.metadata) m
    WHERE d.metadata <> '{}' AND INSTR(d.metadata, :text) > 0 AND m.key = :key LIMIT 1
"""
KEYS_KNOWN = """
    SELECT DISTINCT m.key FROM (SELECT metadata FROM documents WHERE metadata <> '{}' LIMIT :n) d, json_each(d.metadata) m
    LIMIT :n
"""

KINDS = {
    "text": "a text",
    "integer": "a number",
    "real": "a number",
    "true": "true or false",
    "false": "true or false",
    "null": "null",
    "array": "a list, which is not compared",
    "object": "an object, which is not compared",
}
"""How the types of SQLite's JSON are called."""


def find_filter_warnings(
    snapshot: Snapshot, filters: SearchFilters, *, is_met: bool = False
) -> tuple[str, ...]:
    """A warning for each filter that asks for something that no document has. `is_met`: some passage meets them all, so
    that there is nothing to say of metadata, which take long to look through."""
    return (
        *_of_tags(snapshot, filters.tags),
        *_of_ids(snapshot, filters.document_ids or ()),
        *_of_paths(snapshot, filters.source_path or ()),
        *_of_metadata(snapshot, {} if is_met else filters.metadata or {}),
    )


def _of_tags(snapshot: Snapshot, tags: Sequence[str]) -> Iterator[str]:
    missing = _missing(snapshot, TAGS_AMONG, tags)
    if not missing:
        return
    known = [row[0] for row in snapshot.rows(TAGS_KNOWN, {"n": SAMPLE})]
    for tag in missing[:MOST_NAMED]:
        yield f"no document has the tag {_shown(tag)}{_there_is(_meant(tag, known))}"
    yield from _others(missing, "tags that no document has")


def _of_ids(snapshot: Snapshot, ids: Sequence[int]) -> Iterator[str]:
    known: set[int] = set()
    for start in range(0, len(ids), IDS_PER_STATEMENT):
        names, values = listed("id", ids[start : start + IDS_PER_STATEMENT])
        known |= {row[0] for row in snapshot.rows(IDS_AMONG.format(ids=names), values)}
    missing = [document_id for document_id in ids if document_id not in known]
    for document_id in missing[:MOST_NAMED]:
        yield f"there is no document {document_id}"
    yield from _others(missing, "document_ids of no document")


def _of_paths(snapshot: Snapshot, paths: Sequence[str]) -> Iterator[str]:
    missing = _missing(snapshot, PATHS_AMONG, paths)
    for path in missing[:MOST_NAMED]:
        name = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
        near = snapshot.value(PATHS_LIKE, {"ending": f"%{literal(name)}"}) if name else None
        yield f"no document has the source path {_shown(path)}{_there_is(near)}"
    yield from _others(missing, "source paths that no document has")


def _of_metadata(snapshot: Snapshot, wanted: Mapping[str, Any]) -> Iterator[str]:
    for (key, value), (_, condition, values) in zip(wanted.items(), of_metadata(wanted), strict=True):
        if snapshot.first(ANY_WITH.format(condition=condition.replace("c.document_id", "d.id")), values):
            continue
        row = snapshot.first(VALUE_OF_KEY, {"key": key, "text": f"{compact_json(key)}:"})
        if row is None:
            known = [each[0] for each in snapshot.rows(KEYS_KNOWN, {"n": SAMPLE})]
            yield f"no document has the key {_shown(key)} in its metadata{_there_is(_meant(key, known))}"
            continue
        said = f"no document has {_shown(key)} = {_shown(compact_json(value))} in its metadata"
        kind, example = row
        if KINDS[kind] == KINDS[_kind_of(value)]:
            yield said
        else:
            such = f", such as {_shown(compact_json(example))}" if kind in ("text", "integer", "real") else ""
            yield f"{said}; there it is {KINDS[kind]}{such}"


def _kind_of(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return compact_json(value)
    return "text" if isinstance(value, str) else "real"


def _missing(snapshot: Snapshot, statement: str, names: Sequence[str]) -> list[str]:
    known: set[str] = set()
    for start in range(0, len(names), IDS_PER_STATEMENT):
        these, values = listed("name", names[start : start + IDS_PER_STATEMENT])
        known |= {row[0] for row in snapshot.rows(statement.format(names=these), values)}
    return [name for name in names if name not in known]


def _others(missing: Sequence[object], what: str) -> Iterator[str]:
    more = len(missing) - MOST_NAMED
    if more > 0:
        yield f"and {more:,} more {what}"


def _meant(name: str, known: Iterable[str]) -> str | None:
    """The known name that differs in capitals only, or else is spelt nearly the same."""
    known = list(known)
    same = (each for each in known if each.casefold() == name.casefold())
    near = difflib.get_close_matches(name[:SHOWN_CHARS], known, n=1)
    return next(islice(same, 1), near[0] if near else None)


def _there_is(name: str | None) -> str:
    return "" if name is None else f"; there is {_shown(name)}"


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
