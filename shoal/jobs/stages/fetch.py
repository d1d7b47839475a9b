"""The first step of the convert stage for items that name a URL: the page or file is fetched.

The item then stays in the stage as a file like any other. A page that has not changed ends its item without
a conversion."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from shoal.conversion.converted import CONVERTER_VERSION
from shoal.conversion.fetching import FetchedFile, Fetcher
from shoal.errors import AmbiguousPathError, FetchError
from shoal.jobs.queue import statements
from shoal.jobs.queue.claims import WorkItem
from shoal.jobs.queue.transitions import Outcome
from shoal.jobs.stages.contract import NotPreparedError, is_path_awaited, take_fields, url_of
from shoal.models.jobs import ItemStatus
from shoal.settings import Settings
from shoal.storage import document_writer, source_stamps
from shoal.storage.database import Database, Snapshot, Transaction
from shoal.storage.source_stamps import FetchedPage
from shoal.support.clock import timestamp_at

FIRST_PAUSE = 2.0
PAUSE_FACTOR = 4.0
"""Seconds before the second try, and how much longer the pause before each further one is."""
MAX_PAUSE = 120.0
"""Longest pause, also of a server that asks for more: the other documents of the wave wait meanwhile."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A page whose stored version is the present one. `title`: as submitted."""

    page: FetchedPage
    title: str | None


@dataclass(frozen=True, slots=True)
class Postponed:
    """A fetch that failed for a time. `moment`: of the next try, seconds since 1970."""

    moment: float


Fetched = FetchedFile | Unchanged | Postponed
"""The result of one try."""


class Fetching:
    """Fetches the URL of an item."""

    def __init__(self, database: Database, settings: Settings, fetcher: Fetcher | None = None) -> None:
        self._database = database
        self._settings = settings
        self._fetcher = fetcher or Fetcher(settings)

    def prepare(self, item: WorkItem, title: str | None) -> Fetched:
        """Raises DocumentError."""
        url = url_of(item)
        with self._database.snapshot() as snapshot:
            page = _stored_page(snapshot, item, title)
        try:
            file = self._fetcher.fetch(url, page.validators if page else None)
        except FetchError as error:
            if error.is_temporary and item.attempts + 1 < self._settings.max_attempts:
                return Postponed(self._database.now() + _pause(error, item.attempts))
            raise
        if file is None:
            assert page is not None, "a page that is not stored cannot be unchanged"
            return Unchanged(page, title)
        return file

    def store(self, transaction: Transaction, item: WorkItem, fetched: Fetched) -> Outcome:
        if isinstance(fetched, Postponed):
            transaction.execute(statements.POSTPONE_ITEM, {"item_id": item.id, "moment": fetched.moment})
            return Outcome(ItemStatus.enqueued)
        if isinstance(fetched, FetchedFile):
            self._store_file(transaction, item, fetched)
            return Outcome(ItemStatus.enqueued)
        if _stored_page(transaction, item, fetched.title) != fetched.page:
            # The document was deleted or replaced since.
            raise NotPreparedError
        now = timestamp_at(transaction.now())
        source_stamps.touch_page(transaction, url_of(item), now=now)
        document_id = fetched.page.document_id
        is_at_path = document_writer.find_by_path(transaction, url_of(item)) == document_id
        take_fields(transaction, item, document_id, is_at_path=is_at_path, now=now)
        return Outcome(ItemStatus.duplicate, document_id)

    def _store_file(self, transaction: Transaction, item: WorkItem, fetched: FetchedFile) -> None:
        key, n_bytes = {"item_id": item.id}, len(fetched.data)
        transaction.execute(
            statements.SET_FETCHED_FILE,
            {**key, "kind": fetched.kind.id, "name": fetched.name, "data": fetched.data},
        )
        transaction.execute(statements.INSERT_RESPONSE, {**key, **fetched.validators._asdict()})
        file_hash = hashlib.sha256(fetched.data).hexdigest()
        transaction.execute(statements.SET_FETCHED_ITEM, {**key, "file_hash": file_hash, "n_bytes": n_bytes})
        grown = {"job_id": item.job_id, "wave": item.wave, "bytes": n_bytes - item.n_bytes}
        transaction.execute(statements.GROW_WAVE, grown)
        transaction.execute(statements.GROW_JOB, grown)


def _pause(error: FetchError, attempts: int) -> float:
    pause = FIRST_PAUSE * PAUSE_FACTOR**attempts if error.retry_after is None else error.retry_after
    return min(pause, MAX_PAUSE)


def _stored_page(snapshot: Snapshot, item: WorkItem, title: str | None) -> FetchedPage | None:
    """Return the version of an item's page that the library has; None if the item needs the page itself."""
    url = url_of(item)
    page = source_stamps.find_page(snapshot, url, CONVERTER_VERSION, item.head.chunk_tokens)
    if page is None or is_path_awaited(snapshot, item):
        return None
    try:
        at_path = document_writer.find_by_path(snapshot, url)
    except AmbiguousPathError:
        # The score stage reports it.
        return None
    if at_path not in (None, page.document_id):
        return None
    if at_path is not None and title not in (None, document_writer.summary(snapshot, at_path)[0]):
        return None
    before = {"job_id": item.job_id, "seq": item.seq}
    if snapshot.value(statements.IS_BEING_REPLACED, {"document_id": page.document_id, **before}):
        return None
    return page
