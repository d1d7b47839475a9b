"""Stale chunks are those that contain a changed word, and a rescore updates nothing else."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from examples import LONG
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from job_parts import last_ids_of, rows, value
from learning_parts import (
    Crew,
    KilledError,
    canonical,
    handlers,
    ingest,
    killed_at,
    learning_settings,
    run_job,
    scorer,
    upload,
)
from teaching_texts import SENTENCES, WORDS, about, text_of

from shoal import Engine
from shoal.jobs import in_process
from shoal.jobs.queue import claims
from shoal.jobs.queue.claims import claim
from shoal.jobs.queue.queries import get_job
from shoal.jobs.queue.submission import submit_delete, submit_rescore
from shoal.jobs.stages.runner import process
from shoal.models.jobs import Stage
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.storage.opening import open_database
from shoal.storage.staleness import count_stale

STRIDE = 1 if LONG else 3
"""Every which statement is one to die at."""
PLAIN = "A court and a jury heard the witness of the crime."
MARK_ALL = (
    "DELETE FROM stale_documents",
    """INSERT INTO stale_documents (document_id, n_chunks, chunks)
        SELECT id, n_chunks, :all FROM documents""",
)
PROFILES = """
    SELECT d.content_hash, c.chunk_index, c.profile, c.confidence, c.coverage, c.matched_words, d.coverage
    FROM chunks c JOIN documents d ON d.id = c.document_id ORDER BY 1, 2
