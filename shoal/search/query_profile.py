"""The profile of a query: its reefs, which of its words are known, and pseudo-relevance feedback.

A word's reefs in the vocabulary say what it means in general; the feedback chunks say what it means in this
library. The query's profile is moved towards the weighted mean profile of the chunks with the highest BM25
(Rocchio, 1971), in the space of reefs: the lexical signal still uses only the typed words. Feedback chunks
come from the whole library, before filters, so filters do not change scores. They contain what the query
requires and nothing that it excludes. benchmarks/hybrid.py compares this with no feedback, and with feedback
for each word by itself.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.models.queries import FeedbackChunk, QueryInfo, QueryReef
from shoal.scorer import Scorer, Topic
from shoal.search.filters import CompiledFilters
from shoal.search.library_index import LibraryIndex
from shoal.search.ordering import best_places
from shoal.search.query_language import ParsedQuery
from shoal.storage.chunk_queries import as_profiles
from shoal.storage.database import Snapshot, listed
from shoal.storage.profiles import names_by_data

N_INFO_REEFS = 10
"""Reefs of the query that a response lists. A search uses all of `QueryProfile.reefs`."""

MAX_NAMED_WORDS = 10
"""Unknown words that a warning names; the response lists all of them."""


@dataclass(frozen=True)
class QueryProfile:
    """The profile of a query from its words alone, without feedback.

    `reefs` have z > 0, strongest first, at most `reefs_per_query`. `topic`: of the words that are no names.
    """

    reefs: tuple[QueryReef, ...]
    info: QueryInfo
    matched_words: int
    topic: Topic

    @functools.cached_property
    def probabilities(self) -> dict[int, float]:
        """By reef id, the probability that the query's own words, names aside, are about it."""
        reef_ids = self.topic.reef_columns.reef_ids
        return dict(zip(reef_ids, self.topic.probabilities, strict=True))

    @property
    def strength(self) -> float:
        """The z-score of the strongest reef, 0 if there is none."""
        return self.reefs[0].z_score if self.reefs else 0.0


def make_profile(query: str, scorer: Scorer, *, reefs_per_query: int) -> QueryProfile:
    """Score a query. `scorer` has the methods of lagoon's scorer."""
    topic = scorer.score(query, top_k=reefs_per_query)
    scored = ((r.reef_id, r.name, round(float(r.z_score), 6)) for r in topic.top_reefs)
    reefs = tuple(QueryReef(reef_id, name, z, own_z=z) for reef_id, name, z in scored if z > 0)
    unknown = tuple(topic.unknown_words)
    info = QueryInfo(
        top_reef=reefs[0].reef_name if reefs else None,
        confidence=round(float(topic.confidence), 6),
        coverage=round(float(topic.coverage), 6),
        top_reefs=reefs[:N_INFO_REEFS],
        unknown_words=unknown,
    )
    return QueryProfile(reefs, info, int(topic.matched_words), topic)


def with_reefs(info: QueryInfo, reefs: Sequence[QueryReef]) -> QueryInfo:
    """Return `info` for a query whose profile was moved to `reefs`, strongest first."""
    first, second = (reefs[i].z_score if i < len(reefs) else 0.0 for i in (0, 1))
    return dataclasses.replace(
        info,
        top_reef=reefs[0].reef_name if reefs else None,
        confidence=round(first - second, 6),
        top_reefs=tuple(reefs[:N_INFO_REEFS]),
    )


def join_words(words: Sequence[str]) -> str:
    """Join the first words for a warning, and count the others."""
    shown = ", ".join(words[:MAX_NAMED_WORDS])
    return shown if len(words) <= MAX_NAMED_WORDS else f"{shown} and {len(words) - MAX_NAMED_WORDS} more"


N_FEEDBACK_CHUNKS = 3
"""nDCG@10 by reefs, mean of four collections: 0.53 with 2 or 3, 0.51 with 5, 0.50 with 10
(benchmarks/hybrid.py)."""
MAX_TIED = 30
"""Most feedback chunks. Chunks tied with the last one are included up to this number, so that ids decide
nothing."""
STEEPNESS = 3
"""Feedback chunks are weighted by this power of their BM25, so a far better match gets nearly all of the
weight."""
MAX_REEFS = 60
"""Strongest reefs of the moved profile that are kept in mode `reef`."""
MAX_REEFS_WITH_WORDS = 20
"""The same in a hybrid search, where the others cost three times the time and are worth 0.001 in nDCG@10
(benchmarks/lexical_ranking.py)."""

CHUNKS = """
    SELECT c.id, c.document_id, d.title, c.data_checksum, c.profile
    FROM chunks c JOIN documents d ON d.id = c.document_id
    WHERE c.id IN ({ids}) ORDER BY c.id
"""


