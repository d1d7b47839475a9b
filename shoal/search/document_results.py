"""Whole documents as results: the best passages of each, what it is about, and its score.

The score of a document is that of its best passage. `benchmarks/document_ranking.py` compares it with sums of
several passages, which rank no better and could not be compared with the scores of passages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shoal.models.search import DocumentReef, DocumentResult, SearchResult
from shoal.models.stored import StoredDocument
from shoal.search.families import Families
from shoal.search.library_index import LibraryIndex, LibraryView
from shoal.search.ordering import Order
from shoal.search.ranking import Ranked, Ranking
from shoal.search.relevance import is_relevant_enough
from shoal.storage.database import Query
from shoal.storage.document_queries import get_document
from shoal.storage.statistics import main_reefs, main_reefs_queries

MAX_REEFS = 5
"""Reefs that summarize a document."""
MAX_KEPT = 10_000
"""Documents whose main reefs are kept in memory for a state of the library."""


@dataclass(frozen=True)
class DocumentParts:
    """What documents have besides their best passages, by document id.

    others     their further passages, best first
    n_matches  passages that are results
    reefs      the first labels of most of their passages
    head_of    the document that one is grouped under, if it is not itself
    heads      these
    """

    others: Mapping[int, Sequence[SearchResult]]
    n_matches: Mapping[int, int]
    reefs: Mapping[int, tuple[DocumentReef, ...]]
    head_of: Mapping[int, int]
    heads: Mapping[int, StoredDocument]

    def document(self, best: SearchResult, min_relevance: float) -> DocumentResult:
        """Return the document of its best passage; the others are as relevant as required."""
        document_id = self.head_of.get(best.document_id, best.document_id)
        head = self.heads.get(document_id)
        others = [
            each
            for each in self.others.get(document_id, ())
            if is_relevant_enough(each.relevance, min_relevance, is_pinned=each.pinned)
        ]
        return DocumentResult(
            document_id=document_id,
            document_title=head.title if head else best.document_title,
            source_path=head.source_path if head else best.source_path,
            tags=head.tags if head else best.tags,
            metadata=head.metadata if head else best.metadata,
            match_score=best.match_score,
            relevance=best.relevance,
            best_chunk_id=best.chunk_id,
            n_matches=self.n_matches[document_id],
            reefs=self.reefs.get(document_id, ()),
            passages=(best, *others),
            folded=best.folded,
            sort_values=best.sort_values,
            pinned=best.pinned,
        )


def further_passages(
    ranking: Ranking, best: Sequence[Ranked], n_per_document: int
) -> tuple[list[Ranked], dict[int, int]]:
    """Return up to `n_per_document` - 1 further passages of the documents of the given ones, best first, and
    the number of passages of each document that are results."""
    index, families = ranking.library.index, ranking.order.families
    own = np.array([chunk.document_id for chunk in best], dtype=np.int64)
    if families is not None:
        own = families.members(families.of(own))
    is_own = ranking.order.is_result & index.of_documents(own)
    # Sorted documents are not: their passages are in order of their scores.
    order = Order(index, ranking.order.keys, is_own, families=families)
    documents, counts = np.unique(order.groups(np.flatnonzero(is_own)), return_counts=True)
    n_matches = dict(zip(documents.tolist(), counts.tolist(), strict=True))
    places = order.first(len(best) * n_per_document, n_per_document)
    known = {chunk.chunk_id for chunk in best}
    return [chunk for chunk in ranking.at(places) if chunk.chunk_id not in known], n_matches


def parts_queries(view: LibraryView, n_matches: Mapping[int, int]) -> Iterator[Query]:
    """Yield what `make_parts` reads."""
    library, label_threshold = view.library, view.settings.label_threshold
    unread = _unread(library, n_matches, label_threshold)
    return main_reefs_queries(unread, MAX_REEFS, label_threshold=label_threshold)


def _unread(library: LibraryIndex, document_ids: Iterable[int], label_threshold: float) -> list[int]:
    return sorted(each for each in document_ids if (each, label_threshold) not in library.main_reefs)


def make_parts(
    view: LibraryView,
    best: Sequence[SearchResult],
    others: Sequence[SearchResult],
    n_matches: Mapping[int, int],
    families: Families | None,
) -> DocumentParts:
    """Return the parts of the documents of their best passages; `others` are the further ones."""
    snapshot, library, label_threshold = view.snapshot, view.library, view.settings.label_threshold
    head_of = {} if families is None else _heads(families, [*best, *others])
    by_document: dict[int, list[SearchResult]] = {}
    for result in others:
        by_document.setdefault(head_of.get(result.document_id, result.document_id), []).append(result)
    unread = _unread(library, n_matches, label_threshold)
    read = main_reefs(snapshot, unread, MAX_REEFS, label_threshold=label_threshold)
    reefs = {each: library.main_reefs.get((each, label_threshold), read.get(each, ())) for each in n_matches}
    if len(library.main_reefs) < MAX_KEPT:
        library.main_reefs.update({(each, label_threshold): reefs[each] for each in unread})
    return DocumentParts(
        by_document,
        n_matches,
        {
            document_id: tuple(DocumentReef(reef.reef_id, reef.reef_name, reef.n_chunks) for reef in each)
            for document_id, each in reefs.items()
        },
        head_of,
        {head: get_document(snapshot, head) for head in set(head_of.values())},
    )


def _heads(families: Families, results: Sequence[SearchResult]) -> dict[int, int]:
    """Return what attached documents among those of results are grouped under."""
    own = np.unique(np.array([result.document_id for result in results], dtype=np.int64))
    heads = families.of(own)
    return {each: head for each, head in zip(own.tolist(), heads.tolist(), strict=True) if each != head}
