"""The indexes that a process keeps: one per owner, the least recently used ones evicted."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lagoon.tokens import STOP_WORDS
from shoal.index.ragged import expand
from shoal.notes.note_index import NoteIndex, TermNumbers
from shoal.notes.note_rows import NoteRows, NoteState
from shoal.scorer import Scorer
from shoal.storage.profiles import MAX_REEFS
from shoal.words.analysis import terms_of

UNKNOWN_WEIGHT = 7.0
"""Weight of a term that the scorer lacks, such as a name, an identifier or a number: between that of *bridge*
and that of *enzyme*. Half of the words of the dictionary weigh more."""
MAX_TABLE_TERMS = 100_000
"""Terms that a table keeps, in 25 MB. A full table is replaced by an empty one."""
MAX_TABLES = 2
"""Tables of a process: one for each version of the data in use."""

NUMBER_TERMS: Mapping[str, str] = {
    term: str(number)
    for number, term in enumerate(
        terms_of(
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
        )
    )
}
"""Digits of the numbers that are written as words."""

STOP_TERMS = frozenset(terms_of(" ".join(sorted(STOP_WORDS))))
"""Terms that carry no subject. Those that carry a direction are read by `opposites`."""


N_DIMENSIONS = MAX_REEFS + 1
"""The reefs, and one for numbers: any two numbers are related."""


def number_of(term: str) -> str | None:
    """Return the digits of a number, None for other terms."""
    return term if term.isdigit() else NUMBER_TERMS.get(term)


class TermTable:
    """Numbers terms; each has a weight and a vector of length 1 over reefs. Threads may share a table."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._numbers: dict[str, int] = {}
        self._lock = threading.Lock()
        self._weights = np.zeros(1_024)
        # The components of the vectors that are not 0, one vector after the other, and where each starts.
        self._starts = np.zeros(1_025, dtype=np.int64)
        self._dimensions = np.zeros(4_096, dtype=np.uint16)
        self._components = np.zeros(4_096, dtype=np.float32)

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, terms: Sequence[str]) -> NDArray[np.int64]:
        """Return the number of each term; a new term gets the next one."""
        numbers = list(map(self._numbers.get, terms))
        if None in numbers:
            with self._lock:
                for term in terms:
                    if term not in self._numbers:
                        self._add(term)
            numbers = list(map(self._numbers.get, terms))
        return np.array(numbers, dtype=np.int64)

    def weights(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the weights of terms: inverse document frequencies in running text."""
        weights: NDArray[np.float64] = self._weights[numbers]
        return weights

    def vectors(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of terms, (n, N_DIMENSIONS); zeros for a term without reefs."""
        starts = self._starts
        firsts = starts[numbers]
        counts = starts[numbers + 1] - firsts
        places = expand(firsts, counts)
        vectors = np.zeros((len(numbers), N_DIMENSIONS), dtype=np.float32)
        rows = np.repeat(np.arange(0, vectors.size, N_DIMENSIONS), counts)
        vectors.reshape(-1)[rows + self._dimensions[places]] = self._components[places]
        return vectors

    def _add(self, term: str) -> None:
        number = len(self._numbers)
        weight, reefs, strengths = UNKNOWN_WEIGHT, [N_DIMENSIONS - 1], [1]
        if not number_of(term):
            weight, reefs, strengths = self._scorer.stem_contributions(term) or (UNKNOWN_WEIGHT, [], [])
        norm = max(math.sqrt(sum(strength * strength for strength in strengths)), 1.0)
        start = int(self._starts[number])
        end = start + len(reefs)
        # Larger copies, because other threads may be reading.
        self._weights = _with_room(self._weights, number + 1)
        self._starts = _with_room(self._starts, number + 2)
        self._dimensions = _with_room(self._dimensions, end)
        self._components = _with_room(self._components, end)
        self._weights[number] = weight
        self._starts[number + 1] = end
        self._dimensions[start:end] = reefs
        self._components[start:end] = [strength / norm for strength in strengths]
        self._numbers[term] = number


def _with_room(values: NDArray[Any], n: int) -> NDArray[Any]:
    """Return an array, or a copy with twice the room if it has less than `n` places."""
    return values if n <= len(values) else np.concatenate([values, np.zeros_like(values)])


_TABLES: dict[str, TermTable] = {}
_TABLES_LOCK = threading.Lock()


def term_table(scorer: Scorer) -> TermTable:
    """Return the table of this scorer's data."""
    with _TABLES_LOCK:
        table = _TABLES.get(scorer.data_checksum)
        if table is None or len(table) > MAX_TABLE_TERMS:
            if len(_TABLES) >= MAX_TABLES:
                _TABLES.clear()
            table = _TABLES[scorer.data_checksum] = TermTable(scorer)
        return table


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
