"""Runs of sources, step by step: list, read what is new or changed, remove what is gone.

A run is a row. Each step claims it under a lease, does a bounded piece of work, and writes where it goes on.
So any process may take the next step, and none is lost with a process. What a step stores twice is stored
once: objects are rows by name, and documents are replaced by their source paths.

A run that fails for a while waits, longer after each try, and goes on where it was.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from shoal.conversion.converted import draft_of_data, largest_file
from shoal.errors import (
    PERMANENT_CODES,
    DocumentError,
    DocumentTooLargeError,
    InvalidFieldError,
    LeaseLostError,
    NotFoundError,
    ObjectGoneError,
    ShoalError,
    SourceError,
    StorageError,
    UnreadableFileError,
)
from shoal.formats.drafts import checked_rights
from shoal.jobs.queue.queries import get_job
from shoal.jobs.queue.states import RETRIABLE
from shoal.jobs.queue.submission import Upload, submit_delete
from shoal.models.documents import DocumentDraft
from shoal.models.files import FileDraft
from shoal.models.jobs import OnConflict
from shoal.models.sources import RunStatus, WhenGone
from shoal.settings import Settings
from shoal.sources import rows
from shoal.sources.arguments import SourceArguments
from shoal.sources.stores import ListedPage, Place, Store, open_store
from shoal.storage import document_queries, document_writer
from shoal.storage.database import Database, Row, Snapshot, Transaction
from shoal.support.byte_units import MIB
from shoal.support.clock import timestamp_at

LEASE_SECONDS = 900.0
"""Longest step. Another process takes a run whose step takes longer."""
POLL_SECONDS = 2.0
"""Time between two looks at a job that a run waits for."""
FIRST_PAUSE_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 6 * 3600.0
MAX_FAILURES = 12
"""Tries of a run that fail one after the other, over about 30 hours; then it has failed, and the next run
begins when the source is due."""
BATCH_OBJECTS = 500
BATCH_BYTES = 64 * MIB
"""Most that one step reads, by the sizes that the store lists."""
UNKNOWN_BYTES = MIB
"""Size that is expected of an object whose store names none."""
PACED_SECONDS = 60.0
"""Longest reading of a step under a limit of the rate."""
LISTED_TOGETHER = 5_000
"""Objects that one transaction stores as listed."""
READERS = 8
BLAMED_OBJECTS = 5
"""If so many objects or more cannot be read, and none can, it is the store that does not answer."""
KEPT_RUNS = 1_000
GUARDED_OBJECTS = 5
"""A source that lists nothing, and had at least so many objects, is treated as one that is not mounted."""
FINAL_CODES = PERMANENT_CODES | {"file_no_text", "file_missing_extra"}
"""Codes of items whose objects are read again only when they change."""
GONE_TAG = "gone"
"""Given to documents whose objects are gone, with `when_gone=mark`."""

log = logging.getLogger(__name__)

Draft = DocumentDraft | FileDraft
ENDED = frozenset({RunStatus.succeeded, RunStatus.failed, RunStatus.stopped})


def _tell_nobody() -> None:
    """Stand for a message to workers where there are none."""


@dataclasses.dataclass(slots=True)
class _Run:
    """A run within one step. Its fields are the columns of `source_runs`."""

    id: int
    source_id: int
    status: str
    is_forced: int
    place: str | None
    job_id: int | None
    n_listed: int
    n_skipped: int
    n_new: int
    n_changed: int
    n_moved: int
    n_removed: int
    n_failed: int
    n_bytes: int
    error: str | None
    lease_owner: str
    lease_expires_at: float
    started_at: str
    ended_at: str | None

    @classmethod
    def of(cls, row: Row) -> _Run:
        return cls(**{name: row[name] for name in row.keys()})  # noqa: SIM118 - a row, not a mapping


@dataclasses.dataclass(frozen=True, slots=True)
class _Content:
    """What was read of an object: its bytes, or why there are none. `is_temporary`: another try may help;
    `is_final`: none helps until the object changes."""

    row: Row
    data: bytes | None = None
    error: str | None = None
    is_temporary: bool = False
    retry_after: float | None = None
    is_final: bool = False


class Follower:
    """Takes steps of runs. Any number of processes may do so.

    `work` runs a job in this process; without it, workers do, and the run waits for them. `notify` tells them
    of a job.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        work: Callable[[int], None] | None = None,
        opened: Callable[..., Store] = open_store,
        notify: Callable[[], None] = _tell_nobody,
    ) -> None:
        self._notify = notify
        self._database = database
        self._settings = settings
        self._work = work
        self._opened = opened

    def step(self, source_id: int | None = None) -> bool:
        """Take a step of a run that is due, of one source or of any; False if none is.

        Raises StorageError."""
        claimed = self._claim(source_id)
        if claimed is None:
            return False
        run, source = claimed
        if source["n_failures"] >= MAX_FAILURES:
            self._fail(run, "the process died again and again in the same step", is_temporary=False)
            return True
        try:
            self._take_step(run, SourceArguments.of_json(source["arguments"]))
            if source["n_failures"] and run.ended_at is None:
                with self._database.write() as transaction:
                    transaction.execute(rows.SET_FAILURES, {"id": run.source_id, "n_failures": 0})
        except (KeyboardInterrupt, SystemExit):
            # The next process need not wait for the end of the lease.
            with self._database.write() as transaction:
                transaction.execute(rows.RELEASE, {"id": run.id, "lease_owner": run.lease_owner})
            raise
        except LeaseLostError:
            return True
        except SourceError as error:
            self._fail(run, str(error), is_temporary=error.is_temporary, retry_after=error.retry_after)
        except StorageError:
            raise
        except (InvalidFieldError, ShoalError) as error:
            self._fail(run, str(error), is_temporary=False)
        except Exception as error:
            # Without an outcome the step would begin again whenever its lease expires.
            self._fail(run, f"the step failed: {type(error).__name__}", is_temporary=True)
            raise
        return True

    def _claim(self, source_id: int | None) -> tuple[_Run, Row] | None:
        """Lease the run that has waited longest, and return it with its source.

        A step in which its process died counts as a failure."""
        with self._database.snapshot() as snapshot:
            values = {"now": snapshot.now(), "source_id": source_id}
            if not snapshot.value(rows.IS_ANY_DUE, values):
                return None
        with self._database.write() as transaction:
            now = transaction.now()
            if source_id is None:
                transaction.execute(rows.BEGIN_DUE, {"now": now, "timestamp": timestamp_at(now)})
            has_died = transaction.value(rows.HAD_OWNER, {"now": now, "source_id": source_id})
            row = rows.claim(
                transaction, source_id=source_id, owner=uuid.uuid4().hex, expires=now + LEASE_SECONDS
            )
            if row is None:
                return None
            if has_died:
                transaction.execute(rows.COUNT_FAILURE, {"id": row["source_id"]})
            return _Run.of(row), transaction.first(rows.BY_ID, {"id": row["source_id"]})

    def _take_step(self, run: _Run, arguments: SourceArguments) -> None:
        if run.job_id is not None and not self._settle_job(run):
            return
        store = self._opened(arguments.place(self._settings), self._settings)
        try:
            if run.status == RunStatus.listing:
                self._list(run, arguments, store)
            elif run.status == RunStatus.reading:
                self._read(run, arguments, store)
            else:
                self._remove(run, arguments, store)
        finally:
            store.close()

    # List

    def _list(self, run: _Run, arguments: SourceArguments, store: Store) -> None:
        page = store.list(run.place)
        run.n_listed += len(page.objects)
        run.n_skipped += page.n_skipped
        if run.n_listed > arguments.max_objects:
            raise SourceError(
                f"it has more than {arguments.max_objects:,} objects, its limit (max_objects); choose fewer "
                "with include and exclude, or raise the limit",
                is_temporary=False,
            )
        for begin in range(0, len(page.objects), LISTED_TOGETHER):
            with self._database.write() as transaction:
                self._require_lease(transaction, run)
                part = page.objects[begin : begin + LISTED_TOGETHER]
                rows.write_listed(transaction, run.source_id, run.id, part)
        run.place = page.place
        with self._database.write() as transaction:
            if page.place is None:
                self._end_listing(transaction, run)
            self._save(transaction, run)

    def _end_listing(self, transaction: Transaction, run: _Run) -> None:
        """Go on to read. Raises SourceError if everything seems to be gone."""
        if not run.n_listed and not run.is_forced:
            gone = transaction.value(rows.N_GONE, {"source_id": run.source_id, "run_id": run.id})
            if gone >= GUARDED_OBJECTS:
                raise SourceError(
                    f"it lists nothing, and had {gone:,} objects: is it mounted, and are the patterns right? "
                    "A run with force removes them all",
                    is_temporary=False,
                )
        run.status, run.place = RunStatus.reading, ""

    # Read

    def _read(self, run: _Run, arguments: SourceArguments, store: Store) -> None:
        group = self._next_group(run, arguments.max_rate)
        if not group:
            run.status, run.place = RunStatus.removing, None
            with self._database.write() as transaction:
                self._save(transaction, run)
            return
        self._check_limits(run, arguments)
        store.expect({row["name"]: row["version"] for row in group})
        contents = self._contents(group, store, arguments.max_rate)
        run.n_bytes += sum(len(each.data) for each in contents if each.data is not None)
        upload = Upload(self._database, self._settings).begin(on_conflict=OnConflict.replacing)
        try:
            read, moved = self._submit(run, arguments, store, contents, upload)
            with self._database.snapshot() as snapshot:
                self._require_lease(snapshot, run)
            run.job_id = upload.finish() if upload.n_items else None
        finally:
            upload.abandon()  # does nothing once it is finished
        run.place = contents[-1].row["name"]
        if run.job_id is not None:
            self._notify()
        with self._database.write() as transaction:
            rows.write_read(transaction, read)
            for name in moved:
                transaction.execute(rows.FORGET, {"source_id": run.source_id, "name": name})
            self._save(transaction, run)

    def _check_limits(self, run: _Run, arguments: SourceArguments) -> None:
        """Raise SourceError if a run has read or lasted as long as it may."""
        seconds = (datetime.now(UTC) - datetime.fromisoformat(run.started_at)).total_seconds()
        reached = None
        if arguments.max_bytes is not None and run.n_bytes >= arguments.max_bytes:
            reached = f"has read {run.n_bytes:,} bytes; the limit is {arguments.max_bytes:,} (max_bytes)"
        elif arguments.max_seconds is not None and seconds >= arguments.max_seconds:
            reached = f"has lasted {seconds:,.0f} s; the limit is {arguments.max_seconds:,} (max_seconds)"
        if reached:
            raise SourceError(f"it {reached}. The next run goes on with the rest", is_temporary=False)

    def _next_group(self, run: _Run, max_rate: float | None) -> list[Row]:
        """Return the next objects to read, at least one, up to the limits of a step."""
        most = (
            BATCH_OBJECTS if max_rate is None else min(BATCH_OBJECTS, max(1, int(PACED_SECONDS * max_rate)))
        )
        values = {"source_id": run.source_id, "run_id": run.id, "place": run.place, "limit": most}
        with self._database.snapshot() as snapshot:
            found = snapshot.rows(rows.TO_READ, values)
        group: list[Row] = []
        left = BATCH_BYTES
        for row in found:
            left -= UNKNOWN_BYTES if row["n_bytes"] is None else row["n_bytes"]
            if group and left < 0:
                break
            group.append(row)
        return group

    def _contents(self, group: Sequence[Row], store: Store, max_rate: float | None) -> list[_Content]:
        """Read objects, or the first of them. Raises SourceError if each of several fails for a while."""
        max_bytes = largest_file(self._settings)
        pause = 0.0 if max_rate is None else 1 / max_rate
        began = time.monotonic()

        def read(numbered: tuple[int, Row]) -> _Content:
            number, row = numbered
            time.sleep(max(0.0, began + number * pause - time.monotonic()))
            try:
                if row["n_bytes"] is not None and row["n_bytes"] > max_bytes:
                    raise DocumentTooLargeError(
                        f"it has {row['n_bytes']:,} bytes; the limit is {max_bytes:,}"
                    )
                return _Content(row, store.read(row["name"], max_bytes))
            except ObjectGoneError as error:
                return _Content(row, error=str(error))
            except SourceError as error:
                return _Content(
                    row, error=str(error), is_temporary=error.is_temporary, retry_after=error.retry_after
                )
            except DocumentError as error:
                is_final = not isinstance(error, UnreadableFileError)
                return _Content(row, error=str(error), is_final=is_final)

        contents: list[_Content] = []
        numbered = list(enumerate(group))
        with ThreadPoolExecutor(READERS, thread_name_prefix="source") as pool:
            # A store may send more than it listed, so what was read is counted, too.
            for begin in range(0, len(numbered), READERS):
                contents += pool.map(read, numbered[begin : begin + READERS])
                if sum(len(each.data or b"") for each in contents) >= BATCH_BYTES:
                    break
        if len(contents) >= BLAMED_OBJECTS and all(each.is_temporary for each in contents):
            longest = max(each.retry_after or 0.0 for each in contents)
            raise SourceError(f"{group[0]['name']}: {contents[0].error}", retry_after=longest)
        return contents

    def _submit(
        self,
        run: _Run,
        arguments: SourceArguments,
        store: Store,
        contents: Sequence[_Content],
        upload: Upload,
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Add what was read to an upload; return rows for `rows.READ`, and former names of moved objects."""
        read: list[dict[str, Any]] = []
        moved: dict[str, None] = {}
        for content in contents:
            row = content.row
            outcome = {
                "source_id": run.source_id,
                "name": row["name"],
                "stored_version": row["stored_version"],
                "checksum": row["checksum"],
                "error": content.error,
            }
            if content.data is None:
                run.n_failed += 1
                if content.is_final:
                    outcome |= {"stored_version": row["version"], "checksum": None}
                read.append(outcome)
                continue
            checksum = hashlib.sha256(content.data).hexdigest()
            outcome |= {"stored_version": row["version"], "checksum": checksum, "error": None}
            try:
                fields = store.fields(row["name"])
                if row["checksum"] != checksum or fields or not row["has_document"]:
                    draft = self._draft(content.data, store, row["name"], arguments, fields)
                    former = self._former_name(run, row["name"], checksum, moved)
                    self._add(upload, draft, store, former)
                    if former is not None:
                        moved[former] = None
                    _count(run, row, checksum, is_moved=former is not None)
            except DocumentError as error:
                run.n_failed += 1
                outcome |= {"checksum": None, "error": str(error)}
            read.append(outcome)
        return read, list(moved)

    def _draft(
        self, data: bytes, store: Store, name: str, arguments: SourceArguments, fields: Mapping[str, Any]
    ) -> Draft:
        given = {**arguments.document_fields, **fields, "source_path": store.source_path(name)}
        return draft_of_data(data, settings=self._settings, name=store.file_name(name), **given)

    def _former_name(self, run: _Run, name: str, checksum: str, moved: Mapping[str, None]) -> str | None:
        """Return the name of an object that is gone and had this content; None if there is none."""
        with self._database.snapshot() as snapshot:
            former = _other_with(snapshot, run, name, checksum, is_listed=False)
        return None if former in moved else former

    def _add(self, upload: Upload, draft: Draft, store: Store, former: str | None) -> None:
        """Add new content, under the document of a moved object if it has one."""
        assert draft.source_path is not None
        with self._database.snapshot() as snapshot:
            document_id = rows.document_at(snapshot, draft.source_path)
            tags = () if document_id is None else document_writer.summary(snapshot, document_id)[2]
            if document_id is None and former is not None:
                document_id = rows.document_at(snapshot, store.source_path(former))
                if document_id is not None:
                    upload.replace(document_id, draft)
                    return
        if document_id is not None and GONE_TAG in tags:
            with self._database.write() as transaction:
                now = timestamp_at(transaction.now())
                kept = [tag for tag in tags if tag != GONE_TAG]
                document_writer.set_tags(transaction, document_id, kept, now=now)
        upload.add(draft)

    # Remove

    def _remove(self, run: _Run, arguments: SourceArguments, store: Store) -> None:
        values = {"source_id": run.source_id, "run_id": run.id}
        with self._database.snapshot() as snapshot:
            gone = snapshot.rows(rows.GONE, {**values, "limit": BATCH_OBJECTS})
        if not gone:
            with self._database.write() as transaction:
                self._end(transaction, run, RunStatus.succeeded)
            return
        deleted: list[int] = []
        with self._database.write() as transaction:
            self._require_lease(transaction, run)
            now = timestamp_at(transaction.now())
            for row in gone:
                document_id = rows.document_at(transaction, store.source_path(row["name"]))
                if document_id is None or self._follows_another(
                    transaction, run, arguments, row, store, document_id
                ):
                    continue
                if rows.is_held_by_another(transaction, run.source_id, document_id):
                    continue
                if arguments.when_gone is WhenGone.delete:
                    deleted.append(document_id)
                elif arguments.when_gone is WhenGone.mark:
                    document_writer.merge_tags(transaction, document_id, (GONE_TAG,), now=now)
        # The objects are forgotten only once the deletion is accepted.
        run.job_id = submit_delete(self._database, self._settings, deleted) if deleted else None
        run.n_removed += len(gone)
        if run.job_id is not None:
            self._notify()
        with self._database.write() as transaction:
            for row in gone:
                transaction.execute(rows.FORGET, {"source_id": run.source_id, "name": row["name"]})
            self._save(transaction, run)

    def _follows_another(
        self,
        transaction: Transaction,
        run: _Run,
        arguments: SourceArguments,
        row: Row,
        store: Store,
        document_id: int,
    ) -> bool:
        """Give the document of an object that is gone to another with the same content, which has none."""
        if row["checksum"] is None:
            return False
        other = _other_with(transaction, run, row["name"], row["checksum"], is_listed=True)
        if other is None or rows.document_at(transaction, store.source_path(other)) is not None:
            return False
        draft = document_queries.get_draft(transaction, document_id)
        fields = {**arguments.document_fields, **store.fields(other)}
        rights = checked_rights(fields.get("allow"), fields.get("deny"))
        draft = dataclasses.replace(draft, source_path=store.source_path(other), rights=rights)
        now = timestamp_at(transaction.now())
        document_writer.update_head(transaction, document_id, draft, now=now)
        return True

    # Ends of steps

    def _settle_job(self, run: _Run) -> bool:
        """Note the documents of objects, and what the job could not store; False while it goes on."""
        assert run.job_id is not None
        try:
            if self._work is not None:
                self._work(run.job_id)
            if not get_job(self._database, run.job_id).ended:
                with self._database.write() as transaction:
                    self._save(transaction, run, seconds=POLL_SECONDS)
                return False
        except NotFoundError:
            pass  # it ended, and was deleted since
        with self._database.write() as transaction:
            items = transaction.rows(rows.ITEMS, {"job_id": run.job_id})
            source = transaction.first(rows.BY_ID, {"id": run.source_id})
            arguments = SourceArguments.of_json(source["arguments"])
            # Without secrets: only paths are needed.
            place = Place(arguments.url, arguments.options)
            prefix = self._opened(place, self._settings, reaches=False).source_path("")
            settled = [
                {
                    "source_id": run.source_id,
                    "name": (item["source_path"] or "").removeprefix(prefix).lstrip("/"),
                    "document_id": item["document_id"],
                    "error": item["error"] if item["status"] in RETRIABLE else None,
                    "may_pass": int(_may_pass(item)),
                }
                for item in items
            ]
            transaction.write_many(rows.SETTLE, settled)
            run.n_failed += sum(each["error"] is not None for each in settled)
        run.job_id = None
        return True

    def _fail(self, run: _Run, error: str, *, is_temporary: bool, retry_after: float | None = None) -> None:
        """Let a run wait after a failure, or end it."""
        run.error = error[:1000]
        log.warning("run %d of a source failed: %s", run.id, run.error)
        with self._database.write() as transaction:
            source = transaction.first(rows.BY_ID, {"id": run.source_id})
            if source is None:
                return
            failures = source["n_failures"] + 1
            try:
                if is_temporary and failures < MAX_FAILURES:
                    pause = min(FIRST_PAUSE_SECONDS * 2.0 ** (failures - 1), LONGEST_PAUSE_SECONDS)
                    transaction.execute(rows.SET_FAILURES, {"id": run.source_id, "n_failures": failures})
                    self._save(
                        transaction, run, seconds=max(pause, min(retry_after or 0, LONGEST_PAUSE_SECONDS))
                    )
                else:
                    self._end(transaction, run, RunStatus.failed)
            except LeaseLostError:
                return

    def _end(self, transaction: Transaction, run: _Run, status: RunStatus) -> None:
        now = transaction.now()
        run.status, run.place, run.ended_at = status, None, timestamp_at(now)
        if status is RunStatus.succeeded:
            run.error = None
        self._save(transaction, run)
        source = transaction.first(rows.BY_ID, {"id": run.source_id})
        due_at = None if source["every"] is None else now + source["every"]
        transaction.execute(rows.SET_DUE, {"id": run.source_id, "due_at": due_at})
        transaction.execute(rows.PRUNE, {"source_id": run.source_id, "kept": KEPT_RUNS})

    def _require_lease(self, snapshot: Snapshot, run: _Run) -> None:
        """Raise LeaseLostError if the run was stopped, or another process has it."""
        if not snapshot.value(rows.IS_OWNED, {"id": run.id, "lease_owner": run.lease_owner}):
            raise LeaseLostError("another process has the run")

    def _save(self, transaction: Transaction, run: _Run, seconds: float = 0.0) -> None:
        """Write a run and give it back, for `seconds` to nobody. Raises LeaseLostError."""
        values = {name: getattr(run, name) for name in _Run.__slots__}
        values["status"] = str(run.status)
        values["lease_expires_at"] = transaction.now() + seconds if seconds else 0.0
        if not transaction.execute(rows.UPDATE_RUN, values):
            raise LeaseLostError("another process has the run")


def _may_pass(item: Row) -> bool:
    """Whether another try may store an item that was not stored."""
    return item["status"] in RETRIABLE and item["error_code"] not in FINAL_CODES


def _count(run: _Run, row: Row, checksum: str, *, is_moved: bool) -> None:
    if is_moved:
        run.n_moved += 1
    elif row["stored_version"] is None or not row["has_document"]:
        run.n_new += 1
    elif row["checksum"] != checksum:
        run.n_changed += 1


def _other_with(snapshot: Snapshot, run: _Run, name: str, checksum: str, *, is_listed: bool) -> str | None:
    values = {"source_id": run.source_id, "run_id": run.id, "name": name, "checksum": checksum}
    other: str | None = snapshot.value(rows.OTHER_WITH, {**values, "is_listed": int(is_listed)})
    return other


def listed(store: Store, max_objects: int) -> tuple[list[ListedPage], bool]:
    """Return the pages of a listing, for a preview; and whether they are all, within the limit."""
    pages: list[ListedPage] = []
    place: str | None = None
    started = time.monotonic()
    while True:
        page = store.list(place)
        pages.append(page)
        place = page.place
        n = sum(len(each.objects) for each in pages)
        if place is None:
            return pages, n <= max_objects
        if n > max_objects or time.monotonic() - started > LEASE_SECONDS:
            return pages, False
