"""What the operations on notes share: the database, the scorer, the settings and the indexes of a process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shoal.notes.index_cache import NoteIndexes
from shoal.notes.note_index import NoteIndex
from shoal.notes.note_rows import NoteRows
from shoal.notes.note_vectors import GetVectors
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage.database import Database


@dataclass(frozen=True)
class NoteContext:
    """`get_scorer` loads lagoon's data on first use; `get_vectors` opens the encoder, if there is one."""

    database: Database
    settings: Settings
    get_scorer: Callable[[], Scorer]
    indexes: NoteIndexes
    get_vectors: GetVectors = lambda: None

    def index_of(self, rows: NoteRows) -> NoteIndex:
        """Return the index of an owner's notes in the snapshot of `rows`."""
        return self.indexes.of(rows, self.get_scorer().data_checksum)
