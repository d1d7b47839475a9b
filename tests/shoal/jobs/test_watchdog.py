"""The watchdog renews leases from outside the working process and kills a process without progress."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import re
import signal
import time

import pytest
from job_parts import draft, handlers, must_claim, rows, run_job, scored, statuses, upload, value
from waiting import until

from shoal.errors import ShoalError
from shoal.jobs import in_process
from shoal.jobs.queue import claims, queries, recovery
from shoal.jobs.queue.claims import Batch, claim, leases
from shoal.jobs.queue.recovery import Watchdog, reconcile, renewing_leases, time_limit
from shoal.jobs.queue.submission import Upload, submit_rescore
from shoal.jobs.queue.transitions import Outcome, cancel, finish_items
from shoal.jobs.stages.runner import process
from shoal.models.documents import DocumentDraft, ScoredDocument
from shoal.models.jobs import ItemStatus, JobStatus, Stage
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.storage.opening import open_database
from shoal.support.byte_units import MIB

SPAWN = multiprocessing.get_context("spawn")
ENDLESS = "endless"
"""Text of a document that blocks the interpreter forever."""


class Clock:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def watch_for(dog: Watchdog, clock: Clock, owners: list[str], seconds: int) -> list[str]:
    """Run rounds of one second each and return the killed owners."""
    killed = []
    for _ in range(seconds):
        clock.now += 1
        killed += dog.watch(owners)
    return killed


def score_or_hold(document: DocumentDraft) -> ScoredDocument:
    if document.content == ENDLESS:
        re.match("(?:a|aa)+$", "a" * 200 + "b")
    return scored(document)


def work(settings: Settings) -> None:
    database = open_database(settings.database_url)
    run_job(database, settings, handlers(database, score_or_hold))


def work_on_local_job(settings: Settings, job_id: int) -> None:
    database = open_database(settings.database_url)
    in_process._run_job(database, job_id, handlers(database, score_or_hold), settings)


def die(_settings: Settings, _job_id: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Owners passed to `kill`, which is mocked because the owner is usually the test process."""
    owners: list[str] = []
    monkeypatch.setattr(claims, "kill", owners.append)
    return owners


def expiry(database: Database) -> float:
    moment = value(database, "SELECT MIN(lease_expires_at) FROM job_items WHERE lease_owner IS NOT NULL")
    assert isinstance(moment, float)
    return moment


def test_blocked_process_keeps_its_lease_until_its_time_limit(database: Database, settings: Settings) -> None:
    settings = dataclasses.replace(settings, lease_seconds=3.0, max_attempts=1)
    job_id = upload(database, settings, [ENDLESS])
    clock = Clock()
    dog = Watchdog(database, settings, clock)
    limit = int(settings.item_time_limit * recovery.MIN_TIME_SHARE)
    child = SPAWN.Process(target=work, args=(settings,))
    child.start()
    try:
        (held,) = until(lambda: leases(database))
        # More than two lease times of real time, but little time on this clock.
        while time.time() < held.expires_at + 1.1 * settings.lease_seconds:
            assert dog.watch([held.owner]) == []
            assert reconcile(database, settings).reclaimed == 0
            time.sleep(0.1)
        assert watch_for(dog, clock, [held.owner], limit) == []
        assert watch_for(dog, clock, [held.owner], 1) == [held.owner]
        child.join()
        assert child.exitcode == -signal.SIGKILL
    finally:
        child.kill()
        child.join()
    assert reconcile(database, settings).failed == 1
    (item,) = queries.get_items(database, job_id)
    assert item.attempts == 1
    assert item.error is not None
    assert "SHOAL_ITEM_TIME_LIMIT" in item.error


def test_every_ended_item_restarts_the_time(
    database: Database, settings: Settings, killed: list[str]
) -> None:
    upload(database, settings, ["a", "b", "c"])
    batch = must_claim(database, settings)
    clock = Clock()
    dog = Watchdog(database, settings, clock)
    limit = int(time_limit(leases(database)[0], settings))
    for item in batch.items[:2]:
        watch_for(dog, clock, [batch.owner], limit)
        with database.write() as transaction:
            finish_items(transaction, [(item, Outcome(ItemStatus.failed, error="x"))], batch.owner)
    watch_for(dog, clock, [batch.owner], limit + 1)
    assert killed == []
    watch_for(dog, clock, [batch.owner], 1)
    assert killed == [batch.owner]


def test_work_on_a_canceled_job_has_a_time_limit(
    database: Database, settings: Settings, killed: list[str]
) -> None:
    job_id = upload(database, settings, ["a"])
    batch = must_claim(database, settings)
    clock = Clock()
    dog = Watchdog(database, settings, clock)
    dog.watch([batch.owner])
    cancel(database, job_id)
    assert leases(database) == []
    watch_for(dog, clock, [batch.owner], int(settings.item_time_limit) + 2)
    assert killed == [batch.owner]


def test_suspended_machine_kills_no_process(
    database: Database, settings: Settings, killed: list[str]
) -> None:
    upload(database, settings, ["a"])
    batch = must_claim(database, settings)
    clock = Clock()
    dog = Watchdog(database, settings, clock)
    dog.watch([batch.owner])
    clock.now += 86_400
    dog.watch([batch.owner])
    assert killed == []


