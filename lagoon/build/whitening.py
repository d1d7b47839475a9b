"""Whitening: a linear map after which word vectors have about the same variance in all directions.

The encoder's vectors vary much more in some directions than in others, so cosines mostly distinguish a few
large subjects. After whitening, fine differences count too: on four retrieval collections it raised the mean
nDCG@10 of 207 reefs from 0.290 to 0.316 (docs/lagoon-data.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagoon.build.clustering import Floats, unit_rows


@dataclass(frozen=True, slots=True)
class Whitening:
    """``(x - middle) @ matrix``, scaled to unit length; middle (d,), matrix (d, d)."""

    middle: Floats
    matrix: Floats

    def __call__(self, vectors: Floats) -> Floats:
        return unit_rows((vectors - self.middle) @ self.matrix)


def fit_whitening(vectors: Floats, middle: Floats, shrinkage: float) -> Whitening:
    """The symmetric map C^(-1/2) of the covariance C of ``vectors`` about ``middle``.

    Args:
        vectors: (n, d).
        middle: (d,) origin: the vector without any topic.
        shrinkage: Share of C's mean eigenvalue that is added to all eigenvalues, so that noise is not
            amplified.
    """
    centred = (vectors - middle).astype(np.float64)
    values, axes = np.linalg.eigh(centred.T @ centred / len(centred))
    scales: npt.NDArray[np.float64] = 1.0 / np.sqrt(np.maximum(values, 0.0) + shrinkage * values.mean())
    return Whitening(middle.astype(np.float32), ((axes * scales) @ axes.T).astype(np.float32))
