"""Relevance: the calibrated probability that a passage answers its query, from absolute evidence.

Scores compare passages of one search; relevance compares searches. It is a logistic regression on three
ratios that depend neither on the size of the library nor on the best match. They are computed for returned
results only, and are the same in every mode and with any weights, filters or feedback:

    term coverage     share of the query's terms that the passage has, by rarity; missing terms weigh most
    adjacent terms    share of the query's neighbouring terms that stand close together in the passage too
    reef similarity   cosine of the profiles of passage and query, by the query's own words
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from shoal.models import QueryReef, RelevancePart
from shoal.search.highlights import Words
from shoal.search.matched_terms import format_term
from shoal.search.query_analysis import AnalyzedQuery
from shoal.search.query_language import Term, stems_of
from shoal.search.query_profile import join_words
from shoal.storage.database import Snapshot, listed
from shoal.storage.profiles import MILLIONTHS, Profiles

CLOSE = 3
"""Two terms are close if their places differ by at most this many words."""
LIKELY = 0.25
"""Relevance that some result of the first page must reach, or the search gets a warning. 91 % of the queries
with an answer in the library have such a result, and 15 % of the others; no threshold separates them better
(`benchmarks/relevance.py`)."""

# Chunks of other lagoon data are left out: their reefs cannot be compared with the query's.
PROFILES = """
    SELECT c.id, c.profile FROM chunks c WHERE c.id IN ({ids}) AND +c.data_checksum = :data_checksum
"""


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
    snapshot: Snapshot,
    analyzed_query: AnalyzedQuery,
    chunk_ids: Sequence[int],
    coverage: Mapping[int, float],
    texts: Words,
    heads: Words,
    data_checksum: str,
) -> list[Evidence]:
    """Return the evidence for each chunk. `coverage` is its term coverage; `texts` and `heads` are the words
    of the texts, and of the titles with their headings."""
    similarity = _reef_similarity(snapshot, analyzed_query.profile.reefs, chunk_ids, data_checksum)
    statistics = analyzed_query.term_statistics
    if not statistics.counts:
        return [Evidence(None, None, similarity.get(chunk_id)) for chunk_id in chunk_ids]
    terms = list(statistics.counts)
    stems = stems_of(term.tokens[0] for term in terms)
    pairs = [
        (first, second, statistics.weights[terms[i]] + statistics.weights[terms[i + 1]])
        for i, (first, second) in enumerate(itertools.pairwise(stems))
    ]
    stem_of_form = {**_forms_of(frozenset(stems), heads), **_forms_of(frozenset(stems), texts)}
    places = [
        _places(stem_of_form, itertools.chain(heads.in_texts[i], texts.in_texts[i]))
        for i in range(len(chunk_ids))
    ]
    return [
        Evidence(
            coverage[chunk_id],
            round(_close_share(pairs, each), 6) if pairs else coverage[chunk_id],
            similarity.get(chunk_id),
        )
        for chunk_id, each in zip(chunk_ids, places, strict=True)
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
    snapshot: Snapshot, reefs: Sequence[QueryReef], chunk_ids: Sequence[int], data_checksum: str
) -> dict[int, float]:
    """The cosine of the profile of each chunk and that of the query's words; empty for a query without
    reefs."""
    if not reefs:
        return {}
    query_z = {reef.reef_id: reef.z_score for reef in reefs}
    length = math.hypot(*query_z.values())
    ids, parameters = listed("id", chunk_ids)
    products: dict[int, list[float]] = {chunk_id: [] for chunk_id in chunk_ids}
    rows = snapshot.rows(PROFILES.format(ids=ids), {**parameters, "data_checksum": data_checksum})
    profiles = Profiles.of([row["profile"] for row in rows])
    columns = profiles.chunks, profiles.reef_ids, profiles.weights
    for place, reef_id, weight in zip(*(column.tolist() for column in columns), strict=True):
        if reef_id in query_z:
            products[rows[place]["id"]].append(weight / MILLIONTHS * query_z[reef_id])
    return {chunk_id: round(min(math.fsum(each) / length, 1.0), 6) for chunk_id, each in products.items()}


def _forms_of(query_stems: frozenset[str], words: Words) -> dict[str, str]:
    """The forms with one of the stems, each with its stem."""
    wanted = {folded: stem for folded, stem in words.stems.items() if stem in query_stems}
    return {form: wanted[folded] for form, folded in words.forms.items() if folded in wanted}


def _places(stem_of_form: Mapping[str, str], words: Iterable[str]) -> dict[str, list[int]]:
    """The places of each stem in a text."""
    places = dict[str, list[int]]()
    for place, form in [pair for pair in enumerate(words) if pair[1] in stem_of_form]:
        places.setdefault(stem_of_form[form], []).append(place)
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
