"""The languages of the passages of an index, by the marks that they have (`shoal.words.inflections`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from shoal.index.index import Index
from shoal.index.matching import IN_TEXT, IndexTerm, Matches, PartMatches, find
from shoal.search.library_index import LibraryIndex
from shoal.support.languages import ENGLISH, LANGUAGES
from shoal.words.inflections import language_mark

CODES = (ENGLISH, *(code for code in LANGUAGES if code != ENGLISH))
"""A passage without a mark is in the first."""


def languages_of_library(library: LibraryIndex) -> tuple[str, ...]:
    """Return the languages of the passages of an index, in the order of their codes."""
    cached = library.index.cached
    found: tuple[str, ...] | None = cached.get(languages_of_library)
    if found is None:
        counts = np.zeros(len(CODES), dtype=np.int64)
        for part, which in zip(library.index.parts, _of_passages(library.index), strict=True):
            live = which if part.live_chunks is None else which[part.live_chunks]
            counts += np.bincount(live, minlength=len(CODES))
        codes = [CODES[number] for number in np.flatnonzero(counts).tolist()]
        cached[languages_of_library] = found = tuple(sorted(codes))
    return found


def in_languages(matches: Matches, codes: Collection[str]) -> Matches:
    """Return those of some matches whose passages are in one of some languages."""
    is_wanted = np.array([code in codes for code in CODES])
    parts = []
    for part, which in zip(matches.parts, _of_passages(matches.index), strict=True):
        is_kept = is_wanted[which[part.ordinals]]
        counts = (column[is_kept] if len(column) else column for column in part[1:])
        parts.append(part if is_kept.all() else PartMatches(part.ordinals[is_kept], *counts))
    return Matches(matches.index, parts, matches.unit)


def _of_passages(index: Index) -> Sequence[NDArray[np.uint8]]:
    """For each part, the place of the language of each passage in `CODES`. Viewers share it."""
    index = index.whole or index
    found: Sequence[NDArray[np.uint8]] | None = index.cached.get(_of_passages)
    if found is None:
        found = [np.zeros(part.segment.n_chunks, dtype=np.uint8) for part in index.parts]
        marks = find(index, [IndexTerm((language_mark(code),), IN_TEXT) for code in CODES[1:]])
        for number, matches in enumerate(marks, start=1):
            for which, part in zip(found, matches.parts, strict=True):
                which[part.ordinals] = number
        index.cached[_of_passages] = found
    return found
