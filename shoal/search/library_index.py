"""The index of a library as of a snapshot: its segments, and in memory what is in no segment yet.

A search sees exactly the documents of its snapshot. Documents that changed after their segment was written
are hidden in it; their new state is read from the database and indexed in memory, until a segment holds it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DamagedIndexError, StorageError
from shoal.index.building import segment_bytes
from shoal.index.index import Index, Part
from shoal.index.kernels import use_compiled
from shoal.index.matching import IndexTerm, find
from shoal.index.segment import Segment
from shoal.search.index_files import IndexFiles
from shoal.search.indexing import outdated_documents, read_documents, update_index
from shoal.search.query_language import TERMS, stems_of, tokens_of
from shoal.storage import index_tables
from shoal.storage.database import Database, Snapshot

MAX_CHUNKS_IN_MEMORY = 2_000
"""Chunks that a search indexes in memory, which takes a tenth of a second. If more have changed, it writes a
segment first, unless another process is doing that."""

CHUNKS_TO_COMPILE = 20_000
"""Below, numpy ranks in a few milliseconds, and the compiler would take a second and 60 MB."""

log = logging.getLogger(__name__)


class LibraryIndex:
    """The index of one state of the library. Chunks of all segments have one numbering: their places.

    n_missing  documents that are in no segment and were too many to be indexed in memory
    """

    def __init__(self, index: Index, n_missing: int = 0) -> None:
        self.index = index
        self.n_missing = n_missing

    def __len__(self) -> int:
        """Return the number of places, those of outdated chunks included."""
        return len(self.index)

    @property
    def n_chunks(self) -> int:
        """Chunks that a search can find."""
        return self.index.totals.n_chunks

    def count_by_document(self, text: str) -> dict[int, int]:
        """Count the chunks that contain the words of a text side by side, in any inflection, by document id,
        most first."""
        (found,) = find(self.index, [IndexTerm(stems_of(tokens_of(text)))])
        ids, counts = found.count_by_document()
        order = np.lexsort((ids, -counts))
        return dict(zip(ids[order].tolist(), counts[order].tolist(), strict=True))


class _InMemory(NamedTuple):
    """Documents indexed in memory at a revision."""

    revision: int
    segment: Segment


class _State(NamedTuple):
    """A state of the library; a thread reads or replaces it as a whole."""

    revision: int
    library: LibraryIndex
    in_memory: tuple[_InMemory, ...]


_NO_STATE = _State(-1, LibraryIndex(Index(())), ())


class IndexCache:
    """The index of the newest state that this process has searched. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._files = IndexFiles(database)
        self._lock = threading.Lock()
        self._state = _NO_STATE
        self._may_compile = False

    def prepare(self) -> None:
        """Write what is missing from the index, if that is too much for memory; build a damaged one anew."""
        with self._database.snapshot() as snapshot:
            if index_tables.revision(snapshot) == self._state.revision:
                return
            n_open = sum(change.n_chunks for change in index_tables.open_changes(snapshot))
            is_usable = n_open <= MAX_CHUNKS_IN_MEMORY
            try:
                for row in index_tables.segments(snapshot):
                    self._files.open(row.file_name)
            except DamagedIndexError:
                is_usable = False
        if not is_usable:
            try:
                update_index(self._database)
            except StorageError as error:
                # A library that cannot be written is searched as far as memory allows.
                log.warning("index not updated: %s", error)

    def load(self) -> None:
        """Open the index, so that the first search need not. A large one is ranked by compiled code from then
        on."""
        self._may_compile = True
        self.prepare()
        with self._database.snapshot(limited=False) as snapshot:
            self.of(snapshot)

    def size(self) -> int:
        """Return the bytes of the index on the disk."""
        return self._files.size()

    def of(self, snapshot: Snapshot) -> LibraryIndex:
        """Return the index as of this snapshot. Raises DamagedIndexError."""
        revision = index_tables.revision(snapshot)
        state = self._state
        if state.revision == revision:
            return state.library
        with self._lock:
            state = self._state
            if state.revision != revision:
                state = self._read(snapshot, revision)
                if revision > self._state.revision:
                    self._state = state
                    self._compile(len(state.library))
            return state.library

    def _compile(self, n_chunks: int) -> None:
        """Compile the ranking once, in a process that loaded the index and for a library that is worth it."""
        if self._may_compile and n_chunks >= CHUNKS_TO_COMPILE:
            self._may_compile = False
            # It takes seconds; searches use numpy meanwhile.
            threading.Thread(target=use_compiled, name="compile", daemon=True).start()

    def _read(self, snapshot: Snapshot, revision: int) -> _State:
        rows, changes = index_tables.segments(snapshot), index_tables.changes(snapshot)
        parts = [
            self._part(segment, outdated_documents(segment, row.revision, changes).tolist())
            for row in rows
            for segment in (self._files.open(row.file_name),)
        ]
        self._files.close_others(row.file_name for row in rows)
        opened = changes.document_ids[~changes.is_indexed]
        if not len(opened):
            return _State(revision, LibraryIndex(Index.of_parts(parts)), ())
        # A snapshot may be older than what another search has put into memory.
        former = [each for each in self._state.in_memory if each.revision <= revision]
        in_memory, n_missing = _index_in_memory(snapshot, revision, former)
        kept = []
        for each in in_memory:
            documents = each.segment.document_ids
            closed = np.setdiff1d(documents, opened)
            hidden = np.union1d(closed, outdated_documents(each.segment, each.revision, changes))
            if len(hidden) < len(np.unique(documents)):
                kept.append(each)
                parts.append(self._part(each.segment, hidden.tolist()))
        return _State(revision, LibraryIndex(Index.of_parts(parts), n_missing), tuple(kept))

    def _part(self, segment: Segment, deleted: Collection[int]) -> Part:
        """A part of the former state if the segment is the same without the same documents: its totals need
        not be added up again."""
        part = Part.without(segment, deleted)
        for former in self._state.library.index.parts:
            if former.segment is segment and _equal(former.live_documents, part.live_documents):
                return former
        return part


def _equal(left: NDArray[np.bool_] | None, right: NDArray[np.bool_] | None) -> bool:
    return left is right or (left is not None and right is not None and np.array_equal(left, right))


def _index_in_memory(
    snapshot: Snapshot, revision: int, former: Sequence[_InMemory]
) -> tuple[list[_InMemory], int]:
    """Index the open changes that are not in memory yet; return all that is in memory then, and how many
    documents were too many."""
    held: dict[int, int] = {}
    for each in former:
        held.update(dict.fromkeys(each.segment.document_ids.tolist(), each.revision))
    opened = index_tables.open_changes(snapshot)
    due = [change for change in opened if held.get(change.document_id, -1) < change.revision]
    chosen: list[int] = []
    n_chunks = sum(each.segment.n_chunks for each in former)
    for change in due:
        n_chunks += change.n_chunks
        if chosen and n_chunks > 2 * MAX_CHUNKS_IN_MEMORY:
            break
        chosen.append(change.document_id)
    if not chosen:
        return list(former), len(due)
    segment = Segment(segment_bytes(read_documents(snapshot, chosen), TERMS))
    return [*former, _InMemory(revision, segment)], len(due) - len(chosen)
