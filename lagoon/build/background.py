"""Background statistics of running text: rarity of words, mean contribution of a word to a reef, and
dispersion of passages compared with the same number of words drawn independently."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse

Doubles = npt.NDArray[np.float64]

WITHIN_TWO_DEVIATIONS = 0.9545
"""Share of a normal distribution. z-scores are calibrated to it: |z| > 2 for one reef in twenty."""
_DIGITS = 4


def document_frequencies(counts: sparse.csr_matrix) -> npt.NDArray[np.int64]:
    """Number of windows with each word; ``counts`` is (n_windows, n_words) without stored zeros."""
    return np.bincount(counts.indices, minlength=counts.shape[1]).astype(np.int64)


def rarity(frequencies: npt.NDArray[np.integer], n_documents: int) -> Doubles:
    """``ln((D - df + 0.5) / (df + 0.5) + 1)``: 0.4 for a word in two of three windows, 12 for a word in none.

    The same formula as the scorer's idf over reefs; always positive, and below 16 for up to four million
    documents, as the data format requires.
    """
    df = frequencies.astype(np.float64)
    return np.log((n_documents - df + 0.5) / (df + 0.5) + 1.0)


def repetition_mass(counts: sparse.csr_matrix) -> Doubles:
    """Sum of the repetition weights 1 + ln(tf) of each word over all windows, as the scorer counts."""
    data = 1.0 + np.log(counts.data.astype(np.float64))
    return np.asarray(np.bincount(counts.indices, weights=data, minlength=counts.shape[1]), dtype=np.float64)


def contribution_moments(contributions: sparse.csr_matrix, mass: Doubles) -> Doubles:
    """Mean and variance, by reef, of the contribution of a word drawn from running text.

    Args:
        contributions: (n_words, n_reefs), word weight times BM25, as the scorer reads them from the quantised
            data.
        mass: (n_words,) relative frequency of every word; need not sum to 1.

    Returns:
        Shape (2, n_reefs).

    Raises:
        ValueError: if no word of running text is associated with a reef (its variance would be zero).
    """
    share = mass / mass.sum()
    mean = np.asarray(contributions.T @ share).ravel()
    square = np.asarray(contributions.multiply(contributions).T @ share).ravel()
    variance = square - mean**2
    if (variance <= 0).any():
        raise ValueError(f"no running text for reefs {np.flatnonzero(variance <= 0).tolist()}")
    return np.stack([mean, variance])


def dispersion(
    windows: Sequence[sparse.csr_matrix], contributions: sparse.csr_matrix, moments: Doubles
) -> Doubles:
    """Rate and exponent of D(M) = 1 + rate * max(M - 1, 0) ** exponent, the ratio of the variance of a
    passage to that of the same number of words drawn independently (see `lagoon.scoring`).

    For each length, D is chosen so that 95.45 % of all reefs and windows are within two deviations; the curve
    is fitted to these values by least squares of the logarithms. The percentile is used instead of the
    variance because the distributions have long tails, and readers interpret how unusual a z of 2 is.

    Args:
        windows: for each of several lengths, the words of windows of running text, (n_windows, n_words).
        contributions, moments: argument and result of `contribution_moments`.

    Raises:
        ValueError: if fewer than two lengths have windows.
    """
    measured = [_dispersion_at(counts, contributions, moments) for counts in windows if counts.shape[0]]
    if len(measured) < 2:
        raise ValueError("running text is too short to measure how passages of different lengths vary")
    lengths, excess = np.array(measured).T
    grown = np.maximum(lengths - 1.0, 0.0)

    def residuals(curve: Doubles) -> Doubles:
        return np.asarray(np.log1p(curve[0] * grown ** curve[1]) - np.log(np.maximum(excess, 1.0)))

    fitted = optimize.least_squares(residuals, x0=[0.1, 0.6], bounds=([0.0, 0.0], [np.inf, 1.0]))
    return np.round(fitted.x, _DIGITS)


def _dispersion_at(
    counts: sparse.csr_matrix, contributions: sparse.csr_matrix, moments: Doubles
) -> tuple[float, float]:
    """Mean M1 and D of windows of one length."""
    mass = counts.astype(np.float64)
    mass.data = 1.0 + np.log(mass.data)
    m1 = np.asarray(mass.sum(axis=1)).reshape(-1, 1)
    m2 = np.asarray(mass.multiply(mass).sum(axis=1)).reshape(-1, 1)
    mean, variance = moments
    z = np.abs((mass @ contributions).toarray() - m1 * mean) / np.sqrt(np.maximum(m2, 1.0) * variance)
    return float(m1.mean()), float((np.quantile(z, WITHIN_TWO_DEVIATIONS) / 2.0) ** 2)
