"""Run a stage on a batch: prepare each item outside any transaction, then store many results in one.

A handler does the work of its stage. This module adds the protocol: it turns errors into failed items, stores
results only while the lease is held, and lets small documents share a transaction. A process beside this one
renews the leases (`shoal.jobs.queue.recovery`).

The dedup stage is here: it compares a range of an owner's notes with others.
"""

from __future__ import annotations

import functools
import logging
import math
import time
import uuid
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from shoal.errors import (
    INTERNAL_ERROR,
    ChatEndpointError,
    DatabaseUnavailableError,
    DocumentError,
    LeaseLostError,
    SchemaError,
    StorageError,
)
from shoal.jobs.queue import statements
from shoal.jobs.queue.claims import Batch, WaveRef, WorkItem, check_held, release
from shoal.jobs.queue.dedup_items import DedupStep, add_next_pass
from shoal.jobs.queue.queries import waiting
from shoal.jobs.queue.recovery import ATTEMPT, release_wave
from shoal.jobs.queue.transitions import Advance, Outcome, finish_items, finish_wave
from shoal.jobs.stages.contract import Handlers, ItemHandler, NotPreparedError, WaveHandler
from shoal.models.jobs import ItemStatus, Stage
from shoal.notes.context import NoteContext
from shoal.notes.dedup import compare_range, endpoint_of
from shoal.notes.index_cache import NoteIndexes
from shoal.notes.note_vectors import GetVectors
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage.database import Database, Transaction
from shoal.support.byte_units import KIB
from shoal.support.clock import timestamp_at

if TYPE_CHECKING:
    from shoal.encoders.encoder import Encoder
    from shoal.search.query_vectors import QueryVectors

WRITE_BYTES = 512 * KIB
WRITE_ITEMS = 128
"""Small documents that share a write transaction of about 60 ms: uploads get the write lock soon, and the
disk syncs once for all of them."""

CHANGING_DOCUMENTS = frozenset({Stage.score, Stage.rescore, Stage.delete, Stage.embed})
"""Stages after which the index is brought up to date."""

REPORT_SECONDS = 2.0
"""Between two reports of the progress in an item, each a small transaction."""

STORE_RETRY_SECONDS = 60.0
"""How long finished work waits for a locked database or full disk before its lease is released."""

RELEASE_RETRY_SECONDS = 30.0
"""How long a lease waits to be released while the database is away, which otherwise ends by itself later."""

T = TypeVar("T")

log = logging.getLogger(__name__)
PAUSE_SECONDS = 60.0
"""How long an endpoint that failed is not asked again: other items would meet the same failure."""


def handlers_for(
    database: Database,
    scorer: Scorer,
    settings: Settings,
    encoder: Callable[[], Encoder | None] | None = None,
) -> Handlers:
    """The handlers of all stages, for a scorer without learned words. `encoder` returns that of the library;
    without it, that of the settings is used."""
    # Imported here: a process that only accepts jobs does not need the parsers.
    from shoal.jobs.stages.convert import Converting
    from shoal.jobs.stages.discover import AnalysisCache, Discovering, Discovery, Rediscovering
    from shoal.jobs.stages.embed import Embedding
    from shoal.jobs.stages.learn import Learning
    from shoal.jobs.stages.replace import Replacing
    from shoal.jobs.stages.score import Deleting, Rescoring, Scoring, VersionedScores
    from shoal.learning.scorers import Vocabularies

    @functools.cache
    def open_encoder_once() -> Encoder | None:
        if encoder is not None:
            return encoder()
        from shoal.encoders.encoder import open_encoder

        return open_encoder(settings)

    @functools.cache
    def get_vectors() -> QueryVectors | None:
        is_disabled = encoder is None and settings.encoder == "disabled"
        opened = None if is_disabled else open_encoder_once()
        if opened is None:
            return None
        from shoal.encoders.encoder import VectorCache
        from shoal.search.query_vectors import QueryVectors

        return QueryVectors(opened, VectorCache())

    discovery, kept = Discovery(scorer, settings), AnalysisCache()
    vocabularies = Vocabularies(database, scorer)
    scores = VersionedScores(vocabularies, settings, kept, discovery.basis)
    scoring = Scoring(database, scores, settings, discovery)
    prune = settings.observations == "prune"
    return {
        Stage.convert: Converting(database, settings),
        Stage.discover: Discovering(database, discovery, kept),
        Stage.learn: Learning(database, discovery, prune=prune),
        Stage.score: Replacing(database, scoring),
        Stage.rediscover: Rediscovering(database, discovery),
        Stage.relearn: Learning(database, discovery, prune=prune, afresh=True),
        Stage.rescore: Rescoring(database, vocabularies, settings),
        Stage.delete: Deleting(database, discovery),
        Stage.dedup: Deduplicating(database, scorer, settings, get_vectors),
        Stage.embed: Embedding(database, settings, open_encoder_once),
    }


