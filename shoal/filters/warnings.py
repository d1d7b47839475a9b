"""Filter warnings: filters that nothing in the library can meet, with suggestions."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from shoal.declared.filters import SearchFilters
from shoal.filters.columns import FALSE, NULL, NUMBER, OTHER, TRUE
from shoal.filters.evaluation import FilterState
from shoal.filters.named_filters import conditions_by_filter
from shoal.filters.reasons import find_tree_warnings, missing_key
from shoal.filters.tree import Condition, Node, Scalar
from shoal.storage.column_values import compact_json
from shoal.storage.database import IDS_PER_STATEMENT, Snapshot, listed
from shoal.storage.document_queries import literal

MAX_NAMED = 3
"""Missing tags, ids and paths that are named; the others are counted."""
SHOWN_CHARS = 60
"""Longest value, requested or stored, that a warning shows in full."""
SAMPLE = 1000
"""Most frequent tags that are searched for suggestions."""

TAGS_AMONG = "SELECT DISTINCT tag FROM document_tags WHERE tag IN ({names})"
FREQUENT_TAGS = "SELECT tag FROM document_tags GROUP BY tag ORDER BY COUNT(*) DESC, tag LIMIT :n"
IDS_AMONG = "SELECT id FROM documents WHERE id IN ({ids})"
PATHS_AMONG = "SELECT DISTINCT source_path FROM documents WHERE source_path IN ({names})"
# The same name in another folder or in another case; all paths are in one index.
PATHS_LIKE = (
    "SELECT source_path FROM documents WHERE source_path LIKE :ending ESCAPE '!' ORDER BY source_path LIMIT 1"
)
NAMES = {"name_contains": "a title or source path with", "file_type": "the type"}
"""In warnings, the filters of names and types."""
OBJECT = "an object or an empty list, which filters do not compare"
_KINDS = {NUMBER: "a number", TRUE: "true or false", FALSE: "true or false", NULL: "null", OTHER: OBJECT}
"""Names, in warnings, of the codes of a column; other codes are strings."""


def find_filter_warnings(
    state: FilterState, filters: SearchFilters, tree: Node | None, *, is_met: bool = False
) -> tuple[str, ...]:
    """Return a warning for each value of `filters` that no document has, and those of the tree.

    `is_met`: some chunk meets all filters.
    """
    return (
        *_of_tags(state.snapshot, filters.tags),
        *_of_ids(state.snapshot, filters.document_ids or ()),
        *_of_paths(state.snapshot, filters.source_path or ()),
        *(() if is_met else _of_conditions(state, filters)),
        *(() if tree is None else find_tree_warnings(state, tree, is_met=is_met)),
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


def _of_conditions(state: FilterState, filters: SearchFilters) -> Iterator[str]:
    """Yield the warnings of names, types and metadata."""
    for name, node in conditions_by_filter(filters):
        is_of_metadata = isinstance(node, Condition) and bool(node.field.path)
        if not (is_of_metadata or name in NAMES) or state.met_by_documents(node).any():
            continue
        if is_of_metadata:
            assert isinstance(node, Condition), "metadata is one condition"
            yield missing_key(state, node.field) or _other_value(state, node)
        else:
            yield f"no document has {NAMES[name]} {_shortened(str(getattr(filters, name)))}"


def _other_value(state: FilterState, condition: Condition) -> str:
    """The warning for a key of the metadata that some documents have, but with other values."""
    (key,), (value,) = condition.field.path, condition.values
    warning = f"no document has {_shortened(key)} = {_shortened(compact_json(value))} in its metadata"
    column = state.table.column(state.snapshot, condition.field)
    place = int(np.argmax(state.table.is_alive[column.rows]))
    code = int(column.codes[place])
    stored_kind, wanted_kind = _KINDS.get(code, "a string"), _kind_of(value)
    if stored_kind == wanted_kind:
        return warning
    example: Scalar = None
    if code >= 0:
        example = column.texts.texts[code]
    elif code == NUMBER:
        number = float(column.numbers[place])
        example = column.exact.get(place, int(number) if number.is_integer() else number)
    shown = "" if example is None else f", such as {_shortened(compact_json(example))}"
    return f"{warning}; the stored value is {stored_kind}{shown}"


def _kind_of(value: Scalar) -> str:
    if value is None or isinstance(value, bool):
        return _KINDS[NULL if value is None else TRUE]
    return "a string" if isinstance(value, str) else _KINDS[NUMBER]


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
