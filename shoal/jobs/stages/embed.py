"""The embed stage: make the vectors of a document's chunks, and of those of the next documents with it.

Vectors are stored batch by batch, each in a short transaction, so that little is lost with the process. The
encoder runs in a thread of low priority. Other work comes first: the stage then gives its item back.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from shoal.errors import EncoderError, EncoderUnavailableError
from shoal.jobs.queue import statements
from shoal.jobs.queue.claims import WorkItem, check_held, claimable
from shoal.jobs.queue.embed_items import check_identity
from shoal.jobs.queue.transitions import Outcome
from shoal.jobs.stages.contract import ItemHandler, NotPreparedError, Report, no_report
from shoal.models.jobs import ItemStatus, Stage
from shoal.settings import Settings
from shoal.storage import vectors
from shoal.storage.database import IDS_PER_STATEMENT, Database, Transaction
from shoal.storage.vectors import ChunkText, StoredEncoder

if TYPE_CHECKING:
    from shoal.encoders.encoder import Encoder

FIRST_PAUSE, MAX_PAUSE = 5.0, 600.0
"""Seconds before an encoder that did not answer is asked again; the pause doubles with each failure."""
MAX_ASKED_PAUSE = 3600.0
"""Longest pause that an endpoint gets if it asks for one."""
MAX_TRIES = 8
"""Tries of a document for which the encoder did not answer; about ten minutes."""
JOIN_VECTORS, JOIN_SECONDS = 2_000, 20.0
"""Vectors that wait for the index, and how long, before they join it: the vectors of a segment are written
anew, up to 13 MB."""
LOWER_PRIORITY = 10
"""Of the thread, on the scale of nice: a tenth of the share of other threads where processors are scarce."""

LOCAL_OWNER = "SELECT local_owner FROM jobs WHERE id = :job_id"
COUNT_WITHOUT = """
    SELECT COUNT(*) FROM chunks c WHERE c.document_id = :document_id
      AND NOT EXISTS (SELECT 1 FROM chunk_vectors v WHERE v.chunk_id = c.id)
