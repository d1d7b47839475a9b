"""`engine.sources`: places that the library follows: add, list, run, change, remove, preview."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Unpack

from shoal.conversion.converted import ConversionError, draft_of_data, largest_file
from shoal.conversion.process import ConversionProcess, Limits
from shoal.declared.arguments import check_names
from shoal.declared.sources import LIMITS, SourceFields, SourceLimits
from shoal.errors import DocumentError, InvalidFieldError, QueryError, SourceError
from shoal.jobs.queue.submission import submit_delete
from shoal.models.documents import DocumentDraft
from shoal.models.sources import (
    PreviewedObject,
    RunStatus,
    Source,
    SourceObject,
    SourceObjectPage,
    SourcePage,
    SourcePreview,
    SourceRun,
    SourceRunPage,
)
from shoal.search.request import check_page
from shoal.settings import Settings
from shoal.sources import rows
from shoal.sources.arguments import SourceArguments, check_arguments, check_every, check_name
from shoal.sources.run_steps import ENDED, Follower, listed
from shoal.sources.stores import Listed, Place, Store, open_store
from shoal.storage.database import ConstraintError, Database, Row, Snapshot
from shoal.support.clock import timestamp, timestamp_at

MAX_SOURCES = 1_000
PREVIEWED = 10
PREVIEW_CHARS = 300
WAIT_SECONDS = 0.2
"""Time between two looks at a run that another process has."""

Opened = Callable[..., Store]


class Sources:
    """The sources of a library. May be shared between threads."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        run_job: Callable[[int], None],
        opened: Opened = open_store,
    ) -> None:
        self._database = database
        self._settings = settings
        self._run_job = run_job
        self._opened = opened

    def add(
        self,
        name: str,
        url: str,
        *,
        every: str | None = None,
        **fields: Unpack[SourceFields],
    ) -> Source:
        """Follow a place from now on; with `every`, the first run is due at once.

        Raises QueryError or InvalidFieldError, which name the argument.
        """
        arguments = check_arguments(self._settings, url, **fields)
        seconds = check_every(every)
        values = {"name": check_name(name), "arguments": arguments.json, "every": seconds, "is_paused": 0}
        try:
            with self._database.write() as transaction:
                if transaction.value(rows.COUNT) >= MAX_SOURCES:
                    raise QueryError("name", f"there are {MAX_SOURCES:,} sources, the limit")
                _require_own_paths(transaction, arguments)
                due_at = None if seconds is None else transaction.now()
                transaction.execute(rows.INSERT, {**values, "due_at": due_at, "now": timestamp()})
                return _source(transaction, rows.by_name(transaction, name))
        except ConstraintError:
            raise QueryError("name", f"another source has the name {name!r}") from None

    def list(self, *, limit: int = 50, offset: int = 0) -> SourcePage:
        """A page of the sources, by name. Raises QueryError."""
        check_page(limit, offset)
        with self._database.snapshot() as snapshot:
            page = snapshot.rows(rows.PAGE, {"limit": limit, "offset": offset})
            return SourcePage(tuple(_source(snapshot, row) for row in page), snapshot.value(rows.COUNT))

    def get(self, name: str) -> Source:
        """A source. Raises NotFoundError."""
        with self._database.snapshot() as snapshot:
            return _source(snapshot, rows.by_name(snapshot, name))

    def change(
        self,
        name: str,
        *,
        every: str | None = None,
        is_paused: bool | None = None,
        **limits: Unpack[SourceLimits],
    ) -> Source:
        """Change what is given; an empty `every`: no run begins by itself any more.

        A run that is paused goes on when the source does. Raises NotFoundError, QueryError.
        """
        check_names("change", limits, LIMITS)
        seconds = check_every(every)
        if is_paused is not None and not isinstance(is_paused, bool):
            raise QueryError("is_paused", "must be true or false")
        with self._database.write() as transaction:
            row = rows.by_name(transaction, name)
            arguments = SourceArguments.of_json(row["arguments"]).changed(**limits)
            values = {name: row[name] for name in ("id", "every", "is_paused", "due_at")}
            if every is not None:
                values |= {"every": seconds, "due_at": None if seconds is None else transaction.now()}
            if is_paused is not None:
                values["is_paused"] = int(is_paused)
            transaction.execute(rows.UPDATE, {**values, "arguments": arguments.json, "now": timestamp()})
            return _source(transaction, rows.by_name(transaction, name))

    def remove(self, name: str, *, with_documents: bool = False) -> int:
        """Follow a place no longer; return the number of its documents that a job deletes, if any.

        Without `with_documents`, they all stay, and with it those that another source holds. Raises
        NotFoundError.
        """
        document_ids: list[int] = []
        with self._database.snapshot() as snapshot:
            row = rows.by_name(snapshot, name)
            if with_documents:
                store = self._store(row)
                for object_name, _ in snapshot.tuples(rows.VERSIONS, {"source_id": row["id"]}):
                    found = rows.document_at(snapshot, store.source_path(object_name))
                    if found is not None and not rows.is_held_by_another(snapshot, row["id"], found):
                        document_ids.append(found)
        if document_ids:
            submit_delete(self._database, self._settings, document_ids)
        with self._database.write() as transaction:
            transaction.execute(rows.DELETE, {"id": row["id"]})
        return len(document_ids)

    def start(self, name: str, *, force: bool = False) -> SourceRun:
        """Begin a run, which the workers carry out; return the one that is open, if there is one.

        `force`: documents go even if nothing is listed any more. Raises NotFoundError.
        """
        with self._database.write() as transaction:
            source = rows.by_name(transaction, name)
            run = transaction.first(rows.OPEN_RUN, {"source_id": source["id"]})
            if run is None:
                now = timestamp_at(transaction.now())
                values = {"source_id": source["id"], "is_forced": int(force), "timestamp": now}
                transaction.execute(rows.BEGIN, values)
                run = transaction.first(rows.OPEN_RUN, {"source_id": source["id"]})
            return _run(run)

    def run(
        self, name: str, *, force: bool = False, watch: Callable[[SourceRun], None] | None = None
    ) -> SourceRun:
        """Run a source in this process, or go on with its run, until it has ended.

        `watch` gets the run after each step. A failure ends this call, not the run, which goes on where it
        was. Raises NotFoundError, QueryError for a paused source, SourceError, StorageError.
        """
        if self.get(name).is_paused:
            raise QueryError("name", f"the source {name} is paused; resume it first")
        run_id = self.start(name, force=force).id
        with self._database.write() as transaction:
            # A run that a person asks for does not wait for the end of a pause after a failure.
            source_id = rows.by_name(transaction, name)["id"]
            transaction.execute(rows.WAKE, {"source_id": source_id})
        follower = Follower(self._database, self._settings, self._run_job, self._opened)
        while True:
            stepped = follower.step(source_id)
            with self._database.snapshot() as snapshot:
                run = _run(snapshot.first(rows.RUN, {"id": run_id}))
            if stepped and watch is not None:
                watch(run)
            if run.status in ENDED:
                return run
            if run.next_try_at is not None and run.error is not None:
                raise SourceError(f"{run.error}; the next run goes on where this one was")
            if not stepped:
                time.sleep(WAIT_SECONDS)

    def stop(self, name: str) -> bool:
        """End the run of a source, if one is open; what it stored stays. A schedule goes on after its time.

        Raises NotFoundError.
        """
        with self._database.write() as transaction:
            source, now = rows.by_name(transaction, name), transaction.now()
            values = {"source_id": source["id"], "timestamp": timestamp_at(now)}
            if not transaction.execute(rows.STOP, values):
                return False
            due_at = None if source["every"] is None else now + source["every"]
            transaction.execute(rows.SET_DUE, {"id": source["id"], "due_at": due_at})
            return True

    def runs(self, name: str, *, limit: int = 50, offset: int = 0) -> SourceRunPage:
        """A page of the runs of a source, newest first. Raises NotFoundError, QueryError."""
        check_page(limit, offset)
        with self._database.snapshot() as snapshot:
            source_id = rows.by_name(snapshot, name)["id"]
            page = snapshot.rows(rows.RUNS, {"source_id": source_id, "limit": limit, "offset": offset})
            total = snapshot.value(rows.N_RUNS, {"source_id": source_id})
        return SourceRunPage(tuple(map(_run, page)), total)

    def objects(
        self, name: str, *, only_errors: bool = False, limit: int = 50, offset: int = 0
    ) -> SourceObjectPage:
        """A page of the objects of a source, by name. Raises NotFoundError, QueryError."""
        check_page(limit, offset)
        with self._database.snapshot() as snapshot:
            source = rows.by_name(snapshot, name)
            store = self._store(source)
            values = {"source_id": source["id"], "has_error": int(only_errors)}
            page = snapshot.rows(rows.OBJECTS, {**values, "limit": limit, "offset": offset})
            found = tuple(SourceObject(**row, source_path=store.source_path(row["name"])) for row in page)
            return SourceObjectPage(found, snapshot.value(rows.N_LISTED_OBJECTS, values))

    def preview(self, name: str) -> SourcePreview:
        """What a run of a source would do, and the first ten documents of it; nothing is stored.

        Raises NotFoundError, SourceError.
        """
        with self._database.snapshot() as snapshot:
            source = rows.by_name(snapshot, name)
            known = dict(snapshot.tuples(rows.VERSIONS, {"source_id": source["id"]}))
        arguments = SourceArguments.of_json(source["arguments"])
        store = self._opened(arguments.place(self._settings), self._settings)
        try:
            pages, is_complete = listed(store, arguments.max_objects)
            objects = [each for page in pages for each in page.objects]
            to_read = [each for each in objects if known.get(each.name) != each.version]
            limits = Limits(self._settings.conversion_seconds, self._settings.conversion_memory_bytes)
            with ConversionProcess(limits) as converter:
                first = tuple(
                    self._previewed(store, arguments, each, converter) for each in to_read[:PREVIEWED]
                )
        finally:
            store.close()
        n_new = sum(each.name not in known for each in to_read)
        return SourcePreview(
            n_listed=len(objects),
            n_skipped=sum(page.n_skipped for page in pages),
            n_new=n_new,
            n_changed=len(to_read) - n_new,
            n_removed=len(known.keys() - {each.name for each in objects}) if is_complete else 0,
            n_bytes=sum(each.n_bytes or 0 for each in to_read),
            is_complete=is_complete,
            first=first,
        )

    def _previewed(
        self, store: Store, arguments: SourceArguments, found: Listed, converter: ConversionProcess
    ) -> PreviewedObject:
        try:
            data = store.read(found.name, largest_file(self._settings))
            path = store.source_path(found.name)
            fields = {**arguments.document_fields, **store.fields(found.name)}
            draft = draft_of_data(
                data, settings=self._settings, name=store.file_name(found.name), source_path=path, **fields
            )
            if isinstance(draft, DocumentDraft):
                title, content = draft.title, draft.content
            else:
                converted = converter.convert(data, draft.name)
                title, content = converted.title or draft.name, converted.content
        except (DocumentError, ConversionError, SourceError) as error:
            return PreviewedObject(found.name, "", found.n_bytes or 0, "", str(error))
        return PreviewedObject(found.name, title, len(data), content[:PREVIEW_CHARS], None)

    def _store(self, row: Row) -> Store:
        """The store of a source, for its source paths; its secrets are not read."""
        arguments = SourceArguments.of_json(row["arguments"])
        return self._opened(Place(arguments.url, arguments.options), self._settings, reaches=False)