def test_lease_of_a_dead_process_is_not_renewed(database: Database, settings: Settings) -> None:
    upload(database, settings, ["a"])
    batch = must_claim(database, settings, now=time.time() - settings.lease_seconds / 2)
    before = expiry(database)
    # The same pid, but a different start.
    host, pid, start, rest = batch.owner.split(":", 3)
    other = f"{host}:{pid}:{int(start) - 1}:{rest}"
    with database.write() as transaction:
        transaction.execute("UPDATE job_items SET lease_owner = :owner", {"owner": other})
    Watchdog(database, settings).watch([other])
    assert expiry(database) == before
    with database.write() as transaction:
        transaction.execute("UPDATE job_items SET lease_owner = :owner", {"owner": batch.owner})
    Watchdog(database, settings).watch([batch.owner])
    assert expiry(database) > before


def test_only_leases_of_current_work_are_renewed(database: Database, settings: Settings) -> None:
    upload(database, settings, ["a", "b"])
    one_each = dataclasses.replace(settings, batch_items=1)
    long_ago = time.time() - settings.lease_seconds / 2
    kept, working = (must_claim(database, one_each, now=long_ago) for _ in range(2))
    Watchdog(database, settings).watch([working.owner])
    by_owner = {held.owner: held.expires_at for held in leases(database)}
    assert by_owner[working.owner] > by_owner[kept.owner] + settings.lease_seconds / 3


def test_time_limit_grows_with_size_and_learning_has_its_own(database: Database, settings: Settings) -> None:
    upload(database, settings, ["a"])
    must_claim(database, settings)
    (held,) = leases(database)

    def limit(n_bytes: int) -> float:
        return time_limit(dataclasses.replace(held, n_bytes=n_bytes), settings)

    assert limit(32 * MIB) == settings.item_time_limit
    assert limit(64 * MIB) == 2 * settings.item_time_limit
    assert limit(1) == limit(MIB) == settings.item_time_limit / 5
    # A conversion ends by its own limit before.
    patient = dataclasses.replace(settings, conversion_seconds=10 * settings.item_time_limit)
    converting = dataclasses.replace(held, n_bytes=32 * MIB, stage=Stage.convert)
    assert time_limit(converting, settings) == settings.item_time_limit
    assert time_limit(converting, patient) > 20 * settings.item_time_limit
    learning = dataclasses.replace(settings, learning=True)
    submit_rescore(database, learning)
    wave: Batch = must_claim(database, learning)
    assert wave.stage is Stage.relearn
    assert {time_limit(held, learning) for held in leases(database) if held.wave} == {
        learning.task_time_limit
    }


def test_expired_lease_of_a_living_worker_counts_as_an_interruption(
    database: Database, settings: Settings
) -> None:
    settings = dataclasses.replace(settings, max_attempts=1)
    job_id = upload(database, settings, ["a"])
    for n in range(1, 11):
        assert statuses(database, job_id) == ["enqueued"]
        batch = must_claim(database, settings)
        reconcile(database, settings, now=time.time() + settings.lease_seconds + 1)
        assert rows(database, "SELECT attempts, interruptions FROM job_items") == [(0, n)]
        # The result of the old owner is not stored.
        process(batch, database, handlers(database), settings)
        assert value(database, "SELECT COUNT(*) FROM documents") == 0
    assert statuses(database, job_id) == ["failed"]


def test_process_with_a_local_job_renews_its_leases(database: Database, settings: Settings) -> None:
    settings = dataclasses.replace(settings, lease_seconds=1.0)
    opened = in_process.open_upload(database, settings).begin()
    opened.add(draft("a"))
    job_id = opened.finish()
    batch = claim(database, claims.new_owner(), settings, job_id=job_id)
    assert batch is not None
    before = expiry(database)
    with renewing_leases(database, settings, job_id):
        until(lambda: expiry(database) > before + settings.lease_seconds)
    assert reconcile(database, settings, now=before + settings.lease_seconds / 2).reclaimed == 0


def local_job(database: Database, settings: Settings, contents: list[str]) -> int:
    opened: Upload = in_process.open_upload(database, settings).begin()
    for content in contents:
        opened.add(draft(content))
    return opened.finish()


def test_document_that_blocks_an_ingest_process_fails_and_the_rest_is_stored(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_process, "_work_child", work_on_local_job)
    settings = dataclasses.replace(settings, item_time_limit=10.0, max_attempts=1, batch_items=2)
    job_id = local_job(database, settings, ["a", "b", ENDLESS, "c", "d"])
    in_process.run_job_in_processes(database, job_id, settings, 2)
    assert statuses(database, job_id) == ["succeeded", "succeeded", "failed", "succeeded", "succeeded"]
    assert queries.get_job(database, job_id).status is JobStatus.partial
    assert queries.get_items(database, job_id)[2].attempts == 1


def test_processes_that_die_without_work_are_not_restarted_forever(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_process, "_work_child", die)
    job_id = local_job(database, settings, ["a"])
    with pytest.raises(ShoalError, match="have died"):
        in_process.run_job_in_processes(database, job_id, settings, 2)
