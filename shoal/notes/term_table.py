"""What a similarity knows of terms: how rare each is, and its reefs."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lagoon.tokens import STOP_WORDS
from shoal.scorer import Scorer
from shoal.storage.profiles import MAX_REEFS
from shoal.words.typed import terms_of

UNKNOWN_WEIGHT = 7.0
"""Weight of a term that the scorer lacks, such as a name, an identifier or a number: between that of *bridge*
and that of *enzyme*. Half of the words of the dictionary weigh more."""
MAX_TERMS = 20_000
"""Terms that a table keeps, in 17 MB. A full table is replaced by an empty one."""
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
        self._vectors = np.zeros((1_024, N_DIMENSIONS), dtype=np.float32)

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
        vectors: NDArray[np.float32] = self._vectors[numbers]
        return vectors

    def _add(self, term: str) -> None:
        number = len(self._numbers)
        if number == len(self._weights):
            # Replaced rather than resized, because other threads may be reading.
            self._weights = np.concatenate([self._weights, np.zeros_like(self._weights)])
            self._vectors = np.concatenate([self._vectors, np.zeros_like(self._vectors)])
        known = None if number_of(term) else self._scorer.stem_contributions(term)
        self._weights[number] = UNKNOWN_WEIGHT if known is None else known[0]
        if number_of(term):
            self._vectors[number, -1] = 1.0
        if known is not None:
            _, reefs, strengths = known
            norm = max(math.sqrt(sum(strength * strength for strength in strengths)), 1.0)
            self._vectors[number, list(reefs)] = [strength / norm for strength in strengths]
        self._numbers[term] = number


_TABLES: dict[str, TermTable] = {}
_TABLES_LOCK = threading.Lock()


def term_table(scorer: Scorer) -> TermTable:
    """Return the table of this scorer's data."""
    with _TABLES_LOCK:
        table = _TABLES.get(scorer.data_checksum)
        if table is None or len(table) > MAX_TERMS:
            if len(_TABLES) >= MAX_TABLES:
                _TABLES.clear()
            table = _TABLES[scorer.data_checksum] = TermTable(scorer)
        return table
