"""The list of reefs, `reefs.toml`, and the quantised table of words and reefs that is built for it.

Many automatic clusters match what a person would call a topic, but some mix two topics, and two builds never
give the same clusters. So the list of reefs is maintained by hand: a name, an island, an archipelago, and
typical words, from which the build computes the position of the reef among the word vectors.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse

from lagoon.bm25 import (
    BM25_SCALE,
    IDF_SCALE,
    MAX_U8,
    MAX_U16,
    Bm25Parameters,
    quantise_bm25,
    quantise_idf,
    reef_bm25,
    reef_idf,
    specificity_of,
)

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.intp]

REEFS_FILE = Path(__file__).with_name("reefs.toml")

ARCHIPELAGOS = (
    "natural sciences & taxonomy",
    "physical world & materiality",
    "abstract processes & systems",
    "social order & assessment",
)
FEWEST_ANCHORS = 8
"""With fewer typical words, the position of a reef would depend too much on noise in their vectors."""
_NAME_WORDS = range(2, 5)


class TaxonomyError(ValueError):
    """The list of reefs is invalid; the message names the entry."""


@dataclass(frozen=True, slots=True)
class NamedIsland:
    """``archipelago`` is an index of ARCHIPELAGOS."""

    name: str
    archipelago: int


@dataclass(frozen=True, slots=True)
class NamedReef:
    """``island`` is an index of the taxonomy's islands; ``anchors`` are words typical of the reef."""

    name: str
    island: int
    anchors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """Islands in the order of their archipelagos, reefs in the order of their islands."""

    islands: tuple[NamedIsland, ...]
    reefs: tuple[NamedReef, ...]


def read_taxonomy(path: Path = REEFS_FILE) -> Taxonomy:
    """Islands and reefs of a file like ``reefs.toml``.

    Raises:
        TaxonomyError: if a name does not have 2 to 4 words or is not unique, an archipelago is unknown or its
            islands are not consecutive, or a reef has too few typical words.
    """
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))["island"]
        read = [(island["name"], island["archipelago"], island["reefs"]) for island in entries]
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise TaxonomyError(
            f"{path.name} is not a list of islands with name, archipelago, reefs: {error}"
        ) from None
    unknown = [archipelago for _, archipelago, _ in read if archipelago not in ARCHIPELAGOS]
    if unknown:
        raise TaxonomyError(f"unknown archipelago {unknown[0]!r}; archipelagos are {', '.join(ARCHIPELAGOS)}")
    islands = tuple(NamedIsland(name, ARCHIPELAGOS.index(archipelago)) for name, archipelago, _ in read)
    reefs = tuple(
        NamedReef(name, number, tuple(words.split()))
        for number, (_, _, reefs) in enumerate(read)
        for name, words in reefs.items()
    )
    _check(islands, reefs)
    return Taxonomy(islands, reefs)


def _check(islands: tuple[NamedIsland, ...], reefs: tuple[NamedReef, ...]) -> None:
    order = [island.archipelago for island in islands]
    if order != sorted(order):
        raise TaxonomyError(
            "the islands of an archipelago must be consecutive, and archipelagos in their order"
        )
    names = Counter([island.name for island in islands] + [reef.name for reef in reefs])
    for name, uses in names.items():
        if uses > 1:
            raise TaxonomyError(f"{name!r} is the name of {uses} reefs or islands")
        if len(name.split()) not in _NAME_WORDS:
            raise TaxonomyError(f"{name!r} is not a name of 2 to 4 words")
    for reef in reefs:
        if len(set(reef.anchors)) < FEWEST_ANCHORS:
            raise TaxonomyError(f"{reef.name!r} has fewer than {FEWEST_ANCHORS} distinct typical words")


K1 = 1.2
B = 0.75
"""Common parameters of BM25; the scorer reads them from the manifest."""

_BLOCK = 16384


@dataclass(frozen=True, slots=True)
class Table:
    """Reefs of words in rows of ascending reef id, in the scorer's format."""

    starts: npt.NDArray[np.uint32]
    reefs: npt.NDArray[np.uint8]
    bm25_q: npt.NDArray[np.uint16]
    idf_q: npt.NDArray[np.uint8]
    specificity: npt.NDArray[np.int8]
    reef_words: npt.NDArray[np.uint32]

    @property
    def avg_reef_words(self) -> float:
        return float(self.reef_words.mean())

    def matrix(self, n_reefs: int) -> sparse.csr_matrix:
        """BM25 in real units, (n_words, n_reefs)."""
        data = self.bm25_q.astype(np.float64) / BM25_SCALE
        shape = (len(self.starts) - 1, n_reefs)
        return sparse.csr_matrix((data, self.reefs.astype(np.int32), self.starts.astype(np.int64)), shape)


