"""Copies a whole library to another database, of the same store or the other one.

The tables are read in one snapshot of the source, in the order of their keys, and stored in bounded batches,
each together with the progress. After a kill at any point, the same copy continues: the rows that are there
are compared with the source first, so that no copy mixes two states of it. The index is not copied: the
services of the target build it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from shoal.errors import CopyError, NotFoundError, StorageError
from shoal.maintenance.stored_values import describe_damage
from shoal.storage import copies, migrate
from shoal.storage import copies as target_progress
from shoal.storage.copies import Origin, Progress, Table, copied_tables
from shoal.storage.database import ConstraintError, Database, Snapshot
from shoal.storage.opening import open_database

ENDED = ("succeeded", "partial", "failed", "canceled")
"""Status of a job without work left."""
DROPPED = "dropped"
"""Status of a job whose rows are being deleted: it is never copied, and never waited for."""

UNENDED_JOBS = "SELECT id, status FROM jobs WHERE status NOT IN ({ended}) ORDER BY id"
STATE = """
    SELECT (SELECT COALESCE(MAX(revision), 0) FROM field_state), (SELECT last FROM note_changes),
        (SELECT MAX(version) FROM vocabulary_versions), (SELECT COALESCE(MAX(id), 0) FROM jobs),
        (SELECT COALESCE(MAX(id), 0) FROM logged_queries), (SELECT COALESCE(MAX(id), 0) FROM query_clicks),
        (SELECT COALESCE(MAX(decided_at), '') FROM acronyms)