def process(
    batch: Batch,
    database: Database,
    handlers: Handlers,
    settings: Settings,
    watch: Callable[[], None] = lambda: None,
    *,
    steps: int = 1,
) -> Advance:
    """Run a claimed batch to its end. A bad document never raises. `watch` is called when items have ended:
    in at least `steps` transactions, if there are as many items.

    Raises StorageError if the database cannot be used. The rest of the batch is then released without
    counting an attempt, now or when the lease expires. Raises MemoryError without releasing: the process
    should end, which releases the batch."""
    handler = handlers[batch.stage]
    try:
        if isinstance(handler, ItemHandler):
            advance = _BatchRun(batch, database, handler, watch, steps).items()
            # The index of a shared database is that of each machine, which follows by itself.
            if batch.stage in CHANGING_DOCUMENTS and database.has_index_records:
                _index(database)
            return advance
        assert batch.wave is not None, "a batch of a whole wave names it"
        return _process_wave(batch, batch.wave, database, handler, settings)
    except SchemaError:
        # Nothing may be stored any more, so the lease has to expire.
        raise
    except StorageError as error:
        # A full disk stays full for long, and a database comes back.
        seconds = RELEASE_RETRY_SECONDS if isinstance(error, DatabaseUnavailableError) else 0.0
        try:
            _repeat("release", lambda: release(database, batch), seconds)
        except StorageError as second:
            log.warning("batch kept until its lease ends: %s", second)
        raise


def _repeat(what: str, store: Callable[[], T], seconds: float) -> T:
    """Store something; repeat it for `seconds` while the disk is full or the database locked or away."""
    deadline = time.monotonic() + seconds
    pause = 0.5
    is_logged = False
    while True:
        try:
            stored = store()
        except SchemaError:
            raise
        except StorageError as error:
            if time.monotonic() + pause > deadline:
                raise
            if not is_logged:
                log.warning("%s waits, for %.0f s at most: %s", what, seconds, error)
                is_logged = True
            time.sleep(pause)
            pause = min(2 * pause, 5.0)
        else:
            if is_logged:
                log.warning("the %s that waited is stored", what)
            return stored


def _index(database: Database) -> None:
    """Index what the batch stored. If that fails, the next batch or search does it."""
    from shoal.index.upkeep import update_index

    try:
        update_index(database, lambda: not waiting(database).items)
    except StorageError as error:
        log.warning("index not updated: %s", error)
    except Exception:
        log.exception("index not updated")


