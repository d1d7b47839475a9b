"""From a tree to the places of an index that meet it, as of a snapshot.

The fields of chunks are columns, one for each segment of the index. A segment holds its live chunks as they
are, so a column is read once and holds as long as its segment.
"""

from __future__ import annotations

import functools
import json
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.filters.columns import NUMBER, Column, Mask, make_column
from shoal.filters.document_table import DocumentTable, DocumentTables
from shoal.filters.fields import Field
from shoal.filters.named_filters import ReefNames
from shoal.filters.tree import All, Condition, Node, Not, Some, conditions_of
from shoal.index.format import MILLIONTHS
from shoal.index.index import Index, Part
from shoal.index.segment import Segment
from shoal.models.files import LocatorKind
from shoal.storage import field_values
from shoal.storage.database import Database, Snapshot

MAX_PAGES = 100
"""Pages of one passage that are compared; more only in a damaged file."""
_NUMBERS = {"coverage": "coverage", "reef": "reef", "island": "reef", "archipelago": "archipelago"}
_STORED_AS = {"page": "place", "time_start": "place", "time_end": "place"}


class _Held(NamedTuple):
    """A column and the chunks that were live when it was read; None for all."""

    column: Column
    live_chunks: Mask | None


class ChunkColumns:
    """The columns of the segments in use. Thread-safe."""

    def __init__(self) -> None:
        self._held: weakref.WeakKeyDictionary[Segment, dict[tuple[str, float], _Held]] = (
            weakref.WeakKeyDictionary()
        )
        self._lock, self._reading = threading.Lock(), threading.Lock()

    def columns(self, snapshot: Snapshot, parts: Sequence[Part], name: str, names: ReefNames) -> list[Column]:
        """Return, for each part, the values of a field by the ordinal of the chunk in its segment; a chunk
        that is not live may have none."""
        key = name, names.label_threshold
        # What one viewer may not see is kept all the same, so that viewers do not read it in turn.
        parts = [part.whole or part for part in parts]
        held = [self._find(part, key) for part in parts]
        if None in held:
            with snapshot.deadline.holding(self._reading):
                held = [self._find(part, key) for part in parts]
                missing = [number for number, each in enumerate(held) if each is None]
                read = _read(snapshot, [parts[number] for number in missing], name, names)
                for number, column in zip(missing, read, strict=True):
                    part = parts[number]
                    held[number] = each = _Held(column, part.live_chunks)
                    with self._lock:
                        self._held.setdefault(part.segment, {})[key] = each
        return [each.column for each in held if each is not None]

    def _find(self, part: Part, key: tuple[str, float]) -> _Held | None:
        """A column that has all live chunks of this part: another snapshot may hide fewer of them."""
        with self._lock:
            held = self._held.get(part.segment, {}).get(key)
        if held is None or held.live_chunks is None or held.live_chunks is part.live_chunks:
            return held
        is_complete = part.live_chunks is not None and not np.any(part.live_chunks & ~held.live_chunks)
        return held if is_complete else None


def _read(snapshot: Snapshot, parts: Sequence[Part], name: str, names: ReefNames) -> list[Column]:
    if name == "confidence":
        return [Column.of_numbers(part.segment.confidence / MILLIONTHS) for part in parts]
    live_ids = [
        part.segment.chunk_ids[slice(None) if part.live_chunks is None else part.live_chunks]
        for part in parts
    ]
    if name in _NUMBERS:
        # All parts in one statement, which may read all chunks.
        found = field_values.numbers_of_chunks(
            snapshot,
            _NUMBERS[name],
            np.concatenate([np.empty(0, np.int64), *live_ids]),
            names.label_threshold,
        )
        return [_of_numbers(part.segment, name, names, *found) for part in parts]
    return [_of_rows(snapshot, part.segment, ids, name) for part, ids in zip(parts, live_ids, strict=True)]


def _of_numbers(
    segment: Segment, name: str, names: ReefNames, chunk_ids: NDArray[np.int64], numbers: NDArray[np.int64]
) -> Column:
    """The column of a segment from the numbers of chunks of any segment, given by ascending id."""
    if not len(chunk_ids):
        return make_column(segment.n_chunks, ())
    places = np.minimum(np.searchsorted(chunk_ids, segment.chunk_ids), len(chunk_ids) - 1)
    rows = np.flatnonzero((chunk_ids[places] == segment.chunk_ids) & (numbers[places] >= 0))
    values = numbers[places[rows]].astype(np.float64)
    if name == "coverage":
        values /= MILLIONTHS
    elif name == "island":
        reefs, reef_of = np.unique(values, return_inverse=True)
        islands = np.array([names.island_of.get(int(reef), -1) for reef in reefs.tolist()], dtype=np.float64)
        is_known = islands[reef_of] >= 0
        rows, values = rows[is_known], islands[reef_of][is_known]
    codes = np.full(len(rows), NUMBER, dtype=np.int32)
    return Column(segment.n_chunks, rows.astype(np.int32), codes, values, {})


