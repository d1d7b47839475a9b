"""What a search is about: the query taken apart, its profile, what each signal counts, and what to tell its author."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.learning.scorers import scorer_for
from shoal.models import QueryInfo, QueryReef, SearchMode
from shoal.search.feedback import Feedback, apply_feedback
from shoal.search.fusion import DOUBTFUL, PRESETS, Weights, choose_weights, trust
from shoal.search.lexical_ranking import Matches, match_scores
from shoal.search.matched_terms import spelt
from shoal.search.query_language import (
    MAX_PHRASE_WORDS,
    ParsedQuery,
    Term,
    parse_query,
    stems_of,
    tokens_of,
)
from shoal.search.query_profile import QueryProfile, make_profile, moved, named
from shoal.search.reef_ranking import any_other_data, count_other_data
from shoal.search.request import Fusion, SearchRequest
from shoal.search.term_statistics import NO_SPREAD, TermStatistics, find_term_statistics
from shoal.settings import Settings
from shoal.storage.database import Snapshot

ONE_SIGNAL = {
    SearchMode.lexical: Weights(lexical=1.0, reef=0.0, field_boost=0.0),
    SearchMode.reef: Weights(lexical=0.0, reef=1.0, field_boost=0.0),
}
MUCH_MISSING = 0.5
"""The share of a query that no passage holds from which an answer says so, where the words that are missing are known and
so may be met by their reefs: in a small library any question has some."""


@dataclass(frozen=True, slots=True)
class AnalyzedQuery:
    """scorer      knows the learned words of the query
    weights     of the signals, adding up to 1, or all 0 where there is nothing to search by
    other_data  the checksum of the scorer's data if some chunks were scored with other data, else None
    matches     of the query's terms, once they were looked up
    feedback     what moves the query's profile in this library; None where no reefs are compared
    term_statistics      how many passages hold each of the query's terms
    """

    parsed: ParsedQuery
    profile: QueryProfile
    scorer: Any
    weights: Weights
    other_data: str | None
    warnings: tuple[str, ...]
    matches: Matches | None = None
    feedback: Feedback | None = None
    term_statistics: TermStatistics = NO_SPREAD

    @property
    def info(self) -> QueryInfo:
        """What an answer says of the query: the profile is the one that takes part in the search."""
        info = dataclasses.replace(
            self.profile.info, missing_terms=tuple(map(spelt, self.term_statistics.missing))
        )
        if self.feedback is None or not self.feedback.feedback_chunks:
            return info
        return dataclasses.replace(moved(info, self.reefs), feedback=self.feedback.feedback_chunks)

    @property
    def reefs(self) -> tuple[QueryReef, ...]:
        """The query's profile as it takes part in a search."""
        return self.profile.reefs if self.feedback is None else self.feedback.reefs


def analyze_query(
    snapshot: Snapshot, scorer: Any, settings: Settings, request: SearchRequest
) -> AnalyzedQuery:
    """Read a query in the state of the library that is to be searched."""
    parsed = parse_query(request.query, max_words=settings.max_query_terms)
    query_scorer = scorer_for(parsed.about, snapshot, scorer)
    profile = make_profile(parsed.about, query_scorer, reefs_per_query=settings.reefs_per_query)
    weights = ONE_SIGNAL.get(request.mode) or choose_weights(
        request.preset, request.weights, request.fusion, profile.strength
    )
    by_reefs = request.mode is not SearchMode.lexical
    other_data = scorer.data_checksum if by_reefs and any_other_data(snapshot, scorer.data_checksum) else None
    term_statistics = find_term_statistics(snapshot, parsed.terms)
    warnings = _warnings(parsed, profile, request, weights, term_statistics)
    if other_data is not None:
        n = count_other_data(snapshot, other_data)
        chunks = (
            f"{n:,} {'passage was' if n == 1 else 'passages were'} scored with other lagoon data and left out"
        )
        warnings.append(chunks if request.mode is SearchMode.reef else f"{chunks} of the search by reefs")
    matches, feedback = None, None
    share = settings.feedback_weight if settings.learning else 0.0
    if by_reefs and profile.reefs and share:
        matches = match_scores(snapshot, term_statistics.standing)
        feedback = apply_feedback(
            snapshot, profile.reefs, parsed, matches, share=share, other_data_than=other_data
        )
    return AnalyzedQuery(
        parsed,
        profile,
        query_scorer,
        weights,
        other_data,
        tuple(warnings),
        matches,
        feedback,
        term_statistics,
    )


