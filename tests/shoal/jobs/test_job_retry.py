"""A retry sends the texts of failed items through the stages again."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import shutil
import threading
from typing import Any

import pytest
from job_parts import (
    POISON,
    assert_consistent,
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
from learning_parts import (
    Crew,
    KilledError,
    assert_settled,
    canonical,
    drafts,
    killed_at,
    learning_settings,
)
from learning_parts import handlers as learning_handlers
from learning_parts import run_job as process_all
from learning_parts import upload as upload_texts
from teaching_texts import about

from shoal.errors import (
    DocumentError,
    EmptyDocumentError,
    FileConversionError,
    JobStateError,
    NotFoundError,
)
from shoal.jobs.queue import transitions as retrying
from shoal.jobs.queue.claims import WorkItem
from shoal.jobs.queue.queries import get_items, get_job
from shoal.jobs.queue.submission import Upload, submit_delete, submit_replacement
from shoal.jobs.queue.transitions import Outcome, cancel, finish_items, retry
from shoal.jobs.stages.contract import Handlers, ItemHandler
from shoal.jobs.stages.runner import process
from shoal.models.documents import DocumentDraft, ScoredDocument
from shoal.models.jobs import ItemStatus, JobStatus, Stage
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.storage.opening import open_database


def refuse_poison(document: DocumentDraft) -> ScoredDocument:
    """Score every document except poisonous ones."""
    if POISON in document.content:
        raise DocumentError("not today")
    return scored(document)


def failed_job(database: Database, settings: Settings, *contents: str) -> int:
    """Return a finished job whose poisonous documents have failed."""
    job_id = upload(database, settings, contents)
    run_job(database, settings, handlers(database, refuse_poison))
    assert_consistent(database)
    return job_id


@pytest.mark.parametrize(
    ("error", "is_offered"),
    [
        (FileConversionError("broken", "it is broken"), False),
        (FileConversionError("encrypted", "it has a password"), False),
        (EmptyDocumentError("it has no text"), False),
        (FileConversionError("memory_limit", "it needs more memory"), True),
        (FileConversionError("no_text", "it is a scan"), False),
        (ValueError("a bug"), True),
    ],
)
def test_retry_is_offered_if_it_may_succeed(
    database: Database, settings: Settings, error: Exception, is_offered: bool
) -> None:
    def refuse(document: DocumentDraft) -> ScoredDocument:
        raise error

    job_id = upload(database, settings, ["a"])
    run_job(database, settings, handlers(database, refuse))
    assert retrying.can_retry(database, settings, get_job(database, job_id)) is is_offered
    with_ocr = dataclasses.replace(settings, ocr=True)
    is_scan = getattr(error, "code", "") == "file_no_text"
    assert retrying.can_retry(database, with_ocr, get_job(database, job_id)) is (is_offered or is_scan)
    assert retry(database, settings, job_id).status is JobStatus.enqueued


def test_retried_item_is_stored(database: Database, settings: Settings) -> None:
    job_id = failed_job(database, settings, "a", POISON, "c")
    before = get_job(database, job_id)
    assert (before.status, before.progress.failed) == (JobStatus.partial, 1)
    assert get_items(database, job_id)[1].error_code == "invalid_document"
    job = retry(database, settings, job_id)
    assert (get_items(database, job_id)[1].error, get_items(database, job_id)[1].error_code) == (None, None)
    assert (job.status, job.error, job.finished_at) == (JobStatus.enqueued, None, None)
    assert (job.progress.failed, job.progress.done, job.progress.bytes_done) == (0, 2, 2)
    assert job.revision > before.revision
    assert statuses(database, job_id) == ["succeeded", "enqueued", "succeeded"]
    assert_consistent(database)
    run_job(database, settings)
    job = get_job(database, job_id)
    assert (job.status, job.error, job.progress.done) == (JobStatus.succeeded, None, 3)
    assert job.finished_at
    assert {content for (content,) in rows(database, "SELECT content FROM document_texts")} == {
        "a",
        POISON,
        "c",
    }
    assert_consistent(database)


def test_item_that_fails_again_can_be_retried_again(database: Database, settings: Settings) -> None:
    job_id = failed_job(database, settings, POISON, POISON + " twice")
    for _ in range(3):
        assert get_job(database, job_id).status is JobStatus.failed
        retry(database, settings, job_id)
        run_job(database, settings, handlers(database, refuse_poison))
        assert_consistent(database)
    assert get_items(database, job_id)[0].error == "not today"
    retry(database, settings, job_id)
    run_job(database, settings)
    assert statuses(database, job_id) == ["succeeded", "succeeded"]
    totals = rows(database, "SELECT total, bytes FROM waves WHERE job_id = :job_id ORDER BY n", job_id=job_id)
    assert [total for total, _ in totals] == [0, 0, 0, 0, 2]


def test_retry_without_failed_items_is_an_error(database: Database, settings: Settings) -> None:
    with pytest.raises(NotFoundError):
        retry(database, settings, 99)
    done = upload(database, settings, ["a"])
    run_job(database, settings)
    with pytest.raises(JobStateError, match="no failed or canceled items"):
        retry(database, settings, done)
    job_id = failed_job(database, settings, POISON)
    retry(database, settings, job_id)
    with pytest.raises(JobStateError, match="no failed or canceled items"):
        retry(database, settings, job_id)
    assert statuses(database, job_id) == ["enqueued"]


def test_refused_items_cannot_be_retried(database: Database, settings: Settings) -> None:
    opened = Upload(database, settings).begin()
    opened.refuse("bad.txt", None, 7, "is not text")
    opened.add(draft(POISON))
    job_id = opened.finish()
    run_job(database, settings, handlers(database, refuse_poison))
    retry(database, settings, job_id)
    assert statuses(database, job_id) == ["failed", "enqueued"]
    run_job(database, settings)
    job = get_job(database, job_id)
    assert (job.status, job.progress.failed) == (JobStatus.partial, 1)
    assert "is not text" in (job.error or "")
    with pytest.raises(JobStateError, match="cannot be retried"):
        retry(database, settings, job_id)
    assert get_job(database, job_id) == job
    assert_consistent(database)


def test_a_canceled_job_goes_on_with_a_retry(database: Database, settings: Settings) -> None:
    settings = dataclasses.replace(settings, batch_items=1)
    job_id = upload(database, settings, ["a", POISON, "c", "d"])
    for _ in range(2):
        process(must_claim(database, settings), database, handlers(database, refuse_poison), settings)
    claimed = must_claim(database, settings)
    canceled = cancel(database, job_id)
    assert canceled.status is JobStatus.canceled
    assert retrying.can_retry(database, settings, canceled)
    job = retry(database, settings, job_id)
    assert (job.status, job.progress.done, job.progress.canceled) == (JobStatus.enqueued, 1, 0)
    # The worker that was at work when the job was canceled stores nothing.
    process(claimed, database, handlers(database), settings)
    assert statuses(database, job_id) == ["succeeded", "enqueued", "enqueued", "enqueued"]
    assert_consistent(database)
    run_job(database, settings)
    assert get_job(database, job_id).status is JobStatus.succeeded
    assert rows(database, "SELECT * FROM job_item_contents") == []
    counted = "SELECT label, value FROM counters WHERE name = 'removed_items' ORDER BY label"
    assert rows(database, counted) == [("canceled", 2), ("failed", 1)]
    assert_consistent(database)


def test_a_canceled_deletion_goes_on_with_a_retry(database: Database, settings: Settings) -> None:
    """Its items need no text."""
    settings = dataclasses.replace(settings, batch_items=1)
    upload(database, settings, ["a", "b"])
    run_job(database, settings)
    job_id = submit_delete(database, settings, [1, 2])
    process(must_claim(database, settings), database, handlers(database), settings)
    cancel(database, job_id)
    assert statuses(database, job_id) == ["succeeded", "canceled"]
    retry(database, settings, job_id)
    run_job(database, settings)
    assert statuses(database, job_id) == ["succeeded", "succeeded"]
    assert value(database, "SELECT COUNT(*) FROM documents") == 0


def test_a_canceled_job_without_texts_cannot_be_retried(database: Database, settings: Settings) -> None:
    """Earlier versions deleted the texts."""
    job_id = upload(database, settings, ["a"])
    cancel(database, job_id)
    with database.write() as transaction:
        transaction.execute("DELETE FROM job_item_contents")
    with pytest.raises(JobStateError, match="the failed or canceled item of job 1 cannot be retried"):
        retry(database, settings, job_id)


def test_failed_deletion_can_be_retried(database: Database, settings: Settings) -> None:
    upload(database, settings, ["a", "b"])
    run_job(database, settings)
    job_id = submit_delete(database, settings, [1])
    batch = must_claim(database, settings)
    with database.write() as transaction:
        outcome = Outcome(ItemStatus.failed, error="out of luck")
        finish_items(transaction, [(batch.items[0], outcome)], batch.owner)
    retry(database, settings, job_id)
    run_job(database, settings)
    assert get_job(database, job_id).status is JobStatus.succeeded
    assert rows(database, "SELECT content FROM document_texts") == [("b",)]


def test_running_job_can_be_retried(database: Database, settings: Settings) -> None:
    settings = dataclasses.replace(settings, batch_items=1)
    job_id = upload(database, settings, [POISON, "b", "c"])
    process(must_claim(database, settings), database, handlers(database, refuse_poison), settings)
    simulate_deaths = must_claim(database, settings)
    assert retry(database, settings, job_id).status is JobStatus.processing
    assert_consistent(database)
    process(simulate_deaths, database, handlers(database), settings)
    run_job(database, settings)
    assert get_job(database, job_id).status is JobStatus.succeeded
    assert_consistent(database)


def test_retried_poison_item_gets_all_attempts_and_runs_alone(database: Database, settings: Settings) -> None:
    settings = dataclasses.replace(settings, max_attempts=2)
    job_id = upload(database, settings, ["a", "b"])
    with Crew(database, settings).simulate_deaths() as crew:
        while True:
            batch = must_claim(database, settings)
            if any(item.seq == 0 for item in batch.items):
                crew.report_death(batch.owner)
                if statuses(database, job_id)[0] == "failed":
                    break
            else:
                process(batch, database, handlers(database), settings)
        run_job(database, settings)
        retry(database, settings, job_id)
        assert get_items(database, job_id)[0].attempts == 0
        batch = must_claim(database, settings)
        assert [item.seq for item in batch.items] == [0]
        crew.report_death(batch.owner)
        assert statuses(database, job_id)[0] == "enqueued"
        run_job(database, settings)
    assert get_job(database, job_id).status is JobStatus.succeeded


def test_retried_item_becomes_a_duplicate_of_its_stored_duplicate(
    database: Database, settings: Settings
) -> None:
    first = failed_job(database, settings, POISON)
    second = upload(database, settings, [POISON])
    run_job(database, settings)
    retry(database, settings, first)
    run_job(database, settings)
    assert (statuses(database, first), statuses(database, second)) == (["duplicate"], ["succeeded"])
    assert value(database, "SELECT COUNT(*) FROM documents") == 1


def test_retry_splits_items_into_waves_and_resumes_after_interruption(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrying, "WAVE_ITEMS", 2)
    job_id = failed_job(database, settings, *(f"{POISON} {n}" for n in range(5)))
    send, sent = retrying._requeue, []

    def requeue_once(*arguments: Any) -> int:
        if sent:
            raise KilledError
        sent.append(arguments)
        return send(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(retrying, "_requeue", requeue_once)
        with pytest.raises(KilledError):
            retry(database, settings, job_id)
    assert statuses(database, job_id) == ["enqueued", "enqueued", "failed", "failed", "failed"]
    assert_consistent(database)
    retry(database, settings, job_id)
    assert rows(database, "SELECT n, total, pending FROM waves ORDER BY n") == [
        (0, 0, 0), (1, 2, 2), (2, 2, 2), (3, 1, 1),
    ]  # fmt: skip
    run_job(database, settings)
    assert get_job(database, job_id).status is JobStatus.succeeded


def test_concurrent_retries_requeue_every_item_once(database: Database, settings: Settings) -> None:
    job_id = failed_job(database, settings, *(f"{POISON} {n}" for n in range(20)))
    start = threading.Barrier(4)
    results: list[str] = []

    def retry_once() -> None:
        start.wait()
        try:
            retry(database, settings, job_id)
            results.append("sent")
        except JobStateError:
            results.append("nothing left")

    threads = [threading.Thread(target=retry_once) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["nothing left"] * 3 + ["sent"]
    assert_consistent(database)
    run_job(database, settings)
    assert get_job(database, job_id).status is JobStatus.succeeded
    assert_consistent(database)


# With learning

TEXTS = [about("fire", "zorblat"), about("law", "quendle"), about("sea", "hoxley wump", 6)]
FAILING_TEXT = about("bees", "zorblat") + " " + about("fire", "varnisk")


class Failing(ItemHandler):
    """A handler that fails for one document."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler

    def prepare(self, item: WorkItem) -> Any:
        if item.head.title == FAILING_TEXT[:12]:
            raise DocumentError("not today")
        return self._handler.prepare(item)

    def store(self, connection: Any, item: WorkItem, prepared: Any) -> Outcome:
        return self._handler.store(connection, item, prepared)


