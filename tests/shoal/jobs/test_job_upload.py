"""An upload becomes a job in one step, or leaves nothing."""

from __future__ import annotations

import dataclasses
import threading
import time

import pytest
from job_parts import assert_consistent, claim_now, draft, rows, run_job, statuses, upload, value
from postgres_schemas import sqlite_only
from waiting import DEADLINE_SECONDS

from shoal.errors import (
    DiskFullError,
    EmptyDocumentError,
    IdempotencyError,
    InvalidFieldError,
    NotFoundError,
    UploadDroppedError,
)
from shoal.jobs.queue import queries
from shoal.jobs.queue.recovery import reconcile
from shoal.jobs.queue.submission import FLUSH_ITEMS, Upload, submit_delete, submit_document
from shoal.models.jobs import JobKind, JobStatus
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.storage.statistics import jobs_by_status


def n_rows(database: Database) -> dict[str, object]:
    tables = ("jobs", "waves", "job_items", "job_item_contents")
    return {table: value(database, f"SELECT COUNT(*) FROM {table}") for table in tables}


NOTHING = {"jobs": 0, "waves": 0, "job_items": 0, "job_item_contents": 0}


def test_upload_is_listed_and_claimable_only_when_finished(database: Database, settings: Settings) -> None:
    opened = Upload(database, settings).begin()
    for i in range(FLUSH_ITEMS + 1):
        opened.add(draft(f"text {i}"))
    assert value(database, "SELECT COUNT(*) FROM job_items") == FLUSH_ITEMS
    assert claim_now(database, settings) is None
    assert queries.list_jobs(database) == []
    assert queries.count_jobs(database) == 0
    with database.snapshot() as snapshot:
        assert set(jobs_by_status(snapshot).values()) == {0}
    with pytest.raises(NotFoundError):
        queries.get_job(database, 1)

    job = queries.get_job(database, opened.finish())
    assert (job.status, job.progress.total, job.progress.done) == (JobStatus.enqueued, FLUSH_ITEMS + 1, 0)
    assert claim_now(database, settings) is not None


def test_abandoned_upload_leaves_no_rows(database: Database, settings: Settings) -> None:
    opened = Upload(database, settings).begin()
    for i in range(FLUSH_ITEMS + 1):
        opened.add(draft(f"text {i}"))
    opened.abandon()
    opened.abandon()
    assert n_rows(database) == NOTHING
    with pytest.raises(UploadDroppedError):
        opened.add(draft("late"))


def test_upload_of_a_dead_process_is_removed_after_its_timeout(
    database: Database, settings: Settings
) -> None:
    opened = Upload(database, settings).begin()
    for i in range(FLUSH_ITEMS):
        opened.add(draft(f"text {i}"))
    reconcile(database, settings)
    assert value(database, "SELECT COUNT(*) FROM job_items") == FLUSH_ITEMS
    done = reconcile(database, settings, now=time.time() + settings.upload_timeout + 1)
    assert done.dropped == FLUSH_ITEMS
    assert n_rows(database) == NOTHING
    # If the process is alive after all, it gets an error, and nothing is accepted.
    opened.add(draft("one more"))
    with pytest.raises(UploadDroppedError):
        opened.finish()
    assert n_rows(database) == NOTHING


def test_removal_of_a_dropped_upload_resumes(database: Database, settings: Settings) -> None:
    from shoal.jobs.queue.submission import remove_dropped

    opened = Upload(database, settings).begin()
    for i in range(FLUSH_ITEMS):
        opened.add(draft(f"text {i}"))
    with database.write() as transaction:
        transaction.execute("UPDATE jobs SET status = 'dropped'")
    assert remove_dropped(database, slices=1) == FLUSH_ITEMS
    assert value(database, "SELECT COUNT(*) FROM jobs") == 1
    reconcile(database, settings)
    assert n_rows(database) == NOTHING


def test_waves_depend_on_order_and_size(database: Database, settings: Settings) -> None:
    settings = dataclasses.replace(settings, wave_bytes=100)
    job_id = upload(database, settings, [f"{i}" * 40 for i in range(8)])
    cut = rows(database, "SELECT n, total, pending, bytes, stage FROM waves WHERE job_id = :j", j=job_id)
    assert cut == [(0, 3, 3, 120, "score"), (1, 3, 3, 120, "score"), (2, 2, 2, 80, "score")]


def test_refused_items_are_failed_items_with_a_reason(database: Database, settings: Settings) -> None:
    opened = Upload(database, settings).begin()
    opened.add(draft("good"))
    opened.refuse("bad.bin", "folder/bad.bin", 7, ValueError("not text"))
    job_id = opened.finish()
    assert_consistent(database)
    run_job(database, settings)
    job = queries.get_job(database, job_id)
    assert job.status is JobStatus.partial
    assert job.error == "1 of 2 documents failed; first error: not text"
    assert (job.progress.failed, job.progress.done, job.progress.bytes_done) == (1, 2, 11)
    item = queries.get_items(database, job_id)[1]
    assert (item.status, item.error, item.source_path) == ("failed", "not text", "folder/bad.bin")
    assert item.error_code == "invalid_document"


def test_job_of_only_refused_items_fails_at_once(database: Database, settings: Settings) -> None:
    opened = Upload(database, settings).begin()
    opened.refuse("bad.bin", None, 7, "not text", "unreadable_file")
    opened.refuse("empty.txt", None, 0, EmptyDocumentError("is empty"))
    job = queries.get_job(database, opened.finish())
    codes = [item.error_code for item in queries.get_items(database, job.id)]
    assert codes == ["unreadable_file", "empty_document"]
    assert (job.status, job.error) == (JobStatus.failed, "2 of 2 documents failed; first error: not text")
    assert job.finished_at is not None
    assert job.ended