def _warnings(
    parsed: ParsedQuery,
    profile: QueryProfile,
    request: SearchRequest,
    weights: Weights,
    term_statistics: TermStatistics,
) -> list[str]:
    if parsed.excluded and not parsed.about.strip():
        return ["the query only says what to leave out, so nothing can be found"]
    if request.mode is SearchMode.reef:
        return [*_of_reefs(profile), *_of_limits(parsed, ranks_by_words=False)]
    found = _of_missing(parsed, profile, request, weights, term_statistics)
    if not parsed.terms:
        found.append(
            "the query holds only common words, which say nothing about a subject; "
            "in quotation marks they are searched for side by side"
        )
    if parsed.is_text:
        found.append("the query is a long text, so quotation marks, minus and title: are taken as part of it")
    found += _of_limits(parsed, ranks_by_words=True)
    if request.mode is SearchMode.hybrid and parsed.terms:
        found += _of_hybrid(parsed, profile, request, term_statistics)
    return found


def _of_limits(parsed: ParsedQuery, *, ranks_by_words: bool) -> list[str]:
    """What to say of words beyond the limits of a query."""
    found = []
    if parsed.n_ignored and ranks_by_words:
        found.append(f"only {_counted(parsed.terms)} of the query are searched for")
    if parsed.n_allowed:
        found.append(f"only {_counted(parsed.excluded)} that the query excludes are left out")
    if parsed.is_cut:
        found.append(f"only the first {MAX_PHRASE_WORDS} words of a phrase are searched for")
    return found


def _counted(terms: Sequence[Term]) -> str:
    n_words = sum(len(term.tokens) for term in terms)
    n_phrases = sum(len(term.tokens) > 1 for term in terms)
    phrases = f", {n_phrases} phrases among them," if n_phrases else ""
    return f"the first {n_words:,} different words{phrases}"


def _of_missing(
    parsed: ParsedQuery,
    profile: QueryProfile,
    request: SearchRequest,
    weights: Weights,
    term_statistics: TermStatistics,
) -> list[str]:
    """What to say, before all else, of words that stand nowhere in the library."""
    missing = term_statistics.missing
    if not missing or not term_statistics.n_chunks:
        return []
    demanded = [term for term in missing if term in parsed.required]
    if demanded:
        what = f"what the query demands ({_spelt(demanded)})"
        return [f"no passage of this library holds {what}, so nothing can be found"]
    if len(missing) == len(parsed.terms):
        end = "; what is found shares reefs with it" if weights.reef else ", so nothing can be found"
        return [f"no passage of this library holds a word of the query ({_spelt(missing)}){end}"]
    is_telling = (
        request.mode is SearchMode.lexical
        or _nowhere(profile.info.unknown_words, term_statistics)
        or math.fsum(term_statistics.weights[term] for term in missing) >= MUCH_MISSING
    )
    return [f"in no passage of this library: {_spelt(missing)}"] if is_telling else []


def _spelt(terms: Sequence[Term]) -> str:
    return named([spelt(term) for term in terms])


def _nowhere(words: Iterable[str], term_statistics: TermStatistics) -> list[str]:
    """Those of the words that are part of no term but missing ones."""
    standing, missing = set[str](), set[str]()
    for term, count in term_statistics.counts.items():
        (standing if count else missing).update(stems_of(term.tokens))
    stems = {word: set(stems_of(tokens_of(word))) for word in words}
    return [word for word in words if stems[word] & missing and not stems[word] & standing]


def _of_reefs(profile: QueryProfile) -> list[str]:
    unknown = profile.info.unknown_words
    if not profile.matched_words and not unknown:
        return ["the query holds only common words or numbers, which say nothing about a subject"]
    if not profile.matched_words:
        return [f"no word of the query is known ({named(unknown)}), so nothing can be found by reefs"]
    return [f"not known, and without effect on the ranking: {named(unknown)}"] if unknown else []


def _of_hybrid(
    parsed: ParsedQuery, profile: QueryProfile, request: SearchRequest, term_statistics: TermStatistics
) -> list[str]:
    nowhere = _nowhere(profile.info.unknown_words, term_statistics)
    unknown = [word for word in profile.info.unknown_words if word not in nowhere]
    if not profile.matched_words:
        if term_statistics.n_chunks and len(term_statistics.missing) == len(parsed.terms):
            return []  # Nothing can be found, and that has been said.
        which = f" ({named(unknown)})" if unknown else ""
        return [f"no word of the query is known{which}, so results are ranked by its words alone"]
    found = [f"not known to the topic model, so found by spelling alone: {named(unknown)}"] if unknown else []
    asked = PRESETS[request.preset]
    if request.weights is None and request.fusion is Fusion.blend and asked.reef:
        trust_factor = trust(profile.strength)
        if trust_factor < DOUBTFUL:
            found.append(
                f"the query says little about a subject, so shared reefs have {trust_factor:.0%} of their weight"
            )
    return found
