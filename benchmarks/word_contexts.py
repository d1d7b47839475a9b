"""An alternative to the feedback of shoal.search.query_profile: move a query towards each word's context.

The dictionary gives the general meaning of a word, the library its meaning in this library. For each word of
a query, the mean profile of the chunks with the word is compared with the average chunk, as `associations`
does for unknown words, and the query's own profile moves in that direction. Chunks do not change, so nothing
is scored again as the library grows, deleted documents leave no trace, and a word counts from its first
occurrence. Adapting the words of chunks as well does not rank better by reefs alone, but does with BM25
(benchmarks/query_feedback.py has the numbers).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

# Lower bound of averages, so that a reef that hardly any chunk has does not dominate. The mean over 207 reefs
# is about 0.03.
_LEAST_AVERAGE = 1e-4
# Up to this many chunks a word is never too common: in a small library, that may be one chunk in ten.
_MIN_COMMON_CHUNKS = 20


@dataclass(frozen=True)
class ContextOptions:
    """Options of word contexts.

    share            length of the context's profile relative to the query's own
    max_chunk_share  words in a larger share of the chunks are ignored
    sample           chunks read for a word; ten rank as well as all
    max_reefs        strongest reefs of the result

    The defaults were chosen by benchmarks/query_feedback.py.
    """

    share: float = 1.0
    max_chunk_share: float = 0.05
    sample: int = 30
    max_reefs: int = 60


class WordContext(NamedTuple):
    """A word of the query: the number of chunks with it, and the mean (reefs,) of the unit profiles of these
    or of a sample of them."""

    word: str
    n_chunks: int
    mean: Doubles


@dataclass(frozen=True)
class AdaptedQuery:
    """A query after adaptation.

    profile   (reefs,) adapted z-scores of the query; 0 except for the strongest
    feedback  (words, reefs) contribution of each word, for explanations
    """

    profile: Doubles
    feedback: Doubles


def max_informative_chunks(n_chunks: int, options: ContextOptions) -> int:
    """Largest number of chunks, in a library of `n_chunks`, that an informative word may occur in."""
    return max(_MIN_COMMON_CHUNKS, int(options.max_chunk_share * n_chunks))


def sample(chunk_ids: Sequence[int], options: ContextOptions) -> list[int]:
    """Sample of the chunks with a word, evenly spaced over the library."""
    step = max(1, -(-len(chunk_ids) // options.sample))
    return list(chunk_ids[::step])


def adapt(
    query: Doubles, words: Sequence[WordContext], average: Doubles, n_chunks: int, options: ContextOptions
) -> AdaptedQuery:
    """Move a query's z-scores (reefs,) towards the contexts of its words.

    `average` (reefs,) is the mean of the unit profiles of all chunks. Words are weighted by rarity; the
    direction of a word is the excess of its context over the average, in square roots of the average.
    """
    own = np.maximum(query, 0.0)
    length = float(np.linalg.norm(own)) or 1.0
    directions = np.zeros((len(words), len(query)))
    for row, word in zip(directions, words, strict=True):
        excess = np.maximum((word.mean - average) / np.sqrt(np.maximum(average, _LEAST_AVERAGE)), 0.0)
        norm = float(np.linalg.norm(excess))
        if norm and word.n_chunks <= max_informative_chunks(n_chunks, options):
            row[:] = excess / norm * _rarity(word.n_chunks, n_chunks)
    together = float(np.linalg.norm(directions.sum(axis=0)))
    feedback = directions * (options.share * length / together) if together else directions
    profile = own + feedback.sum(axis=0)
    order = np.argsort(-profile, kind="stable")
    profile[order[options.max_reefs :]] = 0.0
    return AdaptedQuery(profile, feedback)


def _rarity(n_holding: int, n_chunks: int) -> float:
    return math.log((n_chunks - n_holding + 0.5) / (n_holding + 0.5) + 1.0)
