"""The reconciler recovers leases of dead workers, poison documents and lost messages."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from job_parts import (
    POISON,
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
from waiting import until

from shoal.errors import BrokerUnavailableError
from shoal.jobs.queue import claims, queries
from shoal.jobs.queue.recovery import reconcile
from shoal.jobs.queue.submission import submit_document
from shoal.jobs.stages.runner import process
from shoal.models.documents import DocumentDraft, ScoredDocument
from shoal.models.jobs import JobStatus
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.storage.opening import open_database

SPAWN = multiprocessing.get_context("spawn")


def _score_or_die(document: DocumentDraft) -> ScoredDocument:
    if POISON in document.content:
        os.kill(os.getpid(), signal.SIGKILL)
    return scored(document)


def _claim_and_die(settings: Settings, times: int = 1) -> None:
    database = open_database(settings.database_url)
    for _ in range(times):
        assert claim_now(database, settings) is not None
    os.kill(os.getpid(), signal.SIGKILL)


def _work_or_die(settings: Settings) -> None:
    database = open_database(settings.database_url)
    run_job(database, settings, handlers(database, _score_or_die))


def in_a_process(target: object, *arguments: object) -> int:
    """Run a function in a real process until it ends or dies; return the exit code."""
    process_ = SPAWN.Process(target=target, args=arguments)  # type: ignore[arg-type]
    process_.start()
    process_.join()
    assert process_.exitcode is not None
    return process_.exitcode


def test_items_of_a_dead_worker_are_reclaimed_and_run_alone(database: Database, settings: Settings) -> None:
    job_id = upload(database, settings, ["a", "b", "c"])
    assert in_a_process(_claim_and_die, settings) == -signal.SIGKILL
    assert statuses(database, job_id) == ["scoring"] * 3
    assert claim_now(database, settings) is None
    assert reconcile(database, settings).reclaimed == 3
    assert rows(database, "SELECT status, attempts, alone FROM job_items") == [("enqueued", 0, 1)] * 3
    assert_consistent(database)
    batches = [must_claim(database, settings) for _ in range(3)]
    assert [len(batch.items) for batch in batches] == [1, 1, 1]
    for batch in batches:
        process(batch, database, handlers(database), settings)
    assert queries.get_job(database, job_id).status is JobStatus.succeeded


def test_poison_document_fails_after_max_attempts_and_others_succeed(
    database: Database, settings: Settings
) -> None:
    job_id = upload(database, settings, ["a", POISON, "b"])
    deaths = 0
    while not queries.get_job(database, job_id).ended:
        assert in_a_process(_work_or_die, settings) == -signal.SIGKILL
        deaths += 1
        reconcile(database, settings)
        assert_consistent(database)
        # The last process may survive, because the poison document has failed by then.
        if deaths == 4:
            run_job(database, settings, handlers(database, _score_or_die))
    # Once with other documents, three times alone.
    assert deaths == 4
    assert statuses(database, job_id) == ["succeeded", "failed", "succeeded"]
    item = queries.get_items(database, job_id)[1]
    assert item.attempts == 3
    assert item.error is not None
    assert item.error_code == "attempts_exhausted"
    assert item.error.startswith("the worker died too often while it processed this document: ")
    assert value(database, "SELECT COUNT(*) FROM documents") == 2


def test_duplicate_of_a_failed_poison_document_is_processed(database: Database, settings: Settings) -> None:
    settings = dataclasses.replace(settings, max_attempts=1)
    job_id = upload(database, settings, [POISON, POISON])
    assert in_a_process(_work_or_die, settings) == -signal.SIGKILL
    assert reconcile(database, settings).failed == 1
    assert statuses(database, job_id) == ["failed", "enqueued"]
    assert claim_now(database, settings) is not None


def test_lease_of_a_living_owner_is_not_reclaimed_before_it_expires(
    database: Database, settings: Settings
) -> None:
    upload(database, settings, ["a"])
    must_claim(database, settings)
    assert reconcile(database, settings).reclaimed == 0
    assert reconcile(database, settings, now=time.time() + settings.lease_seconds - 5).reclaimed == 0


def _end_with_the_parent(settings: Settings) -> None:
    """Claim in a child process, then die together with it."""
    child = SPAWN.Process(target=_claim_and_die, args=(settings,))
    child.start()
    child.join()
    os.kill(os.getpid(), signal.SIGKILL)


def test_end_of_the_whole_worker_does_not_fail_a_document(database: Database, settings: Settings) -> None:
    settings = dataclasses.replace(settings, max_attempts=1)
    job_id = upload(database, settings, ["a"])
    for n in (1, 2):
        assert in_a_process(_end_with_the_parent, settings) == -signal.SIGKILL
        assert reconcile(database, settings).reclaimed == 1
        assert rows(database, "SELECT status, attempts, interruptions FROM job_items") == [("enqueued", 0, n)]
    run_job(database, settings)
    assert statuses(database, job_id) == ["succeeded"]


def test_document_that_repeatedly_kills_its_machine_fails(database: Database, settings: Settings) -> None:
    settings = dataclasses.replace(settings, max_attempts=1)
    job_id = upload(database, settings, ["a"])
    for interruption in range(1, 11):
        must_claim(database, settings)
        with database.write() as transaction:
            transaction.execute("UPDATE job_items SET lease_owner = 'elsewhere/pid:[1]:1:0:1:0-x'")
        # The owner is on another machine, so only its silence shows.
        reconcile(database, settings)
        assert value(database, "SELECT interruptions FROM job_items") == interruption - 1
        assert statuses(database, job_id) == ["scoring"]
        reconcile(database, settings, now=time.time() + settings.lease_seconds + 1)
        assert value(database, "SELECT interruptions FROM job_items") == interruption
    assert statuses(database, job_id) == ["failed"]
    assert value(database, "SELECT attempts FROM job_items") == 0


def test_owner_is_dead_if_its_process_is_gone_unreaped_or_replaced(settings: Settings) -> None:
    mine = claims.new_owner()
    assert claims.is_local(mine)
    assert not claims.is_dead(mine)
    assert claims.has_parent(mine)
    host, pid, start, parent, rest = mine.rsplit(":", 4)
    parent_start, _, token = rest.partition("-")
    # The same pid, but a different start.
    assert claims.is_dead(f"{host}:{pid}:{int(start) - 1}:{parent}:{rest}")
    assert not claims.has_parent(f"{host}:{pid}:{start}:{parent}:{int(parent_start) - 1}-{token}")
    elsewhere = f"elsewhere:{pid}:{int(start) - 1}:{parent}:{rest}"
    assert not claims.is_dead(elsewhere)
    assert not claims.is_local(elsewhere)
    assert not claims.has_parent(elsewhere)
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert claims.is_dead(f"{host}:{child.pid}:0:1:0-x"), "ended, but not yet reaped by its parent"
    child.wait()
    assert claims.is_dead(f"{host}:{child.pid}:0:1:0-x")
    assert not claims.is_dead("not an owner")


def test_claims_of_one_process_have_distinct_owners(database: Database, settings: Settings) -> None:
    assert claims.new_owner() != claims.new_owner()


def test_one_of_many_reconcilers_resends_a_lost_message(database: Database, settings: Settings) -> None:
    upload(database, settings, ["a"])
    sent: list[float] = []
    now = time.time()
    threads = [
        threading.Thread(target=reconcile, args=(database, settings, lambda: sent.append(1), now))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sent) == 1
    reconcile(database, settings, lambda: sent.append(2), now + settings.reconcile_seconds)
    assert len(sent) == 2
    must_claim(database, settings)
    reconcile(database, settings, lambda: sent.append(3), now + 3 * settings.reconcile_seconds)
    assert len(sent) == 2, "no work waits, so no message is sent"


def test_unavailable_broker_is_retried(database: Database, settings: Settings) -> None:
    upload(database, settings, ["a"])
    now = time.time()

    def away() -> None:
        raise BrokerUnavailableError("the broker is unreachable")

    assert not reconcile(database, settings, away, now).notified
    sent: list[int] = []
    assert reconcile(database, settings, lambda: sent.append(1), now + settings.reconcile_seconds).notified
    assert sent == [1]


def test_concurrent_reconcilers_count_everything_once(database: Database, settings: Settings) -> None:
    settings = dataclasses.replace(settings, max_attempts=1, batch_items=1)
    job_id = upload(database, settings, [str(i) for i in range(12)])
    assert in_a_process(_claim_and_die, settings, 4) == -signal.SIGKILL
    failed_counts: list[int] = []
    threads = [
        threading.Thread(target=lambda: failed_counts.append(reconcile(database, settings).failed))
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(failed_counts) == 4
    assert_consistent(database)
    run_job(database, settings)
    job = queries.get_job(database, job_id)
    assert (job.status, job.progress.failed, job.progress.done) == (JobStatus.partial, 4, 12)


@pytest.mark.chaos
def test_killed_workers_lose_and_duplicate_nothing(
    database: Database, settings: Settings, tmp_path: Path
) -> None:
    settings = dataclasses.replace(settings, batch_items=7, wave_bytes=200)
    contents = [f"text {i % 50}" for i in range(120)]
    job_id = upload(database, settings, contents)
    for n in (3, 12, 20):
        sign = tmp_path / f"at-{n}"
        worker = SPAWN.Process(target=_work_and_stop, args=(settings, n, sign))
        worker.start()
        until(sign.exists)
        worker.kill()
        worker.join()
        assert not queries.get_job(database, job_id).ended
        reconcile(database, settings)
        assert_consistent(database)
    run_job(database, settings)
    assert sorted(set(statuses(database, job_id))) == ["duplicate", "succeeded"]
    assert statuses(database, job_id).count("succeeded") == 50
    assert value(database, "SELECT COUNT(*) FROM documents") == 50
    assert value(database, "SELECT COUNT(*) FROM chunks") == 50


def _work_and_stop(settings: Settings, n: int, sign: Path) -> None:
    """Process `n` documents, then block in the next one and signal it."""
    left = n

    def score(document: DocumentDraft) -> ScoredDocument:
        nonlocal left
        if left == 0:
            sign.touch()
            signal.pause()
        left -= 1
        return scored(document)

    database = open_database(settings.database_url)
    run_job(database, settings, handlers(database, score))


@sqlite_only
def test_idle_reconciler_shrinks_the_file(database: Database, settings: Settings) -> None:
    submit_document(database, settings, draft("word " * 4_000_000))
    batch = must_claim(database, settings)
    size = value(database, "SELECT page_count FROM pragma_page_count")
    with database.write() as transaction:
        from shoal.jobs.queue.transitions import Outcome, finish_items
        from shoal.models.jobs import ItemStatus

        finish_items(transaction, [(batch.items[0], Outcome(ItemStatus.duplicate))], batch.owner)
    for _ in range(5):
        reconcile(database, settings)
    assert int(str(value(database, "SELECT page_count FROM pragma_page_count"))) < int(str(size)) / 2
