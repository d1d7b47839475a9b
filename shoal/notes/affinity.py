"""Tag affinity: how well the tags of a note fit those of an environment, as a factor of its score.

The factor is 0.3 at similarity 0.65 (unrelated), 1.0 at 0.80 (partly) and 1.7 at 0.95 (the same stack),
linear between and constant outside. Without embeddings, the similarity is ours:

    similarity = 0.65 + 0.30 * share

where `share` is the weight of the note's tags that the environment has, of the weight of all its tags. Tags
that many notes have weigh less. An environment has many more tags than a note, so tags that only the
environment has count for nothing; with a symmetric cosine, the mean factor of notes for the very same stack
is 0.87 instead of 1.7, and reef profiles of tags order one pair of labels in six wrongly
(`benchmarks/note_decisions.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

UNRELATED = 0.65
SAME = 0.95
MIN_FACTOR = 0.3
MAX_FACTOR = 1.7

_Number = TypeVar("_Number", float, NDArray[np.float64])


class Affinity(NamedTuple):
    """How a note's tags fit an environment. `similarity` is None without tags on either side: neutral."""

    similarity: float | None
    factor: float
    shared_tags: tuple[str, ...]


NEUTRAL = Affinity(None, 1.0, ())


def tag_weight(n_notes: int, n_with_tag: int) -> float:
    """Return the weight of a tag, ln(1 + n_notes / n_with_tag), by the number of an owner's notes with it.

    At least ln 2, for a tag of every note, so that no note with tags has a weight of 0.
    """
    return math.log(1 + max(n_notes, n_with_tag, 1) / max(n_with_tag, 1))


def tag_weights(n_notes: int, notes_by_tag: Mapping[str, int]) -> Callable[[str], float]:
    """Return the function that weighs a tag; a tag of no note weighs as much as one of a single note."""
    return lambda tag: tag_weight(n_notes, notes_by_tag.get(tag, 1))


def affinity(
    note_tags: Iterable[str],
    environment_tags: Collection[str],
    weight: Callable[[str], float] = lambda tag: 1.0,
) -> Affinity:
    """Return how well the tags of one note fit an environment. Neutral if either has none."""
    tags = sorted(set(note_tags))
    if not tags or not environment_tags:
        return NEUTRAL
    present = set(environment_tags)
    shared = tuple(tag for tag in tags if tag in present)
    share = math.fsum(map(weight, shared)) / math.fsum(map(weight, tags))
    similarity = similarity_of_share(share)
    return Affinity(similarity, factor(similarity), shared)


def similarity_of_share(share: _Number) -> _Number:
    """Return the similarity, 0.65 to 0.95, of a share of 0 to 1. Takes a number or an array."""
    return UNRELATED + (SAME - UNRELATED) * share


def factor(similarity: _Number) -> _Number:
    """Return the factor, 0.3 to 1.7, of a similarity of any value. Takes a number or an array."""
    slope = (MAX_FACTOR - MIN_FACTOR) / (SAME - UNRELATED)
    factors = np.clip(MIN_FACTOR + slope * (similarity - UNRELATED), MIN_FACTOR, MAX_FACTOR)
    return factors if isinstance(similarity, np.ndarray) else float(factors)
