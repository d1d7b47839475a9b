"""The catalog of a library: its documents by reference, its tags, and the chunks of a reef or word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shoal.storage import document_lookup, topic_statistics
from shoal.storage.database import Database
from shoal.storage.document_lookup import Named
from shoal.storage.topic_statistics import MainReef, ReefChunk, WordChunk


class Catalog:
    """Lookups that lists and pages need. Each method reads one snapshot."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def has_document(self, document_id: int) -> bool:
        """Whether a document with this id exists."""
        with self._database.snapshot() as snapshot:
            return document_lookup.exists(snapshot, document_id)

    def find_documents(self, reference: str, path: str) -> Sequence[Named]:
        """Documents whose source path or title is `reference`, or whose source path is `path`.

        If a source path matches, matching titles are left out.
        """
        with self._database.snapshot() as snapshot:
            return document_lookup.named(snapshot, reference, path)

    def chunk_id(self, document_id: int, chunk_index: int) -> int | None:
        """The id of a document's chunk, counted from 0; None if there is none."""
        with self._database.snapshot() as snapshot:
            return document_lookup.find_chunk_id(snapshot, document_id, chunk_index)

    def chunk_indexes(self, chunk_ids: Iterable[int]) -> Mapping[int, int]:
        """Positions of chunks in their documents, counted from 0, by chunk id."""
        with self._database.snapshot() as snapshot:
            return document_lookup.chunk_positions(snapshot, chunk_ids)

    def main_reefs(self, document_ids: Sequence[int], n: int) -> Mapping[int, tuple[MainReef, ...]]:
        """By document id, the `n` reefs that are the strongest of most chunks."""
        with self._database.snapshot() as snapshot:
            return topic_statistics.main_reefs(snapshot, document_ids, n)

    def frequent_tags(self, limit: int) -> Sequence[tuple[str, int]]:
        """Tags with their number of documents, most frequent first."""
        with self._database.snapshot() as snapshot:
            return topic_statistics.frequent_tags(snapshot, limit)

    def reef_chunks(self, reef_id: int, limit: int) -> Sequence[ReefChunk]:
        """The chunks with the largest share of a reef in their profiles, largest first."""
        with self._database.snapshot() as snapshot:
            return topic_statistics.find_reef_chunks(snapshot, reef_id, limit)

    def word_chunks(self, word: str, limit: int) -> Sequence[WordChunk]:
        """The best chunks by BM25 for a word in its normal form, in library order."""
        with self._database.snapshot() as snapshot:
            return topic_statistics.find_word_chunks(snapshot, word, limit)
