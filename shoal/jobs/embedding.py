"""Embedding: within this process, and by itself after the jobs of the service."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from shoal.errors import EncoderError
from shoal.jobs import in_process
from shoal.jobs.queue import lease
from shoal.jobs.queue.embed_items import (
    UNAVAILABLE_SECONDS,
    check_identity,
    submit_embedding,
    submit_local_embedding,
)
from shoal.jobs.queue.queries import get_items
from shoal.jobs.stages.contract import Handlers
from shoal.models.jobs import ItemStatus
from shoal.settings import Settings
from shoal.storage import index_tables, vectors
from shoal.storage.database import Database

if TYPE_CHECKING:
    from shoal.encoders.encoder import Encoder

MOST_FAILED = 1000
"""Maximum number of failed documents that a result names."""
REST = 20
"""A look at a large library is followed by a pause of this many times its duration."""


class EmbedResult(NamedTuple):
    """What an embedding did: documents it looked at, chunks with a vector before and after, and the title and
    error of each document that failed."""

    n_documents: int
    n_before: int
    n_after: int
    failed: tuple[tuple[str, str], ...]


def checked_encoder(encoder: Encoder | None) -> Encoder:
    """Return the encoder. Raises EncoderError if there is none."""
    if encoder is None:
        raise EncoderError("no encoder is configured; SHOAL_ENCODER names one")
    return encoder


def prepare_embedding(database: Database, encoder: Encoder | None, *, again: bool) -> None:
    """Check that the vectors of the library are of this encoder; with `again`, delete them first.

    Raises EncoderError.
    """
    identity = checked_encoder(encoder).identity
    if again:
        vectors.delete_all(database)
    with database.snapshot() as snapshot:
        check_identity(snapshot, identity)


def embed(
    database: Database,
    handlers: Handlers,
    settings: Settings,
    encoder: Encoder | None,
    *,
    again: bool = False,
    watch: in_process.Watcher | None = None,
) -> EmbedResult:
    """Embed all chunks without a vector in this process; with `again`, all chunks. Raises EncoderError."""
    prepare_embedding(database, encoder, again=again)
    in_process.drop_abandoned_jobs(database, settings)
    n_before = _count(database)
    job_id = submit_local_embedding(database, settings, lease.new_owner())
    if job_id is None:
        return EmbedResult(0, n_before, n_before, ())
    try:
        in_process.run_job(database, job_id, handlers, settings, watch)
        failed = get_items(database, job_id, ItemStatus.failed, limit=MOST_FAILED)
        n_documents = in_process.progress(database, job_id).items_total
    finally:
        in_process.drop(database, job_id)
    errors = tuple((item.title, item.error or "") for item in failed)
    return EmbedResult(n_documents, n_before, _count(database), errors)


def _count(database: Database) -> int:
    with database.snapshot() as snapshot:
        return vectors.count(snapshot)


class EmbeddingStarter:
    """Opens the embed job of a library whenever documents lack vectors."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        notify: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._settings, self._notify, self._clock = database, settings, notify, clock
        self._revision = -1
        self._looked_at = self._next = 0.0

    def look(self) -> None:
        """Let documents that lack vectors be embedded; does nothing if the library has not changed since the
        last call. Raises StorageError."""
        if self._clock() < self._next:
            return
        with self._database.snapshot() as snapshot:
            revision = index_tables.revision(snapshot)
        started = self._clock()
        if revision == self._revision and started - self._looked_at < UNAVAILABLE_SECONDS:
            return
        job_id = submit_embedding(self._database, self._settings, automatic=True)
        self._revision, self._looked_at = revision, started
        self._next = self._clock() + REST * (self._clock() - started)
        if job_id is not None:
            self._notify()
