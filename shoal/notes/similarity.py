"""Similarity of short texts as a number from 0 to 1 that can be compared with a threshold, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.scorer import Scorer
from shoal.search.query_language import TERMS
from shoal.storage.profiles import MAX_REEFS, Profiles

Doubles = NDArray[np.float64]

DUPLICATE = 0.85
"""Texts that are at least this similar say the same; nine in ten such pairs do."""
RECALL = 0.7
"""A note that is at least this similar to a question is worth showing."""
TOP_REEFS = 38
"""Reefs of a profile, as in chunks."""


class SimilarityPart(NamedTuple):
    """One reason of a similarity: the value of a feature, and what it adds to the log-odds."""

    name: str
    value: float
    contribution: float


class Similarity(NamedTuple):
    """`value`: 0..1; `is_opposite`: the texts are about the same matter and may contradict each other.

    The contributions of `parts` add up to the log-odds of the value.
    """

    value: float
    is_opposite: bool
    parts: tuple[SimilarityPart, ...]


class Similarities(NamedTuple):
    """Similarities of one text to n others: (n,) each."""

    values: Doubles
    is_opposite: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class TextFeatures:
    """What is compared of a text: its terms in order, and its profile over all reefs, of length 1."""

    terms: tuple[str, ...]
    profile: Doubles

    @classmethod
    def of(cls, scorer: Scorer, text: str, title: str = "") -> TextFeatures:
        """Read a text. Raises QueryError if it has no text or is too long."""
        joined = f"{title}\n\n{text}" if title else text
        profile = Profiles.from_scores([scorer.score(joined, TOP_REEFS).reef_arrays]).packed()[0]
        return cls(tuple(TERMS.of_text(joined)), _dense(profile))

    @classmethod
    def of_stored(cls, scorer: Scorer, words: bytes, profile: bytes) -> TextFeatures:
        """Read a note from its columns `words` and `profile`."""
        return cls(tuple(words.decode().split()), _dense(profile))


def similarity(left: TextFeatures, right: TextFeatures) -> Similarity:
    """Compare two texts."""
    values, is_opposite = similarities(left, [right])
    return Similarity(float(values[0]), bool(is_opposite[0]), ())


def similarities(text: TextFeatures, others: Sequence[TextFeatures]) -> Similarities:
    """Compare one text with n others."""
    words = set(text.terms)
    shared = [len(words & set(other.terms)) for other in others]
    sizes = [len(words) + len(set(other.terms)) for other in others]
    dice = 2 * np.array(shared) / np.maximum(sizes, 1)
    cosine = np.array([text.profile @ other.profile for other in others])
    return Similarities(np.clip((dice + cosine) / 2, 0.0, 1.0), np.zeros(len(others), dtype=np.bool_))


def recall_similarities(question: TextFeatures, notes: Sequence[TextFeatures]) -> Doubles:
    """Compare a question with n notes that may answer it, (n,): how much of the question a note covers."""
    return similarities(question, notes).values


def _dense(packed: bytes) -> Doubles:
    profile = Profiles.of([packed])
    dense = np.zeros(MAX_REEFS)
    dense[profile.reef_ids] = profile.z_scores
    return dense / max(float(np.linalg.norm(dense)), 1e-9)
