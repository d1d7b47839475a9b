"""Workers don't change the answer: however many, in whatever order, whoever dies, a library comes out the same."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from learning_parts import (
    Crew,
    KilledError,
    assert_evidence,
    assert_settled,
    canonical,
    handlers,
    killed_at,
    learned,
    learning_settings,
    run_job,
    upload,
)
from teaching_texts import SENTENCES, WORDS, text_of

from shoal.jobs.queue import lease
from shoal.jobs.queue.claims import claim, release
from shoal.jobs.queue.queries import get_job
from shoal.jobs.queue.recovery import reconcile
from shoal.jobs.queue.submission import submit_delete, submit_rescore
from shoal.jobs.stages.runner import process
from shoal.settings import Settings
from shoal.storage import document_writer
from shoal.storage.database import Database

MANY = hypothesis_settings(
    max_examples=150 if os.environ.get("SHOAL_TEST_LONG") else 6,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

pieces = st.tuples(st.sampled_from(sorted(SENTENCES)), st.integers(0, 1), st.sampled_from(WORDS))
texts = st.lists(pieces, min_size=1, max_size=5).map(text_of)
pools = st.lists(texts, min_size=3, max_size=8, unique=True)
# Which texts of the pool a job brings, equal ones included; or which one is deleted.
histories = st.lists(
    st.lists(st.integers(0, 7), min_size=1, max_size=7) | st.integers(0, 7), min_size=1, max_size=4
)


@contextlib.contextmanager
def a_library(template: Path, settings: Settings) -> Iterator[tuple[Database, Settings]]:
    """An empty library, in memory where there is such a place: this is not about the disk."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        path = shutil.copyfile(template, Path(folder, "shoal.db"))
        own = dataclasses.replace(settings, database_url=f"sqlite:///{path}")
        database = Database(own.database_url)
        yield database, own
        database.close()


def begin(database: Database, settings: Settings, pool: list[str], step: list[int] | int) -> None:
    """Submit the job of a step of a history."""
    if isinstance(step, list):
        upload(database, settings, [pool[i % len(pool)] for i in step])
        return
    wanted = pool[step % len(pool)]
    with database.snapshot() as snapshot:
        found = snapshot.value("SELECT id FROM documents WHERE content = :content", {"content": wanted})
    if found is not None:
        submit_delete(database, settings, [found])


def run(database: Database, settings: Settings, pool: list[str], history: list[list[int] | int]) -> None:
    """A history, one job after the other, by one worker."""
    for step in history:
        begin(database, settings, pool, step)
        run_job(database, settings)


def run_with_a_crew(
    database: Database,
    settings: Settings,
    pool: list[str],
    history: list[list[int] | int],
    chance: random.Random,
) -> None:
    """The same by up to three workers at a time that finish in any order, lose their leases and die."""
    with Crew(database, settings).at_work() as crew:
        for step in history:
            begin(database, settings, pool, step)
            held = []
            while True:
                own = dataclasses.replace(settings, batch_items=chance.randint(1, 4))
                batch = claim(database, lease.new_owner(), own) if len(held) < 3 else None
                if batch is not None:
                    held.append(batch)
                    if chance.random() < 0.6:
                        continue
                if not held:
                    break
                batch = held.pop(chance.randrange(len(held)))
                what = chance.random()
                if what < 0.1:
                    crew.bury(batch.owner)
                elif what < 0.15:
                    release(database, batch)
                elif what < 0.45:
                    with killed_at(database, chance.randrange(80)) as died, contextlib.suppress(KilledError):
                        process(batch, database, handlers(database, own), own)
                    if died():
                        crew.bury(batch.owner)
                else:
                    if what < 0.5:
                        # It has slept too long: others have its work now.
                        reconcile(database, own, now=time.time() + own.lease_seconds + 1)
                    process(batch, database, handlers(database, own), own)


def rescore(database: Database, settings: Settings) -> None:
    job_id = submit_rescore(database, settings)
    run_job(database, settings)
    assert get_job(database, job_id).progress.failed == 0


