"""Which conditions of a tree keep a chunk out, and which keep everything out."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from shoal.filters.columns import Mask
from shoal.filters.evaluation import FilterState
from shoal.filters.fields import FIELDS, Field
from shoal.filters.tree import All, Condition, Node, Not, Some, conditions_of, text_of

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
    hint = f"; did you mean {close[0]}?" if close and (close[0],) != field.path else ""
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
