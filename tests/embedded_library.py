"""A library whose chunks have vectors, for tests."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from fake_encoder import FakeEncoder

from shoal.encoders.encoder import TextKind
from shoal.index.upkeep import update_index
from shoal.index.vectors import quantised
from shoal.search.library_index import IndexCache, LibraryIndex
from shoal.storage import vectors
from shoal.storage.database import Database

WITH_VECTOR = "SELECT chunk_id FROM chunk_vectors ORDER BY chunk_id"
DOCUMENTS = "SELECT id FROM documents ORDER BY id"


def embed(database: Database, encoder: FakeEncoder, only: Collection[int] | None = None) -> None:
    """Store vectors of all chunks without one, or of those among `only`."""
    with database.write() as transaction:
        stored = vectors.encoder(transaction) or vectors.set_encoder(transaction, encoder.identity)
        for (document_id,) in list(transaction.tuples(DOCUMENTS)):
            chunks = [
                chunk
                for chunk in vectors.without_vector(transaction, document_id, after=-1, limit=500)
                if only is None or chunk.chunk_id in only
            ]
            if chunks:
                texts = [chunk.text for chunk in chunks]
                blobs = quantised(encoder.embed(texts, TextKind.document))
                vectors.store(transaction, stored.epoch, chunks, dict(zip(texts, blobs, strict=True)))


def with_vector(database: Database) -> list[int]:
    """The chunks that have a vector in the database."""
    with database.snapshot() as snapshot:
        return [row[0] for row in snapshot.tuples(WITH_VECTOR)]


def library_of(database: Database) -> LibraryIndex:
    """The index as a process sees it that searches now."""
    update_index(database)
    with database.snapshot() as snapshot:
        return IndexCache(database).of(snapshot)


def nearest(library: LibraryIndex, encoder: FakeEncoder, query: str) -> dict[int, float]:
    """The cosine of each live chunk that has a vector, by id."""
    found = library.dense(encoder.embed([query], TextKind.query)[0])
    if found is None:
        return {}
    places = np.flatnonzero(found.has_vector & library.index.live())
    ids = library.index.chunk_ids(places).tolist()
    return dict(zip(ids, (found.raw[places] / 1e6).tolist(), strict=True))
