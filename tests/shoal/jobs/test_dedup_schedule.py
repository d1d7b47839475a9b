"""Notes of all owners are compared every few hours, by one job at a time."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from empty_library import put_empty_library
from fake_scorer import FakeScorer
from job_parts import run_job

from shoal import Engine
from shoal.jobs.queue import dedup_items
from shoal.jobs.queue.dedup_items import submit_due_dedup
from shoal.jobs.stages.runner import handlers_for
from shoal.models.jobs import JobKind
from shoal.settings import Settings

LAVA = "Lava of a volcano cools to basalt."
SAME = "The lava of volcanoes cools and becomes basalt."
NOW = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def daily(settings: Settings) -> Settings:
    return dataclasses.replace(settings, note_dedup_hours=24)


@pytest.fixture
def engine(daily: Settings, migrated_file: Path) -> Iterator[Engine]:
    put_empty_library(migrated_file, daily)
    with Engine(settings=daily, scorer=FakeScorer()) as engine:
        yield engine


def add(engine: Engine, *owners: str) -> None:
    for owner in owners:
        engine.notes.of(owner).add(LAVA)
        engine.notes.of(owner).add(SAME)


def run(engine: Engine) -> None:
    settings = engine.settings
    run_job(engine.database, settings, handlers_for(engine.database, FakeScorer(), settings))


def test_job_compares_the_notes_of_all_owners(engine: Engine, daily: Settings) -> None:
    add(engine, "ann", "bob")
    engine.notes.of("cleo").add(LAVA)
    engine.notes.of("cleo").dedup()
    job_id = submit_due_dedup(engine.database, daily, NOW)
    assert job_id is not None
    job = engine.jobs.get(job_id)
    assert (job.kind, job.progress.total) == (JobKind.dedup, 2)
    run(engine)
    assert [engine.notes.of(owner).proposals().total for owner in ("ann", "bob")] == [1, 1]


def test_next_job_comes_after_the_interval_and_not_while_one_is_open(engine: Engine, daily: Settings) -> None:
    add(engine, "ann")
    first = submit_due_dedup(engine.database, daily, NOW)
    assert first is not None
    assert submit_due_dedup(engine.database, daily, NOW + 30 * HOUR) is None
    run(engine)
    add(engine, "bob")
    assert submit_due_dedup(engine.database, daily, NOW + 23 * HOUR) is None
    with Engine(settings=daily, scorer=FakeScorer()) as restarted:
        assert submit_due_dedup(restarted.database, daily, NOW + 23 * HOUR) is None
        assert submit_due_dedup(restarted.database, daily, NOW + 24 * HOUR) is not None


def test_nothing_is_submitted_without_the_setting_or_waiting_notes(
    engine: Engine, settings: Settings, daily: Settings
) -> None:
    assert submit_due_dedup(engine.database, daily, NOW) is None
    add(engine, "ann")
    assert submit_due_dedup(engine.database, settings, NOW + 48 * HOUR) is None
    assert submit_due_dedup(engine.database, daily, NOW + HOUR) is None
    assert engine.jobs.count() == 0


def test_many_workers_submit_one_job(engine: Engine, daily: Settings) -> None:
    add(engine, "ann", "bob")
    barrier, found = threading.Barrier(6), list[int | None]()

    def ask() -> None:
        barrier.wait()
        found.append(submit_due_dedup(engine.database, daily, NOW))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([job_id for job_id in found if job_id is not None]) == 1
    assert engine.jobs.count() == 1


def test_many_owners_have_their_turn_in_several_jobs(
    engine: Engine, daily: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dedup_items, "MAX_OWNERS", 2)
    add(engine, "ann", "bob", "cleo")
    first = submit_due_dedup(engine.database, daily, NOW)
    assert first is not None
    assert submit_due_dedup(engine.database, daily, NOW) is None
    run(engine)
    second = submit_due_dedup(engine.database, daily, NOW + HOUR)
    assert second is not None
    assert [item.title for item in engine.jobs.items(second)] == ["notes of cleo"]
    run(engine)
    assert submit_due_dedup(engine.database, daily, NOW + 2 * HOUR) is None
