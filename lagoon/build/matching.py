"""Count words in texts, matched in the same way as by the scorer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from scipy import sparse

from lagoon.bm25 import Bm25Parameters
from lagoon.build.lexicon import Lexicon
from lagoon.compounds import CompoundTrie
from lagoon.hashing import fnv1a64_many
from lagoon.model import Hierarchy, Model
from lagoon.tokens import TokenStream, tokenise
from lagoon.vocabulary import BaseVocabulary

Longs = npt.NDArray[np.int64]

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
