"""The number, order and deaths of workers do not change the library."""

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

from shoal.jobs.queue import claims
from shoal.jobs.queue.claims import claim, release
from shoal.jobs.queue.queries import get_job
from shoal.jobs.queue.recovery import reconcile
from shoal.jobs.queue.submission import submit_delete, submit_rescore
from shoal.jobs.stages.runner import process
from shoal.settings import Settings
from shoal.storage import document_writer
from shoal.storage.database import Database
from shoal.storage.opening import open_database

MANY = hypothesis_settings(
    max_examples=150 if os.environ.get("SHOAL_TEST_LONG") else 6,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

pieces = st.tuples(st.sampled_from(sorted(SENTENCES)), st.integers(0, 1), st.sampled_from(WORDS))
texts = st.lists(pieces, min_size=1, max_size=5).map(text_of)
pools = st.lists(texts, min_size=3, max_size=8, unique=True)
# Each step: the texts of an upload (with repetitions), or the text to delete.
histories = st.lists(
    st.lists(st.integers(0, 7), min_size=1, max_size=7) | st.integers(0, 7), min_size=1, max_size=4
)


@contextlib.contextmanager
def empty_library(template: Path, settings: Settings) -> Iterator[tuple[Database, Settings]]:
    """Yield an empty library, in memory if possible: the disk does not matter here."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        path = shutil.copyfile(template, Path(folder, "shoal.db"))
        own = dataclasses.replace(settings, database_url=f"sqlite:///{path}")
        database = open_database(own.database_url)
        yield database, own
        database.close()


def submit_step(database: Database, settings: Settings, pool: list[str], step: list[int] | int) -> None:
    """Submit the job for one step of a history."""
    if isinstance(step, list):
        upload(database, settings, [pool[i % len(pool)] for i in step])
        return
    content = pool[step % len(pool)]
    with database.snapshot() as snapshot:
        document_id = snapshot.value(
            "SELECT document_id FROM document_texts WHERE content = :content", {"content": content}
        )
    if document_id is not None:
        submit_delete(database, settings, [document_id])


def run_sequentially(
    database: Database, settings: Settings, pool: list[str], history: list[list[int] | int]
) -> None:
    """Run a history job by job with one worker."""
    for step in history:
        submit_step(database, settings, pool, step)
        run_job(database, settings)


def run_concurrently(
    database: Database,
    settings: Settings,
    pool: list[str],
    history: list[list[int] | int],
    chance: random.Random,
) -> None:
    """Run a history with up to three workers that finish in any order, lose leases and die."""
    with Crew(database, settings).simulate_deaths() as crew:
        for step in history:
            submit_step(database, settings, pool, step)
            held = []
            while True:
                own = dataclasses.replace(settings, batch_items=chance.randint(1, 4))
                batch = claim(database, claims.new_owner(), own) if len(held) < 3 else None
                if batch is not None:
                    held.append(batch)
                    if chance.random() < 0.6:
                        continue
                if not held:
                    break
                batch = held.pop(chance.randrange(len(held)))
                action = chance.random()
                if action < 0.1:
                    crew.report_death(batch.owner)
                elif action < 0.15:
                    release(database, batch)
                elif action < 0.45:
                    with killed_at(database, chance.randrange(80)) as died, contextlib.suppress(KilledError):
                        process(batch, database, handlers(database, own), own)
                    if died():
                        crew.report_death(batch.owner)
                else:
                    if action < 0.5:
                        # Its lease expires first, so other workers get its work.
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
        empty_library(migrated_file, settings) as (library_a, settings_a),
        empty_library(migrated_file, settings) as (library_b, settings_b),
        empty_library(migrated_file, settings) as (fresh, fresh_settings),
    ):
        run_sequentially(library_a, settings_a, pool, history)
        run_concurrently(library_b, settings_b, pool, history, random.Random(seed))
        assert canonical(library_b) == canonical(library_a)
        if retention == "keep":
            assert_evidence(library_a)
            assert_evidence(library_b)
        # After a rescore, neither the order of jobs nor deleted documents have an effect.
        with library_a.snapshot() as snapshot:
            remaining = [
                row[0]
                for row in snapshot.rows(
                    "SELECT content FROM document_texts JOIN documents ON id = document_id ORDER BY content_hash"
                )
            ]
        if remaining:
            upload(fresh, fresh_settings, remaining)
            run_job(fresh, fresh_settings)
        for library, own in ((library_a, settings_a), (library_b, settings_b), (fresh, fresh_settings)):
            rescore(library, own)
            if retention == "keep":
                assert_settled(library)
        assert canonical(library_b) == canonical(library_a) == canonical(fresh)


def test_order_of_items_in_a_wave_does_not_matter(
    database: Database, settings: Settings, migrated_file: Path
) -> None:
    own = learning_settings(settings, wave_bytes=1_000_000)
    contents = [text_of([(topic, i, word) for i in range(3)]) for topic in SENTENCES for word in WORDS[:4]]
    exports = []
    for seed in range(3):
        shuffled = contents.copy()
        random.Random(seed).shuffle(shuffled)
        with empty_library(migrated_file, own) as (library, library_settings):
            run_sequentially(library, library_settings, shuffled, [list(range(len(shuffled)))])
            exports.append(canonical(library))
            assert len(learned(library)) > 3
    assert exports[0] == exports[1] == exports[2]


def test_rescore_removes_the_effect_of_overlapping_jobs(settings: Settings, migrated_file: Path) -> None:
    own = learning_settings(settings, wave_bytes=400)
    first = [text_of([("fire", i, word) for i in range(3)]) for word in WORDS[:4]]
    second = [text_of([("sea", i, word) for i in range(3)]) for word in WORDS[1:6]]
    with (
        empty_library(migrated_file, own) as (library_a, settings_a),
        empty_library(migrated_file, own) as (library_b, settings_b),
    ):
        for contents in (first, second):
            upload(library_a, settings_a, contents)
            run_job(library_a, settings_a)
        before = canonical(library_a)
        # The second job finishes before the first.
        upload(library_b, settings_b, first)
        waiting = claim(library_b, claims.new_owner(), settings_b)
        assert waiting is not None
        upload(library_b, settings_b, second)
        run_job(library_b, settings_b)
        process(waiting, library_b, handlers(library_b, settings_b), settings_b)
        run_job(library_b, settings_b)
        assert canonical(library_b) != before
        for library, library_settings in ((library_a, settings_a), (library_b, settings_b)):
            rescore(library, library_settings)
            assert_settled(library)
        assert canonical(library_b) == canonical(library_a)


def test_rescore_removes_the_effect_of_deleted_documents(settings: Settings, migrated_file: Path) -> None:
    own = learning_settings(settings)
    stays = [text_of([("fire", i, word) for i in range(3)]) for word in WORDS[:3]]
    goes = [text_of([("law", i, word) for i in range(4)]) for word in WORDS[1:6]]
    with (
        empty_library(migrated_file, own) as (library_a, settings_a),
        empty_library(migrated_file, own) as (library_b, settings_b),
    ):
        for library, library_settings, jobs in (
            (library_a, settings_a, [stays]),
            (library_b, settings_b, [goes, stays]),
        ):
            for contents in jobs:
                upload(library, library_settings, contents)
                run_job(library, library_settings)
        with library_b.write() as transaction:
            for document_id in range(1, len(goes) + 1):
                document_writer.delete_document(transaction, document_id)
        for library, library_settings in ((library_a, settings_a), (library_b, settings_b)):
            rescore(library, library_settings)
            assert_settled(library)
        assert canonical(library_b) == canonical(library_a)
        # The same holds for an empty library.
        submit_delete(library_a, settings_a, [1, 2, 3])
        run_job(library_a, settings_a)
        rescore(library_a, settings_a)
        assert learned(library_a) == {}
        assert_settled(library_a)
