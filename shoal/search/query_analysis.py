"""Query analysis: the parsed query, its profile, the weights of the signals, and warnings for the user."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lagoon.tokens import without_clitic
from shoal.index.forms import count_form
from shoal.index.matching import Matches
from shoal.learning.scorers import scorer_for, scorer_queries
from shoal.models.pins import PinRule
from shoal.models.queries import ExcludedTerm, NearWord, QueryInfo, QueryReef, UsedSynonym
from shoal.models.search import Fusion, Pins, SearchMode, Synonyms, Typos
from shoal.scorer import Scorer
from shoal.search import pins as stored_pins
from shoal.search import synonyms as stored_synonyms
from shoal.search.embedded_query import NOT_EMBEDDED, EmbeddedQuery, cosines_or_warning
from shoal.search.lexical_ranking import (
    NO_STATISTICS,
    TermStatistics,
    find_matches,
    find_term_statistics,
    score_chunks,
    tags_query,
)
from shoal.search.library_index import LibraryIndex, LibraryView
from shoal.search.matched_terms import format_term, is_inflection, with_doubled_letter
from shoal.search.must_match import NOTHING, MustMatch, find_must_match
from shoal.search.names import without_names
from shoal.search.near_words import (
    complete_last_word,
    correct_typing_errors,
    describe_typing_errors,
    is_known,
    with_joined_words,
)
from shoal.search.pins import find_pins, used_pins
from shoal.search.query_language import MAX_PHRASE_WORDS, ParsedQuery, Term, parse_query
from shoal.search.query_profile import (
    MAX_REEFS,
    MAX_REEFS_WITH_WORDS,
    Feedback,
    QueryProfile,
    apply_feedback,
    join_words,
    make_profile,
    with_reefs,
)
from shoal.search.request import SearchRequest
from shoal.search.signals import LOW_TRUST, DenseCosines, choose_weights, trust
from shoal.search.synonyms import add_synonyms, describe, terms_with_synonyms, unite_forms
from shoal.settings import Settings
from shoal.storage.database import Query, Snapshot
from shoal.storage.staleness import ANY_OTHER_DATA, any_other_data, count_other_data
from shoal.support.presets import Preset, Weights, all_presets
from shoal.words.analysis import words_of
from shoal.words.typed import folded, stems_of, tokens_of

ONE_SIGNAL = {
    SearchMode.lexical: Weights(lexical=1.0, reef=0.0, field_boost=0.0),
    SearchMode.reef: Weights(lexical=0.0, reef=1.0, field_boost=0.0),
    SearchMode.dense: Weights(lexical=0.0, reef=0.0, field_boost=0.0, dense=1.0),
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
    cosines          of the query's vector; None if there is none, or no chunk has one
    near_words       words searched for in place of, or beside, those of the query
    typed_about      `parsed.about` before its words were replaced
    synonyms         what words of the query were searched for as, too
    pins             those for the query, first those that come first
    must_match       what a passage must have to answer the query
    excluded         what the query leaves out
    names            folded words of the query that are names, which show no reef
    topical          `parsed.about` without them
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
    cosines: DenseCosines | None = None
    near_words: tuple[NearWord, ...] = ()
    typed_about: str = ""
    synonyms: tuple[UsedSynonym, ...] = ()
    pins: tuple[PinRule, ...] = ()
    must_match: MustMatch = NOTHING
    excluded: tuple[ExcludedTerm, ...] = ()
    names: frozenset[str] = frozenset()
    topical: str = ""

    def warned(self, warnings: Iterable[str]) -> AnalyzedQuery:
        """Return the query with further warnings."""
        new = tuple(warnings)
        return dataclasses.replace(self, warnings=(*self.warnings, *new)) if new else self

    @property
    def info(self) -> QueryInfo:
        """The query info of a response; its profile is the one used for ranking."""
        info = dataclasses.replace(
            self.profile.info,
            missing_terms=tuple(map(format_term, self.term_statistics.missing)),
            near_words=self.near_words,
            synonyms=self.synonyms,
            pins=used_pins(self.pins),
            excluded=self.excluded,
        )
        if self.feedback is None or not self.feedback.feedback_chunks:
            return info
        return dataclasses.replace(with_reefs(info, self.reefs), feedback=self.feedback.feedback_chunks)

    @property
    def reefs(self) -> tuple[QueryReef, ...]:
        """The profile used for ranking."""
        return self.profile.reefs if self.feedback is None else self.feedback.reefs


def first_queries(scorer: Scorer, settings: Settings, request: SearchRequest) -> Iterator[Query]:
    """Yield what `analyze_query` reads of every library."""
    parsed = parse_query(request.query, max_words=settings.max_query_terms, syntax=request.syntax)
    yield from scorer_queries(parsed.about, scorer)
    if request.mode.uses("reef"):
        yield Query(ANY_OTHER_DATA, {"data_checksum": scorer.data_checksum})
    if request.synonyms is Synonyms.on:
        yield Query(stored_synonyms.ANY)
    if request.pins is Pins.on:
        yield Query(stored_pins.ANY)
    if request.mode is SearchMode.hybrid or request.include_scores:
        yield tags_query(parsed.terms)


def analyze_query(
    view: LibraryView, request: SearchRequest, embedded: EmbeddedQuery = NOT_EMBEDDED
) -> AnalyzedQuery:
    """Analyze a query in the state of the library that will be searched. `embedded`: its vector, if any."""
    snapshot, library, scorer, settings = view
    typed = parsed = parse_query(request.query, max_words=settings.max_query_terms, syntax=request.syntax)
    query_scorer = scorer_for(parsed.about, snapshot, scorer)
    profile = make_profile(parsed.about, query_scorer, reefs_per_query=settings.reefs_per_query)
    matches = find_matches(library, parsed.terms)
    term_statistics = find_term_statistics(library, matches, parsed.parts)
    has_synonyms: frozenset[Term] = frozenset()
    if term_statistics.missing and request.synonyms is Synonyms.on:
        has_synonyms = terms_with_synonyms(snapshot, library, parsed)
    parsed, near_words = with_near_words(
        snapshot, library, parsed, term_statistics, query_scorer, request, has_synonyms
    )
    if parsed.terms != typed.terms:
        query_scorer = scorer_for(parsed.about, snapshot, scorer)
        profile = make_profile(parsed.about, query_scorer, reefs_per_query=settings.reefs_per_query)
        matches = _matches_of(library, parsed.terms, matches)
        term_statistics = find_term_statistics(library, matches, parsed.parts)
    preset = all_presets(settings.presets)[request.preset]
    cosines, dense_warnings = cosines_or_warning(library, embedded, request)
    weights = ONE_SIGNAL.get(request.mode) or choose_weights(
        preset,
        request.weights,
        request.fusion,
        profile.strength,
        vector_share=None if cosines is None else library.vector_share,
    )
    by_reefs = request.mode.uses("reef")
    other_data = scorer.data_checksum if by_reefs and any_other_data(snapshot, scorer.data_checksum) else None
    parsed, uses = add_synonyms(snapshot, parsed) if request.synonyms is Synonyms.on else (parsed, ())
    parsed = with_joined_words(library, parsed)
    used: tuple[UsedSynonym, ...] = ()
    if parsed.synonyms:
        matches = _matches_of(library, parsed.terms, matches)
        matches, used = unite_forms(library, parsed, matches, uses)
        term_statistics = find_term_statistics(library, matches, parsed.parts)
    words = typed.words if parsed.about == typed.about else words_of(parsed.about)
    topical, names = without_names(library.index, parsed.about, words)
    if names:
        topic = query_scorer.score(topical, top_k=settings.reefs_per_query)
        profile = dataclasses.replace(profile, topic=topic)
    warnings = [
        *describe_typing_errors(near_words),
        *describe(used),
        *_warnings(parsed, profile, request, preset, weights, term_statistics),
    ]
    if other_data is not None:
        n = count_other_data(snapshot, other_data)
        passages = "passage was" if n == 1 else "passages were"
        found = "not found" if request.mode is SearchMode.reef else "found by words only, and without labels"
        warnings.append(f"{n:,} {passages} scored with other scorer data: {found}, until a rescore")
    warnings += dense_warnings
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
            scorer,
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
        cosines,
        near_words,
        typed.about,
        used,
        find_pins(snapshot, typed.about, parsed.about) if request.pins is Pins.on else (),
        find_must_match(library, parsed, term_statistics),
        names=names,
        topical=topical,
    )


def with_near_words(
    snapshot: Snapshot,
    library: LibraryIndex,
    parsed: ParsedQuery,
    term_statistics: TermStatistics,
    scorer: Scorer,
    request: SearchRequest,
    has_synonyms: frozenset[Term] = frozenset(),
) -> tuple[ParsedQuery, tuple[NearWord, ...]]:
    """Return the query with near words, as far as the request wants them, and these words.

    `scorer` knows the learned words of the query. `has_synonyms`: terms that stand for their synonyms, so
    that no other word takes their place.
    """
    near_words: tuple[NearWord, ...] = ()
    if request.prefix:
        counts = {term: count or int(term in has_synonyms) for term, count in term_statistics.counts.items()}
        parsed, near_words = complete_last_word(library, parsed, counts)
    if request.typos is Typos.off:
        return parsed, near_words
    missing = [
        term
        for term in parsed.terms
        if term not in has_synonyms and _stands_nowhere(library, term, term_statistics.counts.get(term, 0))
    ]
    if missing:
        parsed, corrected = correct_typing_errors(
            library, parsed, _unknown(missing, parsed.about, scorer, library)
        )
        near_words = (*near_words, *corrected)
    return parsed, near_words


def _stands_nowhere(library: LibraryIndex, term: Term, n_chunks: int) -> bool:
    """Whether a word of letters is in no passage, as typed or inflected. `n_chunks`: passages with its
    stem."""
    if len(term.tokens) > 1 or not term.text.isalpha():
        return False
    return not n_chunks or not is_known(library, folded(term.text))


def _unknown(missing: Sequence[Term], about: str, scorer: Scorer, library: LibraryIndex) -> list[Term]:
    """The terms that may be typing errors. A word that the scorer knows is none: it has a profile, and this
    library just lacks it. The scorer knows words by their stems, too, which typing errors may share."""
    words = {folded(match.token): match.word for match in scorer.explain_words(about)}
    return [
        term
        for term in missing
        for form in [folded(term.text)]
        if (word := words.get(form)) is None
        or not is_inflection(form, word)
        or any(count_form(library.index, doubled) for doubled in with_doubled_letter(form))
    ]


def _matches_of(
    library: LibraryIndex, terms: Sequence[Term], known: Mapping[Term, Matches]
) -> dict[Term, Matches]:
    """The matches of these terms; those in `known` are not looked up again."""
    new = find_matches(library, [term for term in terms if term not in known])
    return {term: known[term] if term in known else new[term] for term in terms}


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
    if not parsed.terms and not any(map(str.isalnum, parsed.about)):
        return ["the query has no words"]
    if request.mode is SearchMode.reef:
        return [*_of_reefs(profile), *_of_limits(parsed, ranks_by_words=False)]
    if request.mode is SearchMode.dense:
        return _of_limits(parsed, ranks_by_words=False)
    warnings = _of_missing(parsed, profile, request, weights, term_statistics)
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
    missing = [term for term in term_statistics.missing if term not in parsed.parts]
    if not missing or not term_statistics.n_chunks:
        return []
    required = [term for term in missing if term in parsed.required]
    if required:
        what = f"what the query requires ({join_terms(required)})"
        return [f"no passage of this library contains {what}, so there are no results"]
    if len(term_statistics.missing) == len(parsed.terms):
        # Whether there are any is not known yet.
        kinds = (("share reefs with it", weights.reef), ("be near to it in meaning", weights.dense))
        others = " or ".join(name for name, weight in kinds if weight)
        end = f"; results can only {others}" if others else ", so there are no results"
        return [f"no passage of this library contains a word of the query ({join_terms(missing)}){end}"]
    is_relevant = (
        request.mode is SearchMode.lexical
        or not set(parsed.identifiers).isdisjoint(missing)
        or _only_in_missing_terms(profile.info.unknown_words, term_statistics)
        or math.fsum(term_statistics.weights[term] for term in missing) >= MIN_MISSING_SHARE
    )
    return [f"{IN_NO_PASSAGE}: {join_terms(missing)}"] if is_relevant else []


def join_terms(terms: Sequence[Term]) -> str:
    """Join the first terms for a warning, and count the others."""
    return join_words([format_term(term) for term in terms])


def _tokens_of_word(word: str) -> list[str]:
    """The tokens of a word of the scorer."""
    return tokens_of(without_clitic(word))


def _only_in_missing_terms(words: Iterable[str], term_statistics: TermStatistics) -> list[str]:
    """The words that occur only in missing terms."""
    present, missing = set[str](), set[str]()
    for term, count in term_statistics.counts.items():
        (present if count else missing).update(stems_of(term.tokens))
    stems = {word: set(stems_of(_tokens_of_word(word))) for word in words}
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
