"""What running text tells: counts of words, matched as the scorer matches, their background, and support.

Support says how far a word shows that a text is about each of its reefs. A word's reefs come from its glosses
and its embedding. Many are a second sense, or a neighbour of the first. Rankings gain from them: a query and
a text that mean the same share even weak reefs. Labels do not gain: a reader wants to know what the text is
about. So each association also has a support in 0..1 for labels:

    support(w, r) = (bm25(w, r) / largest bm25 of w) ** 2 * agreement(w, r).

The agreement says whether the other words of the windows with w are about r. It is a logistic function of the
mean z-score of r in these windows without the contribution of w itself, above the mean of all windows, in
standard deviations, and shrunk towards none for rare words. `benchmarks/label_truth.py` measures labels: the
separation of apt from wrong ones (AUC) is 0.79 without support, 0.84 with the first factor, 0.88 with both.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse

from lagoon.bm25 import Bm25Parameters
from lagoon.build.lexicon import Lexicon
from lagoon.compounds import CompoundTrie, fnv1a64_many
from lagoon.model import SUPPORT_STEPS, Hierarchy, Model
from lagoon.tokens import TokenStream, tokenise
from lagoon.vocabulary import BaseVocabulary

Doubles = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]


def read_texts(paths: Sequence[Path]) -> Iterator[str]:
    """Read the texts of ``.jsonl`` / ``.jsonl.gz`` files (field ``text``) and of folders of ``.txt`` /
    ``.md`` files.

    Raises:
        FileNotFoundError: if a path is missing.
        ValueError: if a file has another format.
    """
    for path in paths:
        if path.is_dir():
            for file in sorted(p for p in path.iterdir() if p.suffix in {".txt", ".md"}):
                yield file.read_text(encoding="utf-8", errors="replace")
        elif path.name.endswith((".jsonl", ".jsonl.gz")):
            opener = gzip.open if path.suffix == ".gz" else open
            with opener(path, "rt", encoding="utf-8") as stream:
                for line in stream:
                    yield str(json.loads(line)["text"])
        elif not path.exists():
            raise FileNotFoundError(path)
        else:
            raise ValueError(f"{path}: neither a folder of texts nor a .jsonl file")


_SEPARATOR = "\n;\n"
"""Separator of texts that are tokenized at once: no compound crosses it."""
_BLOCK = 2000
"""Short texts tokenized at once."""


def vocabulary_model(lexicon: Lexicon) -> Model:
    """A model that can look up words but has no reefs; the build fills these in at the end."""
    n_words = len(lexicon.words)
    form_hashes, form_words = hash_table(lexicon.forms)
    stem_hashes, stem_words = hash_table(lexicon.stems)
    compounds = enumerate(lexicon.words[lexicon.n_singles :], start=lexicon.n_singles)
    trie = CompoundTrie.build((word.split(" "), word_id) for word_id, word in compounds)
    return Model(
        version="",
        checksum="",
        hierarchy=Hierarchy((), (), ()),
        bm25=Bm25Parameters(0.0, 0.0, 1.0),
        words=lexicon.words,
        n_compounds=n_words - lexicon.n_singles,
        form_hashes=form_hashes,
        form_words=form_words,
        stem_hashes=stem_hashes,
        stem_words=stem_words,
        part_hashes=trie.part_hashes,
        trie_keys=trie.keys,
        trie_words=trie.node_words,
        row_starts=np.zeros(n_words + 1, np.uint32),
        row_reefs=np.zeros(0, np.uint8),
        row_bm25=np.zeros(0, np.uint16),
        row_support=np.zeros(0, np.uint8),
        sense_words=np.zeros(0, np.uint32),
        sense_vectors=np.zeros((1, 0), np.int8),
        meanings=np.zeros((1, 0), np.int8),
        sense_directions=np.zeros((0, 0), np.int8),
        sense_offsets=np.zeros(0),
        reef_trust=np.zeros(0),
        name_words=np.zeros(-(-n_words // 8), np.uint8),
        weights=np.zeros(n_words, np.uint16),
        reef_words=np.zeros(0, np.uint32),
        background=np.zeros((2, 0)),
        dispersion=np.zeros(2),
        label_background=np.zeros((2, 0)),
        label_dispersion=np.zeros(2),
    )


def hash_table(entries: Mapping[str, int]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    """FNV-1a hashes of the keys, sorted, and the values in the same order.

    Raises:
        ValueError: if two keys have the same hash.
    """
    hashes = fnv1a64_many(list(entries))
    order = np.argsort(hashes)
    hashes = hashes[order]
    if (hashes[1:] == hashes[:-1]).any():
        raise ValueError("two words have the same FNV-1a hash")
    return hashes, np.array(list(entries.values()), dtype=np.uint32)[order]


def count_texts(vocabulary: BaseVocabulary, texts: Sequence[str]) -> sparse.csr_matrix:
    """Word counts of each text, (len(texts), n_words)."""
    rows, columns = [], []
    for first in range(0, len(texts), _BLOCK):
        block = texts[first : first + _BLOCK]
        lengths = np.array([len(text) + len(_SEPARATOR) for text in block])
        stream = tokenise(_SEPARATOR.join(block))
        tokens, words = matched_words(vocabulary, stream)
        rows.append(first + np.searchsorted(np.cumsum(lengths), stream.starts[tokens], side="right"))
        columns.append(words)
    return _count_matrix(rows, columns, len(texts), vocabulary.model.n_words)


def count_windows(vocabulary: BaseVocabulary, texts: Iterable[str], size: int) -> sparse.csr_matrix:
    """Word counts of consecutive windows of ``size`` tokens of each text, (n_windows, n_words).

    A remainder shorter than half a window is added to the window before it.
    """
    rows, columns = [], []
    n_windows = 0
    for text in texts:
        stream = tokenise(text)
        if not len(stream):
            continue
        tokens, words = matched_words(vocabulary, stream)
        n_here = max(1, round(len(stream) / size))
        rows.append(n_windows + np.minimum(tokens // size, n_here - 1))
        columns.append(words)
        n_windows += n_here
    return _count_matrix(rows, columns, n_windows, vocabulary.model.n_words)


def sample_windows(
    vocabulary: BaseVocabulary, texts: Iterable[str], sizes: Sequence[int], spacing: int
) -> list[sparse.csr_matrix]:
    """Word counts of windows of each size, (n_windows, n_words) each. Windows of all sizes are centred in
    every ``spacing`` tokens of a text; ``spacing`` is at least the largest size."""
    parts: list[list[tuple[Longs, Longs]]] = [[] for _ in sizes]
    n_windows = 0
    for text in texts:
        stream = tokenise(text)
        n_here = len(stream) // spacing
        if not n_here:
            continue
        tokens, words = matched_words(vocabulary, stream)
        stretch, at = np.divmod(tokens, spacing)
        for part, size in zip(parts, sizes, strict=True):
            first = (spacing - size) // 2
            inside = (at >= first) & (at < first + size) & (stretch < n_here)
            part.append((n_windows + stretch[inside], words[inside]))
        n_windows += n_here
    return [
        _count_matrix(
            [rows for rows, _ in part], [words for _, words in part], n_windows, vocabulary.model.n_words
        )
        for part in parts
    ]


def matched_words(vocabulary: BaseVocabulary, stream: TokenStream) -> tuple[Longs, Longs]:
    """(token, word id) of every scored word; a compound counts at its first token and replaces its parts."""
    forms = vocabulary.resolve(stream.forms)
    compounds = vocabulary.compounds(forms, stream.ids, stream.joined)
    words = forms.words[stream.ids]
    inside = np.repeat(compounds.starts - np.cumsum(compounds.lengths) + compounds.lengths, compounds.lengths)
    words[inside + np.arange(len(inside))] = -1
    words[compounds.starts] = compounds.words
    at = np.flatnonzero(words >= 0)
    return at, words[at]


def _count_matrix(rows: list[Longs], columns: list[Longs], n_rows: int, n_words: int) -> sparse.csr_matrix:
    row, column = (np.concatenate(part) if part else np.zeros(0, np.int64) for part in (rows, columns))
    counts = sparse.csr_matrix((np.ones(len(row)), (row, column)), (n_rows, n_words))
    counts.sum_duplicates()
    counts.sort_indices()
    return counts


WITHIN_TWO_DEVIATIONS = 0.9545
"""Share of a normal distribution. z-scores are calibrated to it: |z| > 2 for one reef in twenty."""
_DIGITS = 4


def document_frequencies(counts: sparse.csr_matrix) -> npt.NDArray[np.int64]:
    """Number of windows with each word; ``counts`` is (n_windows, n_words) without stored zeros."""
    return np.bincount(counts.indices, minlength=counts.shape[1]).astype(np.int64)


def rarity(frequencies: npt.NDArray[np.integer], n_documents: int) -> Doubles:
    """``ln((D - df + 0.5) / (df + 0.5) + 1)``: 0.4 for a word in two of three windows, 12 for a word in none.

    The same formula as the scorer's idf over reefs; always positive, and below 16 for up to four million
    documents, as the data format requires.
    """
    df = frequencies.astype(np.float64)
    return np.log((n_documents - df + 0.5) / (df + 0.5) + 1.0)


def repetition_mass(counts: sparse.csr_matrix) -> Doubles:
    """Sum of the repetition weights 1 + ln(tf) of each word over all windows, as the scorer counts."""
    data = 1.0 + np.log(counts.data.astype(np.float64))
    return np.asarray(np.bincount(counts.indices, weights=data, minlength=counts.shape[1]), dtype=np.float64)


def contribution_moments(contributions: sparse.csr_matrix, mass: Doubles) -> Doubles:
    """Mean and variance, by reef, of the contribution of a word drawn from running text.

    Args:
        contributions: (n_words, n_reefs), word weight times BM25, as the scorer reads them from the quantised
            data.
        mass: (n_words,) relative frequency of every word; need not sum to 1.

    Returns:
        Shape (2, n_reefs).

    Raises:
        ValueError: if no word of running text is associated with a reef (its variance would be zero).
    """
    share = mass / mass.sum()
    mean = np.asarray(contributions.T @ share).ravel()
    square = np.asarray(contributions.multiply(contributions).T @ share).ravel()
    variance = square - mean**2
    if (variance <= 0).any():
        raise ValueError(f"no running text for reefs {np.flatnonzero(variance <= 0).tolist()}")
    return np.stack([mean, variance])


def dispersion(
    windows: Sequence[sparse.csr_matrix], contributions: sparse.csr_matrix, moments: Doubles
) -> Doubles:
    """Rate and exponent of D(M) = 1 + rate * max(M - 1, 0) ** exponent, the ratio of the variance of a
    passage to that of the same number of words drawn independently (see `lagoon.scoring`).

    For each length, D is chosen so that 95.45 % of all reefs and windows are within two deviations; the curve
    is fitted to these values by least squares of the logarithms. The percentile is used instead of the
    variance because the distributions have long tails, and readers interpret how unusual a z of 2 is.

    Args:
        windows: for each of several lengths, the words of windows of running text, (n_windows, n_words).
        contributions, moments: argument and result of `contribution_moments`.

    Raises:
        ValueError: if fewer than two lengths have windows.
    """
    measured = [_dispersion_at(counts, contributions, moments) for counts in windows if counts.shape[0]]
    if len(measured) < 2:
        raise ValueError("running text is too short to measure how passages of different lengths vary")
    lengths, excess = np.array(measured).T
    grown = np.maximum(lengths - 1.0, 0.0)

    def residuals(curve: Doubles) -> Doubles:
        return np.asarray(np.log1p(curve[0] * grown ** curve[1]) - np.log(np.maximum(excess, 1.0)))

    fitted = optimize.least_squares(residuals, x0=[0.1, 0.6], bounds=([0.0, 0.0], [np.inf, 1.0]))
    return np.round(fitted.x, _DIGITS)


def _dispersion_at(
    counts: sparse.csr_matrix, contributions: sparse.csr_matrix, moments: Doubles
) -> tuple[float, float]:
    """Mean M1 and D of windows of one length."""
    mass = counts.astype(np.float64)
    mass.data = 1.0 + np.log(mass.data)
    m1 = np.asarray(mass.sum(axis=1)).reshape(-1, 1)
    m2 = np.asarray(mass.multiply(mass).sum(axis=1)).reshape(-1, 1)
    mean, variance = moments
    z = np.abs((mass @ contributions).toarray() - m1 * mean) / np.sqrt(np.maximum(m2, 1.0) * variance)
    return float(m1.mean()), float((np.quantile(z, WITHIN_TWO_DEVIATIONS) / 2.0) ** 2)


SHARPNESS = 2.0
"""Power of the ratio to the word's largest BM25."""
SLOPE = 3.0
MIDDLE = 0.1
"""Logistic function of the excess, in standard deviations of a window's z."""
UNDECIDED = 0.6
"""Agreement of a word without running text: about that of a typical right association."""
PRIOR_WINDOWS = 20.0
"""Windows without excess that are added to those of each word."""


