"""Visibility: which documents of a library the bearer of a search token may see.

A viewer sees the documents whose rights name one of its principals, or everyone, and that meet its filter.
Every array here has an element for each document of a table, so a thousand viewers share the columns of
rights: what is kept for a viewer is a set of bits.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.errors import FilterError
from shoal.filters.columns import Column, Mask
from shoal.filters.evaluation import DocumentTable, DocumentTables, Fields, FilterState, check_of_documents
from shoal.filters.parsing import ReefNames
from shoal.filters.tree import ALLOW, DENY, Condition, Field, Node, Op, conditions_of
from shoal.index.index import Index
from shoal.index.segment import Segment
from shoal.models.rights import Visibility
from shoal.storage import field_values
from shoal.storage.database import Snapshot
from shoal.support.principals import EVERYONE

MODALITY = "modality"
MADE_OF = {"date": "date", "file_type": MODALITY}
"""Fields that a key of the metadata decides."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """What a search token says of who looks at a library.

    principals  besides everyone
    filter      that documents must meet, too; over fields of documents
    hidden      keys of the metadata that are not shown, searched or counted; points lead into nested objects
    owner       of notes that may be read, if any; it says nothing of documents, so that viewers who differ in
                it alone are equal
    """

    principals: frozenset[str] = frozenset()
    filter: Node | None = None
    hidden: frozenset[str] = frozenset()
    owner: str | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Raises FilterError for a filter over passages."""
        if self.filter is not None:
            check_of_documents(self.filter)

    def shown(self, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return metadata without the hidden keys."""
        shown: Mapping[str, Any] = _without(metadata, self.hidden)
        return shown


def _without(value: Any, hidden: Collection[str]) -> Any:
    if isinstance(value, list):
        return [_without(each, hidden) for each in value]
    if not isinstance(value, Mapping) or not hidden:
        return value
    return {
        key: _without(each, [name.removeprefix(f"{key}.") for name in hidden if name.startswith(f"{key}.")])
        for key, each in value.items()
        if key not in hidden
    }


def visible_documents(
    snapshot: Snapshot, fields: Fields, viewer: Viewer, without_rights: Visibility
) -> tuple[DocumentTable, Mask]:
    """Return the table of a state, and which of its documents a viewer sees, bool (n,).

    A filter over a key of the metadata that no document has lets nothing be seen: a misspelt key must not
    open a library.
    """
    table = fields.documents.of(snapshot)
    names = (EVERYONE, *sorted(viewer.principals))
    allow, deny = table.column(snapshot, ALLOW), table.column(snapshot, DENY)
    is_visible = allow.met(Condition(ALLOW, Op.any_of, names))
    if without_rights is Visibility.everyone:
        is_visible = is_visible | ~allow.met(Condition(ALLOW, Op.exists))
    is_visible = is_visible & ~deny.met(Condition(DENY, Op.any_of, names)) & table.is_alive
    if viewer.filter is not None:
        if any(_is_unknown(table, snapshot, each.field) for each in conditions_of(viewer.filter)):
            return table, np.zeros(len(table), dtype=np.bool_)
        whole = VisibleFields(fields, VisibleTable(table, table.is_alive, frozenset()))
        state = FilterState(snapshot, Index(()), whole, ReefNames({}, {}, 0.0))
        is_visible &= state.met_by_documents(viewer.filter)
    return table, is_visible


def state_of(snapshot: Snapshot, table: DocumentTable, is_visible: Mask) -> int:
    """Return a digest of the visible documents and of when each changed last; nothing else is in it."""
    updated = table.column(snapshot, Field("updated"))
    is_shown = is_visible[updated.rows]
    digest = hashlib.blake2b(table.ids[updated.rows[is_shown]].tobytes(), digest_size=8)
    digest.update(updated.numbers[is_shown].tobytes())
    return int.from_bytes(digest.digest(), "little")


def _is_unknown(table: DocumentTable, snapshot: Snapshot, field: Field) -> bool:
    return bool(field.path) and not table.is_alive[table.column(snapshot, field).rows].any()


class VisibleTable(DocumentTable):
    """The documents of a state that a viewer sees. The others are as if they were deleted; their rows stay,
    so that all viewers share the columns."""

    def __init__(self, whole: DocumentTable, is_visible: Mask, hidden: frozenset[str]) -> None:
        self.revision, self.ids, self.handover = whole.revision, whole.ids, whole.handover
        self.is_alive = is_visible
        self._whole = whole
        self._hidden = hidden

    def column(self, snapshot: Snapshot, field: Field) -> Column:
        """Return the values of a field, by row. Raises FilterError for a hidden one."""
        self._check(field)
        return self._whole.column(snapshot, field)

    def met(self, snapshot: Snapshot, condition: Condition) -> Mask:
        """Return which documents meet a condition. Nothing is kept, so that the filters of many viewers do
        not take the place of others. Raises FilterError for a hidden field."""
        return self.column(snapshot, condition.field).met(condition)

    def suggested_keys(self, snapshot: Snapshot) -> list[str]:
        ids = self.ids[self.is_alive][: field_values.SAMPLE].tolist()
        return [key for key in field_values.metadata_keys(snapshot, ids) if key not in self._hidden]

    def rows_of(self, segment: Segment) -> NDArray[np.int64]:
        return self._whole.rows_of(segment)

    def _check(self, field: Field) -> None:
        if any(name in self._hidden for name in itertools.accumulate(field.path, "{}.{}".format)):
            raise FilterError(f"this token may not use the key {field.text[:60]} of the metadata")
        if not field.path and MADE_OF.get(field.name) in self._hidden:
            raise FilterError(f"this token may not use {field.name}, which is made of a hidden key")


class _OneTable(DocumentTables):
    """The table of the one state of a view."""

    def __init__(self, table: DocumentTable) -> None:
        self._table = table

    def of(self, snapshot: Snapshot) -> DocumentTable:
        return self._table


class VisibleFields(Fields):
    """The fields of the documents that a viewer sees."""

    def __init__(self, fields: Fields, table: VisibleTable) -> None:
        self.documents = _OneTable(table)
        self.chunks = fields.chunks
