"""Query analysis: the parsed query, its profile, the weights of the signals, and warnings for the user."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shoal.index.matching import Matches
from shoal.learning.scorers import scorer_for
from shoal.models import QueryInfo, QueryReef, SearchMode
from shoal.scorer import Scorer
from shoal.search.feedback import MAX_REEFS, MAX_REEFS_WITH_WORDS, Feedback, apply_feedback
from shoal.search.fusion import LOW_TRUST, choose_weights, trust
from shoal.search.lexical_ranking import find_matches, score_chunks
from shoal.search.library_index import LibraryIndex
from shoal.search.matched_terms import format_term
from shoal.search.query_language import (
    MAX_PHRASE_WORDS,
    ParsedQuery,
    Term,
    parse_query,
    stems_of,
    tokens_of,
)
from shoal.search.query_profile import QueryProfile, join_words, make_profile, with_reefs
from shoal.search.reef_ranking import any_other_data
from shoal.search.request import Fusion, SearchRequest
from shoal.search.term_statistics import NO_STATISTICS, TermStatistics, find_term_statistics
from shoal.settings import Settings
from shoal.storage.database import Snapshot
from shoal.storage.staleness import count_other_data
from shoal.support.presets import Preset, Weights, all_presets

ONE_SIGNAL = {
    SearchMode.lexical: Weights(lexical=1.0, reef=0.0, field_boost=0.0),
    SearchMode.reef: Weights(lexical=0.0, reef=1.0, field_boost=0.0),
}
IN_NO_PASSAGE = "in no passage of this library"
MIN_MISSING_SHARE = 0.5
"""Share of the query, in no chunk, from which missing words get a warning even if the scorer knows them.
Known words still match by their reefs, and in a small library any question has a few that are missing."""


@dataclass(frozen=True, slots=True)
class AnalyzedQuery:
    """A query with everything that a search needs to know about it.

    scorer           knows the learned words of the query
    weights          of the signals, adding up to 1; all 0 if there is nothing to search for
    other_data       checksum of the scorer's data if some chunks were scored with other data, else None
    matches          the chunks that contain each of the query's terms
    lexical_scores   of all chunks, if already computed
    feedback         pseudo-relevance feedback; None if it is not applied
    term_statistics  how many chunks contain each of the query's terms
    """

    parsed: ParsedQuery
    profile: QueryProfile
    scorer: Scorer
    weights: Weights
    other_data: str | None
    warnings: tuple[str, ...]
    matches: Mapping[Term, Matches] = field(default_factory=dict)
    lexical_scores: NDArray[np.int64] | None = None
    feedback: Feedback | None = None
    term_statistics: TermStatistics = NO_STATISTICS

    @property
    def info(self) -> QueryInfo:
        """The query info of a response; its profile is the one used for ranking."""
        info = dataclasses.replace(
            self.profile.info, missing_terms=tuple(map(format_term, self.term_statistics.missing))
        )
        if self.feedback is None or not self.feedback.feedback_chunks:
            return info
        return dataclasses.replace(with_reefs(info, self.reefs), feedback=self.feedback.feedback_chunks)

    @property
    def reefs(self) -> tuple[QueryReef, ...]:
        """The profile used for ranking."""
        return self.profile.reefs if self.feedback is None else self.feedback.reefs


def analyze_query(
    snapshot: Snapshot, library: LibraryIndex, scorer: Scorer, settings: Settings, request: SearchRequest
) -> AnalyzedQuery:
    """Analyze a query in the state of the library that will be searched."""
    parsed = parse_query(request.query, max_words=settings.max_query_terms)
    query_scorer = scorer_for(parsed.about, snapshot, scorer)
    profile = make_profile(parsed.about, query_scorer, reefs_per_query=settings.reefs_per_query)
    preset = all_presets(settings.presets)[request.preset]
    weights = ONE_SIGNAL.get(request.mode) or choose_weights(
        preset, request.weights, request.fusion, profile.strength
    )
    by_reefs = request.mode is not SearchMode.lexical
    other_data = scorer.data_checksum if by_reefs and any_other_data(snapshot, scorer.data_checksum) else None
    matches = find_matches(library, parsed.terms)
    term_statistics = find_term_statistics(library, matches)
    warnings = _warnings(parsed, profile, request, preset, weights, term_statistics)
    if other_data is not None:
        n = count_other_data(snapshot, other_data)
        passages = "passage was" if n == 1 else "passages were"
        found = "not found" if request.mode is SearchMode.reef else "found by words only, and without labels"
        warnings.append(f"{n:,} {passages} scored with other scorer data: {found}, until a rescore")
    if library.n_missing:
        documents = "document was" if library.n_missing == 1 else "documents were"
        warnings.append(f"{library.n_missing:,} {documents} stored just now: not searched yet")
    lexical_scores, feedback = None, None
    share = settings.feedback_weight if settings.learning else 0.0
    if by_reefs and profile.reefs and share:
        lexical_scores = score_chunks(library, parsed, matches)
        feedback = apply_feedback(
            snapshot,
            library,
            profile.reefs,
            parsed,
            lexical_scores,
            share=share,
            max_reefs=MAX_REEFS if request.mode is SearchMode.reef else MAX_REEFS_WITH_WORDS,
            other_data_than=other_data,
        )
    return AnalyzedQuery(
        parsed,
        profile,
        query_scorer,
        weights,
        other_data,
        tuple(warnings),
        matches,
        lexical_scores,
        feedback,
        term_statistics,
    )


def _warnings(
    parsed: ParsedQuery,
    profile: QueryProfile,
    request: SearchRequest,
    preset: Preset,
    weights: Weights,
    term_statistics: TermStatistics,
) -> list[str]:
    if parsed.excluded and not parsed.about.strip():
        return ["the query only says what to leave out, so there are no results"]
    if request.mode is SearchMode.reef:
        return [*_of_reefs(profile), *_of_limits(parsed, ranks_by_words=False)]
    warnings = _of_missing(parsed, profile, request, weights, term_statistics)
    if not parsed.terms:
        warnings.append(
            "the query has only common words, which say nothing about a subject; "
            "put them in quotation marks to search for the phrase"
        )
    if parsed.is_text:
        warnings.append(
            "the query is a long text, so quotation marks, minus signs and title: have no special meaning"
        )
    warnings += _of_limits(parsed, ranks_by_words=True)
    if request.mode is SearchMode.hybrid and parsed.terms:
        warnings += _of_hybrid(parsed, profile, request, preset, term_statistics)
    return warnings


def _of_limits(parsed: ParsedQuery, *, ranks_by_words: bool) -> list[str]:
    """Warnings about words beyond the limits of a query."""
    warnings = []
    if parsed.n_ignored and ranks_by_words:
        warnings.append(f"only {_describe_count(parsed.terms)} of the query are searched for")
    if parsed.n_not_excluded:
        warnings.append(f"only {_describe_count(parsed.excluded)} that the query excludes are left out")
    if parsed.is_cut:
        warnings.append(f"only the first {MAX_PHRASE_WORDS} words of a phrase are searched for")
    return warnings


def _describe_count(terms: Sequence[Term]) -> str:
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
    """Warnings about terms in no chunk; they come before all other warnings."""
    missing = term_statistics.missing
    if not missing or not term_statistics.n_chunks:
        return []
    required = [term for term in missing if term in parsed.required]
    if required:
        what = f"what the query requires ({join_terms(required)})"
        return [f"no passage of this library contains {what}, so there are no results"]
    if len(missing) == len(parsed.terms):
        end = "; the results share reefs with it" if weights.reef else ", so there are no results"
        return [f"no passage of this library contains a word of the query ({join_terms(missing)}){end}"]
    is_relevant = (
        request.mode is SearchMode.lexical
        or _only_in_missing_terms(profile.info.unknown_words, term_statistics)
        or math.fsum(term_statistics.weights[term] for term in missing) >= MIN_MISSING_SHARE
    )
    return [f"{IN_NO_PASSAGE}: {join_terms(missing)}"] if is_relevant else []


def join_terms(terms: Sequence[Term]) -> str:
    """Join the first terms for a warning, and count the others."""
    return join_words([format_term(term) for term in terms])


def _only_in_missing_terms(words: Iterable[str], term_statistics: TermStatistics) -> list[str]:
    """The words that occur only in missing terms."""
    present, missing = set[str](), set[str]()
    for term, count in term_statistics.counts.items():
        (present if count else missing).update(stems_of(term.tokens))
    stems = {word: set(stems_of(tokens_of(word))) for word in words}
    return [word for word in words if stems[word] & missing and not stems[word] & present]


def _of_reefs(profile: QueryProfile) -> list[str]:
    unknown = profile.info.unknown_words
    if not profile.matched_words and not unknown:
        return ["the query has only common words or numbers, which say nothing about a subject"]
    if not profile.matched_words:
        return [f"no word of the query is known ({join_words(unknown)}), so there are no results by reefs"]
    return [f"not known, so without effect on the ranking: {join_words(unknown)}"] if unknown else []


def _of_hybrid(
    parsed: ParsedQuery,
    profile: QueryProfile,
    request: SearchRequest,
    preset: Preset,
    term_statistics: TermStatistics,
) -> list[str]:
    missing = _only_in_missing_terms(profile.info.unknown_words, term_statistics)
    unknown = [word for word in profile.info.unknown_words if word not in missing]
    if not profile.matched_words:
        if term_statistics.n_chunks and len(term_statistics.missing) == len(parsed.terms):
            return []  # Another warning says that there are no results.
        words = f" ({join_words(unknown)})" if unknown else ""
        return [f"no word of the query is known{words}, so results are ranked by spelling alone"]
    warnings = []
    if unknown:
        warnings.append(f"not known to the topic model, so found by spelling alone: {join_words(unknown)}")
    if request.weights is None and request.fusion is Fusion.blend and preset.is_adaptive:
        trust_factor = trust(profile.strength)
        if trust_factor < LOW_TRUST:
            warnings.append(
                "the query says little about a subject, "
                f"so shared reefs have {trust_factor:.0%} of their weight"
            )
    return warnings