class _BatchRun:
    """One run of a batch."""

    def __init__(
        self,
        batch: Batch,
        database: Database,
        handler: ItemHandler,
        watch: Callable[[], None],
        steps: int,
    ) -> None:
        self._batch = batch
        self._watch = watch
        self._write_items = min(WRITE_ITEMS, math.ceil(len(batch.items) / steps))
        self._database = database
        self._handler = handler
        self._advance = Advance()

    def items(self) -> Advance:
        """Prepare and store all items. The next group is prepared while the last one is stored, which mostly
        waits for the disk or runs outside the interpreter."""
        pending = deque(self._batch.items)
        storing: Future[list[WorkItem]] | None = None
        with ThreadPoolExecutor(1, thread_name_prefix="store") as thread:
            while True:
                group = self._prepared(pending)
                if storing is not None:
                    pending.extend(storing.result())
                    storing = None
                    self._watch()
                if not (group or pending):
                    return self._advance
                if group and pending:
                    storing = thread.submit(copy_context().run, self._store, group)
                elif group:
                    pending.extend(self._store(group))
                    self._watch()

    def _prepared(self, pending: deque[WorkItem]) -> list[tuple[WorkItem, Any]]:
        """The next items that share a transaction, each with its prepared result."""
        items: list[WorkItem] = []
        n_bytes = 0
        while pending and n_bytes < WRITE_BYTES and len(items) < self._write_items:
            items.append(pending.popleft())
            n_bytes += items[-1].n_bytes
        self._prepare_together(items)
        group: list[tuple[WorkItem, Any]] = []
        for item in items:
            try:
                group.append((item, self._prepare(item)))
            except LeaseLostError as error:
                log.warning("item %s left alone: %s", item.id, error)
        return group

    def _prepare_together(self, items: list[WorkItem]) -> None:
        if len(items) < 2:
            return
        try:
            self._handler.prepare_together(items)
        except MemoryError:
            raise
        except Exception as error:
            log.warning("%s documents are prepared one by one: %s", len(items), error)

    def _prepare(self, item: WorkItem) -> Any:
        try:
            report = _ItemReport(self._database, item, self._batch.owner, self._watch)
            return self._handler.prepare_reporting(item, report)
        except (LeaseLostError, StorageError, MemoryError):
            raise
        except Exception as error:
            return _failure(error, item)

    def _store(self, group: list[tuple[WorkItem, Any]]) -> list[WorkItem]:
        """Store results together, or one by one after an error; return the items to prepare again."""
        if not group:
            return []
        try:
            self._write(group)
        except (StorageError, MemoryError):
            raise
        except Exception as error:
            if len(group) > 1:
                return [item for one in group for item in self._store([one])]
            item = group[0][0]
            if isinstance(error, NotPreparedError):
                return [item]
            if isinstance(error, LeaseLostError):
                log.warning("result of item %s not stored: %s", item.id, error)
                return []
            if isinstance(group[0][1], Outcome):
                # Even the failure cannot be written.
                raise
            return self._store([(item, _failure(error, item))])
        return []

    def _write(self, group: list[tuple[WorkItem, Any]]) -> None:
        """Write in one transaction; retry for a while if the disk is full or the database locked."""

        def write() -> Advance:
            with self._database.write() as transaction:
                return finish_items(transaction, self._outcomes(transaction, group), self._batch.owner)

        self._advance |= _repeat("result", write, STORE_RETRY_SECONDS)

    def _outcomes(
        self, transaction: Transaction, group: list[tuple[WorkItem, Any]]
    ) -> list[tuple[WorkItem, Outcome]]:
        """Store the prepared results; return the outcome of each item."""
        due = [(item, prepared) for item, prepared in group if not isinstance(prepared, Outcome)]
        if len(due) > 1:
            stored = iter(self._handler.store_many(transaction, due))
        else:
            stored = iter([self._handler.store(transaction, item, prepared) for item, prepared in due])
        return [
            (item, prepared if isinstance(prepared, Outcome) else next(stored)) for item, prepared in group
        ]


class _ItemReport:
    """Writes the share of an item's stage that is done, at most once in REPORT_SECONDS.

    Most items end before their first report. The share is lost with the lease.
    """

    def __init__(self, database: Database, item: WorkItem, owner: str, watch: Callable[[], None]) -> None:
        self._database, self._item, self._owner, self._watch = database, item, owner, watch
        self._next = time.monotonic() + REPORT_SECONDS

    def __call__(self, share: float) -> None:
        if time.monotonic() < self._next:
            return
        row = {"item_id": self._item.id, "owner": self._owner, "share": round(share, 4)}
        try:
            with self._database.write() as transaction:
                if transaction.execute(statements.REPORT_SHARE, row):
                    job = {"job_id": self._item.job_id, "now": timestamp_at(transaction.now())}
                    transaction.execute(statements.CHANGE_JOB, job)
        except StorageError as error:
            log.info("progress of item %s not written: %s", self._item.id, error)
        self._next = time.monotonic() + REPORT_SECONDS
        self._watch()