def failing_at(stage: Stage, database: Database, settings: Settings) -> Handlers:
    whole = learning_handlers(database, settings)
    return {**whole, stage: Failing(whole[stage])}


@pytest.fixture
def learning(settings: Settings) -> Settings:
    return learning_settings(settings, wave_bytes=10_000, batch_items=10)


def copy_database(settings: Settings, name: str) -> tuple[Database, Settings]:
    """Return a copy of the database and its settings."""
    path = settings.database_path.with_name(name)
    own = dataclasses.replace(settings, database_url=f"sqlite:///{path}")
    shutil.copyfile(settings.database_path, path)
    return open_database(own.database_url), own


@pytest.mark.parametrize("stage", [Stage.discover, Stage.score])
def test_retried_item_is_learned_as_if_uploaded_at_the_retry(
    database: Database, learning: Settings, stage: Stage
) -> None:
    database.close()
    expected, own = copy_database(learning, "expected.db")
    if stage is Stage.discover:
        # The other documents were stored without it.
        upload_texts(expected, own, TEXTS)
        process_all(expected, own)
        upload_texts(expected, own, [FAILING_TEXT])
    else:
        # It was already learned from when it failed.
        upload_texts(expected, own, [*TEXTS, FAILING_TEXT])
    process_all(expected, own)

    job_id = upload_texts(database, learning, [*TEXTS, FAILING_TEXT])
    process_all(database, learning, failing_at(stage, database, learning))
    assert get_job(database, job_id).status is JobStatus.partial
    retry(database, learning, job_id)
    process_all(database, learning)
    assert get_job(database, job_id).status is JobStatus.succeeded
    assert canonical(database) == canonical(expected)
    assert_settled(database)
    expected.close()