@dataclass(frozen=True, slots=True)
class Feedback:
    """`reefs` is the moved profile, strongest first."""

    feedback_chunks: tuple[FeedbackChunk, ...]
    reefs: tuple[QueryReef, ...]


def apply_feedback(
    snapshot: Snapshot,
    library: LibraryIndex,
    scorer: Scorer,
    own: Sequence[QueryReef],
    parsed: ParsedQuery,
    lexical_scores: NDArray[np.int64],
    *,
    share: float,
    max_reefs: int,
    other_data_than: str | None,
) -> Feedback:
    """Move a query's profile towards that of its feedback chunks, scaled to `share` times the query's own
    length.

    `own` has at least one reef; without one, feedback is not justified. Chunks scored with data other than
    that of the checksum `other_data_than` are not used.
    """
    scores = _eligible(snapshot, library, parsed, lexical_scores, other_data_than)
    best = best_places(scores, N_FEEDBACK_CHUNKS, least=1)
    if not len(best):
        return Feedback((), tuple(own))
    shares = choose(library.index.chunk_ids(best), scores[best])
    ids, parameters = listed("id", shares)
    profile: dict[int, float] = {}
    rows = snapshot.rows(CHUNKS.format(ids=ids), parameters)
    stored = as_profiles(rows, library.changed)
    columns = stored.profiles.chunks, stored.profiles.reef_ids, stored.profiles.weights
    for place, reef_id, weight in zip(*(column.tolist() for column in columns), strict=True):
        profile[reef_id] = profile.get(reef_id, 0.0) + shares[stored.chunk_ids[place]] * weight
    # All of them were scored with the same data.
    checksum = stored.data_checksums[0]
    unnamed = profile.keys() - {reef.reef_id for reef in own}
    reefs = names_by_data(snapshot, [checksum], unnamed, scorer)[checksum]
    names = {reef_id: reefs[reef_id].reef_name for reef_id in unnamed}
    feedback_chunks = tuple(
        FeedbackChunk(row["id"], row["document_id"], row["title"], round(shares[row["id"]], 6))
        for row in rows
    )
    return Feedback(
        tuple(sorted(feedback_chunks, key=lambda chunk: (-chunk.share, chunk.chunk_id))),
        adapt(own, profile, names, share=share, max_reefs=max_reefs),
    )


def choose(
    chunk_ids: NDArray[np.int64],
    scores: NDArray[np.int64],
    *,
    n: int = N_FEEDBACK_CHUNKS,
    steepness: float = STEEPNESS,
) -> dict[int, float]:
    """Choose the feedback chunks by their scores; at least one score is above 0.

    Returns their shares by chunk id, adding up to 1.
    """
    places = np.flatnonzero(scores > 0)
    if len(places) > n:
        found = scores[places]
        places = places[found >= np.partition(found, len(found) - n)[len(found) - n]]
    places = places[np.lexsort((chunk_ids[places], -scores[places]))][:MAX_TIED]
    weights = (scores[places] / scores[places[0]]) ** steepness
    return dict(zip(chunk_ids[places].tolist(), (weights / weights.sum()).tolist(), strict=True))


def adapt(
    own: Sequence[QueryReef],
    feedback: Mapping[int, float],
    names: Mapping[int, str],
    *,
    share: float,
    max_reefs: int = MAX_REEFS,
) -> tuple[QueryReef, ...]:
    """Add `share` times a profile's length in the direction of the feedback; z-scores have six digits."""
    own_z = {reef.reef_id: reef.z_score for reef in own}
    z = dict(own_z)
    all_names = {**names, **{reef.reef_id: reef.reef_name for reef in own}}
    length = _length(feedback.values())
    scale = share * _length(z.values()) / length if length else 0.0
    for reef_id, weight in feedback.items():
        z[reef_id] = z.get(reef_id, 0.0) + scale * weight
    rounded = [(-round(value, 6), reef_id) for reef_id, value in z.items()]
    strongest = sorted(pair for pair in rounded if pair[0] < 0)[:max_reefs]
    return tuple(
        QueryReef(reef_id, all_names[reef_id], -negative, own_z.get(reef_id, 0.0))
        for negative, reef_id in strongest
    )


def _eligible(
    snapshot: Snapshot,
    library: LibraryIndex,
    parsed: ParsedQuery,
    lexical_scores: NDArray[np.int64],
    other_data_than: str | None,
) -> NDArray[np.int64]:
    """The scores, without those of chunks that do not meet the query's own conditions. These apply here in
    every search mode."""
    scores = lexical_scores
    conditions = CompiledFilters().and_of_query(parsed, with_required=True)
    if conditions:
        scores = scores * conditions.met_by(snapshot, library)
    if other_data_than is not None:
        scores = scores * ~library.has_other_data(snapshot, other_data_than)
    return scores


def _length(values: Iterable[float]) -> float:
    return math.sqrt(math.fsum(value * value for value in values))
