"""From a tree to the places of an index that meet it, as of a snapshot."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shoal.filters.chunk_columns import ChunkColumns
from shoal.filters.columns import Column, Mask
from shoal.filters.document_table import DocumentTable, DocumentTables
from shoal.filters.fields import Field
from shoal.filters.reef_names import ReefNames
from shoal.filters.tree import All, Condition, Node, Not, Some, conditions_of
from shoal.index.index import Index
from shoal.storage import field_values
from shoal.storage.database import Database, Snapshot


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
        return field_values.metadata_keys(self.snapshot)

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
