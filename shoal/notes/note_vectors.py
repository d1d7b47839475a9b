"""The vectors of notes, where an encoder is configured: stored for searches, and computed for comparisons.

A vector belongs to the text of its note: with another text, it does not count. It is made in the background,
by a thread of a process that searches and finds notes without one. What a process has not made when it ends,
the next one makes; two that work at once store the same vectors.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.errors import EncoderError, ShoalError
from shoal.notes.note_index import NoteIndex
from shoal.notes.similarity import TINY, Doubles, Embedded, Ints, TextFeatures
from shoal.storage.database import Database, Snapshot

if TYPE_CHECKING:
    from shoal.encoders.encoder import EncoderIdentity
    from shoal.search.query_vectors import QueryVectors

ADDING_SECONDS = 0.3
"""Most time that adding notes waits for the encoder; without an answer they are compared without vectors."""
COMPARING_SECONDS = 20.0
"""The same for the comparison of notes in the background."""

EMBEDDING_SECONDS = 60.0
"""Most time for the vectors of EMBEDDED_TOGETHER notes, in the background."""
EMBEDDED_TOGETHER = 32
"""Notes whose vectors are stored in one transaction: some milliseconds."""
STORED_TYPE = "<f2"
CLOSING_SECONDS = 5.0
"""Longest wait for the encoder when a library is closed."""

_IS_CURRENT = "v.note_id = n.id AND v.text_hash = n.text_hash AND v.encoder = :encoder"
OF_OWNER = f"""
    SELECT n.id, v.vector FROM notes n JOIN note_vectors v ON {_IS_CURRENT}
    WHERE n.owner = :owner AND n.deprecated_at IS NULL ORDER BY n.id
"""
WITHOUT = f"""
    SELECT n.id, n.text, n.text_hash FROM notes n
    WHERE n.id > :after AND n.deprecated_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM note_vectors v WHERE {_IS_CURRENT})
    ORDER BY n.id LIMIT :limit
"""
# Only while the note has the text that was embedded.
STORE = """
    INSERT INTO note_vectors (note_id, text_hash, encoder, vector)
    SELECT id, :text_hash, :encoder, :vector FROM notes WHERE id = :id AND text_hash = :text_hash
    ON CONFLICT (note_id) DO UPDATE
    SET text_hash = excluded.text_hash, encoder = excluded.encoder, vector = excluded.vector
"""

log = logging.getLogger(__name__)

GetVectors = Callable[[], "QueryVectors | None"]
"""Returns what embeds texts; None without an encoder."""


def with_vectors(
    features: Sequence[TextFeatures],
    texts: Sequence[str],
    get_vectors: GetVectors,
    seconds: float | None = None,
) -> list[TextFeatures]:
    """Return the features of texts with their vectors; without any if there is no encoder, or it fails or
    takes longer than `seconds`, by default those of a query."""
    embedder = get_vectors()
    if embedder is None or not features:
        return list(features)
    try:
        vectors, unrelated = embedder.documents(texts, seconds)
    except EncoderError:
        return list(features)
    return [
        dataclasses.replace(each, embedded=Embedded(vectors[text].astype(np.float64), unrelated))
        if text in vectors
        else each
        for each, text in zip(features, texts, strict=True)
    ]


class OwnerVectors(NamedTuple):
    """Vectors of active notes of one owner: their ids, ascending, (n,), and vectors of length 1, f32
    (n, dimension)."""

    note_ids: NDArray[np.int64]
    vectors: NDArray[np.float32]


def encoder_name(identity: EncoderIdentity) -> str:
    """Return what is stored of an encoder."""
    return " ".join(map(str, identity))


def owner_vectors(snapshot: Snapshot, owner: str, identity: EncoderIdentity) -> OwnerVectors:
    """Read the vectors that one encoder made of an owner's active notes."""
    n_bytes = np.dtype(STORED_TYPE).itemsize * identity.dimension
    values = {"owner": owner, "encoder": encoder_name(identity)}
    rows = [row for row in snapshot.tuples(OF_OWNER, values) if len(row[1]) == n_bytes]
    numbers = np.frombuffer(b"".join(vector for _, vector in rows), dtype=STORED_TYPE)
    vectors = numbers.astype(np.float32).reshape(len(rows), identity.dimension)
    return OwnerVectors(np.array([note_id for note_id, _ in rows], dtype=np.int64), vectors)


class NoteCosines(NamedTuple):
    """The cosine of query and note at each place of an index, NaN without a vector, and the cosine that few
    unrelated texts reach (`shoal.search.query_vectors`)."""

    values: Doubles
    floor: float

    @classmethod
    def of(cls, index: NoteIndex, note_ids: Ints, values: Doubles, floor: float) -> NoteCosines:
        """Put the cosines of some notes in their places. `note_ids` ascend; both (n,)."""
        at_places = np.full(len(index), math.nan)
        if len(note_ids):
            at = np.minimum(np.searchsorted(note_ids, index.note_ids), len(note_ids) - 1)
            at_places = np.where(note_ids[at] == index.note_ids, values[at], math.nan)
        return cls(at_places, floor)

    @property
    def above_floor(self) -> Doubles:
        above: Doubles = np.nan_to_num(np.maximum(self.values - self.floor, 0.0))
        return above

    @property
    def nearness(self) -> Doubles:
        """The cosines, 0 at the floor, 1 at the most, NaN without a vector."""
        near: Doubles = (self.values - self.floor) / max(1 - self.floor, TINY)
        return near


class NoteEmbedder:
    """Makes the vectors that notes of all owners lack, in a thread. Thread-safe."""

    def __init__(self, database: Database, get_vectors: GetVectors) -> None:
        self._database = database
        self._get_vectors = get_vectors
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = threading.Event()

    def close(self) -> None:
        """End after the notes at hand; what is then without a vector gets it by the next process."""
        self._is_closed.set()
        if self._thread is not None:
            self._thread.join(CLOSING_SECONDS)

    def begin(self) -> None:
        """Begin in the background; nothing if that is under way."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            # A daemon: the end of the process does not wait, and another one goes on.
            self._thread = threading.Thread(target=self._run, name="note-vectors", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self.embed()
        except ShoalError as error:
            if not self._is_closed.is_set():
                log.warning("notes without vectors are found by words and reefs: %s", error)

    def embed(self) -> int:
        """Embed all active notes that lack a vector of the encoder, and return their number; 0 without an
        encoder. Texts that it does not read to their end stay without. Raises EncoderError."""
        embedder = self._get_vectors()
        if embedder is None:
            return 0
        after, n_stored = 0, 0
        while not self._is_closed.is_set():
            identity = embedder.identity
            with self._database.snapshot() as snapshot:
                values = {"after": after, "encoder": encoder_name(identity), "limit": EMBEDDED_TOGETHER}
                notes = list(snapshot.tuples(WITHOUT, values))
            if not notes:
                break
            after = notes[-1][0]
            found = embedder.documents([text for _, text, _ in notes], EMBEDDING_SECONDS).vectors
            rows = [
                {
                    "id": note_id,
                    "text_hash": text_hash,
                    "encoder": encoder_name(identity),
                    "vector": found[text].astype(STORED_TYPE).tobytes(),
                }
                for note_id, text, text_hash in notes
                if text in found
            ]
            with self._database.write() as transaction:
                n_stored += transaction.write_many(STORE, rows)
        return n_stored
