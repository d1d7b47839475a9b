"""The fields of all documents as columns, for one state of the library after another.

A column is read on first use. A later state takes the columns of the one before, and reads only the documents
that are new or changed.
"""

from __future__ import annotations

import functools
import json
import logging
import re
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ShoalError
from shoal.filters.columns import Column, Mask, make_column
from shoal.filters.fields import Field
from shoal.filters.tree import Condition, Scalar
from shoal.filters.value_checks import span_of
from shoal.index.index import Index
from shoal.index.segment import Segment
from shoal.storage import field_values
from shoal.storage.chunk_queries import AUDIO, IMAGE, VIDEO
from shoal.storage.database import Database, Snapshot

Value = tuple[int, object]
"""A row and a scalar, a list or an object."""
MAX_PARSED = 4_096
"""Different values that are parsed once."""
_PLAIN_KEY = re.compile(r"\w+", re.ASCII)
MAX_SUFFIXES = 3
"""Suffixes of a name, such as the two of `x.tar.gz`."""

MAX_FOLDERS = 16
"""Folders of a path, from the outermost."""


def read_values(
    snapshot: Snapshot, field: Field, ids: NDArray[np.int64], among: Sequence[int] | None
) -> Iterator[Value]:
    """Yield the values of a field of all documents, or of those among some. A row is the place in `ids`,
    which are ascending."""
    row_of = {document_id: row for row, document_id in enumerate(ids.tolist())} if among is None else None
    for document_id, value in _values(snapshot, field, ids, among):
        if row_of is not None:
            yield row_of[document_id], value
        else:
            yield int(np.searchsorted(ids, document_id)), value


def _values(
    snapshot: Snapshot, field: Field, ids: NDArray[np.int64], among: Sequence[int] | None
) -> Iterator[Any]:
    if field.path:
        key, *others = field.path
        for document_id, value in _of_key(snapshot, key, among):
            yield from ((document_id, inner) for inner in _nested(value, others))
    elif field.name == "id":
        yield from ((each, each) for each in (ids.tolist() if among is None else among))
    else:
        rows: Iterator[Any] = field_values.of_documents(snapshot, field.name, among=among)
        match field.name:
            case "created" | "updated":
                yield from ((row[0], _moment(row[1])) for row in rows)
            case "date":
                yield from ((row[0], _date(row[1], row[2])) for row in rows)
            case "folder":
                yield from ((row[0], folders) for row in rows if (folders := _folders(row[1])))
            case "file_type":
                yield from ((row[0], _file_types(*row[1:])) for row in rows)
            case "allow" | "deny":
                # An empty list is a value: nobody may see the document.
                for document_id, rights in rows:
                    principals = json.loads(rights)[field.name]
                    if principals is not None:
                        yield document_id, principals
            case _:
                yield from rows


def _of_key(snapshot: Snapshot, key: str, among: Sequence[int] | None) -> Iterator[tuple[Any, Any]]:
    """Yield the value of a key of the metadata, by document id."""
    if _PLAIN_KEY.fullmatch(key):
        # SQLite reads JSON faster than Python, and many documents have the same value.
        parsed = functools.lru_cache(maxsize=MAX_PARSED)(json.loads)
        rows: Iterator[Any] = field_values.of_documents(snapshot, "key", key=key, among=among)
        for document_id, text in rows:
            if text is not None:
                yield document_id, parsed(text)
        return
    for document_id, text in field_values.of_documents(snapshot, "metadata", key=key, among=among):
        metadata = json.loads(str(text))
        if key in metadata:
            yield document_id, metadata[key]


