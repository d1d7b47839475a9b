"""A claim costs the same however many items and jobs wait, and repeated texts end with the first of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from job_parts import (
    assert_consistent,
    claim_now,
    draft,
    handlers,
    must_claim,
    rows,
    run_job,
    scored,
    statuses,
    upload,
    value,
)
from postgres_schemas import sqlite_only

from shoal.errors import DocumentError
from shoal.jobs.queue import queries
from shoal.jobs.queue.claims import has_claimable_work
from shoal.jobs.queue.progress import MAX_WAITS
from shoal.jobs.queue.recovery import reconcile
from shoal.jobs.queue.submission import Upload, submit_document, submit_replacement
from shoal.jobs.queue.transitions import MAX_COPIES, cancel
from shoal.jobs.stages.runner import process
from shoal.models.documents import DocumentDraft, ScoredDocument
from shoal.models.jobs import OnConflict
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.storage.sqlite.database import SqliteDatabase

FEW, MANY = 20, 600


def _copies_in_one_upload(database: Database, settings: Settings, n: int) -> None:
    upload(database, settings, ["same"] * n)


def _copies_in_many_jobs(database: Database, settings: Settings, n: int) -> None:
    for _ in range(n):
        submit_document(database, settings, draft("same"))


@pytest.mark.parametrize("submit", [_copies_in_one_upload, _copies_in_many_jobs])
@pytest.mark.parametrize("n", [2, 300])
def test_copies_end_with_the_first_without_a_claim(
    database: Database, settings: Settings, submit: Callable[[Database, Settings, int], None], n: int
) -> None:
    submit(database, settings, n)
    batch = must_claim(database, settings)
    assert len(batch.items) == 1
    process(batch, database, handlers(database), settings)
    assert not has_claimable_work(database)
    assert value(database, "SELECT COUNT(*) FROM job_items WHERE status = 'duplicate'") == n - 1
    assert value(database, "SELECT COUNT(*) FROM jobs WHERE status <> 'succeeded'") == 0
    assert rows(database, "SELECT * FROM job_item_contents") == []
    assert_consistent(database)


def test_more_copies_than_one_transaction_ends_take_one_claim_each_time(
    database: Database, settings: Settings
) -> None:
    upload(database, settings, ["same"] * (MAX_COPIES + 300))
    assert run_job(database, settings) == 2
    assert value(database, "SELECT COUNT(*) FROM documents") == 1


def test_tags_of_copies_are_added(database: Database, settings: Settings) -> None:
    opened = Upload(database, settings).begin()
    for tag in "abc":
        opened.add(draft("same", tags=[tag]))
    job_id = opened.finish()
    assert run_job(database, settings) == 1
    assert rows(database, "SELECT tag FROM document_tags ORDER BY tag") == [("a",), ("b",), ("c",)]
    assert [item.document_id for item in queries.get_items(database, job_id)] == [1, 1, 1]


def test_copies_of_failed_and_canceled_documents_go_on(database: Database, settings: Settings) -> None:
    def refuse_first(document: DocumentDraft) -> ScoredDocument:
        if document.title == "first":
            raise DocumentError("refused")
        return scored(document)

    submit_document(database, settings, draft("same", title="first"))
    second = submit_document(database, settings, draft("same", title="second"))
    third = upload(database, settings, ["same", "same"])
    batch = must_claim(database, settings)
    assert not has_claimable_work(database)
    process(batch, database, handlers(database, refuse_first), settings)
    must_claim(database, settings)
    cancel(database, second)
    run_job(database, settings)
    assert statuses(database, third) == ["succeeded", "duplicate"]


def test_a_copy_waits_for_a_replacement_before_it(database: Database, settings: Settings) -> None:
    """Once the document has other content, the copy is a document of its own."""
    settings = dataclasses.replace(settings, batch_items=1)
    submit_document(database, settings, draft("same"))
    run_job(database, settings)
    first = submit_document(database, settings, draft("same"))
    submit_replacement(database, settings, 1, draft("other"))
    late = submit_document(database, settings, draft("same"))
    process(must_claim(database, settings), database, handlers(database), settings)
    assert statuses(database, first) == ["duplicate"]
    assert statuses(database, late) == ["enqueued"]


def test_a_wait_that_nothing_ends_is_ended_by_the_reconciler(database: Database, settings: Settings) -> None:
    upload(database, settings, ["a"])
    with database.write() as transaction:
        transaction.execute("UPDATE job_items SET waits_for = 77")
        transaction.execute("UPDATE jobs SET parked = 1")
    assert not has_claimable_work(database)
    assert reconcile(database, settings, lambda: None).notified
    assert run_job(database, settings) == 1


def _different_items(database: Database, settings: Settings, n: int) -> None:
    upload(database, settings, [f"text {i}" for i in range(n)])


def _different_jobs(database: Database, settings: Settings, n: int) -> None:
    for i in range(n):
        submit_document(database, settings, draft(f"text {i}"))


def _replacements_of_one_document(database: Database, settings: Settings, n: int) -> None:
    for i in range(n):
        submit_replacement(database, settings, 1, draft(f"text {i}"))


def _versions_of_one_path(database: Database, settings: Settings, n: int) -> None:
    opened = Upload(database, settings).begin(on_conflict=OnConflict.replacing)
    for i in range(n):
        opened.add(dataclasses.replace(draft(f"text {i}"), source_path="a.md"))
    opened.finish()


def _waves_of_one_job(database: Database, settings: Settings, n: int) -> None:
    upload(database, dataclasses.replace(settings, wave_bytes=1), [f"text {i}" for i in range(n)])


def _waves_that_wait_for_their_turn_to_learn(database: Database, settings: Settings, n: int) -> None:
    for i in range(n):
        submit_document(database, dataclasses.replace(settings, learning=True), draft(f"text {i}"))
    with database.write() as transaction:
        transaction.execute("UPDATE waves SET stage = 'learn'")
        transaction.execute("UPDATE job_items SET status = 'discovered'")


def _items_that_pause(database: Database, settings: Settings, n: int) -> None:
    upload(database, settings, [f"text {i}" for i in range(n)])
    with database.write() as transaction:
        transaction.execute("UPDATE job_items SET retry_at = 1e15")


SITUATIONS = [
    _copies_in_one_upload,
    _copies_in_many_jobs,
    _different_items,
    _different_jobs,
    _replacements_of_one_document,
    _versions_of_one_path,
    _waves_of_one_job,
    _waves_that_wait_for_their_turn_to_learn,
    _items_that_pause,
]


@sqlite_only
@pytest.mark.parametrize("fill", SITUATIONS, ids=lambda fill: fill.__name__.strip("_"))
def test_a_claim_takes_the_same_steps_however_many_wait(
    database: Database, settings: Settings, fill: Callable[[Database, Settings, int], None]
) -> None:
    assert isinstance(database, SqliteDatabase)
    settings = dataclasses.replace(settings, batch_items=1)
    steps = {}
    for n in (FEW, MANY):
        fill(database, settings, n)
        # The first claims note what waits; each of these notes is made once.
        for _ in range(2 + MANY // MAX_WAITS):
            claim_now(database, settings)
        with counting_steps(database) as counted:
            claim_now(database, settings)
            has_claimable_work(database)
        steps[n] = counted[0]
    assert steps[MANY] < 1.5 * steps[FEW] + 200, steps


@contextmanager
def counting_steps(database: SqliteDatabase) -> Iterator[list[int]]:
    """Count the instructions of SQLite's virtual machine."""
    counted = [0]

    def count() -> int:
        counted[0] += 1
        return 0

    with database.snapshot() as reading, database.write() as writing:
        connections = [reading.connection, writing.connection]
    for connection in connections:
        connection.set_progress_handler(count, 1)
    try:
        yield counted
    finally:
        for connection in connections:
            connection.set_progress_handler(None, 1)
