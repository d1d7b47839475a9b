"""Several processes upload and process the same texts concurrently."""

from __future__ import annotations

import contextlib
import multiprocessing
import queue
import random
from typing import Any

from fake_scorer import FakeScorer
from job_parts import assert_consistent, rows, value

from shoal.formats.drafts import make_draft
from shoal.jobs.queue import claims
from shoal.jobs.queue.claims import claim
from shoal.jobs.queue.queries import get_items, list_jobs
from shoal.jobs.queue.states import FINAL
from shoal.jobs.queue.submission import Upload, submit_document
from shoal.jobs.stages.runner import handlers_for, process
from shoal.models.jobs import ItemStatus, JobStatus
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.storage.opening import open_database

N_PROCESSES = 2
TIMEOUT_SECONDS = 120
TEXTS = [f"Document {n}. The volcano and the lava. Magma rises to the crater number {n}." for n in range(24)]


def upload_and_work(url: str, number: int, barrier: Any, results: Any) -> None:
    """Submit half of the texts one by one, then all shuffled in one upload, and process all jobs."""
    settings = Settings(database_url=url, learning=False, batch_items=3)
    database = open_database(url)
    drafts = [make_draft(content=text, tags=[f"p{number}"], settings=settings) for text in TEXTS]
    handlers = handlers_for(database, FakeScorer(), settings)
    barrier.wait(TIMEOUT_SECONDS)
    try:
        for draft in drafts[: len(drafts) // 2]:
            submit_document(database, settings, draft)
        random.Random(number).shuffle(drafts)
        upload = Upload(database, settings).begin()
        for draft in drafts:
            upload.add(draft)
        upload.finish()
        job_id = submit_document(database, settings, drafts[0], idempotency_key="key", request_hash="hash")
        while True:
            batch = claim(database, claims.new_owner(), settings)
            if batch is not None:
                process(batch, database, handlers, settings)
            elif all(job.ended for job in list_jobs(database, limit=1000)):
                break
        results.put(job_id)
    except BaseException as error:
        results.put(repr(error))
    finally:
        database.close()


def test_concurrent_uploads_store_each_text_once(database: Database, settings: Settings) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(N_PROCESSES), context.Queue()
    processes = [
        context.Process(
            target=upload_and_work, args=(settings.database_url, n, barrier, results), daemon=True
        )
        for n in range(N_PROCESSES)
    ]
    for worker_process in processes:
        worker_process.start()
    try:
        with contextlib.suppress(queue.Empty):
            job_ids = [results.get(timeout=TIMEOUT_SECONDS) for _ in processes]
        for worker_process in processes:
            worker_process.join(TIMEOUT_SECONDS)
    finally:
        for worker_process in processes:
            worker_process.kill()
    assert len(set(job_ids)) == 1, job_ids
    assert isinstance(job_ids[0], int), job_ids

    assert sorted(str(text) for (text,) in rows(database, "SELECT content FROM document_texts")) == sorted(
        TEXTS
    )
    jobs = list_jobs(database, limit=1000)
    assert len(jobs) == N_PROCESSES * (len(TEXTS) // 2 + 1) + 1
    assert {job.status for job in jobs} == {JobStatus.succeeded}
    items = [item for job in jobs for item in get_items(database, job.id, limit=1000)]
    assert {item.status for item in items} <= FINAL
    assert sum(item.status is ItemStatus.succeeded for item in items) == len(TEXTS)
    assert sum(item.status is ItemStatus.duplicate for item in items) == len(items) - len(TEXTS)
    # Every process added its tag, and duplicates refer to the document with their text.
    tagged = "SELECT COUNT(*) FROM document_tags GROUP BY document_id"
    assert rows(database, tagged) == [(N_PROCESSES,)] * len(TEXTS)
    wrong_documents = """SELECT COUNT(*) FROM job_items i JOIN documents d ON d.id = i.document_id
                   WHERE d.content_hash <> i.content_hash"""
    assert value(database, wrong_documents) == 0
    assert_consistent(database)
