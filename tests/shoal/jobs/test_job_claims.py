"""A claim takes the next work in fair order, and never work that another claim holds."""

from __future__ import annotations

import dataclasses
import multiprocessing
import threading
from collections import Counter

import pytest
from job_parts import (
    assert_consistent,
    claim_now,
    draft,
    handlers,
    must_claim,
    rows,
    run_job,
    statuses,
    upload,
    value,
)

from shoal.errors import DocumentError
from shoal.jobs.queue import queries
from shoal.jobs.queue.claims import has_claimable_work, leases, release, renew
from shoal.jobs.queue.submission import Upload, submit_document
from shoal.jobs.queue.transitions import Outcome, finish_items
from shoal.jobs.stages.runner import process
from shoal.models.documents import DocumentDraft, ScoredDocument
from shoal.models.jobs import ItemStatus
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.storage.opening import open_database


def _claim_all(settings: Settings, mine: list[tuple[int, ...]]) -> None:
    database = open_database(settings.database_url)
    while batch := claim_now(database, settings):
        mine.append(tuple(item.id for item in batch.items))
    database.close()


def _claim_all_in_process(settings: Settings, queue: multiprocessing.Queue[list[tuple[int, ...]]]) -> None:
    mine: list[tuple[int, ...]] = []
    _claim_all(settings, mine)
    queue.put(mine)


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_concurrent_claims_never_overlap(database: Database, settings: Settings, kind: str) -> None:
    settings = dataclasses.replace(settings, batch_items=3, wave_bytes=300)
    for job in range(3):
        upload(database, settings, [f"job {job} text {i}" for i in range(60)])
    if kind == "threads":
        taken: list[tuple[int, ...]] = []
        threads = [threading.Thread(target=_claim_all, args=(settings, taken)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        spawn = multiprocessing.get_context("spawn")
        queue = spawn.Queue()
        processes = [spawn.Process(target=_claim_all_in_process, args=(settings, queue)) for _ in range(3)]
        for process_ in processes:
            process_.start()
        taken = [batch for _ in processes for batch in queue.get(timeout=60)]
        for process_ in processes:
            process_.join()
    counts = Counter(item for batch in taken for item in batch)
    assert len(counts) == 180
    assert set(counts.values()) == {1}
    assert all(len(batch) <= 3 for batch in taken)
    assert_consistent(database)


def test_small_late_job_does_not_wait_for_a_large_one(database: Database, settings: Settings) -> None:
    settings = dataclasses.replace(settings, batch_items=5)
    library = upload(database, settings, [f"book {i}" for i in range(50)])
    must_claim(database, settings)
    note = upload(database, settings, ["a note"])
    second = must_claim(database, settings)
    assert second.items[0].job_id == note
    # The rest of the batch is filled from the next job.
    assert {item.job_id for item in second.items[1:]} == {library}


def test_claims_alternate_between_jobs(database: Database, settings: Settings) -> None:
    settings = dataclasses.replace(settings, batch_items=2)
    first = upload(database, settings, [f"first {i}" for i in range(6)])
    second = upload(database, settings, [f"second {i}" for i in range(6)])
    order = [must_claim(database, settings, now=float(t)).items[0].job_id for t in range(1, 7)]
    assert order == [first, second] * 3


def test_batch_is_limited_by_bytes_and_items_and_keeps_order(database: Database, settings: Settings) -> None:
    settings = dataclasses.replace(settings, batch_bytes=100, batch_items=4)
    upload(database, settings, ["a" * 60, "b" * 30, "c" * 30, "d" * 500, *"efghi"])
    batches = [[item.seq for item in must_claim(database, settings).items] for _ in range(5)]
    assert batches == [[0, 1], [2], [3], [4, 5, 6, 7], [8]]
    assert claim_now(database, settings) is None


def test_batch_reports_whether_more_is_claimable(database: Database, settings: Settings) -> None:
    settings = dataclasses.replace(settings, batch_items=2)
    upload(database, settings, ["a", "b", "c", "c"])
    assert must_claim(database, settings).more
    # The remaining item is a duplicate of a claimed one, so it waits.
    assert not must_claim(database, settings).more
    assert not has_claimable_work(database)


def test_batch_combines_single_documents_of_many_jobs(database: Database, settings: Settings) -> None:
    for i in range(20):
        submit_document(database, settings, draft(f"note {i}"))
    assert len(must_claim(database, settings).items) == 20


def test_duplicate_waits_until_the_original_is_stored(database: Database, settings: Settings) -> None:
    upload(database, settings, ["same", "other"])
    original = must_claim(database, settings)
    later = upload(database, settings, ["same", "same", "new"])
    batch = must_claim(database, settings)
    assert [item.seq for item in batch.items] == [2]
    process(batch, database, handlers(database), settings)
    assert claim_now(database, settings) is None
    assert statuses(database, later) == ["enqueued", "enqueued", "succeeded"]
    process(original, database, handlers(database), settings)
    run_job(database, settings)
    assert statuses(database, later) == ["duplicate", "duplicate", "succeeded"]
    stored = value(database, "SELECT document_id FROM document_texts WHERE content = 'same'")
    assert [item.document_id for item in queries.get_items(database, later)[:2]] == [stored, stored]
    assert queries.get_job(database, later).progress.duplicate == 2


def test_tags_of_a_duplicate_are_added_to_the_document(database: Database, settings: Settings) -> None:
    submit_document(database, settings, draft("same", tags=["a"]))
    submit_document(database, settings, draft("same", tags=["b", "a"]))
    run_job(database, settings)
    assert rows(database, "SELECT tag FROM document_tags ORDER BY tag") == [("a",), ("b",)]


def test_duplicate_replaces_a_failed_original(database: Database, settings: Settings) -> None:
    def refuse_first(document: DocumentDraft) -> ScoredDocument:
        from job_parts import scored

        if document.title == "first":
            raise DocumentError("refused")
        return scored(document)

    opened = Upload(database, settings).begin()
    for title in ("first", "second", "third"):
        opened.add(draft("same", title=title))
    job_id = opened.finish()
    run_job(database, settings, handlers(database, refuse_first))
    assert statuses(database, job_id) == ["failed", "succeeded", "duplicate"]
    assert rows(database, "SELECT title FROM documents") == [("second",)]


def test_duplicate_does_not_wait_for_an_unfinished_upload(database: Database, settings: Settings) -> None:
    opened = Upload(database, settings).begin()
    for i in range(500):
        opened.add(draft(f"text {i}"))
    job_id = upload(database, settings, ["text 7"])
    run_job(database, settings)
    assert statuses(database, job_id) == ["succeeded"]
    run_job(database, settings) if opened.finish() else None
    assert value(database, "SELECT COUNT(*) FROM documents") == 500


def test_released_batch_is_claimable_without_counting_an_attempt(
    database: Database, settings: Settings
) -> None:
    upload(database, settings, ["a", "b"])
    batch = must_claim(database, settings)
    assert release(database, batch) == 2
    assert release(database, batch) == 0
    assert rows(database, "SELECT status, attempts, alone FROM job_items") == [("enqueued", 0, 0)] * 2
    assert len(must_claim(database, settings).items) == 2


def test_only_the_owner_renews_a_lease(database: Database, settings: Settings) -> None:
    upload(database, settings, ["a"])
    batch = must_claim(database, settings, now=1000.0)
    (lease,) = leases(database)
    assert lease.owner == batch.owner
    assert renew(database, lease, settings, now=2000.0)
    assert value(database, "SELECT lease_expires_at FROM job_items") == 2000.0 + settings.lease_seconds
    assert not renew(database, dataclasses.replace(lease, owner="another"), settings)
    with database.write() as transaction:
        finish_items(transaction, [(batch.items[0], Outcome(ItemStatus.failed, error="x"))], batch.owner)
    assert not renew(database, lease, settings)
