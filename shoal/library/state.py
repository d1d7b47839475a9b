"""Counts, versions and sizes of an open library, and waiting until searches see what was written."""

from __future__ import annotations

import time
from collections.abc import Collection

from shoal.errors import IndexBehindError, ReplicaBehindError
from shoal.library.library import Library
from shoal.models.responses import Status
from shoal.models.search import all_presets
from shoal.storage import index_records, migrate, totals, vectors
from shoal.storage.statistics import get_counts


def status_of(library: Library, owners: Collection[str] | None = None) -> Status:
    """Return what `Engine.status` describes."""
    settings, scorer = library.settings, library.scorer
    with library.database.snapshot() as snapshot:
        counts = get_counts(snapshot, data_checksum=scorer.data_checksum, owners=owners)
    is_embedded = settings.embed or counts["encoder"] is not None
    return Status(
        status="ok",
        **counts,
        n_chunks_to_embed=counts["n_chunks"] - counts["n_embedded_chunks"] if is_embedded else 0,
        lagoon_version=scorer.data_version,
        lagoon_n_reefs=scorer.n_reefs,
        lagoon_checksum=scorer.data_checksum,
        schema=migrate.HEAD,
        db_path=library.database.location,
        db_bytes=library.database.size(),
        index_bytes=library.index.size(),
        presets={name: preset.weights._asdict() for name, preset in all_presets(settings.presets).items()},
    )


def size_of(library: Library) -> tuple[int, int]:
    """Return the number of documents and of chunks."""
    with library.database.snapshot() as snapshot:
        row = snapshot.first(totals.LIBRARY)
        return row["n_documents"], row["n_chunks"]


def count_embedded(library: Library) -> tuple[int, int] | None:
    """Return what `Engine.coverage` describes."""
    with library.database.snapshot() as snapshot:
        has_vectors = vectors.encoder(snapshot) is not None
        if not (has_vectors or library.settings.embed):
            return None
        return vectors.count(snapshot) if has_vectors else 0, snapshot.value(totals.N_CHUNKS) or 0


MAX_SECONDS = 2.0
"""Longest wait of a search for what its caller has written."""
POLL_SECONDS = 0.02


def await_written(library: Library, token: str) -> None:
    """Wait until searches see what a token of `shoal.storage.index_records` stands for.

    Raises InvalidFieldError, and ReplicaBehindError or IndexBehindError after MAX_SECONDS.
    """
    index_records.check_token(token, is_sqlite=library.database.is_sqlite)
    until = time.monotonic() + MAX_SECONDS
    while True:
        with library.read_database.snapshot() as snapshot:
            if index_records.has(snapshot, token):
                break
        if time.monotonic() > until:
            raise ReplicaBehindError(MAX_SECONDS)
        time.sleep(POLL_SECONDS)
    while library.follower is not None and not library.index.is_complete():
        if time.monotonic() > until:
            raise IndexBehindError(*library.follower.measure())
        time.sleep(POLL_SECONDS)
