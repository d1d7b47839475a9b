"""The signals of reefs and vectors, and the fusion of all signals into one score.

final = w_lexical * lexical + w_reef * reef + w_field_boost * field_boost + w_dense * dense, with weights that
add up to 1. `dense` is there only for a library with vectors.

Each signal's raw scores are normalized to 0..1: divided by the best raw score in the whole library for this
query; a chunk without a match has 0. The best is taken before filters, so filters and pages do not change
scores. With reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009) the normalized score is (k + 1)
/ (k + rank), where rank is within the whole library too, and equal raw scores have equal ranks.

The reef signal is the overlap of a query's profile with each chunk's: the sum over shared reefs of
query_z * chunk_z / norm(chunk). Both factors are whole numbers, so equal profiles get equal overlaps in any
order of addition.

The dense signal is the cosine of the query's vector with that of each chunk, where it is above a floor:

    dense = (cosine - floor) / (best cosine in the library - floor), 0 below the floor

The floor is the cosine that the query has with texts that have nothing to do with it
(`shoal.search.query_vectors`), so that not every chunk of a library is a match. A chunk without a vector,
such as one that is not embedded yet, is judged by its other signals alone: its dense score is estimated as
ESTIMATE times the mean of its other normalized scores, by their weights.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.index import kernels
from shoal.index import overlaps as index_overlaps
from shoal.index.overlaps import Overlaps
from shoal.models.queries import QueryReef
from shoal.models.search import Fusion
from shoal.search.library_index import LibraryIndex
from shoal.storage.column_values import packed_ids
from shoal.storage.database import Snapshot
from shoal.support.presets import Preset, Weights

RRF_K = 60
"""The constant of the paper."""

RRF_WEIGHTS = Weights(lexical=0.5, reef=0.5, field_boost=0.0, dense=0.5)
"""Weights of rankings that are fused by rank."""

HALF_TRUST_Z = 4.0
"""z-score of a query's strongest reef at which the trust factor is one half. The best reef weight of a query
rises with this z-score, more than with the number of known words or the lead of the first reef
(benchmarks/hybrid.py)."""
LOW_TRUST = 0.45
"""Trust factor below which the response has a warning: "good idea", "meaning of life", "thing" are below;
"king" and "heat transfer" are not."""

REEFS_BESIDE_VECTORS = 0.25
"""Share of the reef weight that is left where all chunks have vectors, which say more finely what reefs say.
Mean nDCG@10 of four collections is 0.669 with it and a dense weight of 0.4, and 0.662 with all of the reef
weight and 0.5; any three of them choose it for the fourth (benchmarks/dense_blend.py)."""


def trust(strength: float) -> float:
    """Return the trust factor of a query's profile, 0..1, from the z-score of its strongest reef."""
    return strength / (strength + HALF_TRUST_Z)


def choose_weights(
    preset: Preset,
    given: Mapping[str, float] | None,
    fusion: Fusion,
    strength: float,
    *,
    vector_share: float | None = None,
) -> Weights:
    """Return the weights of a hybrid search, adding up to 1.

    Given weights are used as they are; missing ones are 0. If the preset is adaptive, its reef weight is
    multiplied by the trust factor of `strength`, the z-score of the query's strongest reef, and falls to
    REEFS_BESIDE_VECTORS with `vector_share`, the share of chunks with a vector, 0..1. If its vectors take
    from reefs, they get the weight that reefs lose in this way. If `strength` is 0, the query has no reefs
    and the reef weight is 0; if `vector_share` is None, that of `dense` is 0.
    """
    if given is not None:
        chosen = Weights(**{name: given.get(name, 0.0) for name in Weights._fields})
    elif fusion is Fusion.rrf:
        chosen = RRF_WEIGHTS
    else:
        chosen = preset.weights
        left = 1.0 - (1.0 - REEFS_BESIDE_VECTORS) * (vector_share or 0.0)
        if preset.is_adaptive:
            chosen = chosen._replace(reef=chosen.reef * trust(strength) * left)
        elif preset.vectors_take_from_reefs:
            chosen = chosen._replace(reef=chosen.reef * left, dense=chosen.reef * (1.0 - left))
    return chosen._replace(
        reef=chosen.reef if strength else 0.0, dense=0.0 if vector_share is None else chosen.dense
    ).normalized()


