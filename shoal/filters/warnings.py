"""Filter warnings: filters that nothing in the library can meet, with suggestions."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from shoal.declared.filters import SearchFilters
from shoal.filters.columns import FALSE, NULL, NUMBER, OTHER, TRUE, Mask
from shoal.filters.evaluation import FilterState
from shoal.filters.parsing import conditions_by_filter
from shoal.filters.tree import (
    FIELDS,
    All,
    Condition,
    Field,
    Node,
    Not,
    Scalar,
    Some,
    conditions_of,
    text_of,
)
from shoal.storage.column_values import compact_json

MAX_WARNINGS = 5
"""For one filter."""
MAX_SHOWN_CHARS = 120
"""Of the text of a condition in a message."""
MAX_COMPARED_CHARS = 60
"""Of a key of the metadata that is suggested; the time to compare two keys grows with their product."""
MAX_PARTS = 16
"""Parts of a conjunction that are compared in pairs."""


def unmet(state: FilterState, node: Node, place: int) -> Iterator[str]:
    """Yield, for each condition that keeps the chunk at a place out, what it does not meet, as text."""
    if state.met(node)[place]:
        return
    match node:
        case All(parts):
            for part in parts:
                yield from unmet(state, part, place)
        case Some(parts):
            yield "any of " + ", ".join(map(shown, parts))
        case Not() | Condition():
            yield shown(node)


def find_tree_warnings(state: FilterState, tree: Node, *, is_met: bool = False) -> Iterator[str]:
    """Yield a warning for each key of the metadata that no document has and, if nothing meets the tree, which
    of its conditions contradict each other or are met by nothing. `is_met`: something is known to."""
    missing = list(islice(_missing_keys(state, tree), MAX_WARNINGS))
    yield from missing
    live = state.index.live()
    if not is_met and len(state.index) and not np.any(state.met(tree) & live):
        yield from list(_contradictions(state, tree, live, has_named=bool(missing)))[:MAX_WARNINGS]


def _missing_keys(state: FilterState, tree: Node) -> Iterator[str]:
    for field in dict.fromkeys(condition.field for condition in conditions_of(tree)):
        warning = missing_key(state, field)
        if warning is not None:
            yield warning


def missing_key(state: FilterState, field: Field) -> str | None:
    """Return a warning if no document has this key of the metadata, else None."""
    if not _has_no_values(state, field):
        return None
    known = [name for name in (*state.keys, *FIELDS) if len(name) <= MAX_COMPARED_CHARS]
    close = difflib.get_close_matches(field.path[0][:MAX_COMPARED_CHARS], known, n=1)
    name = close[0] if close else ""
    shown = f"metadata.{name}" if name in FIELDS and name in state.keys else name
    hint = f"; did you mean {shown}?" if name and (name,) != field.path else ""
    return f"no document has the key {_cut(field.text)} in its metadata{hint}"


def _contradictions(state: FilterState, node: Node, live: Mask, *, has_named: bool) -> Iterator[str]:
    """Yield why nothing meets a tree, given that nothing does."""
    match node:
        case Some(parts):
            for part in parts:
                yield from _contradictions(state, part, live, has_named=has_named)
        case All(parts):
            masks: list[Mask] = []
            empty: list[Node] = []
            for part in parts:
                mask = state.met(part) & live
                if not mask.any():
                    empty.append(part)
                elif len(masks) < MAX_PARTS:
                    masks.append(mask)
            for part in empty:
                yield from _contradictions(state, part, live, has_named=has_named)
            if not empty:
                yield _contradiction_of_pair(parts, masks) or f"nothing meets all of {shown(node)}"
        case _:
            if not (has_named and isinstance(node, Condition) and _has_no_values(state, node.field)):
                yield f"nothing meets {shown(node)}"


def _contradiction_of_pair(parts: Sequence[Node], masks: Sequence[Mask]) -> str | None:
    """The warning for two parts that nothing meets both of. `masks` of the first parts."""
    for i, mask in enumerate(masks):
        for j in range(i):
            if not np.any(mask & masks[j]):
                return f"nothing meets both {shown(parts[j])} and {shown(parts[i])}"
    return None


def _has_no_values(state: FilterState, field: Field) -> bool:
    if not field.path:
        return False
    rows = state.table.column(state.snapshot, field).rows
    return not state.table.is_alive[rows].any()


def shown(node: Node) -> str:
    """The text of a tree, shortened for a message."""
    return _cut(text_of(node))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"


MAX_NAMED = 3
"""Missing tags, ids and paths that are named; the others are counted."""
SHOWN_CHARS = 60
"""Longest value, requested or stored, that a warning shows in full."""
SAMPLE = 1000
"""Most frequent tags that are searched for suggestions."""

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
        *_of_tags(state, filters.tags),
        *_of_ids(state, filters.document_ids or ()),
        *_of_paths(state, filters.source_path or ()),
        *(() if is_met else _of_conditions(state, filters)),
        *(() if tree is None else find_tree_warnings(state, tree, is_met=is_met)),
    )


def _of_tags(state: FilterState, tags: Sequence[str]) -> Iterator[str]:
    if not tags:
        return
    counts = _counts(state, Field("tags"))
    missing = [tag for tag in tags if not counts[tag]]
    tags_in_use = [tag for tag, _ in sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:SAMPLE]]
    for tag in missing[:MAX_NAMED]:
        yield f"no document has the tag {_shortened(tag)}{_hint(_closest(tag, tags_in_use))}"
    yield from _remaining(missing, "tags that no document has")


def _of_ids(state: FilterState, ids: Sequence[int]) -> Iterator[str]:
    if not ids:
        return
    stored = np.isin(np.array(ids, dtype=np.int64), state.table.ids[state.table.is_alive])
    missing = [ids[place] for place in np.flatnonzero(~stored).tolist()]
    for document_id in missing[:MAX_NAMED]:
        yield f"there is no document {document_id}"
    yield from _remaining(missing, "document_ids that do not exist")


def _of_paths(state: FilterState, paths: Sequence[str]) -> Iterator[str]:
    if not paths:
        return
    counts = _counts(state, Field("source_path"))
    missing = [path for path in paths if not counts[path]]
    for path in missing[:MAX_NAMED]:
        # The same name in another folder or in another case.
        name = path.replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
        similar = min((each for each in counts if name and each.lower().endswith(name)), default=None)
        yield f"no document has the source path {_shortened(path)}{_hint(similar)}"
    yield from _remaining(missing, "source paths that no document has")


def _counts(state: FilterState, field: Field) -> Counter[str]:
    """How many documents have each text of a field; other texts have 0."""
    column = state.table.column(state.snapshot, field)
    codes = column.codes[state.table.is_alive[column.rows]]
    counts = np.bincount(codes[codes >= 0], minlength=len(column.texts))
    return Counter({column.texts.texts[code]: int(counts[code]) for code in np.flatnonzero(counts).tolist()})


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
