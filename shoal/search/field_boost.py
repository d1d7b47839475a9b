"""The field boost: a signal for query terms in a chunk's title or headings, or among its document's tags.

field boost = share of the query's terms that are in title or headings, by the stems of the index, or equal a
tag, as typed or in another case. 0..1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from shoal.index.matching import Matches
from shoal.search.library_index import LibraryIndex
from shoal.search.query_language import Term
from shoal.storage.database import Query, Snapshot, listed
from shoal.storage.packed_columns import packed_ids

TAGGED = "SELECT document_id AS id FROM document_tags WHERE tag IN ({tags})"
TAGS_IN_USE = "SELECT DISTINCT tag FROM document_tags WHERE tag IN ({tags})"


def field_counts(
    snapshot: Snapshot, library: LibraryIndex, matches: Mapping[Term, Matches]
) -> NDArray[np.uint16]:
    """Count, for the chunk at each place, the terms that are in title, headings or tags; outdated chunks have
    any number."""
    counts = np.zeros(len(library), dtype=np.uint16)
    tags = matching_tags(snapshot, tuple(matches)) if matches else {}
    for term, found in matches.items():
        if term not in tags:
            found.add_placed(counts)
            continue
        names, parameters = listed("tag", tags[term])
        documents = packed_ids(snapshot, TAGGED.format(tags=names), parameters)
        placed = np.zeros_like(counts)
        found.add_placed(placed)
        counts += (placed > 0) | library.index.of_documents(documents)
    return counts


def matching_tags(snapshot: Snapshot, terms: Sequence[Term]) -> dict[Term, tuple[str, ...]]:
    """Return, for each term that names tags in use, these tags."""
    term_of = _terms_by_spelling(terms)
    tags: dict[Term, tuple[str, ...]] = {}
    for (tag,) in snapshot.rows(*_tags_query(term_of)):
        tags[term_of[tag]] = (*tags.get(term_of[tag], ()), tag)
    return tags


def tags_query(terms: Sequence[Term]) -> Query:
    """Return what `matching_tags` reads."""
    return _tags_query(_terms_by_spelling(terms))


def _tags_query(spellings: Iterable[str]) -> Query:
    names, parameters = listed("tag", spellings)
    return Query(TAGS_IN_USE.format(tags=names), parameters)


def _terms_by_spelling(terms: Sequence[Term]) -> dict[str, Term]:
    return {spelling: term for term in terms if not term.in_title for spelling in _spellings(term.text)}


def _spellings(text: str) -> tuple[str, ...]:
    return text, text.lower(), text.upper(), text.capitalize(), text.title(), text.lower().replace(" ", "-")
