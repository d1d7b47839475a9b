"""A worker embeds documents after their job, if it has an encoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from embedded_library import library_of, nearest, with_vector
from fake_encoder import FakeEncoder
from waiting import until
from worker_parts import HERE, Worker, count, upload, wait_for_job

from shoal.jobs.transport.broker import make_celery, notify_workers
from shoal.models.jobs import JobStatus
from shoal.settings import Settings
from shoal.storage.database import Database

StartWorker = Callable[..., Worker]
EMBED_JOBS = "SELECT COUNT(*) FROM jobs WHERE kind = 'embed'"
OPEN_EMBED_JOBS = f"{EMBED_JOBS} AND finished_at IS NULL"


def test_documents_are_embedded_after_their_job(
    database: Database, settings: Settings, start_worker: StartWorker
) -> None:
    settings = dataclasses.replace(settings, reconcile_seconds=0.1, workers=2, embed=True)
    worker = start_worker(settings, [str(HERE / "worker_script.py"), "embedding"])
    worker.wait_for("worker process ready")
    job_id = upload(database, settings, [f"Rain falls on coast {number}." for number in range(30)])
    notify_workers(make_celery(settings))
    assert wait_for_job(database, job_id).status is JobStatus.succeeded
    until(lambda: len(with_vector(database)) == 30 and not count(database, OPEN_EMBED_JOBS))
    until(lambda: len(nearest(library_of(database), FakeEncoder(), "rain")) == 30)
    assert worker.stop() == 0
    assert [event for event in worker.events() if event["level"] in ("error", "critical")] == []


def test_without_an_encoder_no_job_is_opened(
    database: Database, settings: Settings, start_worker: StartWorker
) -> None:
    settings = dataclasses.replace(settings, reconcile_seconds=0.1, embed=True)
    worker = start_worker(settings, [str(HERE / "worker_script.py")])
    worker.wait_for("SHOAL_EMBED=1 has no effect: SHOAL_ENCODER names no encoder")
    job_id = upload(database, settings, ["Rain falls."])
    notify_workers(make_celery(settings))
    assert wait_for_job(database, job_id).status is JobStatus.succeeded
    assert worker.stop() == 0
    assert count(database, EMBED_JOBS) == 0
