"""A query in the light of the library: what the passages that match its words best are about.

The dictionary says what words are about anywhere; the library says what they are about here. The query's profile is
moved towards the mean profile of its companions, the passages with the highest BM25, as relevance feedback moves a query
(Rocchio, 1971), but between reefs instead of words: the words searched for stay those that were typed. Companions are
taken from the whole library before any filter, so a filtered search is the search, filtered; they hold what the query
demands and nothing that it excludes. benchmarks/hybrid.py measures it against doing without, and against the company of
each word by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.models import FeedbackChunk, QueryReef
from shoal.search.filters import CompiledFilters
from shoal.search.lexical_ranking import Matches
from shoal.search.query_language import ParsedQuery
from shoal.search.reef_ranking import other_data
from shoal.storage.database import Snapshot, listed

N_COMPANIONS = 3
"""nDCG@10 by reefs, mean of four collections: 0.53 with 2 or 3, 0.51 with 5, 0.50 with 10 (benchmarks/hybrid.py)."""
MAX_TIED = 30
"""Passages that match as well as the last companion are companions too, so that none is chosen by its id; but no more
than this."""
STEEPNESS = 3
"""Companions count by this power of their BM25: a match far better than the others says nearly all."""
MAX_REEFS = 60
"""Strongest reefs kept of the whole."""

PROFILES = """
    SELECT r.chunk_id, r.reef_id, r.reef_name, p.weight
    FROM chunk_reefs r
    JOIN reef_postings p ON p.reef_id = r.reef_id AND p.chunk_id = r.chunk_id
    WHERE r.chunk_id IN ({ids})
    ORDER BY r.chunk_id, r.reef_id
"""
DOCUMENTS = """
    SELECT c.id, c.document_id, d.title FROM chunks c JOIN documents d ON d.id = c.document_id WHERE c.id IN ({ids})
"""


@dataclass(frozen=True, slots=True)
class Feedback:
    """`reefs` is the whole profile, the query's own and that of its companions, strongest first."""

    feedback_chunks: tuple[FeedbackChunk, ...]
    reefs: tuple[QueryReef, ...]


def apply_feedback(
    snapshot: Snapshot,
    own: Sequence[QueryReef],
    parsed: ParsedQuery,
    matches: Matches,
    *,
    share: float,
    other_data_than: str | None,
) -> Feedback:
    """A query's profile moved towards that of its companions, whose length is `share` times its own.

    `own` has at least one reef: nothing says that words without reefs mean what the passages are about. `matches` are
    those of the query's terms. Chunks scored with `other_data_than` this checksum are no companions.
    """
    found = _fit(snapshot, parsed, matches, other_data_than)
    if not len(found.chunk_ids):
        return Feedback((), tuple(own))
    shares = choose(found)
    ids, parameters = listed("id", shares)
    profile: dict[int, float] = {}
    names: dict[int, str] = {}
    for chunk_id, reef_id, name, weight in snapshot.rows(PROFILES.format(ids=ids), parameters):
        profile[reef_id] = profile.get(reef_id, 0.0) + shares[chunk_id] * weight
        names[reef_id] = name
    feedback_chunks = tuple(
        FeedbackChunk(row["id"], row["document_id"], row["title"], round(shares[row["id"]], 6))
        for row in snapshot.rows(DOCUMENTS.format(ids=ids), parameters)
    )
    return Feedback(
        tuple(sorted(feedback_chunks, key=lambda one: (-one.share, one.chunk_id))),
        adapt(own, profile, names, share=share),
    )


def choose(matches: Matches, *, n: int = N_COMPANIONS, steepness: float = STEEPNESS) -> dict[int, float]:
    """The companions among some matches, by id, and how much each counts of all, adding up to 1."""
    n = min(n, len(matches.scores))
    least = np.partition(matches.scores, len(matches.scores) - n)[len(matches.scores) - n]
    places = np.flatnonzero(matches.scores >= least)
    places = places[np.argsort(-matches.scores[places], kind="stable")][:MAX_TIED]
    counts = (matches.scores[places] / matches.scores[places[0]]) ** steepness
    return dict(zip(matches.chunk_ids[places].tolist(), (counts / counts.sum()).tolist(), strict=True))


def adapt(
    own: Sequence[QueryReef], feedback: Mapping[int, float], names: Mapping[int, str], *, share: float
) -> tuple[QueryReef, ...]:
    """A profile and `share` times its length in the direction of another one, by reef; z-scores with six digits."""
    own_z = {reef.reef_id: reef.z_score for reef in own}
    z = dict(own_z)
    called = {**names, **{reef.reef_id: reef.reef_name for reef in own}}
    length = _length(feedback.values())
    scale = share * _length(z.values()) / length if length else 0.0
    for reef_id, weight in feedback.items():
        z[reef_id] = z.get(reef_id, 0.0) + scale * weight
    rounded = (
        QueryReef(reef_id, called[reef_id], round(value, 6), own_z.get(reef_id, 0.0))
        for reef_id, value in z.items()
    )
    return tuple(
        sorted((r for r in rounded if r.z_score > 0), key=lambda r: (-r.z_score, r.reef_id))[:MAX_REEFS]
    )


def _fit(snapshot: Snapshot, parsed: ParsedQuery, matches: Matches, other_data_than: str | None) -> Matches:
    """The matches that may be companions: with all that the query demands, whatever the mode of the search."""
    fit: NDArray[np.bool_] = np.ones(len(matches.chunk_ids), dtype=np.bool_)
    demands = CompiledFilters({}, {}).and_of_query(parsed, with_required=True)
    if demands:
        fit &= demands.met_by(snapshot, matches.chunk_ids)
    if other_data_than is not None:
        fit &= ~np.isin(matches.chunk_ids, other_data(snapshot, other_data_than))
    return matches if fit.all() else Matches(matches.chunk_ids[fit], matches.scores[fit])


def _length(values: Iterable[float]) -> float:
    return math.sqrt(math.fsum(value * value for value in values))
