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
    field_boost: float

    def normalised(self) -> Weights:
        """These in proportion, adding up to 1; all 0 if all are."""
        total = sum(self)
        return Weights(*(weight / total for weight in self)) if total else Weights(0.0, 0.0, 0.0)


PRESETS: Mapping[Preset, Weights] = {
    Preset.balanced: Weights(lexical=0.475, reef=0.475, field_boost=0.05),
    Preset.precise: Weights(lexical=0.75, reef=0.20, field_boost=0.05),
    Preset.conceptual: Weights(lexical=0.20, reef=0.75, field_boost=0.05),
}
"""Before trust, which takes a third off the weight of reefs for the typical query. Of `balanced` the weights are those
that won on four collections (docs/search-quality.md); the others lean to one side of it."""
EQUAL_VOICE = Weights(lexical=0.5, reef=0.5, field_boost=0.0)
"""Of rankings that are fused by rank."""

HALF_TRUSTED = 4.0
"""z-score of a query's strongest reef with which its profile counts half. The best reef weight of queries rises with this
z-score, more than with the number of known words or the lead of the first reef (benchmarks/hybrid.py)."""
DOUBTFUL = 0.45
"""Below this, the answer says so: "good idea", "meaning of life", "thing"; not "king" or "heat transfer"."""


def trust(strength: float) -> float:
    """How far a query's profile can be trusted, 0..1, given the z-score of its strongest reef."""
    return strength / (strength + HALF_TRUSTED)


def choose_weights(
    preset: Preset, given: Mapping[str, float] | None, fusion: Fusion, strength: float
) -> Weights:
    """The weights of a hybrid search, adding up to 1. Given ones count as they are, those not given 0; of a preset
    the weight of reefs falls with the trust in the query's profile, whose strongest reef has the z-score `strength`; 0
    is a query without reefs, in which they have no part."""
    if given is not None:
        chosen = Weights(**{name: given.get(name, 0.0) for name in Weights._fields})
        trust_factor = 1.0
    else:
        chosen = EQUAL_VOICE if fusion is Fusion.rrf else PRESETS[preset]
        trust_factor = 1.0 if fusion is Fusion.rrf else trust(strength)
    return chosen._replace(reef=chosen.reef * trust_factor if strength else 0.0).normalised()


def parts(raw: NDArray[np.int64], fusion: Fusion) -> NDArray[np.float64]:
    """Raw scores of every chunk that any signal found, 0 where this one did not, as parts of a blend."""
    return _by_rank(raw) if fusion is Fusion.rrf else _of_best(raw)


def blend(
    lexical: NDArray[np.float64],
    reef: NDArray[np.float64],
    field_boost: NDArray[np.float64],
    weights: Weights,
) -> NDArray[np.float64]:
    """The final scores, 0..1."""
    return weights.lexical * lexical + weights.reef * reef + weights.field_boost * field_boost


def _of_best(raw: NDArray[np.int64]) -> NDArray[np.float64]:
    best = raw.max(initial=0)
    return raw / best if best else np.zeros(len(raw))


def _by_rank(raw: NDArray[np.int64]) -> NDArray[np.float64]:
    found = raw[raw > 0]
    in_order = np.sort(found)
    n_better = len(found) - np.searchsorted(in_order, raw, side="right")
    return np.where(raw > 0, (RRF_K + 1) / (RRF_K + 1 + n_better), 0.0)
