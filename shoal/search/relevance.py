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
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shoal.models.query_info import QueryReef
from shoal.models.scores import RelevancePart
from shoal.search.highlights import Words
from shoal.search.matched_terms import format_term
from shoal.search.query_analysis import AnalyzedQuery
from shoal.search.query_language import Term, stems_of
from shoal.search.query_profile import join_words
from shoal.storage.chunk_queries import StoredProfiles
from shoal.storage.profiles import MAX_REEFS, MILLIONTHS

CLOSE = 3
"""Two terms are close if their places differ by at most this many words."""
LIKELY = 0.25
"""Relevance that some result of the first page must reach, or the search gets a warning. 91 % of the queries
with an answer in the library have such a result, and 15 % of the others; no threshold separates them better
(`benchmarks/relevance.py`)."""
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
    """The evidence for one passage, each 0..1; None if the query has no terms or no reefs."""

    term_coverage: float | None
    adjacent_terms: float | None
    reef_similarity: float | None


NO_EVIDENCE = Evidence(None, None, None)


def relevance(evidence: Evidence) -> float:
    """Return the probability of relevance, 0..1; 0 without any evidence."""
    if evidence == NO_EVIDENCE:
        return 0.0
    coefficients = _coefficients(evidence)
    log_odds = coefficients.start + math.fsum(_contributions(coefficients, evidence))
    return round(1.0 / (1.0 + math.exp(-log_odds)), 6)


def describe(evidence: Evidence, missing: Sequence[Term]) -> tuple[RelevancePart, ...]:
    """Return the parts of a relevance; their contributions add up to its log odds. `missing`: the query's
    terms that are in no chunk."""
    if evidence == NO_EVIDENCE:
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
                Evidence._fields, evidence, contributions, texts, strict=True
            )
            if value is not None
        ),
    )


def find_evidence(
    stored: StoredProfiles,
    analyzed_query: AnalyzedQuery,
    chunk_ids: Sequence[int],
    coverage: Mapping[int, float],
    texts: Words,
    heads: Words,
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
    terms = list(statistics.counts)
    stems = stems_of(term.tokens[0] for term in terms)
    pairs = [
        (first, second, statistics.weights[terms[i]] + statistics.weights[terms[i + 1]])
        for i, (first, second) in enumerate(itertools.pairwise(stems))
    ]
    if not pairs:
        return [Evidence(coverage[each], coverage[each], similarity.get(each)) for each in chunk_ids]
    stem_of = heads.with_stems(stems) | texts.with_stems(stems)
    return [
        Evidence(
            coverage[chunk_id],
            round(_close_share(pairs, _places(stem_of, heads.in_order(i) + texts.in_order(i))), 6),
            similarity.get(chunk_id),
        )
        for i, chunk_id in enumerate(chunk_ids)
    ]


def _coefficients(evidence: Evidence) -> Coefficients:
    if evidence.reef_similarity is None:
        return TERMS_ALONE
    return REEFS_ALONE if evidence.term_coverage is None else TERMS_AND_REEFS


def _contributions(coefficients: Coefficients, evidence: Evidence) -> list[float]:
    """What each piece of evidence adds to the log odds; 0 for evidence that is not there."""
    return [
        (factor or 0.0) * (value or 0.0) for factor, value in zip(coefficients[1:], evidence, strict=True)
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


def _places(stem_of: Mapping[str, str], words: Iterable[str]) -> dict[str, list[int]]:
    """The places of each stem in a text; `stem_of` has the words with a stem of the query."""
    places = dict[str, list[int]]()
    for place, word in [pair for pair in enumerate(words) if pair[1] in stem_of]:
        places.setdefault(stem_of[word], []).append(place)
    return places


def _close_share(pairs: Sequence[tuple[str, str, float]], places: Mapping[str, list[int]]) -> float:
    """The share of the pairs, by weight, whose two stems are close somewhere in a text."""
    total = math.fsum(weight for _, _, weight in pairs)
    return (
        math.fsum(
            weight for first, second, weight in pairs if _are_close(places.get(first), places.get(second))
        )
        / total
    )


def _are_close(first: Sequence[int] | None, second: Sequence[int] | None) -> bool:
    if not first or not second:
        return False
    others = set(second)
    return any(
        place + distance in others for place in first for distance in range(-CLOSE, CLOSE + 1) if distance
    )
