"""Filters evaluated: from a tree to the places of an index that meet it, as of a snapshot.

Conditions compare columns (`shoal.filters.columns`), which are read on first use. The fields of documents are
columns of the whole library. A later state of the library takes those of the one before, and reads only the
documents that are new or changed. The fields of chunks are columns of one segment of the index each; a
segment holds its live chunks as they are, so such a column holds as long as its segment.
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
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ShoalError
from shoal.filters.columns import NUMBER, Column, Mask, make_column
from shoal.filters.parsing import ReefNames
from shoal.filters.tree import All, Condition, Field, Node, Not, Scalar, Some, conditions_of, span_of
from shoal.index.format import MILLIONTHS
from shoal.index.index import Index, Part
from shoal.index.segment import Segment
from shoal.models.files import LocatorKind
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
KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")
ENTRY_BYTES = 400
"""Memory of an entry beside its key and value, about: its place in the dictionary, tuples and headers."""
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
MAX_PAGES = 100
"""Pages of one passage that are compared; more only in a damaged file."""
_NUMBERS = {"coverage": "coverage", "reef": "reef", "island": "reef", "archipelago": "archipelago"}
_STORED_AS = {"page": "place", "time_start": "place", "time_end": "place"}


def read_values(
    snapshot: Snapshot, field: Field, ids: NDArray[np.int64], among: Sequence[int] | None
) -> Iterator[Value]:
    """Yield the values of a field of all documents, or of those among some. A row is the place in `ids`,
    which are ascending."""
    row_of = {document_id: row for row, document_id in enumerate(ids.tolist())} if among is None else None
    for document_id, value in _values_of_documents(snapshot, field, ids, among):
        if row_of is not None:
            yield row_of[document_id], value
        else:
            yield int(np.searchsorted(ids, document_id)), value


def _values_of_documents(
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
    elif name == "language":
        yield stored[0]
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
