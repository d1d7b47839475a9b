"""One score of several signals: final = w_lexical * lexical + w_reef * reef + w_bonus * bonus, weights adding up to 1.

A signal's part is its raw score divided by the best of the whole library for this query (the least is 0, that of a chunk
without a match), so 0..1. The best is taken before any filter: a filtered search is the search, filtered, and pages
do not depend on how deep anyone looked. With reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009) a part
is (k + 1) / (k + rank) instead, rank within the library too; equal scores have equal ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.search.request import Fusion, Preset

RRF_K = 60
"""As in the paper."""


class Weights(NamedTuple):
    """What each signal counts in a hybrid search."""

    lexical: float
    reef: float
    bonus: float

    def normalised(self) -> Weights:
        """These in proportion, adding up to 1; all 0 if all are."""
        total = sum(self)
        return Weights(*(weight / total for weight in self)) if total else Weights(0.0, 0.0, 0.0)


PRESETS: Mapping[Preset, Weights] = {
    Preset.balanced: Weights(lexical=0.60, reef=0.35, bonus=0.05),
    Preset.precise: Weights(lexical=0.85, reef=0.10, bonus=0.05),
    Preset.conceptual: Weights(lexical=0.35, reef=0.60, bonus=0.05),
}
EQUAL_VOICE = Weights(lexical=0.5, reef=0.5, bonus=0.0)
"""Of rankings that are fused by rank."""

HALF_TRUSTED_WORDS = 0.5
"""Known words of a query whose profile counts half."""
DOUBTFUL = 0.5
"""Below this, the answer says that reefs count less."""


def trust(matched_words: int) -> float:
    """How far the profile of a query of so many known words can be trusted, 0..1."""
    return matched_words / (matched_words + HALF_TRUSTED_WORDS)


def choose_weights(
    preset: Preset, given: Mapping[str, float] | None, fusion: Fusion, matched_words: int
) -> Weights:
    """The weights of a hybrid search, adding up to 1. Given ones count as they are, those not given 0; of a preset
    the weight of reefs falls with the trust in the query's profile. Without known words reefs have no part."""
    if given is not None:
        chosen = Weights(**{name: given.get(name, 0.0) for name in Weights._fields})
        faith = 1.0
    else:
        chosen = EQUAL_VOICE if fusion is Fusion.rrf else PRESETS[preset]
        faith = 1.0 if fusion is Fusion.rrf else trust(matched_words)
    return chosen._replace(reef=chosen.reef * faith if matched_words else 0.0).normalised()


def parts(raw: NDArray[np.int64], fusion: Fusion) -> NDArray[np.float64]:
    """Raw scores of every chunk that any signal found, 0 where this one did not, as parts of a blend."""
    return _by_rank(raw) if fusion is Fusion.rrf else _of_best(raw)


def blend(
    lexical: NDArray[np.float64], reef: NDArray[np.float64], bonus: NDArray[np.float64], weights: Weights
) -> NDArray[np.float64]:
    """The final scores, 0..1."""
    return weights.lexical * lexical + weights.reef * reef + weights.bonus * bonus


def _of_best(raw: NDArray[np.int64]) -> NDArray[np.float64]:
    best = raw.max(initial=0)
    return raw / best if best else np.zeros(len(raw))


def _by_rank(raw: NDArray[np.int64]) -> NDArray[np.float64]:
    found = raw[raw > 0]
    in_order = np.sort(found)
    n_better = len(found) - np.searchsorted(in_order, raw, side="right")
    return np.where(raw > 0, (RRF_K + 1) / (RRF_K + 1 + n_better), 0.0)