def _require_own_paths(snapshot: Snapshot, arguments: SourceArguments) -> None:
    """Raise InvalidFieldError if a source of another place has an address whose documents could have the same
    paths."""
    for row in snapshot.rows(rows.PAGE, {"limit": MAX_SOURCES, "offset": 0}):
        other = SourceArguments.of_json(row["arguments"])
        near, far = sorted((f"{arguments.url}/", f"{other.url}/"), key=len)
        if far.startswith(near) and other.identity != arguments.identity:
            raise InvalidFieldError(
                "url",
                f"has objects with the paths of those of the source {row['name']}, which is reached "
                "otherwise (account, endpoint, port or user); use another collection",
            )


def _source(snapshot: Snapshot, row: Row) -> Source:
    arguments = SourceArguments.of_json(row["arguments"])
    key = {"source_id": row["id"]}
    n_objects, n_errors = snapshot.first(rows.N_OBJECTS, key)
    last = snapshot.first(rows.RUNS, {**key, "limit": 1, "offset": 0})
    is_due = row["due_at"] is not None and not row["is_paused"]
    return Source(
        name=row["name"],
        **{name: getattr(arguments, name) for name in arguments.__dataclass_fields__},
        every=row["every"],
        is_paused=bool(row["is_paused"]),
        next_run_at=timestamp_at(row["due_at"]) if is_due else None,
        n_objects=n_objects,
        n_errors=int(n_errors),
        last_run=None if last is None else _run(last),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _run(row: Row) -> SourceRun:
    waits = row["error"] is not None and row["ended_at"] is None and row["lease_expires_at"]
    counts: dict[str, Any] = {
        name: row[name]
        for name in SourceRun.__dataclass_fields__
        if name.startswith("n_") or name in ("id", "error", "started_at", "ended_at")
    }
    return SourceRun(
        status=RunStatus(row["status"]),
        next_try_at=timestamp_at(row["lease_expires_at"]) if waits else None,
        **counts,
    )
