"""The words of texts that are shown, to find in them what the index found."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shoal.words.analysis import analyze_texts
from shoal.words.terms import TERMS


class Occurrence(NamedTuple):
    """A word in a text.

    form        as written, folded
    position    of words; those of a compound may share one
    start, end  in code points, end exclusive
    """

    form: str
    position: int
    start: int
    end: int


def find_phrase(
    found: Mapping[str, Sequence[Occurrence]], phrase: Sequence[str]
) -> list[tuple[Occurrence, ...]]:
    """Return the words wherever these terms are side by side in a text. `found`: its words by their terms."""
    if not all(term in found for term in phrase):
        return []
    at = [{each.position: each for each in found[term]} for term in phrase]
    return [
        tuple(words[position + place] for place, words in enumerate(at))
        for position in at[0]
        if all(position + place in words for place, words in enumerate(at))
    ]


class TextWords:
    """The words of some texts by their terms."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._stream, self._bounds = analyze_texts(texts)
        lengths = [len(text) + 1 for text in texts]
        self._offsets = list(itertools.accumulate(lengths, initial=0))
        self._term_of = TERMS.of_forms(self._stream.forms)

    @functools.cached_property
    def _forms_of(self) -> Mapping[str, list[int]]:
        forms: dict[str, list[int]] = {}
        for number, term in enumerate(self._term_of):
            forms.setdefault(term, []).append(number)
        return forms

    @property
    def all_forms(self) -> Sequence[str]:
        """The distinct forms in all the texts."""
        return self._stream.forms

    def forms(self, terms: Collection[str]) -> set[str]:
        """Return the forms in any of the texts that have one of these terms."""
        return {self._stream.forms[number] for term in set(terms) for number in self._forms_of.get(term, ())}

    def find(self, terms: Collection[str]) -> list[dict[str, list[Occurrence]]]:
        """Return, for each text, the occurrences of those of these terms that it has, in order."""
        found: list[dict[str, list[Occurrence]]] = [{} for _ in range(len(self._bounds) - 1)]
        numbers = [number for term in set(terms) for number in self._forms_of.get(term, ())]
        if not numbers:
            return found
        stream = self._stream
        is_wanted = np.zeros(len(stream.forms), dtype=np.bool_)
        is_wanted[numbers] = True
        places = np.flatnonzero(is_wanted[stream.ids])
        texts = np.searchsorted(self._bounds, places, side="right") - 1
        positions = stream.positions[places]
        columns = (texts, stream.ids[places], positions, stream.starts[places], stream.ends[places])
        for text, number, position, start, end in zip(*(each.tolist() for each in columns), strict=True):
            before = self._offsets[text]
            occurrence = Occurrence(stream.forms[number], position, start - before, end - before)
            found[text].setdefault(self._term_of[number], []).append(occurrence)
        return found