"""
MANY = hypothesis_settings(
    max_examples=100 if LONG else 5,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
pieces = st.tuples(st.sampled_from(sorted(SENTENCES)), st.integers(0, 1), st.sampled_from(WORDS))
paragraphs = st.lists(pieces, min_size=1, max_size=3).map(text_of) | st.just(PLAIN)
texts = st.lists(paragraphs, min_size=1, max_size=3).map("\n\n".join)
jobs = st.lists(st.lists(texts, min_size=1, max_size=5), min_size=1, max_size=4)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return learning_settings(settings)


@contextlib.contextmanager
def opened_copy(of: Path, settings: Settings) -> Iterator[tuple[Database, Settings]]:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        path = shutil.copyfile(of, Path(folder, "shoal.db"))
        own = dataclasses.replace(settings, database_url=f"sqlite:///{path}")
        database = open_database(own.database_url)
        yield database, own
        database.close()


def stale(database: Database) -> int:
    with database.snapshot() as snapshot:
        return count_stale(snapshot, scorer().data_checksum)


def marked(database: Database) -> list[tuple[object, ...]]:
    return rows(database, "SELECT document_id, n_chunks, chunks FROM stale_documents ORDER BY 1")


def rescore_fully(database: Database, settings: Settings) -> None:
    """Score every document with the present words."""
    with database.write() as transaction:
        for statement in MARK_ALL:
            transaction.execute(statement, {"all": b"\xff"})
    submit_rescore(database, dataclasses.replace(settings, learning=False))
    run_job(database, settings)
    assert stale(database) == 0


def test_job_of_several_waves_leaves_no_stale_chunks(database: Database, settings: Settings) -> None:
    contents = [about(topic, "zorblat", n) for topic in SENTENCES for n in (4, 5, 6)]
    ingest(database, settings, contents)
    assert value(database, "SELECT COUNT(*) FROM waves") > 3
    assert value(database, "SELECT MAX(version) FROM vocabulary_versions") > 2
    assert stale(database) == 0
    before = rows(database, PROFILES)
    rescore_fully(database, settings)
    assert rows(database, PROFILES) == before


def test_only_chunks_with_changed_words_become_stale(database: Database, settings: Settings) -> None:
    two_parts = f"# Court\n\n{PLAIN * 8}\n\n# Sea\n\n{about('sea', 'zorblat')}"
    ingest(database, settings, [PLAIN, about("law", "quendle"), two_parts])
    assert stale(database) == 0
    ingest(database, settings, [about("fire", "zorblats")])
    with_word = "SELECT document_id, chunk_index FROM chunks WHERE text LIKE '%zorblat %'"
    [(document_id, chunk_index)] = rows(database, with_word)
    assert isinstance(chunk_index, int)
    assert marked(database) == [(document_id, 1, bytes([0x80 >> chunk_index]))]
    assert stale(database) == 1


def test_retired_word_makes_its_chunks_stale(database: Database, settings: Settings) -> None:
    twice = dataclasses.replace(settings, min_occurrences_short=6)
    ingest(database, twice, [about("fire", "zorblat", 3), about("law", "quendle", 8)])
    ingest(database, twice, [about("sea", "zorblat", 3)])
    submit_delete(database, twice, [3])
    run_job(database, twice)
    rescore_fully(database, twice)
    ingest(database, twice, [PLAIN])
    assert [row[0] for row in marked(database)] == [1]


def test_document_scored_with_words_that_changed_meanwhile_is_marked(
    database: Database, settings: Settings
) -> None:
    upload(database, settings, [about("fire", "zorblat"), f"{PLAIN} Again."])
    while (waiting := claim(database, claims.new_owner(), settings)) and waiting.stage is not Stage.score:
        process(waiting, database, handlers(database, settings), settings)
    assert waiting is not None
    ingest(database, settings, [about("sea", "zorblat", 8)])
    assert stale(database) == 0
    process(waiting, database, handlers(database, settings), settings)
    run_job(database, settings)
    [(document_id, n, _)] = marked(database)
    assert n == 1
    assert "zorblat" in str(
        value(database, f"SELECT content FROM document_texts WHERE document_id = {document_id}")
    )


def test_deleted_and_replaced_documents_are_not_stale(database: Database, settings: Settings) -> None:
    ingest(database, settings, [about("fire", "zorblat"), about("law", "zorblat")])
    ingest(database, settings, [about("sea", "zorblat", 8)])
    assert stale(database) == 2
    submit_delete(database, settings, [1])
    run_job(database, settings)
    assert stale(database) == 1
    assert rows(database, "SELECT COUNT(*) FROM document_words") == [(2,)]


@pytest.mark.slow
@MANY
@given(jobs=jobs, seed=st.integers(0, 2**32))
def test_incremental_rescore_equals_a_full_one(migrated_file: Path, jobs: list[list[str]], seed: int) -> None:
    settings = learning_settings(Settings(), wave_bytes=300)
    chance = random.Random(seed)
    with opened_copy(migrated_file, settings) as (database, own):
        for contents in jobs:
            ingest(database, own, contents)
            if chance.random() < 0.3:
                submit_rescore(database, own, data_checksum=scorer().data_checksum)
                run_job(database, own)
                assert stale(database) == 0
        before = {row[:2]: row for row in rows(database, PROFILES)}
        chunks = rows(database, "SELECT document_id, chunk_index FROM chunks")
        stale_documents = {row[0] for row in marked(database)}
        database.close()
        with opened_copy(own.database_path, own) as (full, full_settings):
            rescore_fully(full, full_settings)
            expected = rows(full, PROFILES)
            changed = {row[0] for row in expected if before[row[:2]] != row}
            hashes = {
                h for h, i in rows(full, "SELECT content_hash, id FROM documents") if i in stale_documents
            }
            assert changed <= hashes
            whole = canonical(full)
        submit_rescore(
            database,
            dataclasses.replace(own, learning=False),
            data_checksum=scorer().data_checksum,
        )
        run_job(database, own)
        assert stale(database) == 0
        assert rows(database, PROFILES) == expected
        assert canonical(database) == whole
        assert rows(database, "SELECT document_id, chunk_index FROM chunks") == chunks


@pytest.mark.slow
def test_rescore_of_stale_documents_survives_death_at_every_statement(
    database: Database, settings: Settings
) -> None:
    ingest(database, settings, [about("fire", "zorblat"), PLAIN, about("law", "zorblat")])
    ingest(database, settings, [about("sea", "zorblat", 8)])
    checksum = scorer().data_checksum
    submit_rescore(database, settings, data_checksum=checksum)
    database.close()
    with opened_copy(settings.database_path, settings) as (whole, own):
        run_job(whole, own)
        expected = rows(whole, PROFILES), canonical(whole)
    for n in itertools.count(step=STRIDE):
        with (
            opened_copy(settings.database_path, settings) as (library, own),
            Crew(library, own).simulate_deaths() as crew,
        ):
            is_dead = False
            while batch := claim(library, claims.new_owner(), own):
                if is_dead:
                    process(batch, library, handlers(library, own), own)
                    continue
                with killed_at(library, n) as died, contextlib.suppress(KilledError):
                    process(batch, library, handlers(library, own), own)
                if died():
                    is_dead = True
                    crew.report_death(batch.owner)
            assert (rows(library, PROFILES), canonical(library)) == expected, f"killed at statement {n}"
            assert stale(library) == 0
        if not is_dead:
            break
    assert n > 5


def test_rescore_takes_only_the_documents_that_need_it(database: Database, settings: Settings) -> None:
    ingest(database, settings, [about("fire", "zorblat"), PLAIN, about("law", "quendle")])
    ingest(database, settings, [about("sea", "zorblat", 8)])
    job_id = submit_rescore(database, settings, data_checksum=scorer().data_checksum)
    run_job(database, settings)
    assert stale(database) == 0
    # Deciding all words again with the sizes of the whole library changes "quendle" too.
    documents = rows(database, f"SELECT document_id FROM job_items WHERE job_id = {job_id} ORDER BY 1")
    assert documents == [(1,), (3,)]
    progress = get_job(database, job_id).progress
    assert (progress.total, progress.done) == (2, 2)
    assert progress.bytes_done == progress.bytes_total > 0


def test_rescore_with_nothing_to_do_writes_nothing(settings: Settings) -> None:
    with Engine(settings=settings, scorer=scorer()) as engine:
        for i, topic in enumerate(SENTENCES):
            engine.ingest(title=f"Text {i}", content=about(topic, "zorblat", 4 + i))
        assert engine.status().n_stale_chunks > 0
        assert engine.maintenance.rescore().n_documents > 0
        assert engine.status().n_stale_chunks == 0
        database = engine.database
        before = list(engine.maintenance.export()), last_ids_of(database)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(in_process, "submit_rescore", None)
            assert engine.maintenance.rescore().n_documents == 0
        assert (list(engine.maintenance.export()), last_ids_of(database)) == before
        job = engine.jobs.submit_rescore()
        assert job.ended
        assert job.progress.total == 0


@pytest.mark.parametrize("change", ["document", "setting", "deletion"])
def test_rescore_notices_what_changed_since_the_last(settings: Settings, change: str) -> None:
    with Engine(settings=settings, scorer=scorer()) as engine:
        engine.ingest(title="Text", content=about("fire", "zorblat"))
        engine.ingest(title="Other", content=about("law", "zorblat"))
        engine.maintenance.rescore()
        if change == "document":
            engine.ingest(title="More", content=about("sea", "zorblat", 8))
        elif change == "deletion":
            engine.documents.delete(2)
    if change == "setting":
        settings = dataclasses.replace(settings, context_confidence=3.0)
    with Engine(settings=settings, scorer=scorer()) as engine:
        assert engine.maintenance.rescore().n_documents > 0
        assert engine.maintenance.rescore().n_documents == 0


@pytest.mark.parametrize("changed", [{"heading_weight": 0.2}, {"reefs_per_chunk": 3}])
def test_rescore_applies_changed_settings_of_scores(
    settings: Settings, tmp_path: Path, changed: dict[str, Any]
) -> None:
    exports = []
    for name, first in (("then", settings), ("now", dataclasses.replace(settings, **changed))):
        own = dataclasses.replace(first, database_url=f"sqlite:///{tmp_path / name}")
        with Engine(settings=own, scorer=scorer()) as engine:
            engine.ingest(title="The sea", content=about("fire", "zorblat"))
            engine.ingest(title="A court", content=PLAIN)
        with Engine(settings=dataclasses.replace(own, **changed), scorer=scorer()) as engine:
            engine.maintenance.rescore()
            exports.append(list(engine.maintenance.export(canonical=True)))
    assert exports[0] == exports[1]


def test_interrupted_rescore_leaves_the_rest_to_the_next(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine(settings=settings, scorer=scorer()) as engine:
        for i in range(6):
            engine.ingest(title=f"Text {i}", content=f"{about('fire', 'zorblat')} {i}")
        n_stale = engine.status().n_stale_chunks

        def interrupt(progress: object) -> None:
            if engine.status().n_stale_chunks < n_stale:
                raise KeyboardInterrupt

        monkeypatch.setattr("shoal.jobs.in_process.WATCH_SECONDS", 0.0)
        monkeypatch.setattr("shoal.jobs.stages.runner.WRITE_ITEMS", 1)
        with pytest.raises(KeyboardInterrupt):
            engine.maintenance.rescore(interrupt)
        left = len(marked(engine.database))
        assert left > 0
        assert engine.maintenance.rescore().n_documents == left
        assert engine.status().n_stale_chunks == 0
