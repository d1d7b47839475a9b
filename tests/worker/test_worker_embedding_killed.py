"""Workers are killed while they embed by a real endpoint, which counts what it is sent."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable

from embedded_library import with_vector
from embedding_server import Answer, embedding_server
from waiting import until
from worker_parts import Worker, count, upload, wait_for_job

from shoal.jobs.transport.broker import make_celery, notify_workers
from shoal.models.jobs import JobStatus
from shoal.settings import Settings
from shoal.storage import vectors
from shoal.storage.database import Database

N_DOCUMENTS = 40
BATCH = 4
KILLED_AFTER = (1, 3)
"""Requests that the endpoint receives from a worker before the worker is killed."""
ANSWER_SECONDS = 0.1
OPEN_EMBED_JOBS = "SELECT COUNT(*) FROM jobs WHERE kind = 'embed' AND finished_at IS NULL"
DONE_ITEMS = """
    SELECT i.document_id FROM job_items i JOIN jobs j ON j.id = i.job_id
    WHERE j.kind = 'embed' AND i.status = 'succeeded'
"""
EMBEDDED_TEXTS = """
    SELECT d.title, c.text FROM chunk_vectors v JOIN chunks c ON c.id = v.chunk_id
    JOIN documents d ON d.id = c.document_id
"""


def stored_texts(database: Database) -> set[str]:
    """The texts that have a vector. Fails if a document is called complete and has a chunk without one."""
    with database.snapshot() as snapshot:
        for (document_id,) in list(snapshot.tuples(DONE_ITEMS)):
            assert vectors.is_complete(snapshot, document_id)
        return {vectors.embedded_text(*row) for row in snapshot.tuples(EMBEDDED_TEXTS)}


def test_killed_workers_embed_no_stored_text_again(
    database: Database, settings: Settings, start_worker: Callable[..., Worker]
) -> None:
    with embedding_server(Answer(wait=ANSWER_SECONDS)) as server:
        settings = dataclasses.replace(
            settings,
            reconcile_seconds=0.2,
            embed=True,
            encoder=server.url,
            encoder_model="m",
            encoder_batch=BATCH,
        )
        texts = [f"Rain falls on coast {'I' * number}." for number in range(N_DOCUMENTS)]
        job_id = upload(database, settings, texts)
        n_kills = 0
        for n_requests in (*KILLED_AFTER, None):
            worker = start_worker(settings)
            notify_workers(make_celery(settings))
            if n_requests is None:
                break
            wait_for_job(database, job_id)
            n_before = len(server.requests)
            until(lambda before=n_before, n=n_requests: len(server.requests) >= before + n + 1)
            worker.kill_all()
            n_kills += 1
            stored = stored_texts(database)
            assert len(stored) < N_DOCUMENTS, "the worker was killed too late"
            sent = collections.Counter(text for request in server.texts for text in request)
            assert sum(sent.values()) - len(stored) <= (n_kills + 1) * BATCH + 1
        until(lambda: len(with_vector(database)) == N_DOCUMENTS and not count(database, OPEN_EMBED_JOBS))
        assert worker.stop() == 0
        assert len(stored_texts(database)) == N_DOCUMENTS
        sent = collections.Counter(text for request in server.texts for text in request)
    assert wait_for_job(database, job_id).status is JobStatus.succeeded
    passages = {text: n for text, n in sent.items() if "coast" in text}
    assert len(passages) == N_DOCUMENTS
    # A batch that was being embedded is lost with its worker; what was stored is never sent again.
    assert sum(passages.values()) - N_DOCUMENTS <= n_kills * BATCH
    assert max(passages.values()) <= 1 + n_kills
