"""What a query for notes asks: its terms and its topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from shoal.learning.scorers import scorer_for
from shoal.models.queries import QueryReef
from shoal.scorer import Scorer
from shoal.search.matched_terms import typed_names
from shoal.search.query_profile import MAX_REEFS_WITH_WORDS, QueryProfile, make_profile
from shoal.settings import Settings
from shoal.storage.database import Snapshot
from shoal.words.analysis import content_words, terms_of, words_of
from shoal.words.terms import TERMS

SELF_WORDS = frozenset(("i", "me", "my", "mine", "we", "us", "our", "ours"))
"""Words by which somebody speaks of himself."""
SELF_TERMS = tuple(terms_of("i me my we our"))
"""Their terms that no other words have: *mining* has that of *mine*, and *US* that of *us*."""


class QueryTerm(NamedTuple):
    """A term of a query: how often it is in it, and the first word that has it, in lower case."""

    term: str
    word: str
    frequency: int


@dataclass(frozen=True, slots=True)
class NoteQuery:
    """A query for notes. It has no operators: `text` may be a prompt or a command.

    terms      distinct, without stop words, in order; at most `max_query_terms`
    reefs      strongest first
    names      those of its words, folded, that have a capital letter inside it
    profile    what its words are about
    is_of_self  whether it asks about the one who asks
    """

    text: str
    terms: tuple[QueryTerm, ...]
    reefs: tuple[QueryReef, ...]
    names: frozenset[str] = frozenset()
    profile: QueryProfile | None = None
    is_of_self: bool = False

    @property
    def probabilities(self) -> Mapping[int, float]:
        """By reef, that it is about it."""
        return {} if self.profile is None else self.profile.probabilities

    @property
    def query_z(self) -> dict[int, float]:
        return {reef.reef_id: reef.z_score for reef in self.reefs}


def analyze(
    snapshot: Snapshot, scorer: Scorer, settings: Settings, text: str, *, knows_learned: bool = True
) -> NoteQuery:
    """Analyze a query with the words that the library knows in this snapshot, unless it shall know none of
    them. `scorer` has none of them."""
    with_learned = scorer_for(text, snapshot, scorer) if knows_learned else scorer
    profile = make_profile(text, with_learned, reefs_per_query=settings.reefs_per_query)
    return NoteQuery(
        text,
        query_terms(text, settings.max_query_terms),
        profile.reefs[:MAX_REEFS_WITH_WORDS],
        typed_names(text, content_words(text)),
        profile,
        speaks_of_self(text),
    )


def speaks_of_self(text: str) -> bool:
    """Return whether a text has a word by which somebody speaks of himself. Several letters in capitals are a
    code, such as *US*."""
    surfaces = [text[word.start : word.end] for word in words_of(text) if word.form in SELF_WORDS]
    return any(len(surface) == 1 or not surface.isupper() for surface in surfaces)


def query_terms(text: str, limit: int) -> tuple[QueryTerm, ...]:
    """Return the first `limit` distinct terms of a text without stop words, in order."""
    forms = [word.form for word in content_words(text)]
    found: dict[str, QueryTerm] = {}
    for form, term in zip(forms, TERMS.of_forms(forms), strict=True):
        known = found.get(term)
        if known is not None:
            found[term] = known._replace(frequency=known.frequency + 1)
        elif len(found) < limit:
            found[term] = QueryTerm(term, form, 1)
    return tuple(found.values())