@pytest.mark.slow
@MANY
@given(
    pool=pools, history=histories, seed=st.integers(0, 2**32), retention=st.sampled_from(["keep", "prune"])
)
def test_any_number_and_order_of_workers_builds_the_same_library(
    tmp_path_factory: pytest.TempPathFactory,
    migrated_file: Path,
    pool: list[str],
    history: list[list[int] | int],
    seed: int,
    retention: str,
) -> None:
    settings = learning_settings(Settings(), observations=retention)
    with (
        a_library(migrated_file, settings) as (one, of_one),
        a_library(migrated_file, settings) as (other, of_other),
        a_library(migrated_file, settings) as (fresh, of_fresh),
    ):
        run(one, of_one, pool, history)
        run_with_a_crew(other, of_other, pool, history, random.Random(seed))
        assert canonical(other) == canonical(one)
        if retention == "keep":
            assert_evidence(one)
            assert_evidence(other)
        # After a rescore there is nothing left of the way it came, nor of what was deleted.
        with one.snapshot() as snapshot:
            left = [row[0] for row in snapshot.rows("SELECT content FROM documents ORDER BY content_hash")]
        if left:
            upload(fresh, of_fresh, left)
            run_job(fresh, of_fresh)
        for library, own in ((one, of_one), (other, of_other), (fresh, of_fresh)):
            rescore(library, own)
            if retention == "keep":
                assert_settled(library)
        assert canonical(other) == canonical(one) == canonical(fresh)


def test_order_of_items_in_a_wave_does_not_matter(
    database: Database, settings: Settings, migrated_file: Path
) -> None:
    own = learning_settings(settings, wave_bytes=1_000_000)
    contents = [text_of([(topic, i, word) for i in range(3)]) for topic in SENTENCES for word in WORDS[:4]]
    exports = []
    for seed in range(3):
        shuffled = contents.copy()
        random.Random(seed).shuffle(shuffled)
        with a_library(migrated_file, own) as (library, of_library):
            run(library, of_library, shuffled, [list(range(len(shuffled)))])
            exports.append(canonical(library))
            assert len(learned(library)) > 3
    assert exports[0] == exports[1] == exports[2]


def test_rescore_removes_the_effect_of_overlapping_jobs(settings: Settings, migrated_file: Path) -> None:
    own = learning_settings(settings, wave_bytes=400)
    first = [text_of([("fire", i, word) for i in range(3)]) for word in WORDS[:4]]
    second = [text_of([("sea", i, word) for i in range(3)]) for word in WORDS[1:6]]
    with (
        a_library(migrated_file, own) as (one, of_one),
        a_library(migrated_file, own) as (other, of_other),
    ):
        for contents in (first, second):
            upload(one, of_one, contents)
            run_job(one, of_one)
        before = canonical(one)
        # The second job overtakes the first.
        upload(other, of_other, first)
        waiting = claim(other, lease.new_owner(), of_other)
        assert waiting is not None
        upload(other, of_other, second)
        run_job(other, of_other)
        process(waiting, other, handlers(other, of_other), of_other)
        run_job(other, of_other)
        assert canonical(other) != before
        for library, its in ((one, of_one), (other, of_other)):
            rescore(library, its)
            assert_settled(library)
        assert canonical(other) == canonical(one)


def test_rescore_removes_the_effect_of_deleted_documents(settings: Settings, migrated_file: Path) -> None:
    own = learning_settings(settings)
    stays = [text_of([("fire", i, word) for i in range(3)]) for word in WORDS[:3]]
    goes = [text_of([("law", i, word) for i in range(4)]) for word in WORDS[1:6]]
    with (
        a_library(migrated_file, own) as (one, of_one),
        a_library(migrated_file, own) as (other, of_other),
    ):
        for library, its, jobs in ((one, of_one, [stays]), (other, of_other, [goes, stays])):
            for contents in jobs:
                upload(library, its, contents)
                run_job(library, its)
        with other.write() as connection:
            for document_id in range(1, len(goes) + 1):
                document_writer.delete_document(connection, document_id)
        for library, its in ((one, of_one), (other, of_other)):
            rescore(library, its)
            assert_settled(library)
        assert canonical(other) == canonical(one)
        # Also when nothing is left at all.
        submit_delete(one, of_one, [1, 2, 3])
        run_job(one, of_one)
        rescore(one, of_one)
        assert learned(one) == {}
        assert_settled(one)