def support_levels(
    bm25: sparse.csr_matrix,
    contributions: sparse.csr_matrix,
    windows: sparse.csr_matrix,
    moments: Doubles,
    dispersion: Doubles,
) -> npt.NDArray[np.uint8]:
    """Support of every association in 1/SUPPORT_STEPS, in the order of `bm25.data`.

    Args:
        bm25: (n_words, n_reefs).
        contributions: the same entries times the weights of the words.
        windows: word counts of windows of running text, (n_windows, n_words).
        moments, dispersion: as from `background`, of `contributions`.
    """
    lengths = np.diff(bm25.indptr)
    words = np.repeat(np.arange(bm25.shape[0]), lengths)
    largest = np.zeros(bm25.shape[0])
    np.maximum.at(largest, words, bm25.data)
    excess, n_windows = _excess(contributions, windows, moments, dispersion)
    agreement = 1.0 / (1.0 + np.exp(-SLOPE * (excess[words, bm25.indices] - MIDDLE)))
    known = (n_windows / (n_windows + PRIOR_WINDOWS))[words]
    mixed = known * agreement + (1.0 - known) * UNDECIDED
    ratio = bm25.data / np.maximum(largest[words], np.finfo(np.float64).tiny)
    return np.rint(SUPPORT_STEPS * ratio**SHARPNESS * mixed).astype(np.uint8)


