"""Texts sorted by their words, to find those that have a word, or several side by side, that begin as typed.

The keys of a text are its folded words joined by spaces, from the first, the second and so on. They are kept
as numbers (text, first letter) in the order of the keys, so a text of ten words takes ten pairs of numbers
rather than ten texts.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.tokens import is_stop_word
from shoal.words.typed import folded, tokens_of

MAX_TEXT = 160
"""Longest text that is offered, in characters; nobody reads a longer one while typing."""
MAX_STARTS = 8
"""Words of a text at which a key begins."""
KEY_CHARS = 48
"""Characters by which keys are sorted, and most that are compared."""


class Entry(NamedTuple):
    """A text that may be offered. `weight` orders texts of one kind; `owners` are the numbers of what has
    it."""

    text: str
    kind: str
    weight: int
    owners: Sequence[int] = ()


class Hit(NamedTuple):
    """An entry with the beginning that was typed. `is_start`: whether its first word begins so."""

    entry: Entry
    is_start: bool


def key_of(text: str) -> str:
    """Return a text as its folded words."""
    return " ".join(map(folded, tokens_of(text)))


class Completions:
    """Entries by the beginnings of their words. Immutable."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = [entry for entry in entries if len(entry.text) <= MAX_TEXT]
        self._keys = [key_of(entry.text) for entry in self._entries]
        starts = sorted(
            (key[start : start + KEY_CHARS], number, start)
            for number, key in enumerate(self._keys)
            for start in _starts(key)
        )
        self._entry_of: NDArray[np.int32] = np.array([number for _, number, _ in starts], dtype=np.int32)
        self._start_of: NDArray[np.int16] = np.array([start for _, _, start in starts], dtype=np.int16)
        weights = np.array([entry.weight for entry in self._entries], dtype=np.int64)
        # Texts that begin as typed come before those with a later word that does.
        self._order = weights[self._entry_of] * 2 + (self._start_of == 0) * (2 + weights[self._entry_of])

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, beginning: str, limit: int) -> list[Hit]:
        """Return the best entries with words that begin with a key, at most `limit`, best first."""
        beginning = beginning[:KEY_CHARS]
        places = range(len(self._entry_of))
        low = bisect.bisect_left(places, beginning, key=self._key)
        high = bisect.bisect_right(places, beginning, key=lambda place: self._key(place)[: len(beginning)])
        order = self._order[low:high]
        # An entry may have several such words.
        n = min(limit * MAX_STARTS, len(order))
        best = np.argpartition(-order, n - 1)[:n] if n < len(order) else np.arange(len(order))
        hits: dict[int, Hit] = {}
        for place in best[np.argsort(-order[best], kind="stable")].tolist():
            number = int(self._entry_of[low + place])
            hits.setdefault(number, Hit(self._entries[number], bool(self._start_of[low + place] == 0)))
        return list(hits.values())[:limit]

    def _key(self, place: int) -> str:
        start = int(self._start_of[place])
        return self._keys[int(self._entry_of[place])][start : start + KEY_CHARS]


def _starts(key: str) -> Iterable[int]:
    """Where keys begin: at the first word, and at those after it that are no stop words."""
    start = 0
    for place, word in enumerate(key.split(" ")[:MAX_STARTS]):
        if word and (not place or not is_stop_word(word)):
            yield start
        start += len(word) + 1
