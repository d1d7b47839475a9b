"""Query analysis: the parsed query, its profile, the weights of the signals, what must match, and warnings.

Identifiers, numbers, names and negations of a query must match. A passage about CVE-2021-44228 does not
answer a query for CVE-2021-44229, however alike their other words are. So the relevance of a passage that
lacks what must match is at most `ELSEWHERE`. It is at most `ABSENT` if the whole library lacks it, and it is
`MUCH` of the query or the passage has a sibling in its place. A passage with all identifiers and most words
of the query has at least `HAVING`. `benchmarks/identifiers.py` and `benchmarks/first_results.py` measure both
sides.

An identifier is also there if its parts stand side by side: *T cells* has T-cell. A word with a capital
letter must match only if the library writes it as a name, too: with a capital letter in most places.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.tokens import without_clitic
from shoal.index.matching import IndexTerm, Matches, count_edits, find, has_form, is_name, near_codes
from shoal.learning.scorers import scorer_for, scorer_queries
from shoal.models.pins import PinRule
from shoal.models.queries import ExcludedTerm, NearWord, QueryInfo, QueryReef, UsedSynonym, UsedTranslation
from shoal.models.search import Fusion, Pins, Preset, SearchMode, Synonyms, Typos, Weights, all_presets
from shoal.scorer import Scorer
from shoal.search import pins as stored_pins
from shoal.search import synonyms as stored_synonyms
from shoal.search.across_languages import missing_wordnets
from shoal.search.library_index import LibraryIndex, LibraryView
from shoal.search.matched_terms import (
    Occurrence,
    find_phrase,
    format_term,
    is_inflection,
    with_doubled_letter,
    without_names,
)
from shoal.search.passage_languages import languages_of_library
from shoal.search.pins import find_pins, used_pins
from shoal.search.query_inflections import (
    found_inflected,
    read_query,
    with_inflections,
)
from shoal.search.query_language import MAX_PHRASE_WORDS, NEGATIONS, ParsedQuery, Term, parse_query
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
from shoal.search.query_vectors import NOT_EMBEDDED, EmbeddedQuery, cosines_or_warning
from shoal.search.request import SearchRequest
from shoal.search.signals import (
    LOW_TRUST,
    NO_STATISTICS,
    DenseCosines,
    TermStatistics,
    choose_weights,
    find_matches,
    find_term_statistics,
    score_chunks,
    tags_query,
    trust,
)
from shoal.search.synonyms import (
    add_synonyms,
    complete_last_word,
    correct_typing_errors,
    describe,
    describe_typing_errors,
    is_known,
    parts_of,
    terms_with_synonyms,
    unite_forms,
    with_joined_words,
)
from shoal.settings import Settings
from shoal.storage.database import Query, Snapshot
from shoal.storage.staleness import ANY_OTHER_DATA, any_other_data
from shoal.support.languages import ENGLISH
from shoal.words.analysis import folded, stems_of, tokens_of, words_of
from shoal.words.terms import HYPHENS

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
NEGATION_STEMS = frozenset(stems_of([*sorted(NEGATIONS), "nothing", "lack", "except", "isn", "don", "doesn"]))
ONE_SIGNAL = {
    SearchMode.lexical: Weights(lexical=1.0, reef=0.0, field_boost=0.0),
    SearchMode.reef: Weights(lexical=0.0, reef=1.0, field_boost=0.0),
    SearchMode.dense: Weights(lexical=0.0, reef=0.0, field_boost=0.0, dense=1.0),
}
IN_NO_PASSAGE = "in no passage of this library"
MIN_MISSING_SHARE = 0.5
"""Share of the query, in no chunk, from which missing words get a warning even if the scorer knows them.
Known words still match by their reefs, and in a small library any question has a few that are missing."""


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
        chunk_ids = library.index.chunk_ids(np.flatnonzero(mask))
        if len(chunk_ids):
            # The order of places depends on the segments.
            written.append(_as_written(snapshot, int(chunk_ids.min()), each))
    return written[:MAX_NEAR]


def _as_written(snapshot: Snapshot, chunk_id: int, form: str) -> str:
    """A word as a passage, its title or its headings write it."""
    row = snapshot.first(TEXT_OF, {"chunk_id": chunk_id})
    text = "" if row is None else "\n".join([row["text"], row["title"], *json.loads(row["section_path"])])
    return next((text[word.start : word.end] for word in words_of(text) if word.form == form), form)


def lacking_warning(lacking: Sequence[str]) -> str:
    """Return the warning for what the first result lacks."""
    return f"the first result does not contain {join_words(list(lacking))}"


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
    names            folded words of the query that are names
    topical          `parsed.about` without those that mean another thing than the word
    translations     words of other languages that words of the query were searched for as
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
    translations: tuple[UsedTranslation, ...] = ()

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
            translations=self.translations,
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
    typed = parsed = read_query(library, request, settings.max_query_terms)
    is_seen = sees = None
    if library.viewer is not None:
        is_seen, sees = library.has_word, functools.partial(library.sees_document, snapshot)
    query_scorer = scorer_for(parsed.about, snapshot, scorer, is_seen)
    profile = _profile(parsed, query_scorer, request, settings)
    matches = find_matches(library, parsed.terms)
    term_statistics = find_term_statistics(library, matches, parsed.parts)
    has_synonyms: frozenset[Term] = frozenset()
    if term_statistics.missing and request.synonyms is Synonyms.on:
        has_synonyms = terms_with_synonyms(snapshot, library, parsed)
    elif parsed.synonyms:
        has_synonyms = found_inflected(library, parsed)
    parsed, near_words = with_near_words(
        library, parsed, term_statistics, query_scorer, request, has_synonyms
    )
    if parsed.terms != typed.terms:
        parsed = with_inflections(parsed, parsed.languages)
        query_scorer = scorer_for(parsed.about, snapshot, scorer, is_seen)
        profile = _profile(parsed, query_scorer, request, settings)
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
    n_other = 0
    if by_reefs and any_other_data(snapshot, scorer.data_checksum):
        n_other = library.count_other_data(snapshot, scorer.data_checksum)
    other_data = scorer.data_checksum if n_other else None
    parsed, uses = add_synonyms(snapshot, parsed) if request.synonyms is Synonyms.on else (parsed, ())
    parsed = with_joined_words(library, parsed)
    used: tuple[UsedSynonym, ...] = ()
    translated: tuple[UsedTranslation, ...] = ()
    if parsed.synonyms:
        matches = _matches_of(library, parsed.terms, matches)
        matches, used, translated = unite_forms(library, parsed, matches, uses)
        term_statistics = find_term_statistics(library, matches, parsed.parts)
    words = typed.words if parsed.about == typed.about else words_of(parsed.about)
    topical, names = without_names(library.index, parsed.about, words, query_scorer.misleading_names)
    if names:
        topic = query_scorer.score(topical, top_k=settings.reefs_per_query)
        profile = dataclasses.replace(profile, topic=topic)
    warnings = [
        *describe_typing_errors(near_words),
        *describe(used),
        *_warnings(parsed, profile, request, preset, weights, term_statistics),
        *missing_wordnets(request.languages, languages_of_library(library), parsed.languages),
    ]
    if other_data is not None:
        passages = "passage was" if n_other == 1 else "passages were"
        found = "not found" if request.mode is SearchMode.reef else "found by words only, and without labels"
        warnings.append(f"{n_other:,} {passages} scored with other scorer data: {found}, until a rescore")
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
        find_pins(snapshot, typed.about, parsed.about, is_seen=sees) if request.pins is Pins.on else (),
        find_must_match(library, parsed, term_statistics),
        names=names,
        topical=topical,
        translations=translated,
    )


def _profile(parsed: ParsedQuery, scorer: Scorer, request: SearchRequest, settings: Settings) -> QueryProfile:
    """The profile of a query. In another language than English, the words that look English mean something
    else: without reefs, MRR of German questions is .938, with them .924 (benchmarks/languages.py)."""
    has_reefs = ENGLISH in parsed.languages or request.mode is SearchMode.reef
    return make_profile(parsed.about if has_reefs else "", scorer, reefs_per_query=settings.reefs_per_query)


def with_near_words(
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
        or any(has_form(library.index, doubled) for doubled in with_doubled_letter(form))
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
        (present if count else missing).update(stems_of(tokens_of(term.text)))
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
        if ENGLISH not in parsed.languages:
            return []
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
