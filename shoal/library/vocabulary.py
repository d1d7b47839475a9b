"""The words that a library learned, the reefs they belong to, and the chunks of both."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shoal.filters.tree import check_characters
from shoal.index import scoring
from shoal.index.matching import IN_TEXT, IndexTerm, find
from shoal.index.scoring import WeightedTerm
from shoal.learning import scorers
from shoal.library.library import Library
from shoal.models.responses import Archipelago, Island, Reef, Reefs
from shoal.models.vocabulary import LearnedWord, WordPage
from shoal.search.library_index import LibraryIndex
from shoal.search.ordering import Order
from shoal.search.request import check_page
from shoal.storage import statistics
from shoal.storage.database import Snapshot, listed
from shoal.words.analysis import stems_of, tokens_of

if TYPE_CHECKING:
    from shoal.library.acronyms import Acronyms
    from shoal.library.synonyms import SynonymTable
    from shoal.storage.statistics import ReefChunk


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
    scores = scoring.score_terms(library.index, terms)
    places = Order(library.index, scores, scores > 0).first(limit, None).places
    ids, parameters = listed("id", library.index.chunk_ids(places).tolist())
    parameters["label_threshold"] = label_threshold
    return tuple(WordChunk(*row) for row in snapshot.tuples(CHUNKS.format(ids=ids), parameters))


class Vocabulary:
    """`engine.vocabulary`. Each method reads one snapshot."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._database = library.database
        self._label_threshold = library.settings.label_threshold

    @functools.cached_property
    def synonyms(self) -> SynonymTable:
        """The synonyms of the library: list, add, replace, delete, import and export."""
        from shoal.library.synonyms import SynonymTable

        return SynonymTable(self._library)

    @functools.cached_property
    def acronyms(self) -> Acronyms:
        """The acronyms of the library: scan, list, confirm and reject."""
        from shoal.library.acronyms import Acronyms

        return Acronyms(self._library)

    def list(
        self, *, q: str | None = None, limit: int = 50, offset: int = 0, documents: bool = True
    ) -> WordPage:
        """Learned words with their reefs and evidence, most frequent first; with `q`, those that contain it.

        Without `documents`, which takes a search for each word, the evidence names none. Raises QueryError
        for a negative limit or offset.
        """
        check_page(limit, offset)
        check_characters("q", q or "")
        if documents:
            self._library.index.prepare()
        with self._database.snapshot() as snapshot:
            count_chunks = self._library.index.of(snapshot).count_by_document if documents else None
            return scorers.list_words(
                snapshot, self._library.scorer, count_chunks, q=q, limit=limit, offset=offset
            )

    def get(self, word: str) -> LearnedWord:
        """One learned word, in any case, in singular or plural.

        Raises NotFoundError, which says whether the dictionary has the word, or QueryError.
        """
        self._library.index.prepare()
        with self._database.snapshot() as snapshot:
            count_chunks = self._library.index.of(snapshot).count_by_document
            return scorers.find_learned_word(
                snapshot, self._library.scorer, count_chunks, check_characters("word", word)
            )

    def word_chunks(self, word: str, limit: int) -> Sequence[WordChunk]:
        """The best chunks by BM25 for a word in its normal form, in library order."""
        from shoal.library.vocabulary import find_word_chunks

        self._library.index.prepare()
        with self._database.snapshot() as snapshot:
            library = self._library.index.of(snapshot)
            return find_word_chunks(snapshot, library, word, limit, label_threshold=self._label_threshold)

    def reefs(self) -> Reefs:
        """The hierarchy of archipelagos, islands and reefs."""
        from shoal.storage.statistics import chunks_by_reef

        with self._database.snapshot() as snapshot:
            n_chunks = chunks_by_reef(snapshot, self._label_threshold)
        scorer = self._library.scorer
        return Reefs(
            tuple(Archipelago(each.id, each.name) for each in scorer.archipelagos),
            tuple(Island(each.id, each.name, each.archipelago_id) for each in scorer.islands),
            tuple(
                Reef(each.id, each.name, each.island_id, tuple(each.typical_words), n_chunks.get(each.id, 0))
                for each in scorer.reefs
            ),
        )

    def reef_chunks(self, reef_id: int, limit: int) -> Sequence[ReefChunk]:
        """The chunks whose first label is a reef, most probable first."""
        with self._database.snapshot() as snapshot:
            return statistics.find_reef_chunks(
                snapshot, reef_id, limit, label_threshold=self._label_threshold
            )
