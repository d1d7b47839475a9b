"""BM25 of words in reefs, and its fixed-point forms.

BM25 as in Robertson and Zaragoza, "The Probabilistic Relevance Framework" (2009), with reefs instead of
documents and an association strength in 0..1 instead of a term frequency.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IDF_SCALE = 51  # idf_q = round(idf * 51): 207 reefs give idf 0..4.93, which fits u8
BM25_SCALE = 8192  # bm25_q = round(bm25 * 8192), u16: values 0..7.99
WEIGHT_SCALE = 4096  # weight_q = round(weight * 4096), u16: values 0..15.99
MAX_U8 = 0xFF
MAX_U16 = 0xFFFF


@dataclass(frozen=True)
class Bm25Parameters:
    """k1 and b as in BM25; `avg_reef_words` is the mean number of words in a reef."""

    k1: float
    b: float
    avg_reef_words: float


def reef_idf(n_reefs_of_word: int, n_reefs: int) -> float:
    """ln((N - n + 0.5) / (n + 0.5) + 1); positive for every n in 1..N."""
    return math.log((n_reefs - n_reefs_of_word + 0.5) / (n_reefs_of_word + 0.5) + 1.0)


def quantise_idf(idf: float) -> int:
    """idf as u8 in units of 1/51."""
    return min(MAX_U8, max(0, round(idf * IDF_SCALE)))


def quantised_reef_idf(n_reefs_of_word: int, n_reefs: int) -> int:
    """idf_q of a word by the number of its reefs; 0 for a word without reefs."""
    return quantise_idf(reef_idf(n_reefs_of_word, n_reefs)) if n_reefs_of_word else 0


def reef_bm25(
    idf: NDArray[np.float64] | float,
    strength: NDArray[np.float64],
    reef_n_words: NDArray[np.float64],
    parameters: Bm25Parameters,
) -> NDArray[np.float64]:
    """BM25 of words in reefs, elementwise: idf * tf (k1 + 1) / (tf + k1 (1 - b + b * len / avglen)).

    `strength` is tf in 0..1, `reef_n_words` the number of words of each pair's reef.
    """
    length = 1.0 - parameters.b + parameters.b * reef_n_words / parameters.avg_reef_words
    return idf * strength * (parameters.k1 + 1.0) / (strength + parameters.k1 * length)


def quantise_bm25(values: NDArray[np.float64]) -> NDArray[np.uint16]:
    """BM25 values as u16 in units of 1/8192; larger values are clipped to 65535."""
    return np.clip(np.rint(values * BM25_SCALE), 0, MAX_U16).astype(np.uint16)


def quantise_weights(values: NDArray[np.float64]) -> NDArray[np.uint16]:
    """Word weights as u16 in units of 1/4096; larger values are clipped to 65535."""
    return np.clip(np.rint(values * WEIGHT_SCALE), 0, MAX_U16).astype(np.uint16)


def specificity_of(n_reefs_of_word: int) -> int:
    """Specificity by the number of reefs: +2 for 1-3, +1 for 4-7, 0 for 8-12, -1 for 13-20, else -2."""
    for limit, band in ((3, 2), (7, 1), (12, 0), (20, -1)):
        if n_reefs_of_word <= limit:
            return band
    return -2