def _of_rows(snapshot: Snapshot, segment: Segment, chunk_ids: NDArray[np.int64], name: str) -> Column:
    ordinal_of = {chunk_id: ordinal for ordinal, chunk_id in enumerate(segment.chunk_ids.tolist())}
    rows = field_values.of_chunks(snapshot, _STORED_AS.get(name, name), chunk_ids.tolist())
    values = ((ordinal_of[row[0]], value) for row in rows for value in _values(name, *row[1:]))
    return make_column(segment.n_chunks, values)


def _values(name: str, *stored: Any) -> Iterator[object]:
    if name == "section":
        yield json.loads(stored[0])
    else:
        yield from _of_place(name, *stored)


def _of_place(name: str, kind: str, first: float, last: float) -> Iterator[object]:
    if name == "page" and kind == LocatorKind.page:
        yield list(range(int(first), min(int(last), int(first) + MAX_PAGES - 1) + 1))
    elif name != "page" and kind == LocatorKind.time:
        yield first if name == "time_start" else last


class Fields:
    """The fields of documents and chunks in memory, for one library in one process."""

    def __init__(self, database: Database | None = None) -> None:
        self.documents = DocumentTables(database)
        self.chunks = ChunkColumns()


def find_documents(snapshot: Snapshot, fields: Fields, tree: Node) -> list[int]:
    """Return the ids of the documents that meet a tree, ascending. Raises FilterError for a condition on
    passages."""
    check_of_documents(tree)
    state = FilterState(snapshot, Index(()), fields, ReefNames({}, {}, 0.0))
    ids: list[int] = state.table.ids[state.met_by_documents(tree)].tolist()
    return ids


def check_of_documents(tree: Node) -> None:
    """Raise FilterError, with its place, for a condition on passages."""
    for condition in conditions_of(tree):
        if condition.field.of_chunk:
            name = condition.field.text
            raise condition.origin.error(f"{name} is of passages, and a list of documents has none")


class _Met(NamedTuple):
    """Which rows meet a tree: documents of the table, or places of the index."""

    mask: Mask
    is_of_places: bool


@dataclass(frozen=True)
class FilterState:
    """What a filter is evaluated on: one snapshot, its index and its documents."""

    snapshot: Snapshot
    index: Index
    fields: Fields
    names: ReefNames

    @functools.cached_property
    def table(self) -> DocumentTable:
        return self.fields.documents.of(self.snapshot)

    @functools.cached_property
    def keys(self) -> list[str]:
        """Keys of the metadata of some documents, for suggestions."""
        return self.table.suggested_keys(self.snapshot)

    def met(self, tree: Node) -> Mask:
        """Return, for each place of the index, whether its chunk meets the tree; of a chunk that is not live,
        anything. Raises FilterError for a reef, island or archipelago that does not exist."""
        return self._placed(self._met(tree))

    def met_by_documents(self, tree: Node) -> Mask:
        """Return, for each document of the table, whether it meets a tree of conditions on documents."""
        met = self._met(tree)
        assert not met.is_of_places, "the conditions are on documents"
        return met.mask & self.table.is_alive

    def _met(self, node: Node) -> _Met:
        match node:
            case Condition(field):
                self.snapshot.deadline.check()
                condition = self.names.with_ids(node)
                if field.of_chunk:
                    return _Met(self._chunks_met(condition), is_of_places=True)
                return _Met(self.table.met(self.snapshot, condition), is_of_places=False)
            case Not(part):
                met = self._met(part)
                return _Met(~met.mask, met.is_of_places)
            case All(parts):
                return self._joined(np.logical_and, parts)
            case Some(parts):
                return self._joined(np.logical_or, parts)

    def _joined(self, join: np.ufunc, parts: Sequence[Node]) -> _Met:
        """Join the conditions on documents and those on chunks, which are more, each for themselves."""
        masks: dict[bool, Mask] = {}
        for part in parts:
            met = self._met(part)
            former = masks.get(met.is_of_places)
            masks[met.is_of_places] = met.mask if former is None else join(former, met.mask)
        groups = [_Met(mask, is_of_places) for is_of_places, mask in masks.items()]
        if len(groups) == 1:
            return groups[0]
        return _Met(join(*map(self._placed, groups)), is_of_places=True)

    def _placed(self, met: _Met) -> Mask:
        if met.is_of_places:
            return met.mask
        return self.table.placed(self.index, met.mask)

    def chunk_columns(self, field: Field) -> list[Column]:
        """Return the values of a field of chunks, for each part of the index."""
        return self.fields.chunks.columns(self.snapshot, self.index.parts, field.name, self.names)

    def _chunks_met(self, condition: Condition) -> Mask:
        is_met = np.zeros(len(self.index), dtype=np.bool_)
        for column, (_, own) in zip(
            self.chunk_columns(condition.field), self.index.by_part(is_met), strict=True
        ):
            own[:] = column.met(condition)
        return is_met
