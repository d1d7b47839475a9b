"""The best chunks of the library for a word."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.index import lexical
from shoal.index.lexical import WeightedTerm
from shoal.index.matching import IN_TEXT, IndexTerm, find
from shoal.search.library_index import LibraryIndex
from shoal.search.ordering import Order
from shoal.storage.database import Snapshot, listed
from shoal.words.typed import stems_of, tokens_of

CHUNKS = """
    SELECT c.id, c.chunk_index, c.document_id, d.title, c.start_line, c.end_line,
           CASE WHEN c.top_reef_probability >= :label_threshold THEN c.top_reef_id END,
           CASE WHEN c.top_reef_probability >= :label_threshold THEN c.top_reef_name END, c.text
    FROM chunks c
    JOIN documents d ON d.id = c.document_id
    WHERE c.id IN ({ids})
    ORDER BY c.document_id, c.chunk_index
"""


@dataclass(frozen=True, slots=True)
class WordChunk:
    """A chunk that contains a word, with its whole text. The reef is that of its first label."""

    chunk_id: int
    chunk_index: int
    document_id: int
    document_title: str
    start_line: int
    end_line: int
    top_reef_id: int | None
    top_reef_name: str | None
    text: str


def find_word_chunks(
    snapshot: Snapshot, library: LibraryIndex, word: str, limit: int, *, label_threshold: float
) -> tuple[WordChunk, ...]:
    """List the best chunks by BM25 for a word or compound in any inflection, in library order."""
    # A title or heading stands above many chunks.
    term = IndexTerm(stems_of(tokens_of(word)), IN_TEXT)
    terms = [WeightedTerm(found) for found in find(library.index, [term])]
    scores = lexical.scores(library.index, terms)
    places = Order(library.index, scores, scores > 0).first(limit, None).places
    ids, parameters = listed("id", library.index.chunk_ids(places).tolist())
    parameters["label_threshold"] = label_threshold
    return tuple(WordChunk(*row) for row in snapshot.tuples(CHUNKS.format(ids=ids), parameters))
