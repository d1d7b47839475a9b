"""The owner of the lease stores a result once, and a wave passes each barrier once."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from job_parts import (
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

from shoal.errors import DatabaseUnavailableError, DocumentError, LeaseLostError
from shoal.jobs.queue import claims, queries
from shoal.jobs.queue.claims import Batch, WaveRef, WorkItem, has_claimable_work
from shoal.jobs.queue.recovery import reconcile
from shoal.jobs.queue.submission import submit_document
from shoal.jobs.queue.transitions import Advance, Outcome, finish_items
from shoal.jobs.stages import runner
from shoal.jobs.stages.contract import Handlers, ItemHandler, WaveHandler
from shoal.jobs.stages.runner import process
from shoal.models.documents import DocumentDraft, ScoredDocument
from shoal.models.jobs import ItemStatus, JobStatus, Stage
from shoal.settings import Settings
from shoal.storage import document_writer
from shoal.storage.database import Database

SUCCEEDED = Outcome(ItemStatus.succeeded, 1)


def test_repeated_result_counts_once(database: Database, settings: Settings) -> None:
    job_id = upload(database, settings, ["a", "b"])
    batch = must_claim(database, settings)
    with database.write() as transaction:
        finish_items(transaction, [(batch.items[0], SUCCEEDED)], batch.owner)
    with pytest.raises(LeaseLostError), database.write() as transaction:
        finish_items(transaction, [(batch.items[0], SUCCEEDED)], batch.owner)
    assert_consistent(database)
    assert queries.get_job(database, job_id).progress.done == 1


def test_lost_lease_rolls_the_result_back(database: Database, settings: Settings) -> None:
    upload(database, settings, ["a"])
    batch = must_claim(database, settings)
    reconcile(database, settings, now=time.time() + settings.lease_seconds + 1)

    def write_late() -> None:
        with database.write() as transaction:
            document_writer.insert_document(transaction, scored(draft("a")), now="2026-01-01T00:00:00.000Z")
            finish_items(transaction, [(batch.items[0], SUCCEEDED)], batch.owner)

    with pytest.raises(LeaseLostError):
        write_late()
    assert value(database, "SELECT COUNT(*) FROM documents") == 0
    assert_consistent(database)
    # The pipeline of the late worker stores nothing either; the next owner does.
    process(batch, database, handlers(database), settings)
    assert value(database, "SELECT COUNT(*) FROM documents") == 0
    run_job(database, settings)
    assert value(database, "SELECT COUNT(*) FROM documents") == 1


def test_lost_item_does_not_affect_the_rest_of_its_batch(database: Database, settings: Settings) -> None:
    job_id = upload(database, settings, ["a", "b", "c"])
    batch = must_claim(database, settings)
    with database.write() as transaction:
        transaction.execute("UPDATE job_items SET lease_owner = 'another' WHERE seq = 1")
    process(batch, database, handlers(database), settings)
    assert statuses(database, job_id) == ["succeeded", "scoring", "succeeded"]
    assert rows(database, "SELECT content FROM document_texts ORDER BY document_id") == [("a",), ("c",)]
    assert_consistent(database)


def test_concurrent_last_results_end_the_job_once(database: Database, settings: Settings) -> None:
    settings = dataclasses.replace(settings, batch_items=1)
    job_id = upload(database, settings, [str(i) for i in range(40)])
    batches = [must_claim(database, settings) for _ in range(40)]
    advances: list[Advance] = []

    def finish(mine: list[Batch]) -> None:
        for batch in mine:
            with database.write() as transaction:
                results = [(item, Outcome(ItemStatus.failed, error="no")) for item in batch.items]
                advances.append(finish_items(transaction, results, batch.owner))

    _together([(finish, (batches[i::4],)) for i in range(4)])
    assert [a.ended_jobs for a in advances if a.ended_jobs] == [(job_id,)]
    assert value(database, "SELECT pending FROM waves") == 0
    assert_consistent(database)


def test_document_error_fails_only_that_document(
    database: Database, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    def score(document: DocumentDraft) -> ScoredDocument:
        if document.content == "bad":
            raise DocumentError("it holds no text")
        if document.content == "bug":
            raise ZeroDivisionError("secret detail")
        return scored(document)

    job_id = upload(database, settings, ["good", "bad", "bug", "fine"])
    run_job(database, settings, handlers(database, score))
    items = queries.get_items(database, job_id)
    assert [item.status for item in items] == ["succeeded", "failed", "failed", "succeeded"]
    assert items[1].error == "it holds no text"
    assert [item.error_code for item in items] == [None, "invalid_document", "internal_error", None]
    assert items[2].error is not None
    assert items[2].error.startswith("internal error (trace ")
    assert "secret" not in items[2].error
    trace = items[2].error.removeprefix("internal error (trace ").removesuffix(")")
    logged = [record for record in caplog.records if getattr(record, "trace_id", None) == trace]
    assert len(logged) == 1
    assert "secret detail" in str(logged[0].exc_info)
    assert queries.get_job(database, job_id).status is JobStatus.partial


def test_storing_error_fails_only_that_document(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert = document_writer.insert_documents

    def fail_on_b(connection: Any, given: Sequence[ScoredDocument], *, now: str) -> list[int]:
        ids = insert(connection, given, now=now)
        if "b" in {document.draft.content for document in given}:
            raise RuntimeError("after half of it was written")
        return ids

    monkeypatch.setattr(document_writer, "insert_documents", fail_on_b)
    job_id = upload(database, settings, ["a", "b", "c"])
    run_job(database, settings)
    assert statuses(database, job_id) == ["succeeded", "failed", "succeeded"]
    assert rows(database, "SELECT content FROM document_texts ORDER BY content") == [("a",), ("c",)]
    assert_consistent(database)


def test_duplicate_is_stored_if_its_original_is_deleted_concurrently(
    database: Database, settings: Settings
) -> None:
    submit_document(database, settings, draft("same"))
    run_job(database, settings)
    job_id = submit_document(database, settings, draft("same"))
    scoring = handlers(database)[Stage.score]
    prepared_as_duplicate = []

    class DeletesInBetween(ItemHandler):
        def prepare(self, item: WorkItem) -> Any:
            prepared = scoring.prepare(item)  # type: ignore[union-attr]
            prepared_as_duplicate.append(prepared is None)
            if prepared is None:
                with database.write() as transaction:
                    document_writer.delete_document(transaction, 1)
            return prepared

        def store(self, connection: Any, item: WorkItem, prepared: Any) -> Outcome:
            return scoring.store(connection, item, prepared)  # type: ignore[union-attr]

    run_job(database, settings, {Stage.score: DeletesInBetween()})
    assert prepared_as_duplicate == [True, False]
    assert statuses(database, job_id) == ["succeeded"]
    assert value(database, "SELECT COUNT(*) FROM documents") == 1


def test_content_stored_concurrently_makes_a_duplicate(database: Database, settings: Settings) -> None:
    job_id = submit_document(database, settings, draft("same", tags=["late"]))

    def score(document: DocumentDraft) -> ScoredDocument:
        with database.write() as transaction:
            document_writer.insert_document(
                transaction, scored(draft("same")), now="2026-01-01T00:00:00.000Z"
            )
        return scored(document)

    run_job(database, settings, handlers(database, score))
    assert statuses(database, job_id) == ["duplicate"]
    assert rows(database, "SELECT tag FROM document_tags") == [("late",)]


def test_content_stored_concurrently_makes_one_duplicate_in_a_group(
    database: Database, settings: Settings
) -> None:
    job_id = upload(database, settings, ["a", "b", "c"])

    def score(document: DocumentDraft) -> ScoredDocument:
        if document.content == "b":
            with database.write() as transaction:
                document_writer.insert_document(
                    transaction, scored(draft("b")), now="2026-01-01T00:00:00.000Z"
                )
        return scored(document)

    run_job(database, settings, handlers(database, score))
    assert statuses(database, job_id) == ["succeeded", "duplicate", "succeeded"]
    assert rows(database, "SELECT content FROM document_texts ORDER BY content") == [("a",), ("b",), ("c",)]
    assert_consistent(database)


def test_full_disk_releases_the_work_without_counting_an_attempt(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shoal.errors import DiskFullError

    monkeypatch.setattr(runner, "STORE_RETRY_SECONDS", 0.0)
    insert = document_writer.insert_documents
    job_id = upload(database, settings, ["a"])

    def full(connection: Any, given: Sequence[ScoredDocument], *, now: str) -> list[int]:
        insert(connection, given, now=now)
        raise DiskFullError("full")

    monkeypatch.setattr(document_writer, "insert_documents", full)
    for _ in range(settings.max_attempts + 1):
        with pytest.raises(DiskFullError):
            process(must_claim(database, settings), database, handlers(database), settings)
        assert rows(database, "SELECT status, attempts FROM job_items") == [("enqueued", 0)]
        assert value(database, "SELECT COUNT(*) FROM documents") == 0
    monkeypatch.setattr(document_writer, "insert_documents", insert)
    run_job(database, settings)
    assert statuses(database, job_id) == ["succeeded"]


def test_finished_work_waits_for_the_disk_and_logs_once(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from shoal.errors import DiskFullError

    insert = document_writer.insert_document
    tries = []

    def full_twice(connection: Any, document: ScoredDocument, *, now: str) -> int:
        tries.append(1)
        if len(tries) <= 2:
            raise DiskFullError("full")
        return insert(connection, document, now=now)

    monkeypatch.setattr(document_writer, "insert_document", full_twice)
    job_id = upload(database, settings, ["a"])
    assert run_job(database, settings) == 1
    assert len(tries) == 3
    assert statuses(database, job_id) == ["succeeded"]
    waiting = [record.getMessage() for record in caplog.records if "wait" in record.getMessage()]
    assert waiting == ["result waits, for 60 s at most: full", "the result that waited is stored"]


def test_work_is_released_when_the_database_is_back(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = upload(database, settings, ["a"])
    write, tries = type(database).write, []

    def away(self: Database) -> Any:
        tries.append(1)
        if len(tries) <= 2:
            raise DatabaseUnavailableError("away")
        return write(self)

    def score(_: DocumentDraft) -> ScoredDocument:
        monkeypatch.setattr(type(database), "write", away)
        raise DatabaseUnavailableError("away")

    monkeypatch.setattr(runner.time, "sleep", lambda _: None)
    with pytest.raises(DatabaseUnavailableError):
        process(must_claim(database, settings), database, handlers(database, score), settings)
    assert rows(database, "SELECT status, attempts FROM job_items") == [("enqueued", 0)]
    run_job(database, settings)
    assert statuses(database, job_id) == ["succeeded"]


class Learner:
    """Handlers of the three stages that record their calls and check the barriers."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.done: list[tuple[str, int, object]] = []
        self.lock = threading.Lock()
        self.wrong: list[str] = []

    def handlers(self) -> Handlers:
        outer = self

        class Discover(ItemHandler):
            def prepare(self, item: WorkItem) -> Any:
                time.sleep(0.001)

            def store(self, connection: Any, item: WorkItem, prepared: Any) -> Outcome:
                outer.note("discover", item.wave, item.seq)
                return Outcome(ItemStatus.discovered)

        class Learn(WaveHandler):
            def prepare_wave(self, wave: WaveRef, owner: str) -> Any:
                outer.check(
                    "SELECT COUNT(*) FROM job_items "
                    "WHERE job_id = :j AND wave = :n AND status <> 'discovered'",
                    wave,
                )
                outer.check(
                    "SELECT COUNT(*) FROM waves WHERE job_id = :j AND n < :n AND stage = 'learn'", wave
                )
                return wave.n + 100

            def store_wave(self, connection: Any, wave: WaveRef, prepared: Any) -> int | None:
                outer.note("learn", wave.n, None)
                return int(prepared)

        class Score(ItemHandler):
            def prepare(self, item: WorkItem) -> Any:
                sql = """SELECT COUNT(*) FROM waves WHERE job_id = :j AND n = :n
                         AND (stage <> 'score' OR vocabulary_version <> n + 100)"""
                outer.check(sql, item.wave_ref)

            def store(self, connection: Any, item: WorkItem, prepared: Any) -> Outcome:
                outer.note("score", item.wave, item.seq)
                return SUCCEEDED

        return {Stage.discover: Discover(), Stage.learn: Learn(), Stage.score: Score()}

    def note(self, stage: str, wave: int, seq: object) -> None:
        with self.lock:
            self.done.append((stage, wave, seq))

    def check(self, sql: str, wave: WaveRef) -> None:
        if found := value(self.database, sql, j=wave.job_id, n=wave.n):
            self.wrong.append(f"{wave}: {found}")


