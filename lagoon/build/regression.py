"""Fit word vectors such that the weighted mean of a gloss's words reproduces the embedding of the gloss.

Ridge regression towards a prior, solved by conjugate gradients on the normal equations

    (X'X + ridge*I) (W - P) = X' (E - X P)

with X the glosses as weighted means of words (sparse, rows sum to 1), E the centred embeddings and P the
prior (zero, or a previous estimate of the word vectors). All columns of E share the products with X but have
their own step lengths, so a single pass over the sparse matrix serves all 384 dimensions.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

Floats = npt.NDArray[np.float32]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fit:
    """Solution of the regression: word vectors (n_words, d) and the unexplained share of the variance."""

    vectors: Floats
    unexplained: float
    iterations: int


def mean_rows(counts: sparse.csr_matrix, weights: npt.NDArray[np.float64]) -> sparse.csr_matrix:
    """Scale counts (texts x words) by word weights and make every row sum to 1 (empty rows stay 0)."""
    weighted = (counts @ sparse.diags(weights)).tocsr()
    sums = np.asarray(weighted.sum(axis=1)).ravel()
    inverse = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    return sparse.csr_matrix(sparse.diags(inverse) @ weighted, dtype=np.float32)


def fit_word_vectors(
    design: sparse.csr_matrix,
    target: Floats,
    *,
    ridge: float,
    prior: Floats | None = None,
    max_iterations: int = 40,
    tolerance: float = 1e-3,
) -> Fit:
    """Minimise ``|design W - target|^2 + ridge |W - prior|^2``.

    Args:
        design: (n_texts, n_words), rows are weighted means.
        target: (n_texts, d), centred by the caller.
        ridge: Weight of the prior, in units of X'X: a word that is a tenth of one gloss has 0.01 there, so
            useful values are about 0.001 to 0.1.
        prior: (n_words, d) or None for zero.
        max_iterations: Maximum number of conjugate gradient steps.
        tolerance: Stop when the residual of the normal equations has this share of its initial norm.
    """
    design = design.astype(np.float32).tocsr()
    transposed = design.T.tocsr()
    unexplained_target = target if prior is None else target - design @ prior
    residual = np.asarray(transposed @ unexplained_target, dtype=np.float32)
    step = np.zeros_like(residual)
    direction: Floats = residual.copy()
    squared = _column_squares(residual)
    first = max(float(squared.sum()), 1e-30)  # a target of zeros is fitted by zeros
    taken = 0
    while taken < max_iterations:
        taken += 1
        image = np.asarray(transposed @ (design @ direction), dtype=np.float32) + ridge * direction
        length = np.einsum("ij,ij->j", direction, image, dtype=np.float64)
        alpha = np.divide(squared, length, out=np.zeros_like(squared), where=length > 0)
        step += direction * alpha.astype(np.float32)
        residual -= image * alpha.astype(np.float32)
        previous, squared = squared, _column_squares(residual)
        if float(squared.sum()) <= tolerance**2 * first:
            break
        beta = np.divide(squared, previous, out=np.zeros_like(squared), where=previous > 0)
        direction = np.asarray(residual + direction * beta.astype(np.float32))
    remainder = unexplained_target - design @ step
    total = float(np.square(target, dtype=np.float64).sum())
    unexplained = float(np.square(remainder, dtype=np.float64).sum()) / total if total else 0.0
    _log.info("regression: %d steps, %.3f of the variance unexplained", taken, unexplained)
    vectors = step if prior is None else step + prior
    return Fit(vectors.astype(np.float32), unexplained, taken)


def _column_squares(matrix: Floats) -> npt.NDArray[np.float64]:
    return np.asarray(np.einsum("ij,ij->j", matrix, matrix, dtype=np.float64))
