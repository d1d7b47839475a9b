"""Counters of a worker reach the database, and its log names the requests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from waiting import until
from worker_parts import Worker, upload, wait_for_job

from shoal.jobs.queue import metrics
from shoal.jobs.queue.claims import claim
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.support.request_context import TRACE_ID

TEXTS = ["A volcano throws out magma and lava.", "The rain of a monsoon falls.", "A judge hears a witness."]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return dataclasses.replace(settings, reconcile_seconds=0.2, batch_items=1, log_format="json")


def counter_values(database: Database, name: str) -> dict[str, float]:
    with database.snapshot() as snapshot:
        return dict(metrics.read(snapshot).get(name, {}))


def test_counts_of_a_cleanly_stopped_worker_are_complete(
    database: Database, settings: Settings, start_worker: Callable[..., Worker]
) -> None:
    job_id = upload(database, settings, TEXTS)
    worker = start_worker(settings)
    wait_for_job(database, job_id)
    assert worker.stop() == 0
    assert counter_values(database, metrics.STAGE_ITEMS) == {"score": 3}
    assert counter_values(database, metrics.STAGE_BYTES) == {"score": sum(map(len, TEXTS))}
    assert sum(counter_values(database, metrics.STAGE_BATCHES).values()) == 3
    assert counter_values(database, metrics.STAGE_SECONDS)["score"] > 0


def test_reclaimed_lease_is_counted(
    database: Database, settings: Settings, start_worker: Callable[..., Worker]
) -> None:
    job_id = upload(database, settings, TEXTS)
    # The lease of a worker on another machine has expired.
    assert claim(database, "elsewhere:1:0-dead", settings, now=1.0) is not None
    worker = start_worker(settings)
    wait_for_job(database, job_id)
    assert worker.stop() == 0
    assert counter_values(database, metrics.LEASES_LOST) == {"": 1}


def test_log_lines_of_a_batch_name_its_jobs_and_trace_ids(
    database: Database, settings: Settings, start_worker: Callable[..., Worker]
) -> None:
    token = TRACE_ID.set("a-request")
    try:
        request_job = upload(database, settings, TEXTS[:1])
    finally:
        TRACE_ID.reset(token)
    command_job = upload(database, settings, TEXTS[1:2])
    worker = start_worker(settings)
    for job_id in (request_job, command_job):
        wait_for_job(database, job_id)
    until(lambda: len(worker.events("batch processed")) == 2)
    lines = {tuple(line["jobs"]): line for line in worker.events("batch processed")}
    assert lines[request_job,]["trace_ids"] == ["a-request"]
    assert lines[command_job,]["trace_ids"] == []
    assert lines[request_job,]["ended_jobs"] == [request_job]
    assert all(line["service"] == "worker" for line in lines.values())