def test_discover_learn_score_passes_each_barrier_once(database: Database, settings: Settings) -> None:
    settings = dataclasses.replace(settings, learning=True, wave_bytes=60, batch_items=4)
    contents = [f"text {i:03d}" for i in range(60)]
    job_id = upload(database, settings, contents)
    n_waves = value(database, "SELECT COUNT(*) FROM waves")
    assert n_waves == 8
    learner = Learner(database)
    opened: list[tuple[int, int, Stage]] = []
    ended: list[int] = []

    def work() -> None:
        using = learner.handlers()
        while queries.get_job(database, job_id).status in (JobStatus.enqueued, JobStatus.processing):
            if batch := claim_now(database, settings):
                advance = process(batch, database, using, settings)
                opened.extend(advance.opened)
                ended.extend(advance.ended_jobs)
            else:
                time.sleep(0.005)

    _together([(work, ())] * 4)
    assert learner.wrong == []
    expected = Counter(
        [("discover", i // 8, i) for i in range(60)]
        + [("learn", n, None) for n in range(8)]
        + [("score", i // 8, i) for i in range(60)]
    )
    assert Counter(learner.done) == expected
    assert [wave for stage, wave, _ in learner.done if stage == "learn"] == list(range(8))
    assert Counter(opened) == Counter((job_id, n, s) for n in range(8) for s in (Stage.learn, Stage.score))
    assert ended == [job_id]
    assert queries.get_job(database, job_id).status is JobStatus.succeeded
    assert_consistent(database)


def test_wave_whose_items_all_fail_in_discover_is_done(database: Database, settings: Settings) -> None:
    settings = dataclasses.replace(settings, learning=True, wave_bytes=2)
    job_id = upload(database, settings, ["a", "a", "b", "c", "d"])

    class Discover(ItemHandler):
        def prepare(self, item: WorkItem) -> Any:
            if item.wave == 1 or item.seq == 0:
                raise DocumentError("no")

        def store(self, connection: Any, item: WorkItem, prepared: Any) -> Outcome:
            return Outcome(ItemStatus.discovered)

    learner = Learner(database)
    run_job(database, settings, {**learner.handlers(), Stage.discover: Discover()})
    assert statuses(database, job_id) == ["failed", "succeeded", "failed", "failed", "succeeded"]
    assert [wave for stage, wave, _ in learner.done if stage == "learn"] == [0, 2]
    assert_consistent(database)


def test_failing_learn_stage_is_retried_and_then_fails_its_items(
    database: Database, settings: Settings
) -> None:
    settings = dataclasses.replace(settings, learning=True, wave_bytes=2)
    job_id = upload(database, settings, ["a", "b", "c"])
    learner = Learner(database)
    tries = []

    class Learn(WaveHandler):
        def prepare_wave(self, wave: WaveRef, owner: str) -> Any:
            tries.append(wave.n)
            if wave.n == 0:
                raise RuntimeError("a bug")
            return 101

        def store_wave(self, connection: Any, wave: WaveRef, prepared: Any) -> int | None:
            return int(prepared)

    run_job(database, settings, {**learner.handlers(), Stage.learn: Learn()})
    assert tries == [0] * settings.max_attempts + [1]
    assert statuses(database, job_id) == ["failed", "failed", "succeeded"]
    assert queries.get_job(database, job_id).status is JobStatus.partial
    assert_consistent(database)


def test_learn_stage_of_a_dead_worker_is_continued_by_another(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = dataclasses.replace(settings, learning=True)
    job_id = upload(database, settings, ["a"])
    learner = Learner(database)
    using = learner.handlers()
    process(must_claim(database, settings), database, using, settings)
    died = must_claim(database, settings)
    assert died.wave is not None
    assert not has_claimable_work(database)
    monkeypatch.setattr(claims, "is_dead", lambda owner: owner == died.owner)
    reconcile(database, settings)
    run_job(database, settings, using)
    process(died, database, using, settings)
    assert [n for stage, n, _ in learner.done if stage == "learn"][:1] == [0]
    assert statuses(database, job_id) == ["succeeded"]
    assert value(database, "SELECT vocabulary_version FROM waves") == 100
    assert_consistent(database)


def _together(calls: list[tuple[Any, tuple[Any, ...]]]) -> None:
    errors: list[BaseException] = []

    def guarded(function: Any, arguments: tuple[Any, ...]) -> None:
        try:
            function(*arguments)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