"""
TABLE_STATE = "SELECT COUNT(*), COALESCE(MAX(updated_at), '') FROM {table}"
WITH_STATE = ("saved_searches", "webhook_deliveries", "synonyms", "pins", "sources")
"""Tables whose changes no number counts. Deletions change how many rows there are."""

Watcher = Callable[["CopyStep"], None]

log = logging.getLogger(__name__)


class CopyStep(NamedTuple):
    """How far a copy is: what it does with a table, and the rows that are done and all rows of all tables."""

    doing: str
    table: str
    n_done: int
    n_total: int
    n_bytes: int


@dataclass(frozen=True, slots=True)
class CopyResult:
    """A complete copy, compared row by row with its source.

    n_rows               rows by table; tables without rows are left out
    left_out             rows by table whose keys are too long for PostgreSQL: of caches only
    jobs_left_out        jobs that were not finished
    was_continued        an interrupted copy was continued
    is_source_unchanged  False: the source was changed during the copy, and the copy lacks these changes
    """

    source: str
    target: str
    n_documents: int
    n_rows: Mapping[str, int]
    left_out: Mapping[str, int]
    jobs_left_out: int
    was_continued: bool
    is_source_unchanged: bool


def copy_library(
    source_url: str,
    target_url: str,
    *,
    data_path: Path | None = None,
    without_jobs: bool = False,
    restart: bool = False,
    watch: Watcher = lambda _: None,
) -> CopyResult:
    """Copy the library at one URL to another, which must be empty or an unfinished copy of this library.

    A missing file or schema of the target is created. `without_jobs` leaves out jobs that are not finished;
    otherwise they are an error. `restart` begins an unfinished copy again. Raises NotFoundError, CopyError,
    and the errors of both databases; the source never changes.
    """
    with (
        contextlib.closing(_opened_source(source_url, data_path)) as source,
        contextlib.closing(open_database(target_url, data_path)) as target,
    ):
        if _is_same(source, target):
            raise CopyError("source and target are the same library; name another target")
        with target.alone_if_free("copy") as is_alone:
            if not is_alone:
                raise CopyError(f"another process copies to {target.name}; wait until it is done")
            return _Copy(source, target, without_jobs=without_jobs, watch=watch).run(restart=restart)


def library_state(url: str, data_path: Path | None = None) -> str:
    """Return a text that changes with every change of a library that a copy has.

    Raises NotFoundError, SchemaError, StorageError.
    """
    with contextlib.closing(_opened_source(url, data_path)) as source, source.snapshot() as snapshot:
        return repr(_state(snapshot))


def holds_library(url: str, data_path: Path | None = None) -> bool:
    """Whether a database holds a library with content, and no unfinished copy. Raises StorageError."""
    with contextlib.closing(open_database(url, data_path)) as database:
        if migrate.current_revision(database) != migrate.HEAD:
            return False
        with database.snapshot() as snapshot:
            return bool(target_progress.tables_in_use(snapshot))


def _state(snapshot: Snapshot) -> tuple[object, ...]:
    """Return values that tell states apart: a change of documents, notes, words, jobs, searches or pins
    changes at least one."""
    of_tables = (tuple(snapshot.first(TABLE_STATE.format(table=table))) for table in WITH_STATE)
    return (*snapshot.first(STATE), *of_tables)


def _opened_source(url: str, data_path: Path | None) -> Database:
    source = open_database(url, data_path)
    try:
        if source.is_sqlite and not Path(source.location).exists():
            raise NotFoundError(f"there is no database {source.location}")
        migrate.check(source)
    except BaseException:
        source.close()
        raise
    return source


def _is_same(source: Database, target: Database) -> bool:
    if source.is_sqlite and target.is_sqlite:
        with contextlib.suppress(FileNotFoundError):
            return Path(source.location).samefile(target.location)
    return source.location == target.location and source.name == target.name


class _Copy:
    """One copy, from an open source to an open target."""

    def __init__(self, source: Database, target: Database, *, without_jobs: bool, watch: Watcher) -> None:
        self.source, self.target, self.watch = source, target, watch
        self.origin = Origin(f"{source.location} ({source.name})", without_jobs)
        self.n_done = self.n_total = self.n_bytes = 0
        self.left_out: dict[str, int] = {}
        self.unended: list[int] = []

    def run(self, *, restart: bool) -> CopyResult:
        with self.source.snapshot(limited=False) as snapshot:
            self._see_jobs(snapshot)
            self._check_values(snapshot)
            state = _state(snapshot)
            was_continued = self._prepare_target(restart=restart)
            self._copy(snapshot)
            last_ids = target_progress.last_ids(snapshot)
        n_rows = self._check_target()
        with self.target.write() as transaction:
            target_progress.create_parts(transaction)
        with self.target.write() as transaction:
            target_progress.finish(transaction, last_ids, self.origin)
        with self.source.snapshot() as snapshot:
            is_unchanged = _state(snapshot) == state
        self._vacuum_target()
        return CopyResult(
            source=self.source.location,
            target=self.target.location,
            n_documents=n_rows.get("documents", 0),
            n_rows=n_rows,
            left_out=self.left_out,
            jobs_left_out=len(self.unended),
            was_continued=was_continued,
            is_source_unchanged=is_unchanged,
        )

    def _vacuum_target(self) -> None:
        """Spare the first searches of a copy this work. The copy is complete, also without."""
        try:
            self.target.vacuum([table.name for table in copied_tables()])
        except StorageError as error:
            log.warning("the copy is complete; its tables are left to autovacuum: %s", error)

    def _check_values(self, snapshot: Snapshot) -> None:
        """Raise CopyError for a value that Shoal never stores: the target could not take it, or would keep
        the damage."""
        damage = describe_damage(snapshot)
        if damage is not None:
            raise CopyError(f"the source is damaged: {damage}; `shoal doctor` says what to do")

    def _see_jobs(self, snapshot: Snapshot) -> None:
        ended = ", ".join(f"'{status}'" for status in ENDED)
        jobs = snapshot.rows(UNENDED_JOBS.format(ended=ended))
        waiting = [job_id for job_id, status in jobs if status != DROPPED]
        if waiting and not self.origin.without_jobs:
            raise CopyError(
                f"{len(waiting):,} jobs of the source are not finished, the first is job {waiting[0]}: let "
                "them end, cancel them, or copy with --without-jobs; if a command was killed, `shoal doctor "
                "--repair` removes its job"
            )
        self.unended = [job_id for job_id, _ in jobs]

    def _condition(self, table: Table) -> str:
        """The condition of the rows of a table that are copied: not those of unended jobs."""
        if not self.unended:
            return "1 = 1"
        ids = ", ".join(map(str, self.unended))
        if table.name == "jobs":
            return f"id NOT IN ({ids})"
        if "item_id" in table.key and table.name.startswith("job_item_"):
            return f"item_id NOT IN (SELECT id FROM job_items WHERE job_id IN ({ids}))"
        return f"job_id NOT IN ({ids})" if table.name in ("waves", "job_items") else "1 = 1"

    def _prepare_target(self, *, restart: bool) -> bool:
        """Make the target ready for rows; True if it has rows of this copy already."""
        revision = migrate.current_revision(self.target)
        if revision == migrate.COPYING:
            with self.target.write() as transaction:
                origin = target_progress.origin_of(transaction)
                if origin.revision != migrate.HEAD:
                    raise CopyError(
                        f"{self.target.name} holds an unfinished copy that another version of Shoal began; "
                        "name an empty target"
                    )
                if not restart and origin != self.origin:
                    jobs = " with --without-jobs" if origin.without_jobs else ""
                    raise CopyError(
                        f"{self.target.name} holds an unfinished copy of {origin.source}{jobs}; finish that "
                        "one, or begin again with --restart"
                    )
                if not restart:
                    return bool(target_progress.progress_of(transaction))
                target_progress.begin_again(transaction)
                target_progress.prepare(transaction, self.origin)
                return False
        migrate.upgrade(self.target)
        with self.target.write() as transaction:
            if tables := target_progress.tables_in_use(transaction):
                raise CopyError(
                    f"{self.target.name} already holds a library with {', '.join(tables)}; name an empty "
                    "target"
                )
            target_progress.prepare(transaction, self.origin)
        return False

    def _copy(self, snapshot: Snapshot) -> None:
        connection = snapshot.connection
        with self.target.snapshot() as reading:
            done = target_progress.progress_of(reading)
        tables = copied_tables()
        counts = {table: copies.count(connection, table, self._condition(table)) for table in tables}
        self.n_total = sum(counts.values())
        for table in tables:
            if before := done.get(table.name):
                self._check_source(connection, table, before)
            if before is None or not before.is_complete:
                self._copy_table(connection, table, before)

    def _check_source(self, connection: object, table: Table, before: Progress) -> None:
        """Compare the rows of the source with those that were copied from it before."""
        digest, n_rows = copies.Digest(), 0
        up_to = None if before.is_complete else before.last_key
        for batch in self._read(connection, table, up_to=up_to):
            digest.add(batch)
            n_rows += len(batch)
            self._report("comparing", table, batch)
        if (n_rows, str(digest)) != (before.n_rows, before.digest):
            raise CopyError(
                f"the source was changed since this copy was interrupted (table {table.name}); begin again "
                "with --restart"
            )

    def _copy_table(self, connection: object, table: Table, before: Progress | None) -> None:
        key_places = [table.columns.index(name) for name in table.key]
        last_key = before.last_key if before else ()
        n_rows, digest = (before.n_rows, copies.Digest(before.digest)) if before else (0, copies.Digest())
        for batch, is_last in _with_last(self._read(connection, table, after=last_key or None)):
            digest.add(batch)
            n_rows += len(batch)
            last_key = tuple(batch[-1][place] for place in key_places) if batch else last_key
            progress = Progress(last_key, n_rows, str(digest), is_last)
            with self._explained(table, last_key), self.target.write() as transaction:
                target_progress.allow_loss(transaction)
                copies.write(transaction.connection, table, batch)
                target_progress.write_progress(transaction, table, progress)
            self._report("copying", table, batch)

    def _read(
        self,
        connection: object,
        table: Table,
        *,
        after: copies.Key | None = None,
        up_to: copies.Key | None = None,
    ) -> Iterator[list[copies.Row]]:
        """Yield the rows to copy in batches; those that PostgreSQL cannot store are counted instead."""
        for batch in copies.read(connection, table, self._condition(table), after=after, up_to=up_to):
            kept = batch if self.target.is_sqlite else copies.storable(table, batch)
            if len(kept) < len(batch):
                self.left_out[table.name] = self.left_out.get(table.name, 0) + len(batch) - len(kept)
            yield list(kept)

    @contextlib.contextmanager
    def _explained(self, table: Table, last_key: copies.Key) -> Iterator[None]:
        try:
            yield
        except (ConstraintError, OverflowError, TypeError, ValueError) as error:
            reason = str(error).splitlines()[0]
        except StorageError as error:
            if type(error) is not StorageError:
                raise
            reason = str(error)
        else:
            return
        raise CopyError(
            f"{self.target.name} refuses rows of the table {table.name} up to key {last_key}: {reason}; "
            "`shoal doctor` may find and repair them in the source"
        )

    def _check_target(self) -> dict[str, int]:
        """Compare what the target holds with what was read from the source; return its rows by table."""
        with self.target.snapshot(limited=False) as snapshot:
            expected = target_progress.progress_of(snapshot)
            self.n_done, self.n_total = 0, sum(progress.n_rows for progress in expected.values())
            for table in copied_tables():
                digest, n_rows = copies.Digest(), 0
                for batch in copies.read(snapshot.connection, table, "1 = 1"):
                    digest.add(batch)
                    n_rows += len(batch)
                    self._report("checking", table, batch)
                progress = expected.get(table.name)
                if (n_rows, str(digest)) != ((progress.n_rows, progress.digest) if progress else (0, "0")):
                    raise CopyError(
                        f"{self.target.name} does not hold what was copied to it (table {table.name}): "
                        "another program has changed it; begin again with --restart"
                    )
        return {name: progress.n_rows for name, progress in expected.items() if progress.n_rows}

    def _report(self, doing: str, table: Table, batch: list[copies.Row]) -> None:
        self.n_done += len(batch)
        self.n_bytes += sum(map(copies.size, batch))
        self.watch(CopyStep(doing, table.name, self.n_done, self.n_total, self.n_bytes))


def _with_last(batches: Iterable[list[copies.Row]]) -> Iterator[tuple[list[copies.Row], bool]]:
    """Yield each batch, and whether it is the last one."""
    iterator = iter(batches)
    batch = next(iterator, None)
    while batch is not None:
        following = next(iterator, None)
        yield batch, following is None
        batch = following