def _excess(
    contributions: sparse.csr_matrix, windows: sparse.csr_matrix, moments: Doubles, dispersion: Doubles
) -> tuple[Doubles, Doubles]:
    """Mean z of every reef in the windows of every word, without the word itself, above the mean of all
    windows, (n_words, n_reefs) in standard deviations; and the number of windows of every word."""
    mean, variance = moments
    deviation = np.sqrt(variance)
    mass = windows.astype(np.float64)
    mass.data = 1.0 + np.log(mass.data)
    m1 = np.asarray(mass.sum(axis=1)).ravel()
    m2 = np.asarray(mass.multiply(mass).sum(axis=1)).ravel()
    rate, exponent = dispersion
    spread = np.sqrt(np.maximum(m2, 1.0) * (1.0 + rate * np.maximum(m1 - 1.0, 0.0) ** exponent))
    z = ((mass @ contributions).toarray() - m1[:, None] * mean) / spread[:, None] / deviation
    holds = windows.astype(bool).astype(np.float64)
    n_windows: Doubles = np.asarray(holds.sum(axis=0), dtype=np.float64).ravel()
    own_mass = np.asarray(mass.multiply(1.0 / spread[:, None]).sum(axis=0)).ravel()
    own = (contributions.toarray() - mean) / deviation * own_mass[:, None]
    sums = holds.T @ z - own - n_windows[:, None] * z.mean(axis=0)
    excess: Doubles = sums / z.std(axis=0) / (n_windows + PRIOR_WINDOWS)[:, None]
    return excess, n_windows
