"""The profile of a query: its reefs, and which of its words are known."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass

from shoal.models.query_info import QueryInfo, QueryReef
from shoal.scorer import Scorer, Topic

N_INFO_REEFS = 10
"""Reefs of the query that a response lists. A search uses all of `QueryProfile.reefs`."""

MAX_NAMED_WORDS = 10
"""Unknown words that a warning names; the response lists all of them."""


@dataclass(frozen=True)
class QueryProfile:
    """The profile of a query from its words alone, without feedback.

    `reefs` have z > 0, strongest first, at most `reefs_per_query`.
    """

    reefs: tuple[QueryReef, ...]
    info: QueryInfo
    matched_words: int
    topic: Topic

    @functools.cached_property
    def probabilities(self) -> dict[int, float]:
        """By reef id, the probability that the query's own words are about it."""
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
