"""Near-duplicates among the first results: each is folded under the first result that says the same.

Two texts are near-duplicates if at least `SIMILAR` of all their shingles, runs of `SHINGLE_WORDS` words, are
in both (Jaccard similarity; Broder, SEQUENCES 1997). Words are compared without regard to case and signs. The
first `FOLD_DEPTH` results of a ranking are compared, whatever the page, so pages continue each other; results
further down are not folded.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shoal.models.search import FoldedResult
from shoal.search.ordering import Places
from shoal.search.ranking import Ranked, Ranking
from shoal.search.request import SearchRequest
from shoal.storage.database import Snapshot, listed

FOLD_DEPTH = 200
SIMILAR = 0.8
SHINGLE_WORDS = 5
MAX_WORDS = 2_000
"""Words of a text that are compared; passages are shorter."""
SHINGLES_TOGETHER = 4_096
"""Columns of one product of matrices, 3 MB for `FOLD_DEPTH` texts."""
TEXTS = """
    SELECT c.id, c.document_id, d.title, c.text FROM chunks c JOIN documents d ON d.id = c.document_id
    WHERE c.id IN ({ids})
"""
_WORD = re.compile(r"\w+")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""An odd number whose powers mix the hashes of the words of a shingle."""


@dataclass(frozen=True)
class Selection:
    """The first results of a search, or the best passages of its first documents.

    ranked  in their order, without folded ones
    folded  by the id of the chunk that they are folded under
    """

    ranked: Sequence[Ranked]
    folded: Mapping[int, tuple[FoldedResult, ...]] = field(default_factory=dict)

    def folder_of(self, chunk_id: int) -> int | None:
        """Return the chunk that one is folded under, or None."""
        for folder, folded in self.folded.items():
            if any(each.chunk_id == chunk_id for each in folded):
                return folder
        return None


def select(snapshot: Snapshot, ranking: Ranking, request: SearchRequest, n: int) -> Selection:
    """Return the first `n` results of a ranking as the request groups and folds them."""
    limit = request.limit_per_document
    if not request.fold_similar:
        return Selection(ranking.first(n, limit))
    index, (places, n_within) = ranking.library.index, ranking.order.first(FOLD_DEPTH + n, limit)
    chunk_ids = index.chunk_ids(places[:FOLD_DEPTH]).tolist()
    ids, parameters = listed("id", chunk_ids)
    rows = {row["id"]: row for row in snapshot.rows(TEXTS.format(ids=ids), parameters)}
    in_order = [rows[chunk_id] for chunk_id in chunk_ids]
    is_kept = np.ones(len(places), dtype=np.bool_)
    folders = find_folders([row["text"] for row in in_order])
    folded: dict[int, list[FoldedResult]] = {}
    for number, (row, (folder, similarity)) in enumerate(zip(in_order, folders, strict=True)):
        if folder != number:
            is_kept[number] = False
            each = FoldedResult(row["id"], row["document_id"], row["title"], similarity)
            folded.setdefault(chunk_ids[folder], []).append(each)
    kept = Places(places[is_kept][:n], int(np.count_nonzero(is_kept[:n_within])))
    return Selection(ranking.at(kept), {chunk_id: tuple(each) for chunk_id, each in folded.items()})


def find_folders(texts: Sequence[str]) -> list[tuple[int, float]]:
    """Return, for each text, the number of the first one that it is folded under, and their similarity; of a
    text that stays, its own number."""
    similarities = find_similarities(texts)
    kept: list[int] = []
    folders = []
    for number in range(len(texts)):
        similar = [each for each in kept if similarities[number, each] >= SIMILAR]
        if not similar:
            kept.append(number)
        folder = similar[0] if similar else number
        folders.append((folder, round(float(similarities[number, folder]), 3)))
    return folders


def find_similarities(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return the share of all shingles of two texts that are in both, f64 (n, n), 0..1."""
    n = len(texts)
    hash_of: dict[str, int] = {}
    shingles = [_shingles(text, hash_of) for text in texts]
    sizes = np.array([len(each) for each in shingles], dtype=np.float64)
    owners = np.repeat(np.arange(n), sizes.astype(np.int64))
    together = np.concatenate([np.empty(0, dtype=np.uint64), *shingles])
    _, numbers, counts = np.unique(together, return_inverse=True, return_counts=True)
    # A shingle of one text alone is no part of any overlap but that of the text with itself.
    is_shared = counts > 1
    columns = (np.cumsum(is_shared) - 1)[numbers]
    is_shared = is_shared[numbers]
    owners, columns = owners[is_shared], columns[is_shared]
    overlaps = np.zeros((n, n))
    n_columns = int(columns.max(initial=-1)) + 1
    width = min(n_columns, SHINGLES_TOGETHER)
    for first in range(0, n_columns, SHINGLES_TOGETHER):
        own = (columns >= first) & (columns < first + width)
        holds = np.zeros((n, width), dtype=np.float32)
        holds[owners[own], columns[own] - first] = 1.0
        overlaps += holds @ holds.T
    np.fill_diagonal(overlaps, sizes)
    return np.asarray(overlaps / (sizes[:, None] + sizes[None, :] - overlaps))


def _shingles(text: str, hash_of: dict[str, int]) -> NDArray[np.uint64]:
    """The different shingles of a text as hashes; at least one. `hash_of` keeps the hashes of words."""
    words = _WORD.findall(text.casefold())[:MAX_WORDS] or [text.strip()]
    for word in words:
        if word not in hash_of:
            hash_of[word] = zlib.crc32(word.encode("utf-8", "surrogatepass"))
    hashes = np.array([hash_of[word] for word in words], dtype=np.uint64)
    length = min(SHINGLE_WORDS, len(hashes))
    mixed = np.zeros(len(hashes) - length + 1, dtype=np.uint64)
    for place in range(length):
        mixed = mixed * _FACTOR + hashes[place : place + len(mixed)]
        mixed ^= mixed >> np.uint64(29)
    return np.unique(mixed)
