"""Labels: the probability that a reader would say that a text is about a reef.

A z-score says how unusual a reef is in a text, and rankings use it. Many unusual reefs are second senses of
the words of the text. So labels count each word only as far as its support goes (`build.support`): with
s(w, r) the support of an association,

    label_raw = sum over words of repetition * weight(w) * bm25(w, r) * s(w, r),

standardized like z with a background of its own. The probability is a logistic function of this label z, of
the rank of the reef among all label z of the text, of the length of the text, of what the other reefs of the
same island add, and of the label z of the passages around it in its document: a subject usually lasts
longer than a passage, and an accident of its words does not. `benchmarks/label_truth.py` fits it to judged
labels and prints the constants and their calibration.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PROBABILITY_DIGITS = 3

REACH = 4
"""Passages on either side that count as around a passage."""

Doubles = NDArray[np.float64]

ALONE = np.array([-4.96, 1.6, -0.68, 0.48, 0.39, 0.0])
"""For a text without passages around it: intercept, and coefficients of ln(1 + label z), ln(1 + rank),
ln(1 + M1), ln(1 + sum of the label z of the other reefs of the island) and ln(1 + mean label z around),
where z below 0 counts as 0."""
AMONG_OTHERS = np.array([-4.31, 0.97, -0.73, 0.4, 0.38, 1.02])
"""The same for a passage among others of its document."""


class LabelScores(NamedTuple):
    """Evidence of labels of several texts.

    m1        (texts,): sum of the repetition weights
    z         (texts, reefs): label z
    around    (texts, reefs): mean label z of the passages around each, without their context; 0 for none
    n_around  (texts,): number of these passages
    """

    m1: Doubles
    z: Doubles
    around: Doubles
    n_around: NDArray[np.int64]

    @staticmethod
    def of_text_alone(m1: Doubles, z: Doubles) -> "LabelScores":
        return LabelScores(m1, z, np.zeros_like(z), np.zeros(len(z), dtype=np.int64))


def mean_around(z: Doubles, document_of: NDArray[np.int64]) -> tuple[Doubles, NDArray[np.int64]]:
    """(mean label z of the passages around each, their number); `z` (passages, reefs) of consecutive ones.

    `document_of` (passages,): document of each, ascending. The order of adding does not depend on where `z`
    begins and ends, so the result does not either.
    """
    total = np.zeros_like(z)
    n_around = np.zeros(len(z), dtype=np.int64)
    for distance in range(1, min(REACH, len(z) - 1) + 1):
        same = document_of[distance:] == document_of[:-distance]
        factor = same[:, None]
        total[distance:] += z[:-distance] * factor
        total[:-distance] += z[distance:] * factor
        n_around[distance:] += same
        n_around[:-distance] += same
    total /= np.maximum(n_around, 1)[:, None]
    return total, n_around


def features(scores: LabelScores, ids: NDArray[np.int64], group_of: NDArray[np.int64]) -> Doubles:
    """Inputs of the logistic function, (texts, ids of each text, 5).

    `ids` (texts, n): reefs; `group_of` (reefs,): island of each reef.
    """
    n_texts, n_reefs = scores.z.shape
    positive = np.maximum(scores.z, 0.0)
    places = ids + np.arange(n_texts)[:, None] * n_reefs
    rank = _ranks(positive).take(places)
    n_groups = int(group_of.max(initial=-1)) + 1
    cells = np.add.outer(np.arange(n_texts) * n_groups, group_of)
    of_islands = np.bincount(cells.ravel(), weights=positive.ravel(), minlength=n_texts * n_groups)
    own = positive.take(places)
    others = np.maximum(of_islands.take(cells.take(places)) - own, 0.0)
    length = np.broadcast_to(scores.m1[:, None], ids.shape)
    around = np.maximum(scores.around.take(places), 0.0)
    inputs: Doubles = np.log1p(np.stack((own, rank, length, others, around), axis=-1))
    return inputs


def _ranks(positive: Doubles) -> NDArray[np.int64]:
    """Rank of each label z above 0 in its row, from 0; of equal ones, the lower column comes first."""
    n_texts, n_reefs = positive.shape
    # A stable sort takes several times as long, and rows with equal values are rare.
    order = np.argsort(-positive, axis=1)
    ordered = np.take_along_axis(positive, order, axis=1)
    tied = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] > 0)).any(axis=1)
    if tied.any():
        order[tied] = np.argsort(-positive[tied], axis=1, kind="stable")
    ranks = np.empty((n_texts, n_reefs), dtype=np.int64)
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(n_reefs), order.shape), axis=1)
    return ranks


def probabilities(scores: LabelScores, ids: NDArray[np.int64], group_of: NDArray[np.int64]) -> Doubles:
    """Probability of each reef `ids` of each text, (texts, n), rounded; 0 for a label z of at most 0."""
    inputs = features(scores, ids, group_of)
    constants = np.where(scores.n_around[:, None] > 0, AMONG_OTHERS, ALONE)
    logit = constants[:, :1] + (inputs * constants[:, None, 1:]).sum(axis=-1)
    chances = 1.0 / (1.0 + np.exp(-logit))
    rounded: Doubles = np.where(inputs[..., 0] > 0, chances, 0.0).round(PROBABILITY_DIGITS)
    return rounded
