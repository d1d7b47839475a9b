"""Cut a text into chunks within a range of tokens, at the best changes of topic that give such chunks.

Every gap between two sentences has a cost: how similar the sentences around it are (`lagoon`'s gap cosine,
in standard deviations from the mean of the text), less a discount where a heading stands. Of all ways to cut
the text into chunks within the range, dynamic programming finds the cheapest. A chunk that cannot be within
the range, because a sentence is too long or a chunk has to end early, misses it by as little as possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shoal.models.documents import SentenceSpan
from shoal.models.files import TokenRange
from shoal.support.token_estimate import count_tokens

CHARS_PER_TOKEN = 2
"""No text that people read has fewer; longer blocks are split, so that a chunk can keep to the range."""

# `topic_boundaries.py --chunk-tokens 300-800 --tuning`: of -0.5, 0, 0.5 and 1, a cost of 0.5 has the lowest
# mean of both measures over all shapes.
HEADING_DISCOUNT = 2.0
"""Standard deviations by which a gap with a heading is cheaper."""
CUT_COST = 0.5
"""Standard deviations by which a gap must be less similar than the mean to be worth a cut."""
OUTSIDE_COST = 1000.0
"""The cost of a chunk outside the range, and as much again for the tokens it lacks or exceeds, relative to
the range: more than cuts gain."""


class SentenceSizes:
    """Tokens of runs of sentences, including what stands between them."""

    def __init__(self, content: str, sentences: Sequence[SentenceSpan]) -> None:
        own = [count_tokens(content[each.start_char : each.end_char]) for each in sentences]
        between = [
            count_tokens(content[before.end_char : after.start_char]) for before, after in pairwise(sentences)
        ]
        self._ends = np.cumsum([0, *own]) + np.cumsum([0, 0, *between])
        self._starts = np.cumsum([0, *own[:-1]]) + np.cumsum([0, *between])

    @property
    def total(self) -> int:
        """Tokens of the whole text."""
        return int(self._ends[-1])

    def of(self, first: int | NDArray[np.int64], last: int) -> NDArray[np.int64]:
        """Tokens of the sentences first..last-1, for each `first`."""
        sizes: NDArray[np.int64] = self._ends[last] - self._starts[first]
        return sizes


def cut_in_range(
    sizes: SentenceSizes,
    cosines: NDArray[np.float64],
    headings: Sequence[int],
    forced: Sequence[int],
    tokens: TokenRange,
) -> list[int]:
    """Return the first sentence of each chunk.

    `cosines` (sentences - 1,): of the gap before each sentence but the first. `headings`: sentences that
    begin a section. `forced`: sentences that begin a chunk in any case, ascending from 0.
    """
    costs = _gap_costs(cosines, headings)
    firsts: list[int] = []
    for start, end in pairwise([*forced, len(cosines) + 1]):
        firsts += _cut(sizes, costs, start, end, tokens)
    return firsts


def _gap_costs(cosines: NDArray[np.float64], headings: Sequence[int]) -> NDArray[np.float64]:
    """The cost of a cut before each sentence; that of the first is 0."""
    spread = float(cosines.std()) if len(cosines) else 0.0
    costs = np.zeros(len(cosines) + 1)
    if spread > 0:
        costs[1:] = (cosines - cosines.mean()) / spread
    costs[1:] += CUT_COST
    costs[[each for each in headings if each > 0]] -= HEADING_DISCOUNT
    return costs


def _cut(
    sizes: SentenceSizes, costs: NDArray[np.float64], start: int, end: int, tokens: TokenRange
) -> list[int]:
    """The first sentence of each chunk of the sentences start..end-1."""
    n = end - start
    # best[i]: cost of the cheapest way to cut the first i sentences; back[i]: where its last chunk begins.
    best = np.zeros(n + 1)
    back = np.zeros(n + 1, dtype=np.int64)
    low = 0
    for i in range(1, n + 1):
        # A chunk that is too long is worth a thought only if it is one sentence.
        while low < i - 1 and sizes.of(start + low, start + i) > tokens.high:
            low += 1
        firsts = np.arange(low, i)
        totals = best[low:i] + _outside(sizes.of(start + firsts, start + i), tokens)
        totals[firsts > 0] += costs[start + firsts[firsts > 0]]
        place = int(totals.argmin())
        best[i], back[i] = totals[place], low + place
    firsts_found: list[int] = []
    at = n
    while at > 0:
        at = int(back[at])
        firsts_found.append(start + at)
    return firsts_found[::-1]


def _outside(sizes: NDArray[np.int64], tokens: TokenRange) -> NDArray[np.float64]:
    """The cost of chunks of these sizes for being outside the range."""
    missing = np.maximum(tokens.low - sizes, 0) / tokens.low
    excess = np.maximum(sizes - tokens.high, 0) / tokens.high
    costs: NDArray[np.float64] = OUTSIDE_COST * ((missing > 0) + missing + (excess > 0) + excess)
    return costs
