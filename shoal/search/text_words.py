"""The words of texts that are shown, to find in them what the index found."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
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
    if len(phrase) == 1:
        return [(each,) for each in found.get(phrase[0], ())]
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

    def __init__(self, *groups: Sequence[str]) -> None:
        """Read the texts of all groups at once, which takes less time than one group after another."""
        texts = list(itertools.chain.from_iterable(groups))
        self._stream, self._bounds = analyze_texts(texts)
        self._offsets = list(itertools.accumulate((len(text) + 1 for text in texts), initial=0))
        self._term_of = TERMS.of_forms(self._stream.forms)
        self._sizes = list(map(len, groups))
        self._texts = range(len(texts))
        self._found: tuple[frozenset[str], list[dict[str, list[Occurrence]]]] = (frozenset(), [])

    def by_group(self) -> list[TextWords]:
        """Return the words of each group."""
        ends = itertools.accumulate(self._sizes, initial=0)
        groups = []
        for start, end in itertools.pairwise(ends):
            group = copy.copy(self)
            group._texts = range(start, end)
            groups.append(group)
        return groups

    @property
    def all_forms(self) -> Sequence[str]:
        """The distinct forms in all the texts."""
        return self._stream.forms

    def forms_of_each(self) -> list[Callable[[], list[str]]]:
        """Return, for each text, what returns its distinct forms."""
        return [functools.partial(self._forms_of, text) for text in self._texts]

    def _forms_of(self, text: int) -> list[str]:
        ids = self._stream.ids[self._bounds[text] : self._bounds[text + 1]]
        return [self._stream.forms[number] for number in np.unique(ids).tolist()]

    def forms(self, terms: Collection[str]) -> set[str]:
        """Return the forms in any of the texts, of all groups, that have one of these terms."""
        wanted = frozenset(terms)
        return {form for form, term in zip(self._stream.forms, self._term_of, strict=True) if term in wanted}

    def find(self, terms: Collection[str]) -> list[dict[str, list[Occurrence]]]:
        """Return, for each text, the occurrences of those of these terms that it has, in order; those of
        other terms may be among them."""
        wanted = frozenset(terms)
        if wanted and wanted <= self._found[0]:
            return self._found[1]
        found: list[dict[str, list[Occurrence]]] = [{} for _ in self._texts]
        self._found = wanted, found
        is_wanted = np.array([term in wanted for term in self._term_of], dtype=np.bool_)
        if not is_wanted.any():
            return found
        stream = self._stream
        first, end = self._bounds[[self._texts.start, self._texts.stop]].tolist()
        places = np.flatnonzero(is_wanted[stream.ids[first:end]]) + first
        texts = np.searchsorted(self._bounds, places, side="right") - 1
        positions = stream.positions[places]
        columns = (texts, stream.ids[places], positions, stream.starts[places], stream.ends[places])
        for text, number, position, start, stop in zip(*(each.tolist() for each in columns), strict=True):
            before = self._offsets[text]
            occurrence = Occurrence(stream.forms[number], position, start - before, stop - before)
            found[text - self._texts.start].setdefault(self._term_of[number], []).append(occurrence)
        return found