def _nested(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """Yield the values at the end of a path; a list on the way stands for its elements."""
    if not path:
        yield value
    elif isinstance(value, list):
        for element in value:
            if isinstance(element, dict):
                yield from _nested(element, path)
    elif isinstance(value, dict) and path[0] in value:
        yield from _nested(value[path[0]], path[1:])


def _moment(text: str) -> int | None:
    """Microseconds since 1970."""
    span = span_of(text)
    return None if span is None else span[0]


def _date(created_at: str, declared: object) -> int | None:
    span = span_of(declared) if isinstance(declared, str) else None
    return _moment(created_at) if span is None else span[0]


def _folders(source_path: str) -> list[str]:
    """The folders of a path or address, outermost first: `notes` and `notes/sea` of `notes/sea/tides.md`."""
    scheme, separator, path = source_path.replace("\\", "/").rpartition("://")
    if separator:
        path = path.split("?")[0].split("#")[0]
    parts = path.split("/")[: MAX_FOLDERS + 1]
    parts = parts[:-1] if len(parts) <= MAX_FOLDERS else parts[:MAX_FOLDERS]
    folders = ("/".join(parts[: n + 1]) for n in range(len(parts)))
    return [f"{scheme}{separator}{folder}" for folder in folders if folder]


def _file_types(*row: Any) -> list[str]:
    """What `file_type` is compared with: file or text, medium, suffixes."""
    doc_format, kind, source_path, is_audio, is_video, is_image = row
    types = [kind if kind is not None else field_values.KIND_OF_FORMAT[doc_format]]
    types += [name for name, has in ((AUDIO, is_audio), (VIDEO, is_video), (IMAGE, is_image)) if has]
    suffixes = PurePosixPath((source_path or "").replace("\\", "/").lower()).suffixes[-MAX_SUFFIXES:]
    return [*types, *("".join(suffixes[first:]) for first in range(len(suffixes)))]


KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

ENTRY_BYTES = 400
"""Memory of an entry beside its key and value, about: its place in the dictionary, tuples and headers."""


class RecentlyUsed(Generic[KeyT, ValueT]):
    """A cache whose costs do not depend on how many entries it has. Thread-safe.

    n_bytes  memory of all entries, keys included, as the callers gave it
    """

    def __init__(self, max_bytes: int, max_entries: int | None = None) -> None:
        """The last entry stays, however large it is."""
        self._max_bytes, self._max_entries = max_bytes, max_entries
        self._entries: OrderedDict[KeyT, tuple[ValueT, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.n_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: KeyT) -> ValueT | None:
        """Return a value, which is then the most recently used, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: KeyT, value: ValueT, n_bytes: int) -> None:
        """Keep a value. `n_bytes`: memory of the key and the value, without that of the entry."""
        with self._lock:
            former = self._entries.pop(key, None)
            if former is not None:
                self.n_bytes -= former[1]
            n_bytes += ENTRY_BYTES
            self._entries[key] = value, n_bytes
            self.n_bytes += n_bytes
            while len(self._entries) > 1 and self._is_full():
                _, (_, dropped) = self._entries.popitem(last=False)
                self.n_bytes -= dropped

    def _is_full(self) -> bool:
        has_too_many = self._max_entries is not None and len(self._entries) > self._max_entries
        return has_too_many or self.n_bytes > self._max_bytes

    def items(self) -> list[tuple[KeyT, ValueT]]:
        """Return the entries, the least recently used first."""
        with self._lock:
            return [(key, value) for key, (value, _) in self._entries.items()]


MAX_COLUMN_BYTES = 256 << 20
"""Columns of documents in memory; beyond, the least recently used are read again when needed."""
MAX_COLUMNS = 512
"""Columns in memory, for each state: two filters whose conditions are on different fields. A change of the
library reads each of them again in part."""
MAX_MASK_BYTES = 16 << 20
"""Results of single conditions in memory and the values that they compare, for each state."""
MAX_STATES = 3
"""States kept, because a search may see an older one than another that began later."""
MIN_CHANGED = 1_000
"""This many documents may always change before a column is read anew."""

log = logging.getLogger(__name__)

Key = tuple[Field, str, tuple[Scalar, ...], tuple[type, ...]]


class Handover:
    """What the tables of one chain of states share: columns that were read so slowly that a later state had
    begun meanwhile, by field, each with its table.

    read_later  reads a column that takes longer than a search may
    """

    def __init__(self, read_later: Callable[[Field], None]) -> None:
        self.read_later = read_later
        self.columns: dict[Field, tuple[DocumentTable, Column]] = {}
        self.newest: DocumentTable | None = None


class DocumentTable:
    """The documents of one state of the library.

    ids       i64 (n,), ascending; some may be deleted
    is_alive  bool (n,): whether each is stored
    """

    def __init__(
        self,
        revision: int,
        ids: NDArray[np.int64],
        is_alive: Mask,
        handover: Handover,
    ) -> None:
        self.revision = revision
        self.ids = ids
        self.is_alive = is_alive
        self.handover = handover
        self.columns: RecentlyUsed[Field, Column] = RecentlyUsed(MAX_COLUMN_BYTES, MAX_COLUMNS)
        self.masks: RecentlyUsed[Key, Mask] = RecentlyUsed(MAX_MASK_BYTES)
        self._rows: weakref.WeakKeyDictionary[Segment, NDArray[np.int64]] = weakref.WeakKeyDictionary()
        self._lock, self._reading = threading.Lock(), threading.Lock()

    def __len__(self) -> int:
        return len(self.ids)

    def column(self, snapshot: Snapshot, field: Field) -> Column:
        """Return the values of a field, by row; `snapshot` is one of this state. Raises ReadTimeoutError."""
        column = self.columns.get(field)
        if column is not None:
            return column
        # Reading takes up to seconds; others can use what is there meanwhile.
        with snapshot.deadline.holding(self._reading):
            column = self.columns.get(field)
            if column is None:
                column = self._read(snapshot, field)
                self._keep(field, column)
        return column

    def _keep(self, field: Field, column: Column) -> None:
        self.columns.put(field, column, column.n_bytes + sum(map(sys.getsizeof, field.path)))

    def _read(self, snapshot: Snapshot, field: Field) -> Column:
        former = self.handover.columns.pop(field, None)
        if former is not None and former[0].revision < self.revision:
            older, column = former
            is_changed = np.isin(self.ids, field_values.changed_since(snapshot, older.revision))
            is_changed[len(older) :] = True
            return self._follow(snapshot, field, column, is_changed)
        try:
            column = make_column(len(self), read_values(snapshot, field, self.ids, None))
        except Exception:
            # Whatever the driver raises at the deadline: the next search would be stopped at the same place.
            self.handover.read_later(field)
            raise
        if self.handover.newest is not self:
            self.handover.columns[field] = self, column
        return column

    def _follow(self, snapshot: Snapshot, field: Field, column: Column, is_changed: Mask) -> Column:
        """Return a column of an earlier state with the values of changed and new documents read again."""
        due = self.ids[is_changed].tolist()
        values = read_values(snapshot, field, self.ids, due) if due else ()
        return column.changed(len(self), is_changed[: column.n], make_column(len(self), values, column.texts))

    def met(self, snapshot: Snapshot, condition: Condition) -> Mask:
        """Return which documents meet a condition, bool (n,). The caller must not change it. Raises
        ReadTimeoutError."""
        # True and 1 are equal in Python, but not in a filter.
        key: Key = condition.field, condition.op.value, condition.values, tuple(map(type, condition.values))
        mask = self.masks.get(key)
        if mask is None:
            mask = self.column(snapshot, condition.field).met(condition)
            self.masks.put(key, mask, mask.nbytes + _bytes_of(condition))
        return mask

    def suggested_keys(self, snapshot: Snapshot) -> list[str]:
        """Return keys of the metadata of some documents."""
        return field_values.metadata_keys(snapshot)

    def rows_of(self, segment: Segment) -> NDArray[np.int64]:
        """Return the row of each document of a segment; of a document that this state does not know, any."""
        rows = self._rows.get(segment)
        if rows is None:
            rows = np.minimum(np.searchsorted(self.ids, segment.document_ids), max(len(self.ids) - 1, 0))
            with self._lock:
                self._rows[segment] = rows
        return rows

    def placed(self, index: Index, values: NDArray[Any]) -> NDArray[Any]:
        """Return, for each place of an index, the value of its document, given by row."""
        placed = np.zeros(len(index), dtype=values.dtype)
        if len(self):
            for part, own in index.by_part(placed):
                np.take(values[self.rows_of(part.segment)], part.segment.document_of, out=own)
        return placed

    def next(self, snapshot: Snapshot, revision: int) -> DocumentTable | None:
        """Return the table of a later state; None if so much has changed that it is better read anew."""
        added = field_values.ids_after(snapshot, int(self.ids[-1]) if len(self.ids) else 0)
        changed = field_values.changed_since(snapshot, self.revision)
        if len(added) + len(changed) > max(MIN_CHANGED, len(self) // 2):
            return None
        ids = np.concatenate([self.ids, added])
        is_alive = np.concatenate([self.is_alive, np.ones(len(added), dtype=np.bool_)])
        n_alive = field_values.count(snapshot)
        if 2 * n_alive < len(ids):
            return None
        if int(np.count_nonzero(is_alive)) != n_alive:
            is_alive = np.isin(ids, field_values.ids_after(snapshot, 0), assume_unique=True)
        is_changed = np.isin(ids, changed, assume_unique=True)
        is_changed[len(self) :] = True
        following = DocumentTable(revision, ids, is_alive, self.handover)
        for field, column in self.columns.items():
            # Texts that no document has any more stay in the dictionary; a new column has none of them.
            if len(column.texts) > 2 * max(len(column.rows), MIN_CHANGED):
                continue
            following._keep(field, following._follow(snapshot, field, column, is_changed))
        return following


class DocumentTables:
    """The tables of the newest states. Thread-safe."""

    def __init__(self, database: Database | None = None) -> None:
        """`database`: where columns are read that take longer than a search may; None to give up on them."""
        self._database = database
        self._reading_late = threading.Lock()
        self._tables: tuple[DocumentTable, ...] = ()
        self._lock = threading.Lock()

    def of(self, snapshot: Snapshot) -> DocumentTable:
        """Return the table of the state that a snapshot sees. Raises ReadTimeoutError."""
        revision = field_values.revision(snapshot)
        with snapshot.deadline.holding(self._lock):
            for table in self._tables:
                if table.revision == revision:
                    return table
            newest = self._tables[0] if self._tables else None
            if newest is not None and revision < newest.revision:
                return self._read(snapshot, revision)
            following = None if newest is None else newest.next(snapshot, revision)
            table = self._read(snapshot, revision) if following is None else following
            table.handover.newest = table
            self._tables = (table, *self._tables[: MAX_STATES - 1])
            return table

    def _read(self, snapshot: Snapshot, revision: int) -> DocumentTable:
        ids = field_values.ids_after(snapshot, 0)
        is_alive = np.ones(len(ids), dtype=np.bool_)
        return DocumentTable(revision, ids, is_alive, Handover(self._read_later))

    def _read_later(self, field: Field) -> None:
        """Read a column in the background, unless another one is being read there."""
        if self._database is not None and self._reading_late.acquire(blocking=False):
            threading.Thread(target=self._read_late, args=(field,), name="filter", daemon=True).start()

    def _read_late(self, field: Field) -> None:
        assert self._database is not None, "only then is a thread started"
        try:
            with self._database.snapshot(limited=False) as snapshot:
                self.of(snapshot).column(snapshot, field)
        except ShoalError as error:
            log.warning("the values of %s were not read: %s", field.text, error)
        finally:
            self._reading_late.release()


def _bytes_of(condition: Condition) -> int:
    """Memory of a condition: its values, and for each its place and its type; the path of its field."""
    texts = sum(map(sys.getsizeof, condition.field.path))
    return texts + sum(map(sys.getsizeof, condition.values)) + 16 * len(condition.values)
