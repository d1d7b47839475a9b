"""Relevance: the calibrated probability that a passage answers its query, from absolute evidence.

Scores compare passages of one search; relevance compares searches. It is a logistic regression on three
ratios that depend neither on the size of the library nor on the best match. They are computed for returned
results only, and are the same in every mode and with any weights, filters, feedback or vectors. The cosine
of a vector is no evidence here: fixed coefficients did not carry over between four stand-in encoders (two
variants of latent semantic analysis, a shifted one, and a hashed bag of words) on four collections. A neural
encoder was not measured. So mode `dense` refuses a threshold of relevance.

    term coverage     share of the query's terms that the passage has, by rarity; missing terms weigh most
    adjacent terms    share of the query's neighbouring terms that stand close together in the passage too
    reef similarity   cosine of the profiles of passage and query, by the query's own words

What must match (`shoal.search.query_analysis`) bounds it.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shoal.models.queries import QueryReef
from shoal.models.scores import RelevancePart
from shoal.search.matched_terms import Occurrence, TextWords, format_term
from shoal.search.query_analysis import NO_BOUNDS, AnalyzedQuery, Bounds, MustMatch
from shoal.search.query_language import Term
from shoal.search.query_profile import join_words
from shoal.storage.chunk_queries import StoredProfiles
from shoal.storage.profiles import MAX_REEFS, MILLIONTHS
from shoal.words.analysis import stems_of

CLOSE = 3
"""Two terms are close if their places differ by at most this many words."""
RANKED_BY_VECTORS = (
    "relevance is judged by words and reefs, and these results are ranked by their vectors alone: "
    "compare their similarity"
)
"""Warning in place of that for unlikely results, in mode `dense`."""


def is_relevant_enough(relevance: float, least: float, *, is_pinned: bool = False) -> bool:
    """Return whether a result stays on a page with `min_relevance`. A pinned one does, whatever its
    relevance."""
    return is_pinned or relevance >= least


class Coefficients(NamedTuple):
    """Coefficients of a logistic regression; None for evidence that the query does not have."""

    start: float
    term_coverage: float | None
    adjacent_terms: float | None
    reef_similarity: float | None


# Fitted on four collections with as many queries that have an answer as queries that have none; printed by
# `python -m benchmarks.relevance`.
TERMS_AND_REEFS = Coefficients(-5.258, 2.223, 1.999, 6.161)
TERMS_ALONE = Coefficients(-2.674, 3.647, 3.24, None)
REEFS_ALONE = Coefficients(-4.985, None, None, 7.656)


class Evidence(NamedTuple):
    """The evidence for one passage, each 0..1; None if the query has no terms or no reefs. `bounds` are those
    of what must match."""

    term_coverage: float | None
    adjacent_terms: float | None
    reef_similarity: float | None
    bounds: Bounds = NO_BOUNDS


RATIOS = Evidence._fields[:3]


def relevance(evidence: Evidence) -> float:
    """Return the probability of relevance, 0..1; 0 without any evidence."""
    if evidence[:3] == (None, None, None):
        return 0.0
    probability = _probability(evidence)
    return round(max(min(probability, evidence.bounds.most), evidence.bounds.least), 6)


def _probability(evidence: Evidence) -> float:
    coefficients = _coefficients(evidence)
    log_odds = coefficients.start + math.fsum(_contributions(coefficients, evidence))
    return 1.0 / (1.0 + math.exp(-log_odds))


def _log_odds(probability: float) -> float:
    return math.log(probability / (1.0 - probability))


def describe(evidence: Evidence, missing: Sequence[Term]) -> tuple[RelevancePart, ...]:
    """Return the parts of a relevance; their contributions add up to its log odds. `missing`: the query's
    terms that are in no chunk."""
    if evidence[:3] == (None, None, None):
        return ()
    coefficients = _coefficients(evidence)
    names = join_words([format_term(term) for term in missing])
    absent = f"; nowhere in this library: {names}" if missing else ""
    texts = (
        "it holds {:.0%} of the query's words, rare words counted more" + absent,
        "{:.0%} of the query's neighbouring words are close together in it",
        "its topics are {:.0%} similar to those of the query's words",
    )
    start = RelevancePart("start", 1.0, coefficients.start, "what speaks against a passage without evidence")
    contributions = _contributions(coefficients, evidence)
    return (
        start,
        *(
            RelevancePart(name, value, round(contribution, 6), text.format(value))
            for name, value, contribution, text in zip(
                RATIOS, evidence[:3], contributions, texts, strict=True
            )
            if value is not None
        ),
        *_of_bounds(evidence),
    )


def _of_bounds(evidence: Evidence) -> Iterator[RelevancePart]:
    """The part of what must match: what is missing to the bound that applies."""
    bounds, probability = evidence.bounds, _probability(evidence)
    if probability > bounds.most:
        bound, text = bounds.most, f"it does not contain {join_words(list(bounds.lacking))}"
    elif probability < bounds.least:
        bound, text = bounds.least, "it contains all identifiers and numbers of the query"
    else:
        return
    difference = _log_odds(bound) - _log_odds(min(max(probability, 1e-9), 1 - 1e-9))
    yield RelevancePart("must_match", bound, round(difference, 6), text)


def find_evidence(
    stored: StoredProfiles,
    analyzed_query: AnalyzedQuery,
    chunk_ids: Sequence[int],
    coverage: Mapping[int, float],
    texts: TextWords,
    heads: TextWords,
) -> list[Evidence]:
    """Return the evidence for each chunk.

    `stored` are the profiles by the same data as the query's; other chunks have a similarity of 0.
    `coverage` is the term coverage of each chunk; `texts` and `heads` are the words of the texts, and of the
    titles with their headings.
    """
    similarity = _reef_similarity(analyzed_query.profile.reefs, chunk_ids, stored)
    statistics = analyzed_query.term_statistics
    if not statistics.counts:
        return [Evidence(None, None, similarity.get(chunk_id)) for chunk_id in chunk_ids]
    bounds = _find_bounds(analyzed_query.must_match, [coverage[each] for each in chunk_ids], texts, heads)
    terms = list(statistics.counts)
    stems = stems_of(term.tokens[0] for term in terms)
    pairs = [
        (first, second, statistics.weights[terms[i]] + statistics.weights[terms[i + 1]])
        for i, (first, second) in enumerate(itertools.pairwise(stems))
    ]
    if not pairs:
        return [
            Evidence(coverage[each], coverage[each], similarity.get(each), bound)
            for each, bound in zip(chunk_ids, bounds, strict=True)
        ]
    in_heads, in_texts = heads.find(stems), texts.find(stems)
    return [
        Evidence(
            coverage[chunk_id],
            round(_close_share(pairs, _positions(in_head), _positions(in_text)), 6),
            similarity.get(chunk_id),
            bound,
        )
        for chunk_id, in_head, in_text, bound in zip(chunk_ids, in_heads, in_texts, bounds, strict=True)
    ]


def _find_bounds(
    must: MustMatch, coverage: Sequence[float], texts: TextWords, heads: TextWords
) -> list[Bounds]:
    """The bounds of each passage."""
    stems = must.stems()
    if not stems:
        return [NO_BOUNDS for _ in coverage]
    siblings = must.siblings({*texts.all_forms, *heads.all_forms}) if must.decisive else {}
    wanted = stems.union(*siblings.values())
    return [
        must.bounds(
            places,
            share,
            [term for term, forms in siblings.items() if any(not forms.isdisjoint(each) for each in places)],
        )
        for *places, share in zip(heads.find(wanted), texts.find(wanted), coverage, strict=True)
    ]


def _coefficients(evidence: Evidence) -> Coefficients:
    if evidence.reef_similarity is None:
        return TERMS_ALONE
    return REEFS_ALONE if evidence.term_coverage is None else TERMS_AND_REEFS


def _contributions(coefficients: Coefficients, evidence: Evidence) -> list[float]:
    """What each piece of evidence adds to the log odds; 0 for evidence that is not there."""
    return [
        (factor or 0.0) * (value or 0.0) for factor, value in zip(coefficients[1:], evidence[:3], strict=True)
    ]


def _reef_similarity(
    reefs: Sequence[QueryReef], chunk_ids: Sequence[int], stored: StoredProfiles
) -> dict[int, float]:
    """The cosine of the profile of each chunk and that of the query's words; empty for a query without
    reefs."""
    if not reefs:
        return {}
    length = math.hypot(*(reef.z_score for reef in reefs))
    query_z = np.zeros(MAX_REEFS)
    query_z[[reef.reef_id for reef in reefs]] = [reef.z_score for reef in reefs]
    profiles = stored.profiles
    products = (profiles.weights / MILLIONTHS * query_z[profiles.reef_ids]).tolist()
    similarity = dict.fromkeys(chunk_ids, 0.0)
    bounds = itertools.pairwise(profiles.bounds.tolist())
    for chunk_id, (start, end) in zip(stored.chunk_ids, bounds, strict=True):
        similarity[chunk_id] = round(min(math.fsum(products[start:end]) / length, 1.0), 6)
    return similarity


def _positions(found: Mapping[str, Sequence[Occurrence]]) -> dict[str, list[int]]:
    return {term: [each.position for each in occurrences] for term, occurrences in found.items()}


def _close_share(pairs: Sequence[tuple[str, str, float]], *texts: Mapping[str, list[int]]) -> float:
    """The share of the pairs, by weight, whose two terms are close somewhere in one of some texts."""
    total = math.fsum(weight for _, _, weight in pairs)
    return (
        math.fsum(
            weight
            for first, second, weight in pairs
            if any(_are_close(positions.get(first), positions.get(second)) for positions in texts)
        )
        / total
    )


def _are_close(first: Sequence[int] | None, second: Sequence[int] | None) -> bool:
    """Whether two of some ascending positions are at most `CLOSE` words apart, and not equal."""
    if not first or not second:
        return False
    for place in first:
        before = bisect.bisect_left(second, place - CLOSE)
        if before < len(second) and second[before] < place:
            return True
        behind = bisect.bisect_right(second, place, before)
        if behind < len(second) and second[behind] <= place + CLOSE:
            return True
    return False
