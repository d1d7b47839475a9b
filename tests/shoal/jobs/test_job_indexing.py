"""A batch indexes what it stored. Whatever prevents that fails no job and hides no document."""

from __future__ import annotations

import pytest
from indexed_library import assert_indexed, chunks_with
from job_parts import run_job, upload
from postgres_schemas import sqlite_only

from shoal.errors import DatabaseUnavailableError
from shoal.index.files import SUFFIX, IndexFiles
from shoal.index.upkeep import update_index
from shoal.jobs.queue.queries import get_job
from shoal.jobs.queue.submission import submit_delete
from shoal.models.jobs import JobStatus
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.storage.index_records import open_records

TEXTS = ("Lava rose.", "Rain fell.", "A judge sat.")


def waiting(database: Database) -> list[int]:
    with open_records(database).newest(database) as view:
        return [change.document_id for change in view.open_changes()]


def run_and_follow(database: Database, settings: Settings) -> None:
    """Run all jobs. On PostgreSQL they write no index: each machine follows the library by itself."""
    run_job(database, settings)
    if not database.has_index_records:
        update_index(database)


def run_upload(database: Database, settings: Settings) -> None:
    job_id = upload(database, settings, TEXTS)
    run_and_follow(database, settings)
    assert get_job(database, job_id).status is JobStatus.succeeded


def test_job_leaves_no_document_to_be_indexed(database: Database, settings: Settings) -> None:
    run_upload(database, settings)
    assert waiting(database) == []
    with open_records(database).newest(database) as view:
        assert sum(row.n_documents for row in view.segments()) == len(TEXTS)
    submit_delete(database, settings, [2])
    run_and_follow(database, settings)
    assert chunks_with(database, "rain") == []
    assert_indexed(database)


# On PostgreSQL a job writes no index, and the records of the machine are in the folder of the obstacle.
@sqlite_only
def test_job_succeeds_while_the_index_cannot_be_written(database: Database, settings: Settings) -> None:
    obstacle = IndexFiles(database).folder
    obstacle.touch()
    run_upload(database, settings)
    assert waiting(database) == [1, 2, 3]
    assert_indexed(database)
    with pytest.raises(DatabaseUnavailableError, match="the index cannot be written"):
        update_index(database)
    obstacle.unlink()
    submit_delete(database, settings, [1])
    run_job(database, settings)
    assert waiting(database) == []
    assert_indexed(database)


def test_job_does_not_wait_for_another_process_that_indexes(database: Database, settings: Settings) -> None:
    with open_records(database).alone_if_free() as is_free:
        assert is_free
        run_upload(database, settings)
        assert update_index(database) is False
        assert waiting(database) == [1, 2, 3]
        assert_indexed(database)
    assert update_index(database) is True
    assert waiting(database) == []
    assert_indexed(database)


def test_next_batch_builds_a_lost_index_anew(database: Database, settings: Settings) -> None:
    run_upload(database, settings)
    for segment in IndexFiles(database).folder.glob(f"*{SUFFIX}"):
        segment.unlink()
    submit_delete(database, settings, [3])
    run_and_follow(database, settings)
    assert waiting(database) == []
    assert_indexed(database)


@sqlite_only
def test_last_batch_leaves_few_segments(database: Database, settings: Settings) -> None:
    for texts in (TEXTS, ("A ship sailed.", "Bees hum.")):
        upload(database, settings, texts)
        run_job(database, settings)
    with open_records(database).newest(database) as view:
        assert [row.n_documents for row in view.segments()] == [5]
    assert_indexed(database)
