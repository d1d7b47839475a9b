"""What must match: identifiers, numbers, names and negations of a query.

A passage about CVE-2021-44228 does not answer a query for CVE-2021-44229, however alike their other words
are. So the relevance of a passage that lacks what must match is at most `ELSEWHERE`, or `ABSENT` if the whole
library lacks it; and a passage with all identifiers and most words of the query has at least `HAVING`. Chosen
with `benchmarks/identifiers.py`.

A word with a capital letter must match only if the library writes it as a name, too: with a capital letter in
most places.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.index.forms import is_name, near_codes
from shoal.index.matching import IndexTerm, find
from shoal.search.library_index import LibraryIndex
from shoal.search.matched_terms import format_term
from shoal.search.query_language import NEGATIONS, ParsedQuery, Term
from shoal.search.query_profile import join_words
from shoal.storage.database import Snapshot
from shoal.words.analysis import words_of
from shoal.words.typed import folded, stems_of

ABSENT, ELSEWHERE, HAVING = 0.2, 0.5, 0.85
"""Most relevance of a passage without what must match, if no passage has it and if others do; and least
relevance of a passage with all identifiers and at least `MOST` of the query's words, by rarity."""
MOST = 0.6
TEXT_OF = """
    SELECT c.text, d.title, s.path AS section_path FROM chunks c
    JOIN documents d ON d.id = c.document_id JOIN sections s ON s.id = c.section_id WHERE c.id = :chunk_id
"""
MAX_NEAR = 3
"""Near identifiers that a warning names."""


class Bounds(NamedTuple):
    """lacking: what must match and a passage lacks, as typed; most, least: bounds of its relevance."""

    lacking: tuple[str, ...] = ()
    most: float = 1.0
    least: float = 0.0


NO_BOUNDS = Bounds()


@dataclass(frozen=True, slots=True)
class MustMatch:
    """What passages must have to answer a query.

    terms        identifiers and names, each with its stem and those of its synonyms
    absent       those of the terms that are in no passage
    identifiers  those of the terms that are identifiers
    negation     the negating word of the query
    """

    terms: Mapping[Term, frozenset[str]]
    absent: frozenset[Term]
    identifiers: frozenset[Term]
    negation: str | None = None

    @property
    def stems(self) -> frozenset[str]:
        """All stems that are looked for in a passage."""
        negations = NEGATION_STEMS if self.negation else frozenset()
        return negations.union(*self.terms.values())

    def bounds(self, present: Collection[str], coverage: float | None) -> Bounds:
        """Return the bounds of a passage with these of the stems."""
        found = frozenset(present)
        lacking = [term for term, stems in self.terms.items() if found.isdisjoint(stems)]
        names = [format_term(term) for term in lacking]
        if self.negation and found.isdisjoint(NEGATION_STEMS):
            names.append(self.negation)
        if names:
            return Bounds(tuple(names), ABSENT if self.absent.intersection(lacking) else ELSEWHERE)
        has_all = bool(self.identifiers) and coverage is not None and coverage >= MOST
        return Bounds(least=HAVING if has_all else 0.0)


NOTHING = MustMatch({}, frozenset(), frozenset())
NEGATION_STEMS = frozenset(stems_of([*sorted(NEGATIONS), "nothing", "lack", "except", "isn", "don", "doesn"]))


def find_must_match(library: LibraryIndex, parsed: ParsedQuery, counts: Mapping[Term, int]) -> MustMatch:
    """Return what must match. `counts`: in how many passages each term of the query is."""
    names = [term for term in parsed.names if is_name(library.index, folded(term.text))]
    wanted = [term for term in (*parsed.identifiers, *names) if term in counts]
    terms = {
        term: frozenset(
            stem for form in (term, *parsed.synonyms.get(term, ())) for stem in stems_of(form.tokens)[:1]
        )
        for term in wanted
    }
    absent = frozenset(term for term in wanted if not counts[term])
    return MustMatch(terms, absent, frozenset(parsed.identifiers).intersection(wanted), parsed.negation)


def absent_warnings(
    snapshot: Snapshot, library: LibraryIndex, must: MustMatch, is_met: NDArray[np.bool_] | None
) -> Iterator[str]:
    """Yield a warning for each identifier in no passage that is near to others in passages which meet the
    filters."""
    for term in must.terms:
        if term in must.absent and term in must.identifiers:
            near = _near(snapshot, library, folded(term.text), is_met)
            if near:
                yield f"this library does not have {format_term(term)}, but {join_words(near)}"


def _near(
    snapshot: Snapshot, library: LibraryIndex, form: str, is_met: NDArray[np.bool_] | None
) -> list[str]:
    """The identifiers one edit away, as written."""
    forms = near_codes(library.index, form, 2 * MAX_NEAR) if any(map(str.isdigit, form)) else []
    written = []
    for each, matches in zip(forms, find(library.index, [IndexTerm((each,)) for each in forms]), strict=True):
        mask = matches.mask() if is_met is None else matches.mask() & is_met
        place = int(np.argmax(mask))
        if mask[place]:
            (chunk_id,) = library.index.chunk_ids(np.array([place])).tolist()
            written.append(_as_written(snapshot, chunk_id, each))
    return written[:MAX_NEAR]


def _as_written(snapshot: Snapshot, chunk_id: int, form: str) -> str:
    """A word as a passage, its title or its headings write it."""
    row = snapshot.first(TEXT_OF, {"chunk_id": chunk_id})
    text = "" if row is None else "\n".join([row["text"], row["title"], *json.loads(row["section_path"])])
    return next((text[word.start : word.end] for word in words_of(text) if word.form == form), form)


def lacking_warning(lacking: Sequence[str]) -> str:
    """Return the warning for what the first result lacks."""
    return f"the first result does not contain {join_words(list(lacking))}"