"""


class _EpochOverError(Exception):
    """All vectors are made anew, by this encoder or another one."""


class _Batch(NamedTuple):
    """Chunks of one run of the encoder: those of the item first. `known`: vectors of texts that have one."""

    chunks: list[ChunkText]
    n_own: int
    known: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class _Deferred:
    """An item that waits for an encoder that did not answer. `is_counted`: it asked the encoder itself."""

    seconds: float
    reason: str
    is_counted: bool


class Embedding(ItemHandler):
    """The embed stage."""

    def __init__(
        self, database: Database, settings: Settings, encoder: Callable[[], Encoder | None] | None = None
    ) -> None:
        self._database = database
        self._settings = settings
        self._open = encoder
        self._group: list[WorkItem] = []
        self._pause = FIRST_PAUSE
        self._paused_until = 0.0
        self._failure = ""
        self._joined_at = time.monotonic()

    @functools.cached_property
    def _encoder(self) -> Encoder | None:
        if self._open is not None:
            return self._open()
        from shoal.encoders.encoder import open_encoder

        return open_encoder(self._settings)

    @functools.cached_property
    def _thread(self) -> ThreadPoolExecutor:
        """Where the encoder runs; threads that it starts inherit the priority."""
        return ThreadPoolExecutor(1, thread_name_prefix="embed", initializer=_lower_priority)

    def prepare_together(self, items: Sequence[WorkItem]) -> None:
        self._group = list(items)

    def prepare(self, item: WorkItem) -> Outcome | _Deferred | None:
        return self.prepare_reporting(item, no_report)

    def prepare_reporting(self, item: WorkItem, report: Report) -> Outcome | _Deferred | None:
        """None once all chunks have vectors. Raises LeaseLostError once the job is canceled or another
        worker has the item."""
        left = self._paused_until - time.monotonic()
        if left > 0:
            return _Deferred(left, self._failure, is_counted=False)
        try:
            if self._encoder is None:
                raise EncoderError("no encoder is configured; SHOAL_ENCODER names one")
            return self._embed(item, self._encoder, report)
        except _EpochOverError:
            return Outcome(ItemStatus.enqueued)
        except EncoderUnavailableError as error:
            return self._unavailable(item, error)
        except EncoderError as error:
            return _failed(error)

    def store(self, transaction: Transaction, item: WorkItem, prepared: _Deferred | None) -> Outcome:
        assert item.document_id is not None, "an item of an embed job names its document"
        if prepared is not None:
            row = {"item_id": item.id, "moment": transaction.now() + prepared.seconds}
            statement = statements.POSTPONE_ITEM if prepared.is_counted else statements.DEFER_ITEM
            transaction.execute(statement, row)
            return Outcome(
                ItemStatus.enqueued, error=prepared.reason, error_code=EncoderUnavailableError.code
            )
        if not vectors.is_complete(transaction, item.document_id):
            # Its content was replaced since.
            raise NotPreparedError
        return Outcome(ItemStatus.succeeded)

    def _embed(self, item: WorkItem, encoder: Encoder, report: Report) -> Outcome | None:
        assert item.document_id is not None, "an item of an embed job names its document"
        stored = self._begin(item, encoder)
        with self._database.snapshot() as snapshot:
            n_chunks = snapshot.value(COUNT_WITHOUT, {"document_id": item.document_id})
            is_local = snapshot.value(LOCAL_OWNER, {"job_id": item.job_id}) is not None
        n_done, after = 0, -1
        errors: list[EncoderError] = []
        while True:
            with self._database.snapshot() as snapshot:
                check_held(snapshot, item)
            if not is_local and self._has_other_work():
                return Outcome(ItemStatus.enqueued)
            batch = self._next_batch(item, after, stored)
            if not batch.n_own:
                break
            made = dict(batch.known)
            missing = list(dict.fromkeys(chunk.text for chunk in batch.chunks if chunk.text not in made))
            errors += self._add_vectors(made, missing, encoder, stored)
            with self._database.write() as transaction:
                check_held(transaction, item)
                vectors.store(transaction, stored.epoch, batch.chunks, made)
            self._join_if_due()
            after = batch.chunks[batch.n_own - 1].chunk_id
            n_done += batch.n_own
            report(min(1.0, n_done / max(n_chunks, 1)))
        self._pause = FIRST_PAUSE
        with self._database.snapshot() as snapshot:
            if errors and not vectors.is_complete(snapshot, item.document_id):
                return _failed(errors[0])
        return None

    def _begin(self, item: WorkItem, encoder: Encoder) -> StoredEncoder:
        """The encoder of the library, which is this one from now on. Raises EncoderError."""
        # It may load a model.
        identity = self._thread.submit(lambda: encoder.identity).result()
        with self._database.snapshot() as snapshot:
            check_identity(snapshot, identity)
            stored = vectors.encoder(snapshot)
        if stored is None or stored.identity != identity:
            stored = vectors.begin(
                self._database, identity, lambda transaction: check_held(transaction, item)
            )
            with self._database.snapshot() as snapshot:
                check_identity(snapshot, identity)
        return stored

    def _next_batch(self, item: WorkItem, after: int, stored: StoredEncoder) -> _Batch:
        """The next chunks of the item, filled up with those of the items behind it."""
        assert item.document_id is not None
        size = min(self._settings.encoder_batch, IDS_PER_STATEMENT)
        with self._database.snapshot() as snapshot:
            now = vectors.encoder(snapshot)
            if now is None or now.epoch != stored.epoch:
                raise _EpochOverError
            chunks = vectors.without_vector(snapshot, item.document_id, after=after, limit=size)
            n_own = len(chunks)
            if n_own:
                for later in self._behind(item):
                    if len(chunks) >= size:
                        break
                    limit = size - len(chunks)
                    chunks += vectors.without_vector(snapshot, later, after=-1, limit=limit)
            return _Batch(chunks, n_own, vectors.known(snapshot, [chunk.text for chunk in chunks]))

    def _behind(self, item: WorkItem) -> list[int]:
        """The documents of the items that are prepared after this one."""
        places = [place for place, each in enumerate(self._group) if each.id == item.id]
        following = self._group[places[0] + 1 :] if places else []
        return [each.document_id for each in following if each.document_id is not None]

    def _add_vectors(
        self, made: dict[str, bytes], texts: Sequence[str], encoder: Encoder, stored: StoredEncoder
    ) -> list[EncoderError]:
        """Embed texts, one by one if that fails for all together; return the errors of single texts.

        Raises EncoderUnavailableError, and EncoderError if every text fails.
        """
        if not texts:
            return []
        try:
            made.update(self._embedded(texts, encoder, stored))
            return []
        except EncoderUnavailableError:
            raise
        except EncoderError:
            if len(texts) == 1:
                raise
        errors: list[EncoderError] = []
        for text in texts:
            try:
                made.update(self._embedded([text], encoder, stored))
            except EncoderUnavailableError:
                raise
            except EncoderError as error:
                errors.append(error)
        if len(errors) == len(texts):
            raise errors[0]
        return errors

    def _embedded(self, texts: Sequence[str], encoder: Encoder, stored: StoredEncoder) -> dict[str, bytes]:
        from shoal.encoders.encoder import TextKind, unit_vectors
        from shoal.index.vectors import quantised

        rows = self._thread.submit(encoder.embed, texts, TextKind.document).result()
        blobs = quantised(unit_vectors(np.asarray(rows), len(texts), stored.dimension))
        return dict(zip(texts, blobs, strict=True))

    def _unavailable(self, item: WorkItem, error: EncoderUnavailableError) -> Outcome | _Deferred:
        """Let all items wait for a while; fail the item if it has tried often enough."""
        seconds = self._pause if error.retry_after is None else min(error.retry_after, MAX_ASKED_PAUSE)
        self._pause = min(2 * self._pause, MAX_PAUSE)
        self._paused_until = time.monotonic() + seconds
        self._failure = str(error)
        if item.attempts + 1 >= MAX_TRIES:
            return _failed(error)
        return _Deferred(seconds, self._failure, is_counted=True)

    def _join_if_due(self) -> None:
        """Let the index have the new vectors now and then."""
        from shoal.index.upkeep import update_index

        if not self._database.has_index_records:
            return
        with self._database.snapshot() as snapshot:
            n_waiting = vectors.count_unindexed(snapshot)
        if n_waiting < JOIN_VECTORS and time.monotonic() - self._joined_at < JOIN_SECONDS:
            return
        update_index(self._database)
        self._joined_at = time.monotonic()

    def _has_other_work(self) -> bool:
        with self._database.snapshot() as snapshot:
            # Embedding comes last.
            work = next(claimable(snapshot), None)
        return work is not None and work.stage is not Stage.embed


def _failed(error: EncoderError) -> Outcome:
    return Outcome(ItemStatus.failed, error=str(error), error_code=error.code)


def _lower_priority() -> None:
    """Let searches run before this thread. Linux has a priority for each thread."""
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWER_PRIORITY)
