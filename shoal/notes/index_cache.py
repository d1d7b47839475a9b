"""The indexes that a process keeps: one per owner, the least recently used ones evicted."""

from __future__ import annotations

import threading
from collections import OrderedDict

from shoal.notes.note_index import NoteIndex, TermNumbers
from shoal.notes.note_rows import NoteRows, NoteState

N_VERSIONS = 3
"""States of an owner's notes that are kept: a search may read an older snapshot than one before it. Versions
share most of their memory."""
MAX_TERMS = 2_000_000
"""Distinct terms of all notes, in 300 MB, before all indexes are dropped to forget unused ones."""


class _Kept:
    """The versions of one owner's index, newest last. `n_bytes`: their part of `NoteIndexes._n_bytes`."""

    __slots__ = ("lock", "n_bytes", "versions")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.versions: tuple[NoteIndex, ...] = ()
        self.n_bytes = 0

    def find(self, state: NoteState) -> NoteIndex | None:
        return next((version for version in self.versions if _is_at(version, state)), None)


class NoteIndexes:
    """Indexes by owner. Thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes`: memory of all indexes, about; the one in use is kept even if it is larger."""
        self._max_bytes = max_bytes
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._n_bytes = 0
        self._lock = threading.Lock()
        self._terms = TermNumbers()

    def of(self, rows: NoteRows, data_checksum: str) -> NoteIndex:
        """Return the index of an owner's notes as of the snapshot of `rows`.

        `data_checksum`: of the data that queries are scored with. Reads only the notes that changed since the
        last call, in whichever process they were changed.
        """
        state = rows.state()
        if not state.n_active:
            return NoteIndex.empty(self._terms)
        with self._lock:
            kept = self._kept.get(rows.owner)
            if kept is None:
                kept = self._kept[rows.owner] = _Kept()
            self._kept.move_to_end(rows.owner)
        found = kept.find(state)
        if found is None:
            with kept.lock:
                found = kept.find(state) or self._update(kept, rows, state, data_checksum)
            self._evict(rows.owner)
        return found

    def __len__(self) -> int:
        """Return the number of owners whose index is kept."""
        return len(self._kept)

    def _update(self, kept: _Kept, rows: NoteRows, state: NoteState, data_checksum: str) -> NoteIndex:
        older = [version for version in kept.versions if version.change_number < state.change_number]
        index = None
        if older:
            base = older[-1]
            index = base.updated(rows.changed_after(base.change_number), state.change_number, data_checksum)
            # Purged notes leave no change behind; without them, the numbers of active notes differ.
            if not _is_at(index, state) or index.has_too_many_values:
                index = None
        if index is None:
            index = NoteIndex.empty(self._terms).updated(
                rows.changed_after(0), state.change_number, data_checksum
            )
        newer = [version for version in kept.versions if version.change_number > state.change_number]
        kept.versions = (*older, index, *newer)[-N_VERSIONS:]
        return index

    def _evict(self, owner: str) -> None:
        with self._lock:
            if len(self._terms) > MAX_TERMS:
                self._kept.clear()
                self._n_bytes = 0
                self._terms = TermNumbers()
            kept = self._kept.get(owner)
            if kept is not None:
                # Only this owner's index changed; adding up all of them would take longer than building it.
                before, kept.n_bytes = kept.n_bytes, kept.versions[-1].n_bytes if kept.versions else 0
                self._n_bytes += kept.n_bytes - before
            while self._n_bytes > self._max_bytes and len(self._kept) > 1:
                oldest = next(iter(self._kept))
                if oldest == owner:
                    break
                self._n_bytes -= self._kept.pop(oldest).n_bytes


def _is_at(index: NoteIndex, state: NoteState) -> bool:
    return (index.change_number, index.n_active) == state
