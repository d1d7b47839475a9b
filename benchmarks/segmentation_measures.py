"""Distances of two segmentations of a text: Pk and WindowDiff, 0 if they are equal, lower is better.

A segmentation of n units (here sentences) is given by its boundaries: the units, from 1 to n - 1, that begin
a new segment. A window of k units slides over the text, and both measures count the windows in which the
segmentations disagree. k is half the mean length of the reference's segments.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt


def window_length(boundaries: Iterable[int], n: int) -> int:
    """Half the mean length of the segments, at least 1."""
    return max(1, round(n / (len(set(boundaries)) + 1) / 2))


def pk(reference: Iterable[int], hypothesis: Iterable[int], n: int) -> float:
    """Pk: share of pairs of units k apart that one segmentation has in the same segment and the other in two
    (Beeferman, Berger and Lafferty 1999)."""
    between_reference, between_hypothesis = _boundaries_between(reference, hypothesis, n)
    return float(((between_reference > 0) != (between_hypothesis > 0)).mean())


def window_diff(reference: Iterable[int], hypothesis: Iterable[int], n: int) -> float:
    """WindowDiff: share of pairs of units k apart with another number of boundaries in between (Pevzner and
    Hearst 2002)."""
    between_reference, between_hypothesis = _boundaries_between(reference, hypothesis, n)
    return float((between_reference != between_hypothesis).mean())


def _boundaries_between(
    reference: Iterable[int], hypothesis: Iterable[int], n: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Boundaries of each segmentation in units i + 1 .. i + k, for every i with i + k < n.

    Raises:
        ValueError: if a boundary is not within the text, or the text is not longer than the window.
    """
    reference, hypothesis = set(reference), set(hypothesis)
    if not all(0 < boundary < n for boundary in reference | hypothesis):
        raise ValueError(f"boundaries must be between 1 and {n - 1}")
    k = window_length(reference, n)
    if n <= k:
        raise ValueError(f"a text of {n} units has no pair {k} apart")
    return _running(reference, n, k), _running(hypothesis, n, k)


def _running(boundaries: set[int], n: int, k: int) -> npt.NDArray[np.int64]:
    before = np.zeros(n + 1, dtype=np.int64)
    before[[boundary + 1 for boundary in boundaries]] = 1
    before = np.cumsum(before)  # before[i]: boundaries among units 0 .. i - 1
    return np.asarray(before[k + 1 :] - before[1 : n - k + 1])
