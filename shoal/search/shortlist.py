"""A shortlist: documents are ranked first, as wholes, and only passages of the best of them are results.

The score of a document is made like that of a chunk, from the document's own profile, with the same weights:

lexical  BM25 of the whole document: the occurrences of a term in all its chunks count together against the
         length of the whole text, and its title and headings once
reef     the mean overlap of its chunks with the query, which is the overlap with their mean profile
dense    the mean cosine of its chunks

Each is divided by the best of the library. Only documents with a result of the search are on the shortlist,
so filters cannot empty it; they change no score.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.index.index import Index, Part
from shoal.index.lexical import BM25, WeightedTerm, idf
from shoal.index.matching import PartMatches
from shoal.models.search import SearchMode
from shoal.support.presets import Weights

Doubles = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Shortlist:
    """The documents that may have results.

    size          most documents on it
    document_ids  i64 (d,): of all documents with a result, best first
    """

    index: Index
    size: int
    document_ids: NDArray[np.int64]

    @functools.cached_property
    def mask(self) -> Bools:
        """Whether the chunk at each place is one of a document on the list."""
        return self.index.of_documents(self.document_ids[: self.size])

    def rank_of(self, document_id: int) -> int | None:
        """The rank of a document, from 1; None for one without a result."""
        places = np.flatnonzero(self.document_ids == document_id)
        return int(places[0]) + 1 if len(places) else None


def make_shortlist(
    index: Index,
    size: int,
    mode: SearchMode,
    weights: Weights,
    terms: Sequence[WeightedTerm],
    chunk_scores: Mapping[str, NDArray[Any]],
    is_result: Bools,
) -> Shortlist:
    """Rank the documents that have a result. `terms`: of the query. `chunk_scores`: raw `reef` and `dense`
    scores of the chunk at each place; empty ones count as 0."""
    if not index.parts:
        return Shortlist(index, size, np.empty(0, dtype=np.int64))
    scores = {name: _means(index, each) for name, each in chunk_scores.items() if len(each)}
    if mode.uses("lexical"):
        scores["lexical"] = _lexical_scores(index, terms)
    total = np.zeros(sum(part.segment.n_documents for part in index.parts))
    for name, each in scores.items():
        best = float(each.max(initial=0.0))
        if best > 0:
            total += (getattr(weights, name) if mode is SearchMode.hybrid else 1.0) * each / best
    ids = _by_document(index, lambda part, _: part.segment.document_ids)
    has_result = _by_document(index, _has_result, is_result)
    order = np.lexsort((ids[has_result], -total[has_result]))
    return Shortlist(index, size, ids[has_result][order].astype(np.int64))


def _by_document(index: Index, of_part: Any, column: NDArray[Any] | None = None) -> NDArray[Any]:
    """Join what `of_part` returns for the documents of each part and its share of a column of places."""
    column = np.zeros(len(index), dtype=np.bool_) if column is None else column
    parts = [of_part(part, own) for part, own in index.by_part(column)]
    return np.concatenate(parts)


def _has_result(part: Part, is_result: Bools) -> Bools:
    return np.bincount(part.segment.document_of[is_result], minlength=part.segment.n_documents) > 0


def _means(index: Index, column: NDArray[Any]) -> Doubles:
    """The mean of a column over the chunks of each document."""

    def of_part(part: Part, own: NDArray[Any]) -> Doubles:
        return _sums(part, own) / np.diff(part.segment.document_starts)

    return _by_document(index, of_part, column)


def _lexical_scores(index: Index, terms: Sequence[WeightedTerm]) -> Doubles:
    """BM25 of each document as a whole."""
    mean = index.totals.n_words / max(index.totals.n_documents, 1) or 1.0
    norms = index.cached.get(Shortlist)
    if norms is None:
        norms = [1 - BM25.b + BM25.b * _lengths(part) / mean for part in index.parts]
        index.cached[Shortlist] = norms
    scores = [np.zeros(part.segment.n_documents) for part in index.parts]
    for term in terms:
        frequencies = [
            _frequencies(part, matches, norm) / term.matches.unit
            for part, matches, norm in zip(index.parts, term.matches.parts, norms, strict=True)
        ]
        n_holding = sum(int(np.count_nonzero(each)) for each in frequencies)
        weight = term.weight * idf(index.totals.n_documents, n_holding) * (BM25.k1 + 1)
        for of_part, tf in zip(scores, frequencies, strict=True):
            np.add(of_part, weight * tf / (tf + BM25.k1), out=of_part)
    return np.concatenate(scores)


def _lengths(part: Part) -> Doubles:
    """The number of words of each document."""
    return _sums(part, part.segment.text.lengths)


def _sums(part: Part, column: NDArray[Any]) -> Doubles:
    """The sum of a column over the chunks of each document."""
    n_documents = part.segment.n_documents
    sums = np.bincount(part.segment.document_of, weights=column.astype(np.float64), minlength=n_documents)
    return sums.astype(np.float64)


def _frequencies(part: Part, matches: PartMatches, norms: Doubles) -> Doubles:
    """The weighted frequency of a term in each live document, in its unit."""
    n = part.segment.n_documents
    documents = part.segment.document_of[matches.ordinals]
    found = BM25.weights.text * np.bincount(documents, weights=matches.text, minlength=n) / norms
    # Headings and title are those of every chunk below them, and count once.
    for weight, each in ((BM25.weights.headings, matches.headings), (BM25.weights.title, matches.title)):
        if len(each):
            once = np.zeros(n)
            np.maximum.at(once, documents, each)
            found += weight * once
    if part.live_documents is not None:
        found *= part.live_documents
    return found
