"""One or two real workers, killed or not, build the same library by learning."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from teaching_texts import SENTENCES, about, text_of
from waiting import until
from worker_parts import HERE, Worker, count, upload, wait_for_job

from shoal.engine import Engine
from shoal.jobs.queue.submission import submit_delete, submit_rescore
from shoal.jobs.transport.broker import make_celery, notify_workers
from shoal.maintenance.export import export
from shoal.models.jobs import JobStatus
from shoal.settings import Settings
from shoal.storage.database import Database

StartWorker = Callable[..., Worker]
COMMAND = [str(HERE / "learning_worker_script.py")]

SYLLABLES = ("zor", "quen", "mir", "var", "pel", "drab", "hox", "wim", "lun", "gath")
INVENTED = [a + b + c for a in SYLLABLES for b in SYLLABLES[:4] for c in ("blat", "thog", "dle")]
TOPICS = sorted(SENTENCES)

CONTENTS = [
    *(
        text_of([(TOPICS[(i + j) % 4], j, INVENTED[(7 * i + 3 * j) % 120]) for j in range(12)])
        for i in range(60)
    ),
    # Equal texts, and one without content.
    *(about("fire", "zorquenblat") for _ in range(3)),
    "<!-- only a comment -->",
]


LEARNING = Settings(
    learning=True, wave_bytes=8_000, batch_items=4, reconcile_seconds=0.1, min_occurrences_long=2
)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return dataclasses.replace(LEARNING, database_url=settings.database_url)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The library as built by the engine in this process."""
    path = tmp_path_factory.mktemp("reference") / "shoal.db"
    with Engine(settings=dataclasses.replace(LEARNING, database_url=f"sqlite:///{path}")) as engine:
        engine.ingest_many(
            {"title": f"document {i}", "content": content, "format": "markdown"}
            for i, content in enumerate(CONTENTS)
        )
        exported = list(engine.maintenance.export(canonical=True))
        assert engine.status().n_custom_words > 50
    return exported


# What is learned does not depend on the broker, only on who works when.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("broker_settings", "n_workers"), [("filesystem", 1), ("fakeredis", 2)], indirect=["broker_settings"]
)
def test_workers_build_the_same_library_as_the_engine(
    database: Database,
    broker_settings: Settings,
    start_worker: StartWorker,
    reference: list[str],
    n_workers: int,
) -> None:
    for _ in range(n_workers):
        start_worker(broker_settings, COMMAND).wait_for("worker process ready")
    job_id = upload(database, broker_settings, CONTENTS)
    notify_workers(make_celery(broker_settings))
    job = wait_for_job(database, job_id)
    assert (job.status, job.progress.failed, job.progress.duplicate) == (JobStatus.partial, 1, 2)
    assert count(database, "SELECT COUNT(*) FROM waves") > 3
    assert list(export(database, canonical=True)) == reference
    # A deletion and a rescore leave no stale chunks.
    delete_id = submit_delete(database, broker_settings, list(range(1, 31)))
    wait_for_job(database, delete_id)
    rescored = wait_for_job(database, submit_rescore(database, broker_settings))
    assert (rescored.status, rescored.progress.done) == (JobStatus.succeeded, 31)
    assert count(database, "SELECT COUNT(*) FROM stale_documents") == 0


@pytest.mark.slow
@pytest.mark.chaos
def test_worker_killed_while_learning_leaves_the_same_library(
    database: Database,
    settings: Settings,
    start_worker: StartWorker,
    reference: list[str],
    tmp_path: Path,
) -> None:
    job_id = upload(database, settings, CONTENTS)
    for n in (1, 20, 45):
        sign = tmp_path / f"stopped-{n}"
        worker = start_worker(settings, [*COMMAND, str(sign), str(n)])
        notify_workers(make_celery(settings))
        until(sign.exists)
        assert count(database, "SELECT COUNT(*) FROM learning WHERE learner IS NOT NULL") == 1
        worker.kill_all()
    start_worker(settings, COMMAND)
    job = wait_for_job(database, job_id)
    assert (job.status, job.progress.failed) == (JobStatus.partial, 1)
    assert list(export(database, canonical=True)) == reference
    assert count(database, "SELECT COUNT(*) FROM learning WHERE learner IS NOT NULL") == 0
    unreal = "SELECT COUNT(*) FROM word_evidence WHERE revision > (SELECT revision FROM learning)"
    assert count(database, unreal) == 0
