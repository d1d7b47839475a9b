"""A rival of shoal.search.feedback: a query moved towards the company of each of its words, not of all of them together.

The dictionary says what a word is about anywhere; the library says what it is about here. For each word of a
query the mean profile of chunks that hold it is compared with the average chunk, as `associations` does for
unknown words, and the query's own profile moves that way. Chunks stay as they are, so nothing has to be scored
anew as the library grows, what was deleted leaves no trace, and a word counts that occurs for the first time.
Adapting the words of chunks as well ranks no better by reefs alone, but better beside BM25
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

# A reef hardly any chunk has would make any chunk that does stand out. The mean over 207 reefs is about 0.03.
_LEAST_AVERAGE = 1e-4
# In a small library a word is not common because it is in one chunk of ten.
_ALWAYS_TELLING = 20


@dataclass(frozen=True)
class CompanyOptions:
    """share            length of the company's profile beside the query's own
    max_chunk_share  a word that a larger share of the chunks holds tells nothing
    sample           chunks looked at for a word; ten rank as well as all
    max_reefs        strongest reefs kept of the whole

    The defaults were chosen by benchmarks/query_feedback.py.
    """

    share: float = 1.0
    max_chunk_share: float = 0.05
    sample: int = 30
    max_reefs: int = 60


class WordCompany(NamedTuple):
    """A word of the query: how many chunks hold it, and the mean (reefs,) of their profiles of unit length, or of
    the profiles of a sample of them."""

    word: str
    n_chunks: int
    mean: Doubles


@dataclass(frozen=True)
class AdaptedQuery:
    """profile  (reefs,) z-scores of the query, adapted; 0 where below the strongest
    feedback  (words, reefs) what each word added to it before that, for explanations
    """

    profile: Doubles
    feedback: Doubles


def most_telling(n_chunks: int, options: CompanyOptions) -> int:
    """The most chunks of a library of `n_chunks` that may hold a word for it to tell anything."""
    return max(_ALWAYS_TELLING, int(options.max_chunk_share * n_chunks))


def sample(chunk_ids: Sequence[int], options: CompanyOptions) -> list[int]:
    """Some of the chunks that hold a word, spread evenly over the library."""
    step = max(1, -(-len(chunk_ids) // options.sample))
    return list(chunk_ids[::step])


def adapt(
    query: Doubles, words: Sequence[WordCompany], average: Doubles, n_chunks: int, options: CompanyOptions
) -> AdaptedQuery:
    """A query's z-scores (reefs,) moved towards the company its words keep.

    `average` (reefs,) is the mean of all chunks' profiles of unit length. Words count by their rarity, each with
    the direction of what stands out: the excess over the average in roots of the average.
    """
    own = np.maximum(query, 0.0)
    length = float(np.linalg.norm(own)) or 1.0
    directions = np.zeros((len(words), len(query)))
    for row, word in zip(directions, words, strict=True):
        excess = np.maximum((word.mean - average) / np.sqrt(np.maximum(average, _LEAST_AVERAGE)), 0.0)
        norm = float(np.linalg.norm(excess))
        if norm and word.n_chunks <= most_telling(n_chunks, options):
            row[:] = excess / norm * _rarity(word.n_chunks, n_chunks)
    together = float(np.linalg.norm(directions.sum(axis=0)))
    feedback = directions * (options.share * length / together) if together else directions
    profile = own + feedback.sum(axis=0)
    order = np.argsort(-profile, kind="stable")
    profile[order[options.max_reefs :]] = 0.0
    return AdaptedQuery(profile, feedback)


def _rarity(n_holding: int, n_chunks: int) -> float:
    return math.log((n_chunks - n_holding + 0.5) / (n_holding + 0.5) + 1.0)
