"""Canceling ends the open items of a job at once and keeps the ended ones."""

from __future__ import annotations

import dataclasses

import pytest
from job_parts import (
    assert_consistent,
    claim_now,
    handlers,
    must_claim,
    rows,
    run_job,
    statuses,
    upload,
    value,
)

from shoal.errors import NotFoundError
from shoal.jobs.queue import queries
from shoal.jobs.queue import transitions as canceling
from shoal.jobs.queue.transitions import Outcome, cancel, finish_items
from shoal.jobs.stages.runner import process
from shoal.models.jobs import ItemStatus, JobStatus
from shoal.settings import Settings
from shoal.storage.database import Database


def test_cancel_ends_all_items_of_a_waiting_job(database: Database, settings: Settings) -> None:
    settings = dataclasses.replace(settings, wave_bytes=2)
    job_id = upload(database, settings, ["a", "b", "c", "d", "e"])
    job = cancel(database, job_id)
    assert (job.status, job.progress.done, job.progress.bytes_done) == (JobStatus.canceled, 5, 5)
    assert claim_now(database, settings) is None
    # The texts stay for a retry.
    assert value(database, "SELECT COUNT(*) FROM job_item_contents") == 5
    item = queries.get_items(database, job_id)[0]
    assert (item.error, item.error_code) == ("the job was canceled", "canceled")
    assert_consistent(database)


def test_cancel_keeps_stored_documents_and_discards_claimed_items(
    database: Database, settings: Settings
) -> None:
    settings = dataclasses.replace(settings, batch_items=1)
    job_id = upload(database, settings, ["a", "b", "c"])
    process(must_claim(database, settings), database, handlers(database), settings)
    simulate_deaths = must_claim(database, settings)
    assert cancel(database, job_id).status is JobStatus.canceled
    process(simulate_deaths, database, handlers(database), settings)
    assert statuses(database, job_id) == ["succeeded", "canceled", "canceled"]
    assert rows(database, "SELECT content FROM document_texts") == [("a",)]
    assert_consistent(database)


def test_cancel_includes_discovered_items_that_wait_for_their_wave(
    database: Database, settings: Settings
) -> None:
    settings = dataclasses.replace(settings, learning=True, batch_items=1)
    job_id = upload(database, settings, ["a", "b", "c"])
    first = must_claim(database, settings)
    with database.write() as transaction:
        finish_items(transaction, [(first.items[0], Outcome(ItemStatus.discovered))], first.owner)
    assert statuses(database, job_id) == ["discovered", "enqueued", "enqueued"]
    assert cancel(database, job_id).status is JobStatus.canceled
    assert_consistent(database)


def test_cancel_splits_a_large_job_into_transactions(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canceling, "ITEMS", 2)
    settings = dataclasses.replace(settings, learning=True, wave_bytes=3)
    job_id = upload(database, settings, [*"abcdefghi"])
    assert cancel(database, job_id).progress.done == 9
    assert_consistent(database)


def test_duplicate_of_a_canceled_item_is_stored(database: Database, settings: Settings) -> None:
    first = upload(database, settings, ["same"])
    second = upload(database, settings, ["same"])
    cancel(database, first)
    run_job(database, settings)
    assert statuses(database, second) == ["succeeded"]


def test_cancel_leaves_an_ended_job_unchanged(database: Database, settings: Settings) -> None:
    job_id = upload(database, settings, ["a"])
    run_job(database, settings)
    before = queries.get_job(database, job_id)
    assert cancel(database, job_id) == before
    with pytest.raises(NotFoundError):
        cancel(database, 99)
