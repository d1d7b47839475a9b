"""The field boost: a signal for query terms in a chunk's title or headings, or among its document's tags.

field boost = share of the query's terms that are in title or headings, by the stems of the full-text index,
or equal a tag, as typed or in another case. 0..1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shoal.search.lexical_ranking import expression
from shoal.search.query_language import Term
from shoal.search.term_statistics import TermStatistics
from shoal.storage.database import Snapshot, listed
from shoal.storage.packed_columns import packed_columns, packed_ids

PLACED = "SELECT group_concat(rowid) FROM chunk_fts WHERE chunk_fts MATCH :expression"
TAGGED = """
    SELECT c.id FROM document_tags t JOIN chunks c ON c.document_id = t.document_id WHERE t.tag IN ({tags})
"""
TAGS_IN_USE = "SELECT DISTINCT tag FROM document_tags WHERE tag IN ({tags})"

PLACES = "title headings"


def field_boosts(
    snapshot: Snapshot, term_statistics: TermStatistics, chunk_ids: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the field boost of each chunk. `chunk_ids` ascend; the terms are those of `term_statistics`."""
    counts = np.zeros(len(chunk_ids), dtype=np.int64)
    terms = tuple(term_statistics.counts)
    if not terms:
        return counts.astype(np.float64)
    tags = matching_tags(snapshot, terms)
    for term, n_chunks in term_statistics.counts.items():
        placed = np.empty(0, np.int64)
        if n_chunks:
            placed = packed_columns(snapshot, PLACED, {"expression": expression(term, PLACES)})[0]
        if term in tags:
            names, parameters = listed("tag", tags[term])
            placed = np.concatenate([placed, packed_ids(snapshot, TAGGED.format(tags=names), parameters)])
        counts[_places_of(placed, chunk_ids)] += 1
    return counts / len(terms)


def matching_tags(snapshot: Snapshot, terms: Sequence[Term]) -> dict[Term, tuple[str, ...]]:
    """Return, for each term that names tags in use, these tags."""
    term_of = {spelling: term for term in terms if not term.in_title for spelling in _spellings(term.text)}
    names, parameters = listed("tag", term_of)
    tags: dict[Term, tuple[str, ...]] = {}
    for (tag,) in snapshot.rows(TAGS_IN_USE.format(tags=names), parameters):
        tags[term_of[tag]] = (*tags.get(term_of[tag], ()), tag)
    return tags


def _places_of(ids: NDArray[np.int64], chunk_ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places in `chunk_ids` of those `ids` that it contains, each once."""
    if not len(chunk_ids):
        return np.empty(0, np.int64)
    places = np.minimum(np.searchsorted(chunk_ids, ids), len(chunk_ids) - 1)
    return np.unique(places[chunk_ids[places] == ids])


def _spellings(text: str) -> set[str]:
    return {text, text.lower(), text.upper(), text.capitalize(), text.title(), text.lower().replace(" ", "-")}
