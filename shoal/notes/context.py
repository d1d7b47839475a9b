"""What the operations on notes share: the database, the scorer, the settings and the indexes of a process."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shoal.errors import EncoderError
from shoal.notes.index_cache import NoteIndexes
from shoal.notes.note_index import NoteIndex
from shoal.notes.note_rows import NoteRows
from shoal.notes.note_vectors import GetVectors, NoteEmbedder
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage.database import Database

if TYPE_CHECKING:
    from shoal.search.query_vectors import QueryVector


@dataclass(frozen=True)
class NoteContext:
    """`get_scorer` loads lagoon's data on first use; `get_vectors` opens the encoder, if there is one.

    knows_learned  whether queries know the words that the library has learned
    """

    database: Database
    settings: Settings
    get_scorer: Callable[[], Scorer]
    indexes: NoteIndexes
    get_vectors: GetVectors = lambda: None
    knows_learned: bool = True

    def without_learned(self) -> NoteContext:
        """Return the context of queries that know no learned words, which may be of hidden documents."""
        context = dataclasses.replace(self, knows_learned=False)
        # One thread makes the vectors for all.
        vars(context)["embedder"] = self.embedder
        return context

    def index_of(self, rows: NoteRows) -> NoteIndex:
        """Return the index of an owner's notes in the snapshot of `rows`."""
        return self.indexes.of(rows, self.get_scorer().data_checksum)

    @functools.cached_property
    def embedder(self) -> NoteEmbedder:
        """Makes the vectors that notes lack."""
        return NoteEmbedder(self.database, self.get_vectors)

    def query_vector(self, query: str) -> QueryVector | None:
        """Return the vector of a query; None without an encoder, and if it fails or is late. Not in a
        snapshot, which would be held meanwhile."""
        embedder = self.get_vectors()
        try:
            return None if embedder is None else embedder.of(query)
        except EncoderError:
            return None
