"""The vectors of segments as files: written with a segment, and anew when vectors join it later.

Postings are not touched. Who calls these functions holds the lock of the index.
"""

from __future__ import annotations

import functools

import numpy as np

from shoal.index.files import VECTORS_SUFFIX, IndexFiles
from shoal.index.segment import Segment
from shoal.index.vectors import SCALE_BYTES, code_bytes, write_vectors
from shoal.storage import index_tables, vectors
from shoal.storage.database import Database
from shoal.storage.index_records import IndexRecords, VectorsFile
from shoal.storage.index_tables import NO_VECTORS


def write_vectors_of(database: Database, files: IndexFiles, segment: Segment) -> VectorsFile:
    """Write the vectors that chunks of a segment have now. Raises DatabaseUnavailableError, DiskFullError."""
    with database.snapshot(limited=False) as snapshot:
        stored, reset = vectors.encoder(snapshot), index_tables.state(snapshot).vectors_reset
        if stored is None:
            return VectorsFile(NO_VECTORS, None, reset)
        size = SCALE_BYTES + code_bytes(stored.dimension)
        found = {
            chunk_id: blob
            for chunk_id, blob in vectors.of_chunks(snapshot, segment.chunk_ids.tolist())
            # A damaged vector is the doctor's.
            if len(blob) == size
        }
    if not found:
        return VectorsFile(NO_VECTORS, stored.epoch, reset)
    ordinals = np.flatnonzero(np.isin(segment.chunk_ids, np.fromiter(found, dtype=np.int64)))
    blobs = [found[chunk_id] for chunk_id in segment.chunk_ids[ordinals].tolist()]
    write = functools.partial(write_vectors, stored.dimension, segment.n_chunks, ordinals, blobs)
    return VectorsFile(files.write(write, VECTORS_SUFFIX), stored.epoch, reset)


def join_vectors(database: Database, records: IndexRecords, files: IndexFiles) -> None:
    """Write the vectors of segments anew that lack some of the library. Raises StorageError."""
    with records.newest(database) as view:
        if vectors.encoder(view.snapshot) is None:
            return
        rows, waiting, revision = view.segments(), view.waiting_vectors(), view.revision
    waiting_ids = np.array(waiting, dtype=np.int64)
    for row in rows:
        segment = files.open(row.file_name)
        joining = np.intersect1d(segment.chunk_ids, waiting_ids)
        if row.vectors_file is not None and not len(joining):
            continue
        written = write_vectors_of(database, files, segment)
        with records.write() as writer:
            if not writer.set_vectors(row.id, written):
                return
            writer.mark_vectors(joining.tolist())
        if row.vectors_file:
            files.retire([row.vectors_file])
    records.vectors_joined(revision)