class Signal(NamedTuple):
    """The raw scores of a signal by place.

    best       the raw score that becomes 1 in a blend; 1.0 if there is no match
    normalize  normalizes some of the raw scores to 0..1; chunks that the signal does not match have 0
    """

    raw: NDArray[Any]
    best: float
    normalize: Callable[[NDArray[Any]], NDArray[np.float64]]


NO_SIGNAL = Signal(np.zeros(0), 1.0, lambda some: np.zeros(len(some)))
"""A signal that is not used."""


def signal(raw: NDArray[np.int64], fusion: Fusion) -> Signal:
    """Return the signal of these raw scores of the whole library."""
    best = float(raw.max(initial=0)) or 1.0
    if fusion is Fusion.rrf:
        return Signal(raw, best, functools.partial(_by_rank, np.sort(raw[raw > 0])))
    return Signal(raw, best, lambda some: some / best)


def parts(raw: NDArray[np.int64], fusion: Fusion) -> NDArray[np.float64]:
    """Normalize the raw scores of a signal in the whole library."""
    return signal(raw, fusion).normalize(raw)


def blend(
    lexical: NDArray[np.float64],
    reef: NDArray[np.float64],
    field_boost: NDArray[np.float64],
    weights: Weights,
) -> NDArray[np.float64]:
    """Return the final scores, 0..1."""
    return weights.lexical * lexical + weights.reef * reef + weights.field_boost * field_boost


def _by_rank(in_order: NDArray[np.int64], raw: NDArray[np.int64]) -> NDArray[np.float64]:
    n_better = len(in_order) - np.searchsorted(in_order, raw, side="right")
    return np.where(raw > 0, (RRF_K + 1) / (RRF_K + 1 + n_better), 0.0)


OVERLAP_UNIT = index_overlaps.OVERLAP_UNIT
"""Overlaps are whole multiples of 1 / OVERLAP_UNIT."""

OTHER_DATA = """
    SELECT id FROM chunks WHERE data_checksum < :data_checksum
    UNION ALL SELECT id FROM chunks WHERE data_checksum > :data_checksum
"""


def overlaps(library: LibraryIndex, reefs: Iterable[QueryReef]) -> Overlaps:
    """Return the overlap of the chunk at each place; 0 for one that shares no reef."""
    return index_overlaps.overlaps(library.index, {reef.reef_id: reef.z_score for reef in reefs})


def other_data(snapshot: Snapshot, data_checksum: str) -> NDArray[np.int64]:
    """Return the ids of the chunks that were scored with other lagoon data."""
    return packed_ids(snapshot, OTHER_DATA, {"data_checksum": data_checksum})


COSINE_UNIT = 1_000_000
"""Cosines are whole multiples of 1 / COSINE_UNIT."""
ESTIMATE = 1.0
"""With a random half of the vectors missing, nDCG@10 of four collections is highest with it
(benchmarks/dense_blend.py)."""

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


class DenseCosines(NamedTuple):
    """The cosines of a query with the chunks of a library, by place.

    raw         in units of `COSINE_UNIT`, 0 where it is negative or unknown
    has_vector  whether there is a vector
    floor       the cosine above which a chunk is a match, in units of `COSINE_UNIT`
    encoder     name and revision of the encoder
    """

    raw: Ints
    has_vector: Bools
    floor: int
    encoder: str = ""


def dense_signal(cosines: DenseCosines, fusion: Fusion) -> Signal:
    """Return the signal; its raw scores are the distances of the cosines from the floor."""
    above = np.where(cosines.has_vector, np.maximum(cosines.raw - cosines.floor, 0), 0)
    return signal(above, fusion)


def estimate_factor(weights: Weights) -> float:
    """Return what the sum of a chunk's other parts is multiplied by to estimate its dense score."""
    others = weights.lexical + weights.reef + weights.field_boost
    return ESTIMATE / others if others else 0.0


def add_dense(
    final: Doubles, is_found: Bools, cosines: DenseCosines, dense: Signal, weights: Weights, fusion: Fusion
) -> None:
    """Add the dense parts to the final scores, and mark matches as found."""
    factor = estimate_factor(weights)
    if fusion is Fusion.rrf:
        parts = np.where(cosines.has_vector, dense.normalize(dense.raw), final * factor)
        final += weights.dense * parts
        is_found |= dense.raw > 0
        return
    kernels.active().add_dense(
        final, is_found, dense.raw, cosines.has_vector, dense.best, weights.dense, factor
    )
