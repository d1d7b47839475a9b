"""What a chunk gets for where the query's words stand: in its title or headings, or as a tag of its document.

bonus = the share of the query's terms that stand in title or headings, by the stems of the full-text index, or are a tag,
as typed or in another case. Deterministic and 0..1.
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
ANY_TAGGED = "SELECT DISTINCT tag FROM document_tags WHERE tag IN ({tags})"

PLACES = "title headings"


def field_boosts(
    snapshot: Snapshot, term_statistics: TermStatistics, chunk_ids: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The bonus of each of the chunks, whose ids ascend, for the terms of the spread."""
    counts = np.zeros(len(chunk_ids), dtype=np.int64)
    terms = tuple(term_statistics.counts)
    if not terms:
        return counts.astype(np.float64)
    tags = matching_tags(snapshot, terms)
    for term, n_holding in term_statistics.counts.items():
        placed = np.empty(0, np.int64)
        if n_holding:
            placed = packed_columns(snapshot, PLACED, {"expression": expression(term, PLACES)})[0]
        if term in tags:
            names, parameters = listed("tag", tags[term])
            placed = np.concatenate([placed, packed_ids(snapshot, TAGGED.format(tags=names), parameters)])
        counts[_places(chunk_ids, placed)] += 1
    return counts / len(terms)


def matching_tags(snapshot: Snapshot, terms: Sequence[Term]) -> dict[Term, tuple[str, ...]]:
    """The tags in use that a term of the query is the name of."""
    spelt = {spelling: term for term in terms if not term.in_title for spelling in _spellings(term.text)}
    names, parameters = listed("tag", spelt)
    found: dict[Term, tuple[str, ...]] = {}
    for (tag,) in snapshot.rows(ANY_TAGGED.format(tags=names), parameters):
        found[spelt[tag]] = (*found.get(spelt[tag], ()), tag)
    return found


def _places(chunk_ids: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where those of the wanted ids that are there stand, each once."""
    if not len(chunk_ids):
        return np.empty(0, np.int64)
    places = np.minimum(np.searchsorted(chunk_ids, wanted), len(chunk_ids) - 1)
    return np.unique(places[chunk_ids[places] == wanted])


def _spellings(text: str) -> set[str]:
    return {text, text.lower(), text.upper(), text.capitalize(), text.title(), text.lower().replace(" ", "-")}
