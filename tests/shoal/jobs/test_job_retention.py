"""Finished jobs, and nothing else, are removed after the retention time."""

from __future__ import annotations

import dataclasses
import time

import pytest
from job_parts import assert_consistent, draft, handlers, must_claim, rows, run_job, upload, value

from shoal.errors import NotFoundError
from shoal.jobs.queue import metrics, transitions
from shoal.jobs.queue.queries import count_jobs, get_job
from shoal.jobs.queue.recovery import reconcile
from shoal.jobs.queue.submission import Upload
from shoal.jobs.queue.transitions import drop_expired_jobs
from shoal.jobs.stages.runner import process
from shoal.models.jobs import JobStatus
from shoal.settings import Settings
from shoal.storage.database import Database

DAY = 86_400.0


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return dataclasses.replace(settings, job_retention=7 * DAY)


def later(days: float) -> float:
    return time.time() + days * DAY


def test_expired_job_is_removed_and_its_documents_stay(database: Database, settings: Settings) -> None:
    job_id = upload(database, settings, ["lava", "rain", "lava"])
    run_job(database, settings)
    reconcile(database, settings, now=later(6.9))
    assert get_job(database, job_id).ended
    reconcile(database, settings, now=later(7.1))
    with pytest.raises(NotFoundError):
        get_job(database, job_id)
    assert count_jobs(database) == 0
    for table in ("jobs", "waves", "job_items", "job_item_contents"):
        assert value(database, f"SELECT COUNT(*) FROM {table}") == 0
    assert value(database, "SELECT COUNT(*) FROM documents") == 2
    # Ids are not reused, so a page of an old job never shows another job.
    assert upload(database, settings, ["wind"]) > job_id


def test_unfinished_jobs_are_not_removed(database: Database, settings: Settings) -> None:
    waiting = upload(database, settings, ["lava"])
    running = upload(database, settings, ["rain"])
    batch = must_claim(database, settings)
    receiving = Upload(database, settings).begin()
    reconcile(database, dataclasses.replace(settings, upload_timeout=1e9, lease_seconds=1e9), now=later(0))
    drop_expired_jobs(database, settings, later(1000))
    assert {get_job(database, job_id).ended for job_id in (waiting, running)} == {False}
    assert value(database, "SELECT COUNT(*) FROM jobs") == 3
    receiving.abandon()
    process(batch, database, handlers(database), settings)
    run_job(database, settings)
    assert_consistent(database)
    assert drop_expired_jobs(database, settings, later(1000)) == 2


def test_retention_of_zero_keeps_jobs_forever(database: Database, settings: Settings) -> None:
    for_ever = dataclasses.replace(settings, job_retention=0.0)
    job_id = upload(database, for_ever, ["lava"])
    run_job(database, for_ever)
    reconcile(database, for_ever, now=later(100_000))
    assert get_job(database, job_id).status is JobStatus.succeeded


def test_expired_jobs_are_removed_in_rounds(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transitions, "JOBS_PER_ROUND", 2)
    for i in range(5):
        upload(database, settings, [f"lava {i}"])
    run_job(database, settings)
    job_counts = []
    while count_jobs(database):
        reconcile(database, settings, now=later(8))
        job_counts.append(count_jobs(database))
    assert job_counts == [3, 1, 0]


def test_idempotency_key_of_a_removed_job_is_free(database: Database, settings: Settings) -> None:
    def send(content: str) -> int:
        opened = Upload(database, settings).begin(idempotency_key="key")
        opened.add(draft(content))
        return opened.finish(request_hash=content)

    first = send("lava")
    run_job(database, settings)
    assert send("lava") == first
    assert drop_expired_jobs(database, settings, later(8)) == 1
    assert send("rain") > first


def test_counts_of_removed_jobs_are_kept(database: Database, settings: Settings) -> None:
    upload(database, settings, ["lava", "rain", "lava"])
    upload(database, settings, ["wind!"])
    run_job(database, settings)
    assert drop_expired_jobs(database, settings, later(8)) == 2
    with database.snapshot() as snapshot:
        sums = metrics.read(snapshot)
    assert sums[metrics.REMOVED_JOBS] == {"succeeded": 2}
    assert sums[metrics.REMOVED_ITEMS] == {"succeeded": 3, "duplicate": 1}
    assert sums[metrics.REMOVED_BYTES] == {"": 17}
    assert rows(database, "SELECT DISTINCT status FROM jobs") == [("dropped",)]
    assert drop_expired_jobs(database, settings, later(8)) == 0