def association_strengths(
    vectors: Floats, centroids: Floats, keep: Ints, power: float, clear: float
) -> sparse.csr_matrix:
    """Association of every word with its reefs, in 0..1; the strongest is 1 for a word with a clear topic.

    Uses matching pursuit (Mallat and Zhang 1993) with reefs as atoms and no negative coefficients: the reef
    nearest to the vector takes its share, the next is the reef nearest to the remainder, and so on,
    ``keep[w]`` times for word w. So a second reef adds information, unlike plain cosines with neighbouring
    reefs (docs/lagoon-data.md: mean nDCG@10 of four collections 0.351 against 0.329). Shares are divided by
    the largest, then raised to ``power``. If the largest is below ``clear``, all are reduced in proportion:
    words such as "two" and "back" are between all reefs, and their nearest reef is accidental. A zero vector
    gets an empty row.

    Args:
        vectors: (n_words, d), unit or zero rows.
        centroids: (n_reefs, d), unit rows.
        keep: (n_words,) steps of the pursuit, at least 1; a reef may be selected twice.
        power: Values below 1 raise small shares.
        clear: Cosine with its nearest reef at which a word has full strength, above 0.
    """
    n_words, n_reefs = len(vectors), len(centroids)
    similarity = centroids @ centroids.T
    rows = []
    for first in range(0, n_words, _BLOCK):
        shares = _pursuit(
            vectors[first : first + _BLOCK] @ centroids.T, similarity, keep[first : first + _BLOCK]
        )
        peak = shares.max(axis=1, keepdims=True)
        shares = np.divide(shares, peak, out=np.zeros_like(shares), where=peak > 0)
        # Drop strengths below one step of the quantised table, which would be stored as zero.
        full = np.minimum(1.0, peak / clear)
        rows.append(sparse.csr_matrix(np.where(shares > 1.0 / BM25_SCALE, full * shares**power, 0.0)))
    return sparse.csr_matrix(sparse.vstack(rows), shape=(n_words, n_reefs))


def _pursuit(left: Floats, similarity: Floats, steps: Ints) -> Floats:
    """Shares (n, n_reefs) of reefs in vectors; `left` (n, n_reefs) are the vectors' cosines, overwritten with
    the remainders."""
    shares = np.zeros_like(left)
    every = np.arange(len(left))
    for step in range(int(steps.max(initial=0))):
        best = left.argmax(axis=1)
        taken = np.where(step < steps, np.maximum(left[every, best], 0.0), 0.0).astype(np.float32)
        shares[every, best] += taken
        left -= taken[:, None] * similarity[best]
    return shares


def build_table(associations: sparse.csr_matrix) -> Table:
    """BM25 of every association, quantised for the data format.

    Raises:
        ValueError: if a reef has no word at all, or a value does not fit its type.
    """
    n_reefs = associations.shape[1]
    per_word = np.diff(associations.indptr)
    reef_words = np.bincount(associations.indices, minlength=n_reefs)
    if not reef_words.all():
        raise ValueError(f"reefs without words: {np.flatnonzero(reef_words == 0).tolist()}")
    possible = np.arange(per_word.max() + 1)
    idf_of = np.array([reef_idf(int(n), n_reefs) if n else 0.0 for n in possible])
    idf_q_of = np.array([quantise_idf(idf) for idf in idf_of], dtype=np.uint8)
    band_of = np.array([specificity_of(int(n)) for n in possible], dtype=np.int8)
    bm25 = reef_bm25(
        np.repeat(idf_of[per_word], per_word),
        associations.data.astype(np.float64),
        reef_words[associations.indices].astype(np.float64),
        Bm25Parameters(K1, B, float(reef_words.mean())),
    )
    if idf_of.max() * IDF_SCALE > MAX_U8 or bm25.max() * BM25_SCALE > MAX_U16:
        raise ValueError(f"idf {idf_of.max()} or BM25 {bm25.max()} does not fit the data format")
    return Table(
        starts=associations.indptr.astype(np.uint32),
        reefs=associations.indices.astype(np.uint8),
        bm25_q=quantise_bm25(bm25),
        idf_q=idf_q_of[per_word],
        specificity=band_of[per_word],
        reef_words=reef_words.astype(np.uint32),
    )