def _process_wave(
    batch: Batch, wave: WaveRef, database: Database, handler: WaveHandler, settings: Settings
) -> Advance:
    try:
        prepared, advance = _work_on_wave(batch, wave, database, handler)
    except (StorageError, MemoryError):
        raise
    except LeaseLostError as error:
        log.warning("stage %s of wave %s not ended: %s", wave.stage, wave.n, error)
        release(database, batch)
        return Advance()
    except Exception:
        log.exception("stage %s of job %s, wave %s failed", wave.stage, wave.job_id, wave.n)
        with database.write() as transaction:
            row = {"job_id": wave.job_id, "wave": wave.n, "owner": batch.owner}
            attempts = transaction.value(statements.WAVE_ATTEMPTS, row)
            if attempts is not None:
                release_wave(transaction, wave, batch.owner, attempts, ATTEMPT, settings)
        return Advance()
    try:
        handler.cleanup(prepared)
    except Exception as error:
        log.warning("cleanup after stage %s failed: %s", wave.stage, error)
    return advance


def _work_on_wave(
    batch: Batch, wave: WaveRef, database: Database, handler: WaveHandler
) -> tuple[Any, Advance]:
    """The prepared result and the advance that storing it made; prepares again until it can be stored."""
    while True:
        prepared = handler.prepare_wave(wave, batch.owner)
        try:
            with database.write() as transaction:
                version = handler.store_wave(transaction, wave, prepared)
                return prepared, finish_wave(transaction, wave, batch.owner, version)
        except NotPreparedError:
            log.info("stage %s of wave %s is prepared again", wave.stage, wave.n)


def _failure(error: Exception, item: WorkItem) -> Outcome:
    """The outcome of an item that failed, with an error message for its sender."""
    if isinstance(error, DocumentError):
        return Outcome(ItemStatus.failed, error=str(error), error_code=error.code)
    trace_id = uuid.uuid4().hex
    # Stored from 0, and shown from 1 like the lines of an upload.
    number = item.seq + 1
    log.error(
        "item %s of job %s failed",
        number,
        item.job_id,
        exc_info=error,
        extra={"trace_id": trace_id, "job_id": item.job_id, "seq": number},
    )
    return Outcome(ItemStatus.failed, error=f"internal error (trace {trace_id})", error_code=INTERNAL_ERROR)


class Deduplicating(ItemHandler):
    """The dedup stage. Its results are written in short transactions while an item is prepared; a repeated
    run finds less to do."""

    def __init__(
        self, database: Database, scorer: Scorer, settings: Settings, get_vectors: GetVectors = lambda: None
    ) -> None:
        self._database = database
        self._settings = settings
        indexes = NoteIndexes(settings.note_index_bytes)
        self._context = NoteContext(database, settings, lambda: scorer, indexes, get_vectors)
        self._paused_until = 0.0
        self._failure = ""

    def prepare(self, item: WorkItem) -> Outcome | None:
        """Compare the notes; return the outcome of an item that failed, else None.

        Raises LeaseLostError once the job is canceled or another worker has the item.
        """
        step = DedupStep.of(item)
        if time.monotonic() < self._paused_until:
            return _failed(self._failure)
        with endpoint_of(self._settings, self._database) as ask:
            result = compare_range(
                self._context,
                step.owner,
                step.range,
                ask,
                step.run_id(item.job_id),
                check=lambda snapshot: check_held(
                    snapshot, item, or_canceled=isinstance(snapshot, Transaction)
                ),
            )
        counts = {
            "compared": result.n_compared,
            "merged": result.n_merged,
            "proposed": result.n_proposed,
        }
        log.info("notes compared", extra={"job_id": item.job_id, **counts})
        if not result.error:
            return None
        self._failure = result.error
        self._paused_until = time.monotonic() + PAUSE_SECONDS
        return _failed(result.error)

    def store(self, transaction: Transaction, item: WorkItem, prepared: None) -> Outcome:
        add_next_pass(transaction, item, self._settings)
        return Outcome(ItemStatus.succeeded)


def _failed(error: str) -> Outcome:
    return Outcome(ItemStatus.failed, error=error, error_code=ChatEndpointError.code)
