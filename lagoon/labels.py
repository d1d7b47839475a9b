"""Labels: the probability that a reader would say that a text is about a reef.

A z-score says how unusual a reef is in a text, and rankings use it. Many unusual reefs are second senses of
the words of the text. So labels count each word only as far as its support goes (`build.support`): with
s(w, r) the support of an association,

    label_raw = sum over words of repetition * weight(w) * bm25(w, r) * s(w, r),

standardized like z with a background of its own. The probability is a logistic function of this label z, of
the rank of the reef among all label z of the text, of the length of the text, and of what the other reefs of
the same island add. `benchmarks/label_truth.py` fits it to judged labels and prints the constants and their
calibration.
"""

import numpy as np
from numpy.typing import NDArray

PROBABILITY_DIGITS = 3

Doubles = NDArray[np.float64]

INTERCEPT = -4.96
LABEL_Z = 1.6
RANK = -0.68
LENGTH = 0.48
ISLAND = 0.39
"""Coefficients of ln(1 + label z), ln(1 + rank), ln(1 + M1) and ln(1 + sum of the label z of the other reefs
of the island), where z below 0 counts as 0."""


def features(label_z: Doubles, m1: Doubles, ids: NDArray[np.int64], group_of: NDArray[np.int64]) -> Doubles:
    """Inputs of the logistic function, (texts, ids of each text, 4).

    `label_z` (texts, reefs); `m1` (texts,): sum of the repetition weights; `ids` (texts, n): reefs;
    `group_of` (reefs,): island of each reef.
    """
    n_texts, n_reefs = label_z.shape
    positive = np.maximum(label_z, 0.0)
    order = np.argsort(-label_z, axis=1, kind="stable")
    ranks = np.empty((n_texts, n_reefs), dtype=np.int64)
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(n_reefs), order.shape), axis=1)
    rank = np.take_along_axis(ranks, ids, axis=1)
    n_groups = int(group_of.max(initial=-1)) + 1
    cells = np.add.outer(np.arange(n_texts) * n_groups, group_of)
    of_islands = np.bincount(cells.ravel(), weights=positive.ravel(), minlength=n_texts * n_groups)
    own = np.take_along_axis(positive, ids, axis=1)
    others = np.maximum(of_islands.take(np.take_along_axis(cells, ids, axis=1)) - own, 0.0)
    length = np.broadcast_to(m1[:, None], ids.shape)
    inputs: Doubles = np.log1p(np.stack((own, rank, length, others), axis=-1))
    return inputs


def probabilities(
    label_z: Doubles, m1: Doubles, ids: NDArray[np.int64], group_of: NDArray[np.int64]
) -> Doubles:
    """Probability of each reef `ids` of each text, (texts, n), rounded; 0 for a label z of at most 0."""
    inputs = features(label_z, m1, ids, group_of)
    logit = INTERCEPT + inputs @ np.array([LABEL_Z, RANK, LENGTH, ISLAND])
    chances = 1.0 / (1.0 + np.exp(-logit))
    rounded: Doubles = np.where(inputs[..., 0] > 0, chances, 0.0).round(PROBABILITY_DIGITS)
    return rounded
