"""Compounds of the dictionary that begin as typed and that the library has, such as *natural selection*."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Callable, Iterable, Sequence

from shoal.index.index import Index
from shoal.index.matching import IN_TEXT, IndexTerm, count_roughly, find
from shoal.search.completions import key_of
from shoal.search.library_index import LibraryIndex
from shoal.search.query_language import Term
from shoal.words.typed import stems_of, tokens_of

MIN_LETTERS = 3
MAX_COMPARED = 400
"""Compounds that begin as typed and are looked up; if there are more, none is, until more is typed."""
MAX_VERIFIED = 4
"""Compounds whose passages are counted: those whose rarest word is in most passages."""
_COUNTS, _PASSAGES = "counts of the words of compounds", "passages of compounds"


class DictionaryCompounds:
    """The compounds of a dictionary by their beginnings. `get_compounds` returns them in lower case."""

    def __init__(self, get_compounds: Callable[[], Sequence[str]]) -> None:
        self._get_compounds = get_compounds

    @functools.cached_property
    def _sorted(self) -> Sequence[str]:
        return sorted(self._get_compounds())

    def load(self) -> None:
        """Read the dictionary, so that the first suggestion need not."""
        len(self._sorted)

    def find(self, library: LibraryIndex, beginning: str) -> list[tuple[str, int]]:
        """Return the best compounds of the library that begin with a key, each with the passages that have
        it."""
        if len(beginning) < MIN_LETTERS:
            return []
        low = bisect.bisect_left(self._sorted, beginning)
        high = bisect.bisect_right(self._sorted, beginning, key=lambda each: each[: len(beginning)])
        return count_compounds(library, self._sorted[low:high] if high - low <= MAX_COMPARED else ())


def count_compounds(library: LibraryIndex, compounds: Iterable[str]) -> list[tuple[str, int]]:
    """Return the likeliest of some compounds that texts of passages have, each with the number of them."""
    terms = {compound: Term(tuple(tokens_of(compound))) for compound in compounds}
    at_most = {compound: _rarest(library.index, term) for compound, term in terms.items()}
    likeliest = sorted((each for each in terms if at_most[each]), key=lambda each: (-at_most[each], each))
    counts: dict[str, int] = library.index.cached.setdefault(_PASSAGES, {})
    new = [each for each in likeliest[:MAX_VERIFIED] if each not in counts]
    found = find(library.index, [IndexTerm(stems_of(terms[each].tokens), IN_TEXT) for each in new])
    counts.update((each, matches.n_chunks) for each, matches in zip(new, found, strict=True))
    return [(each, counts[each]) for each in likeliest[:MAX_VERIFIED] if counts[each]]


def is_compound(text: str) -> bool:
    """Whether a learned word has several parts."""
    return " " in key_of(text)


def _rarest(index: Index, term: Term) -> int:
    """Roughly, the number of passages of the rarest word of a compound."""
    counts: dict[str, int] = index.cached.setdefault(_COUNTS, {})
    least: int | None = None
    for stem in stems_of(term.tokens):
        if stem not in counts:
            counts[stem] = count_roughly(index, stem)
        least = counts[stem] if least is None else min(least, counts[stem])
        if not least:
            return 0
    return least or 0
