"""What must match: identifiers, numbers, names and negations of a query.

A passage about CVE-2021-44228 does not answer a query for CVE-2021-44229, however alike their other words
are. So the relevance of a passage that lacks what must match is at most `ELSEWHERE`. It is at most `ABSENT`
if the whole library lacks it, and it is `MUCH` of the query or the passage has a sibling in its place. A
passage with all identifiers and most words of the query has at least `HAVING`. `benchmarks/identifiers.py`
and `benchmarks/first_results.py` measure both sides.

An identifier is also there if its parts stand side by side: *T cells* has T-cell.

A word with a capital letter must match only if the library writes it as a name, too: with a capital letter in
most places.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.index.forms import count_edits, is_name, near_codes
from shoal.index.matching import IndexTerm, find
from shoal.search.lexical_ranking import TermStatistics
from shoal.search.library_index import LibraryIndex
from shoal.search.matched_terms import Occurrence, find_phrase, format_term
from shoal.search.near_words import parts_of
from shoal.search.query_language import NEGATIONS, ParsedQuery, Term
from shoal.search.query_profile import join_words
from shoal.storage.database import Snapshot
from shoal.words.analysis import words_of
from shoal.words.terms import HYPHENS
from shoal.words.typed import folded, stems_of, tokens_of

ABSENT, ELSEWHERE, HAVING = 0.2, 0.5, 0.85
"""Most relevance of a passage without what must match, if no passage has it and if others do; and least
relevance of a passage with all identifiers and at least `MOST` of the query's words, by rarity."""
MOST, MUCH = 0.6, 1 / 3
"""Shares of the query's words, by rarity."""
MIN_WORD = 3
"""Letters of a plain word at the end of a compound, such as *Rad53-dependent*; of a shorter identifier, too
many words are one edit away."""
TEXT_OF = """
    SELECT c.text, d.title, s.path AS section_path FROM chunks c
    JOIN documents d ON d.id = c.document_id JOIN sections s ON s.id = c.section_id WHERE c.id = :chunk_id
"""
MAX_NEAR = 3
"""Near identifiers that a warning names."""

_HYPHENS = re.compile(f"[{HYPHENS}]")
_DIGITS, _DIGIT = re.compile(r"\d+"), re.compile(r"\d")


class Bounds(NamedTuple):
    """lacking: what must match and a passage lacks, as typed; most, least: bounds of its relevance."""

    lacking: tuple[str, ...] = ()
    most: float = 1.0
    least: float = 0.0


NO_BOUNDS = Bounds()


@dataclass(frozen=True, slots=True)
class MustMatch:
    """What passages must have to answer a query.

    terms        identifiers and names, each with the phrases of stems that stand for it
    absent       those of the terms that are in no passage
    decisive     the share of the query of those absent terms that are in no passage without the plain words
                 at their ends either
    identifiers  those of the terms that are identifiers
    negation     the negating word of the query
    """

    terms: Mapping[Term, frozenset[tuple[str, ...]]]
    absent: frozenset[Term]
    decisive: Mapping[Term, float]
    identifiers: frozenset[Term]
    negation: str | None = None

    def stems(self) -> set[str]:
        """Return all stems that are looked for in a passage."""
        stems = self._own_stems()
        return stems | NEGATION_STEMS if self.negation else stems

    def _own_stems(self) -> set[str]:
        return {stem for phrases in self.terms.values() for phrase in phrases for stem in phrase}

    def siblings(self, forms: Collection[str]) -> dict[Term, frozenset[str]]:
        """Return, for each decisive term, the stems of those of some forms that are its siblings: one edit
        away, or the same but for a number. An identifier of the query is nobody's sibling."""
        own = self._own_stems()
        others = [form for form in forms if len(form) > 1]
        stems = stems_of(others)
        siblings = {}
        for term in self.decisive:
            form = folded(term.text)
            series = _series(form)
            siblings[term] = frozenset(
                stem
                for other, stem, edits in zip(others, stems, count_edits(others, form), strict=True)
                if stem not in own and (_series(other) == series or (edits == 1 and len(form) >= MIN_WORD))
            )
        return siblings

    def bounds(
        self,
        places: Sequence[Mapping[str, Sequence[Occurrence]]],
        coverage: float | None,
        siblings: Collection[Term] = (),
    ) -> Bounds:
        """Return the bounds of a passage. `places`: the stems in its head and in its text; `siblings`: the
        terms that it has a sibling of."""
        lacking = [term for term, phrases in self.terms.items() if not _has_any(places, phrases)]
        names = [format_term(term) for term in lacking]
        if self.negation and all(NEGATION_STEMS.isdisjoint(found) for found in places):
            names.append(self.negation)
        if names:
            decisive = [term for term in lacking if term in self.decisive]
            is_much = math.fsum(self.decisive[term] for term in decisive) >= MUCH
            is_absent = is_much or not set(siblings).isdisjoint(decisive)
            return Bounds(tuple(names), ABSENT if is_absent else ELSEWHERE)
        has_all = bool(self.identifiers) and coverage is not None and coverage >= MOST
        return Bounds(least=HAVING if has_all else 0.0)


NOTHING = MustMatch({}, frozenset(), {}, frozenset())
NEGATION_STEMS = frozenset(stems_of([*sorted(NEGATIONS), "nothing", "lack", "except", "isn", "don", "doesn"]))


def find_must_match(library: LibraryIndex, parsed: ParsedQuery, statistics: TermStatistics) -> MustMatch:
    """Return what must match. `statistics`: of the terms of the query."""
    names = [term for term in parsed.names if is_name(library.index, folded(term.text))]
    wanted = [term for term in (*parsed.identifiers, *names) if term in statistics.counts]
    identifiers = frozenset(parsed.identifiers).intersection(wanted)
    terms = {
        term: frozenset(
            [stems_of(form.tokens) for form in (term, *parsed.synonyms.get(term, ()))]
            + [stems_of(parts) for parts in [parts_of(term)] if term in identifiers and parts]
        )
        for term in wanted
    }
    absent = frozenset(term for term in wanted if not statistics.counts[term])
    decisive = {
        term: statistics.weights[term] for term in wanted if term in absent and not _has_rest(library, term)
    }
    return MustMatch(terms, absent, decisive, identifiers, parsed.negation)


def _has_any(
    places: Sequence[Mapping[str, Sequence[Occurrence]]], phrases: Collection[tuple[str, ...]]
) -> bool:
    return any(find_phrase(found, phrase) for found in places for phrase in phrases)


def _has_rest(library: LibraryIndex, term: Term) -> bool:
    """Whether the library has a compound without the plain words at its ends: Rad53 of *Rad53-dependent*."""
    pieces = _HYPHENS.split(term.text)
    while len(pieces) > 1 and _is_plain(pieces[-1]):
        pieces.pop()
    while len(pieces) > 1 and _is_plain(pieces[0]) and len(pieces) > 2:
        pieces.pop(0)
    rest = "-".join(pieces)
    if rest == term.text or len(rest) < MIN_WORD or not any(map(str.isalpha, rest)):
        return False
    phrases = {stems_of([rest]), stems_of(tokens_of(rest))}
    return any(found.n_chunks for found in find(library.index, map(IndexTerm, phrases)))


def _is_plain(piece: str) -> bool:
    return piece.isalpha() and piece.islower() and len(piece) >= MIN_WORD


def _series(form: str) -> str:
    """What siblings have in common: the form without its numbers, or the number of digits of a number."""
    return (_DIGITS if any(map(str.isalpha, form)) else _DIGIT).sub("#", form)


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