def test_retried_item_whose_evidence_was_removed_is_learned_again(
    database: Database, learning: Settings
) -> None:
    job_id = upload_texts(database, learning, [*TEXTS, FAILING_TEXT])
    process_all(database, learning, failing_at(Stage.score, database, learning))
    # The next learn stage removes words known only from the failed item.
    upload_texts(database, learning, [about("sea", "mirthog")])
    process_all(database, learning)
    assert_settled(database)
    retry(database, learning, job_id)
    process_all(database, learning)
    assert get_job(database, job_id).status is JobStatus.succeeded
    assert_settled(database)
    assert any("varnisk" in line and "custom_word" in line for line in canonical(database))


def test_replacement_is_retried_unless_a_later_one_supersedes_it(
    database: Database, learning: Settings
) -> None:
    upload_texts(database, learning, [about("law", "quendle")])
    process_all(database, learning)
    (unlucky,) = drafts([FAILING_TEXT], learning)
    (later,) = drafts([about("sea", "mirthog")], learning)
    first = submit_replacement(database, learning, 1, unlucky)
    process_all(database, learning, failing_at(Stage.score, database, learning))
    assert statuses(database, first) == ["failed"]
    retry(database, learning, first)
    process_all(database, learning, failing_at(Stage.score, database, learning))
    submit_replacement(database, learning, 1, later)
    with pytest.raises(JobStateError, match="newer content"):
        retry(database, learning, first)
    process_all(database, learning)
    with pytest.raises(JobStateError, match="newer content"):
        retry(database, learning, first)
    assert rows(database, "SELECT content FROM document_texts") == [(later.content,)]
    assert_consistent(database)


def test_retry_survives_death_at_every_statement(database: Database, learning: Settings) -> None:
    """The work of the new wave has its own tests."""
    job_id = upload_texts(database, learning, [*TEXTS[:2], FAILING_TEXT])
    process_all(database, learning, failing_at(Stage.score, database, learning))
    database.close()
    expected: list[str] = []
    for n in itertools.count():
        library, own = copy_database(learning, f"{n}.db")
        with killed_at(library, n) as died, contextlib.suppress(KilledError):
            retry(library, own, job_id)
        assert_consistent(library)
        if died():
            with contextlib.suppress(JobStateError):
                retry(library, own, job_id)
        process_all(library, own)
        assert get_job(library, job_id).status is JobStatus.succeeded, f"killed at statement {n}"
        expected = expected or canonical(library)
        assert canonical(library) == expected, f"killed at statement {n}"
        assert_settled(library)
        library.close()
        own.database_path.unlink()
        if not died():
            break
    assert n > 8
