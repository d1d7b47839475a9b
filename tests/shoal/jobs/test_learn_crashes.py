"""The death of a worker at any write does not change the library.

SHOAL_TEST_LONG=1 kills at every statement; otherwise at every fourth.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from learning_parts import (
    Crew,
    KilledError,
    assert_settled,
    canonical,
    handlers,
    ingest,
    killed_at,
    learned,
    learning_settings,
    run_job,
    upload,
)
from teaching_texts import about

from shoal.jobs.queue import claims
from shoal.jobs.queue.claims import claim
from shoal.jobs.queue.submission import submit_delete, submit_rescore
from shoal.jobs.stages import learn
from shoal.jobs.stages.runner import process
from shoal.models.jobs import Stage
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.storage.opening import open_database

STRIDE = 1 if os.environ.get("SHOAL_TEST_LONG") else 4
"""Every which statement is one to die at."""
FIRST = [about("fire", "zorblat"), about("law", "quendle"), about("sea", "hoxley wump", 6)]
SECOND = [about("bees", "zorblat"), about("fire", "mirthog"), about("fire", "zorblats")]


@pytest.fixture(autouse=True)
def short_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use many small transactions, as for a large library."""
    for name in ("EVIDENCE_ROWS", "LEARNED_WORDS", "KEYS", "OBSERVED_TEXTS"):
        monkeypatch.setattr(learn, name, 2)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return learning_settings(settings, wave_bytes=10_000, batch_items=10)


@contextlib.contextmanager
def open_copy(of: Path, settings: Settings, to: Path) -> Iterator[tuple[Database, Settings]]:
    shutil.copyfile(of, to)
    own = dataclasses.replace(settings, database_url=f"sqlite:///{to}")
    database = open_database(own.database_url)
    yield database, own
    database.close()


def until_stage(database: Database, settings: Settings, stage: Stage) -> None:
    """Process batches until the next one is of `stage`."""
    while batch := claim(database, claims.new_owner(), settings):
        if batch.stage is stage:
            from shoal.jobs.queue.claims import release

            release(database, batch)
            return
        process(batch, database, handlers(database, settings), settings)


RESCORE = (Stage.rediscover, Stage.relearn, Stage.rescore)
CASES = [
    *((stage, "keep") for stage in (Stage.discover, Stage.learn, Stage.score, *RESCORE)),
    *((stage, "prune") for stage in (Stage.learn, Stage.score, Stage.relearn)),
]


def prepared(database: Database, settings: Settings, stage: Stage) -> tuple[Path, Settings]:
    """Return a library with learned words and a deleted document, in front of `stage`."""
    ingest(database, settings, FIRST)
    submit_delete(database, settings, [2])
    run_job(database, settings)
    if stage in RESCORE:
        ingest(database, settings, SECOND)
        # Changed settings make documents stale for the rescore.
        settings = dataclasses.replace(settings, context_confidence=3.0, short_document_words=10)
        submit_rescore(database, settings)
    else:
        upload(database, settings, SECOND)
    until_stage(database, settings, stage)
    database.close()
    return settings.database_path, settings


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder, in memory if possible: the disk does not matter here."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as made:
        yield Path(made)


@pytest.mark.parametrize(("stage", "retention"), CASES)
def test_stage_survives_death_at_every_statement(
    database: Database, settings: Settings, folder: Path, stage: Stage, retention: str
) -> None:
    settings = dataclasses.replace(settings, observations=retention)
    template, settings = prepared(database, settings, stage)
    with open_copy(template, settings, folder / "whole.db") as (whole, own):
        run_job(whole, own)
        expected = canonical(whole)
        assert set(learned(whole)) == {"zorblat", "mirthog", "hoxley", "wump"}
        assert "hoxley wump" in learned(whole, compounds=True)
    # Cases begin at different statements.
    for n in itertools.count(CASES.index((stage, retention)) % STRIDE, STRIDE):
        with (
            open_copy(template, settings, folder / f"{n}.db") as (library, own),
            Crew(library, own).simulate_deaths() as crew,
        ):
            batch = claim(library, claims.new_owner(), own)
            assert batch is not None
            assert batch.stage is stage
            with killed_at(library, n) as died, contextlib.suppress(KilledError):
                process(batch, library, handlers(library, own), own)
            if died():
                crew.report_death(batch.owner)
            run_job(library, own)
            assert canonical(library) == expected, f"killed at statement {n}"
            if retention == "keep":
                assert_settled(library)
        (folder / f"{n}.db").unlink()
        if not died():
            break
    assert n > 5


def test_next_learn_stage_wipes_the_rows_of_an_interrupted_one(
    database: Database, settings: Settings
) -> None:
    """The interrupted job is canceled and not continued."""
    from shoal.jobs.queue.transitions import cancel

    ingest(database, settings, FIRST)
    job_id = upload(database, settings, SECOND)
    until_stage(database, settings, Stage.learn)
    with Crew(database, settings).simulate_deaths() as crew:
        batch = claim(database, claims.new_owner(), settings)
        assert batch is not None
        with killed_at(database, 22), pytest.raises(KilledError):
            process(batch, database, handlers(database, settings), settings)
        with database.snapshot() as snapshot:
            assert snapshot.value("SELECT COUNT(*) FROM word_evidence WHERE revision = 2") > 0
        crew.report_death(batch.owner)
        cancel(database, job_id)
        ingest(database, settings, [about("bees", "varnisk")])
    assert_settled(database)
    assert set(learned(database)) == {"zorblat", "quendle", "hoxley", "wump", "varnisk"}
