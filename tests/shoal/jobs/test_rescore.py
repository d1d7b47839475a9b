"""A rescore updates scores and keeps chunk boundaries and ids."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest
from job_parts import rows, statuses, value
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
    scorer,
    upload,
)
from teaching_texts import about, text_of

from lagoon.scorer import ReefScorer
from shoal.formats import blocks
from shoal.jobs.queue import claims
from shoal.jobs.queue.claims import claim
from shoal.jobs.queue.queries import get_job, list_jobs
from shoal.jobs.queue.submission import submit_delete, submit_rescore
from shoal.jobs.queue.transitions import cancel
from shoal.jobs.stages import score as rescore_stage
from shoal.jobs.stages.runner import handlers_for, process
from shoal.models.jobs import JobKind, JobStatus, Stage
from shoal.settings import Settings
from shoal.storage import document_writer
from shoal.storage.database import Database, Transaction
from shoal.storage.staleness import count_stale

EARLY = "\n\n".join(about(topic, "zorblat", 6) for topic in ("fire", "sea", "law", "bees"))
LATER = [about("fire", "zorblat", 8), about("fire", "quendle")]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return learning_settings(settings)


def spans(database: Database) -> list[tuple[object, ...]]:
    return rows(
        database, "SELECT id, document_id, chunk_index, start_char, end_char, text FROM chunks ORDER BY id"
    )


def stale(database: Database) -> int:
    with database.snapshot() as snapshot:
        return count_stale(snapshot, scorer().data_checksum)


def rescore(database: Database, settings: Settings) -> int:
    job_id = submit_rescore(database, settings)
    run_job(database, settings)
    return job_id


def test_rescore_updates_stale_chunks_and_keeps_their_ids(database: Database, settings: Settings) -> None:
    ingest(database, settings, [EARLY])
    ingest(database, settings, LATER)
    assert stale(database) > 0
    before, scores = spans(database), canonical(database)
    job_id = rescore(database, settings)
    assert stale(database) == 0
    assert spans(database) == before
    assert canonical(database) != scores
    job = get_job(database, job_id)
    assert (job.kind, job.status) == (JobKind.rescore, JobStatus.succeeded)
    assert (job.progress.total, job.progress.done) == (3, 3)
    assert job.progress.bytes_done == job.progress.bytes_total > 0


def index_rows(database: Database) -> list[tuple[object, ...]]:
    """The state of the index: its segments, and the number of changes of the library."""
    return rows(database, "SELECT s.*, i.revision FROM index_segments s, index_state i")


def test_second_rescore_changes_nothing(database: Database, settings: Settings) -> None:
    ingest(database, settings, [EARLY])
    ingest(database, settings, LATER)
    rescore(database, settings)
    before = canonical(database), index_rows(database)
    version = value(database, "SELECT MAX(version) FROM vocabulary_versions")
    rescore(database, settings)
    assert (canonical(database), index_rows(database)) == before
    assert value(database, "SELECT MAX(version) FROM vocabulary_versions") == version


def test_rescore_leaves_documents_without_changed_words_alone(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed: set[int] = set()

    def note(transaction: Transaction, document_ids: Iterable[int]) -> None:
        changed.update(document_ids)

    plain = "A court and a jury heard the witness of the crime."
    ingest(database, settings, [plain])
    ingest(database, settings, LATER)
    monkeypatch.setattr(document_writer, "note_changes", note)
    rescore(database, settings)
    assert stale(database) == 0
    [plain_id] = [
        i
        for i, content in rows(database, "SELECT document_id, content FROM document_texts")
        if content == plain
    ]
    assert plain_id not in changed


def test_rescore_learns_from_documents_stored_without_learning(
    database: Database, settings: Settings
) -> None:
    ingest(database, dataclasses.replace(settings, learning=False), [EARLY, *LATER])
    assert learned(database) == {}
    rescore(database, settings)
    assert set(learned(database)) == {"zorblat", "quendle"}
    assert_settled(database)
    assert stale(database) == 0


def test_rescore_applies_changed_discover_settings_to_all_documents(
    database: Database, settings: Settings
) -> None:
    ingest(database, settings, [EARLY, about("fire", "quendle", 2)])
    assert "quendle" in learned(database)
    other = dataclasses.replace(settings, short_document_words=10, min_occurrences_long=3)
    rescore(database, other)
    assert set(learned(database)) == {"zorblat"}
    assert_settled(database)


def test_rescore_applies_changed_thresholds_to_all_documents(database: Database, settings: Settings) -> None:
    ingest(database, settings, [EARLY, about("fire", "quendle", 2)])
    rescore(database, dataclasses.replace(settings, min_occurrences_short=10))
    assert set(learned(database)) == {"zorblat"}


def test_rescore_updates_chunks_of_another_data_build(database: Database, settings: Settings) -> None:
    ingest(database, settings, [EARLY, *LATER])
    before = spans(database)
    other = ReefScorer(dataclasses.replace(scorer()._model, checksum="another build"))
    submit_rescore(database, settings)
    run_job(database, settings, handlers_for(database, other, settings))
    assert rows(database, "SELECT DISTINCT data_checksum FROM chunks") == [("another build",)]
    assert spans(database) == before
    assert set(learned(database)) == {"zorblat", "quendle"}
    assert_settled(database)


@pytest.mark.parametrize("place", ["between", "inside"])
def test_rescore_keeps_boilerplate_in_chunks_of_earlier_versions(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    boilerplate = "See also: History of the sea"
    text = {"between": f"{EARLY}\n\n# Notes\n\n{boilerplate}\n", "inside": f"{boilerplate}\n{EARLY}"}[place]
    with monkeypatch.context() as earlier:
        earlier.setattr(blocks, "find_boilerplate", lambda content, masked: [])
        ingest(database, settings, [text])
    assert any(boilerplate in str(row[-1]) for row in spans(database))
    before = spans(database)
    other = ReefScorer(dataclasses.replace(scorer()._model, checksum="another build"))
    submit_rescore(database, settings)
    run_job(database, settings, handlers_for(database, other, settings))
    assert rows(database, "SELECT DISTINCT data_checksum FROM chunks") == [("another build",)]
    assert spans(database) == before
    assert_settled(database)


def test_rescore_of_an_empty_library_removes_all_words(database: Database, settings: Settings) -> None:
    ingest(database, settings, [EARLY])
    submit_delete(database, settings, [1])
    run_job(database, settings)
    job_id = rescore(database, settings)
    assert get_job(database, job_id).status is JobStatus.succeeded
    assert learned(database) == {}


def test_rescore_without_learning_uses_the_existing_words(database: Database, settings: Settings) -> None:
    ingest(database, settings, [EARLY])
    ingest(database, settings, LATER)
    words = learned(database)
    rescore(database, dataclasses.replace(settings, learning=False))
    assert stale(database) == 0
    assert learned(database) == words


def test_rescore_tolerates_documents_added_and_deleted_concurrently(
    database: Database, settings: Settings
) -> None:
    ingest(database, settings, [EARLY, *LATER])
    job_id = submit_rescore(database, settings)
    submit_delete(database, settings, [2])
    upload(database, settings, [about("sea", "mirthog")])
    run_job(database, settings)
    assert statuses(database, job_id) == ["succeeded"] * 3
    rescore(database, settings)
    assert stale(database) == 0
    assert_settled(database)


def test_rescore_keeps_scores_of_later_versions(database: Database, settings: Settings) -> None:
    ingest(database, settings, [EARLY])
    job_id = submit_rescore(database, settings)
    for stage in (Stage.rediscover, Stage.relearn):
        batch = claim(database, claims.new_owner(), settings)
        assert batch is not None
        assert batch.stage is stage
        process(batch, database, handlers(database, settings), settings)
    waiting = claim(database, claims.new_owner(), settings)
    assert waiting is not None
    ingest(database, settings, LATER)
    rescore(database, settings)
    newest = value(database, "SELECT MIN(vocabulary_version) FROM chunks")
    exported = canonical(database)
    process(waiting, database, handlers(database, settings), settings)
    assert statuses(database, job_id) == ["succeeded"]
    assert value(database, "SELECT MIN(vocabulary_version) FROM chunks") == newest
    assert canonical(database) == exported


def test_canceled_rescore_leaves_the_rest_unchanged(database: Database, settings: Settings) -> None:
    ingest(database, settings, [EARLY, *[f"{EARLY} {i}" for i in range(5)]])
    ingest(database, settings, LATER)
    expected = stale(database)
    job_id = submit_rescore(database, settings)
    while statuses(database, job_id).count("succeeded") < 2:
        batch = claim(database, claims.new_owner(), settings)
        assert batch is not None
        process(batch, database, handlers(database, settings), settings)
    assert cancel(database, job_id).status is JobStatus.canceled
    assert 0 < stale(database) < expected
    assert cancel(database, job_id) == get_job(database, job_id)
    rescore(database, settings)
    assert stale(database) == 0
    assert_settled(database)


def test_long_document_is_rescored_in_parts_and_resumes_after_a_kill(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescore_stage, "CHUNKS_WRITTEN", 2)
    long = "\n\n".join(
        f"# Part {i}\n\n" + text_of([(topic, j, "zorblat") for j in range(4)])
        for i, topic in enumerate(["fire", "sea", "law", "bees"] * 4)
    )
    from shoal.formats.drafts import make_draft
    from shoal.jobs.queue.submission import Upload

    opened = Upload(database, settings).begin()
    opened.add(make_draft(title="Long", content=long, format="markdown", settings=settings))
    opened.finish()
    run_job(database, settings)
    n_chunks = value(database, "SELECT COUNT(*) FROM chunks")
    assert n_chunks == 16
    ingest(database, settings, [about("fire", "zorblat", 12)])
    submit_rescore(database, settings)
    with Crew(database, settings).simulate_deaths() as crew:
        done: list[Any] = []
        for _ in range(200):
            batch = claim(database, claims.new_owner(), settings)
            if batch is None:
                break
            with killed_at(database, 45) as died, contextlib.suppress(KilledError):
                process(batch, database, handlers(database, settings), settings)
            if died():
                crew.report_death(batch.owner)
            done.append(value(database, "SELECT COUNT(*) FROM chunks WHERE vocabulary_version = 2"))
    assert list_jobs(database)[0].status is JobStatus.succeeded
    assert stale(database) == 0
    assert len({n for n in done if 0 < n < n_chunks}) > 1, "it resumed instead of starting again"