def test_empty_upload_is_an_error_and_leaves_no_rows(database: Database, settings: Settings) -> None:
    with pytest.raises(InvalidFieldError):
        Upload(database, settings).begin().finish()
    with pytest.raises(InvalidFieldError):
        submit_delete(database, settings, [])
    assert n_rows(database) == NOTHING


def test_too_many_items_are_refused(database: Database, settings: Settings) -> None:
    opened = Upload(database, dataclasses.replace(settings, max_upload_items=2)).begin()
    opened.add(draft("one"))
    opened.refuse("two", None, 0, "no")
    with pytest.raises(InvalidFieldError, match="at most 2"):
        opened.add(draft("three"))


@sqlite_only
def test_full_disk_accepts_no_upload(database: Database, settings: Settings) -> None:
    with database.write() as transaction:
        # The limit is that of the connection, which the pool lends again.
        transaction.value(f"PRAGMA max_page_count = {transaction.value('PRAGMA page_count') + 20}")
    with pytest.raises(DiskFullError):
        submit_document(database, settings, draft("word " * 200_000))
    opened = Upload(database, settings).begin()
    opened.add(draft("word " * 200_000))
    with pytest.raises(DiskFullError):
        opened.finish()
    database.close()
    assert claim_now(database, settings) is None
    assert value(database, "SELECT COUNT(*) FROM job_items") == 0
    # When the disk has space again, the same upload can be finished.
    assert queries.get_job(database, opened.finish()).status is JobStatus.enqueued


def test_same_key_and_body_return_the_same_job(database: Database, settings: Settings) -> None:
    first = submit_document(database, settings, draft("a"), idempotency_key="k", request_hash="h")
    assert submit_document(database, settings, draft("a"), idempotency_key="k", request_hash="h") == first
    again = Upload(database, settings).begin(idempotency_key="k")
    again.add(draft("a"))
    assert again.finish(request_hash="h") == first
    assert n_rows(database) == {"jobs": 1, "waves": 1, "job_items": 1, "job_item_contents": 1}
    assert queries.find_by_key(database, "k") == (first, "h")
    assert queries.find_by_key(database, "other") is None


def test_same_key_with_another_body_is_an_error(database: Database, settings: Settings) -> None:
    submit_document(database, settings, draft("a"), idempotency_key="k", request_hash="h")
    with pytest.raises(IdempotencyError):
        submit_document(database, settings, draft("b"), idempotency_key="k", request_hash="other")
    with pytest.raises(IdempotencyError):
        Upload(database, settings).begin(idempotency_key="k", request_hash="other")
    late = Upload(database, settings).begin(idempotency_key="k")
    late.add(draft("b"))
    with pytest.raises(IdempotencyError):
        late.finish(request_hash="other")
    assert value(database, "SELECT COUNT(*) FROM jobs") == 1


def test_concurrent_requests_with_one_key_create_one_job(database: Database, settings: Settings) -> None:
    job_ids: list[int] = []

    def send() -> None:
        opened = Upload(database, settings).begin(idempotency_key="k", request_hash="h")
        opened.add(draft("a"))
        job_ids.append(opened.finish())

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(job_ids) == 8
    assert len(set(job_ids)) == 1
    assert n_rows(database) == {"jobs": 1, "waves": 1, "job_items": 1, "job_item_contents": 1}


def test_document_fields_reach_the_worker(database: Database, settings: Settings) -> None:
    given = dataclasses.replace(
        draft("Grüße \U0001f41f\r\n", tags=("a", "ü")),
        metadata={"n": [1, {"x": None}]},
        warnings=("read as something",),
        source_path="f/g.txt",
    )
    submit_document(database, settings, given)
    batch = claim_now(database, settings)
    assert batch is not None
    from shoal.jobs.queue.claims import draft_of

    with database.snapshot() as snapshot:
        assert draft_of(snapshot, batch.items[0]) == given


def test_delete_job_deletes_documents(database: Database, settings: Settings) -> None:
    upload(database, settings, ["one", "two", "three"])
    run_job(database, settings)
    job_id = submit_delete(database, settings, [1, 3, 3, 99])
    assert queries.get_job(database, job_id).kind is JobKind.delete
    run_job(database, settings)
    assert statuses(database, job_id) == ["succeeded"] * 3
    assert rows(database, "SELECT content FROM document_texts") == [("two",)]
    assert value(database, "SELECT COUNT(*) FROM chunk_reefs") == 1
    assert_consistent(database)


def test_wait_returns_at_once_on_a_change_and_at_the_timeout(database: Database, settings: Settings) -> None:
    job_id = submit_document(database, settings, draft("a"))
    job = queries.get_job(database, job_id)
    started = time.monotonic()
    assert queries.wait_for_change(database, job_id, job.revision, 0.2).revision == job.revision
    assert time.monotonic() - started >= 0.2
    worker = threading.Timer(0.1, run_job, (database, settings))
    worker.start()
    ended = queries.wait_for_end(database, job_id, DEADLINE_SECONDS)
    worker.join()
    assert ended.status is JobStatus.succeeded
    assert ended.revision > job.revision
    assert queries.wait_for_change(database, job_id, job.revision, DEADLINE_SECONDS) == ended
