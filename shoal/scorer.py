"""The types of lagoon that Shoal names, without importing lagoon at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypedDict

if TYPE_CHECKING:
    from lagoon import ReefScorer, TopicResult

Scorer: TypeAlias = "ReefScorer"
"""Scores texts against reefs. If it `can_learn`, words can be added. Tests have simpler ones."""
Topic: TypeAlias = "TopicResult"
"""The profile of a text."""


class AnalysisOptions(TypedDict):
    """Options of an analysis; `lagoon.ReefScorer.analyze` describes them."""

    sensitivity: float
    smooth_window: int
    min_chunk_sentences: int
    max_chunk_sentences: int
    max_chunk_chars: int
    context_weight: float
    top_k: int
