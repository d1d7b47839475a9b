"""Uploads that replace the stored documents with their paths."""

from __future__ import annotations

import contextlib
import multiprocessing
import queue
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from conversion_doubles import KIND
from examples import LONG
from fake_scorer import FakeScorer
from faults import DONE, KILLED, killed_at
from indexed_library import assert_indexed
from job_parts import assert_consistent, rows, statuses, value
from replacing_parts import COURT, FIRE, PLANT, TIDE, chunks_of, contents, text_of

from shoal.engine import Engine
from shoal.formats.drafts import make_draft, make_file_draft
from shoal.jobs.queue import claims
from shoal.jobs.queue.claims import Batch, claim
from shoal.jobs.queue.queries import get_items, list_jobs
from shoal.jobs.queue.recovery import reconcile
from shoal.jobs.queue.submission import Upload, submit_delete, submit_document, submit_replacement
from shoal.jobs.queue.transitions import retry
from shoal.jobs.stages import convert
from shoal.jobs.stages.runner import handlers_for, process
from shoal.models.documents import DocumentDraft
from shoal.models.jobs import JobStatus, OnConflict, Stage
from shoal.settings import Settings
from shoal.storage import document_queries
from shoal.storage.database import Database
from shoal.storage.opening import open_database

PATH = "notes/fire.md"
STRIDE = 1 if LONG else 3
"""Every which write is one to die at."""


class Service:
    """A service whose batches a test processes in any order."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database, self.settings = database, settings
        self.handlers = handlers_for(database, FakeScorer(), settings)

    def draft(self, content: str, path: str | None = PATH, **fields: Any) -> DocumentDraft:
        return make_draft(
            content=content, source_path=path, settings=self.settings, **{"format": "markdown", **fields}
        )

    def upload(self, *drafts: Any, on_conflict: OnConflict = OnConflict.replacing) -> int:
        upload = Upload(self.database, self.settings).begin(on_conflict=on_conflict)
        for draft in drafts:
            upload.add(draft)
        return upload.finish()

    def put(self, content: str, path: str | None = PATH, **fields: Any) -> int:
        return self.upload(self.draft(content, path, **fields))

    def keep(self, content: str, path: str | None = PATH) -> int:
        return submit_document(self.database, self.settings, self.draft(content, path))

    def claim(self) -> Batch | None:
        return claim(self.database, claims.new_owner(), self.settings)

    def process(self, batch: Batch | None) -> None:
        assert batch is not None
        process(batch, self.database, self.handlers, self.settings)

    def work(self) -> None:
        while batch := self.claim():
            self.process(batch)
        assert_consistent(self.database)

    def document_of(self, job_id: int, n: int = 0) -> int | None:
        return get_items(self.database, job_id)[n].document_id


@pytest.fixture
def service(database: Database, settings: Settings) -> Service:
    return Service(database, settings)


@pytest.fixture
def engine(settings: Settings, database: Database) -> Iterator[Engine]:
    with Engine(settings=settings, scorer=FakeScorer()) as opened:
        yield opened


def test_new_path_becomes_a_document(service: Service, database: Database) -> None:
    job_id = service.put(FIRE)
    service.work()
    assert statuses(database, job_id) == ["succeeded"]
    assert contents(database) == {1: FIRE}


def test_stored_path_gets_the_new_content_under_its_id(
    service: Service, database: Database, engine: Engine
) -> None:
    service.keep(text_of(FIRE, PLANT))
    other = service.keep(TIDE, "notes/tide.md")
    service.work()
    before = chunks_of(engine, 1)
    job_id = service.put(text_of(COURT, PLANT))
    service.work()
    assert statuses(database, job_id) == ["succeeded"]
    assert service.document_of(job_id) == 1
    assert contents(database) == {1: text_of(COURT, PLANT), service.document_of(other): TIDE}
    after = chunks_of(engine, 1)
    assert set(after) == {COURT, PLANT}
    assert after[PLANT] == before[PLANT]
    assert_indexed(engine.database)


def test_upload_without_replacing_keeps_both(service: Service, database: Database) -> None:
    service.keep(FIRE)
    service.upload(service.draft(PLANT), on_conflict=OnConflict.keep)
    service.work()
    assert list(contents(database).values()) == [FIRE, PLANT]


def test_unchanged_document_is_neither_scored_nor_written(service: Service, database: Database) -> None:
    service.put(FIRE, tags=["a"], metadata={"n": 1})
    service.work()
    row = "SELECT * FROM documents"
    before = [tuple(one) for one in rows(database, row)]
    scoring: Any = service.handlers[Stage.score]
    scoring._scoring.scored = lambda item: pytest.fail("an unchanged document was scored")
    job_id = service.put(FIRE)
    service.work()
    assert statuses(database, job_id) == ["duplicate"]
    assert service.document_of(job_id) == 1
    assert [tuple(one) for one in rows(database, row)] == before
    assert get_items(database, job_id)[0].warnings == ()


def test_tags_are_added_and_metadata_replaced(service: Service, database: Database) -> None:
    service.put(FIRE, tags=["a"], metadata={"n": 1})
    service.work()

    def fields() -> tuple[tuple[str, ...], dict[str, Any]]:
        with database.snapshot() as snapshot:
            stored = document_queries.get_document(snapshot, 1)
        return tuple(stored.tags), dict(stored.metadata)

    service.put(FIRE, tags=["b"], metadata={"n": 2})
    service.work()
    assert fields() == (("a", "b"), {"n": 2})
    service.put(PLANT, tags=["c"])
    service.work()
    assert fields() == (("a", "b", "c"), {"n": 2})


def test_same_path_twice_in_an_upload_the_later_wins(service: Service, database: Database) -> None:
    drafts = [service.draft(text) for text in (FIRE, PLANT, COURT)]
    job_id = service.upload(*drafts, service.draft(TIDE, "other.md"))
    service.work()
    assert statuses(database, job_id) == ["succeeded"] * 4
    assert sorted(contents(database).values()) == sorted([COURT, TIDE])
    assert len({service.document_of(job_id, n) for n in range(3)}) == 1


def test_jobs_on_one_path_wait_for_each_other(service: Service, database: Database) -> None:
    first, second = service.put(FIRE), service.put(PLANT)
    held = service.claim()
    assert held is not None
    assert [item.job_id for item in held.items] == [first]
    assert service.claim() is None
    service.process(held)
    service.work()
    assert contents(database) == {1: PLANT}
    assert service.document_of(second) == service.document_of(first) == 1


@pytest.mark.parametrize("earlier", ["keep", "delete", "replace by id"])
def test_earlier_jobs_on_the_path_come_first(service: Service, database: Database, earlier: str) -> None:
    service.keep(FIRE)
    if earlier != "keep":
        service.work()
    if earlier == "delete":
        submit_delete(database, service.settings, [1])
    elif earlier == "replace by id":
        submit_replacement(database, service.settings, 1, service.draft(PLANT))
    service.put(COURT)
    held = service.claim()
    assert service.claim() is None
    service.process(held)
    service.work()
    assert list(contents(database).values()) == [COURT]
    assert (1 in contents(database)) is (earlier != "delete")


def test_replacement_by_id_waits_for_an_earlier_one_by_path(service: Service, database: Database) -> None:
    service.keep(FIRE)
    service.work()
    service.put(COURT)
    submit_replacement(database, service.settings, 1, service.draft(PLANT))
    held = service.claim()
    assert service.claim() is None
    service.process(held)
    service.work()
    assert contents(database) == {1: PLANT}


def test_text_that_a_path_is_about_to_lose_is_stored_again(service: Service, database: Database) -> None:
    service.keep(FIRE)
    service.work()
    service.put(PLANT)
    again = service.keep(FIRE, "copy.md")
    held = service.claim()
    assert service.claim() is None, "it is not decided yet whether this is a duplicate"
    service.process(held)
    service.work()
    assert statuses(database, again) == ["succeeded"]
    assert sorted(contents(database).values()) == sorted([FIRE, PLANT])


def test_document_stored_after_scoring_began_is_replaced(
    service: Service, database: Database, engine: Engine
) -> None:
    """Another process, whose job this one does not wait for, stores a document with the path meanwhile."""
    service.put(PLANT)
    batch = service.claim()
    assert batch is not None
    handler: Any = service.handlers[Stage.score]
    prepare = handler.prepare

    def race(item: Any) -> Any:
        prepared = prepare(item)
        handler.prepare = prepare
        engine.ingest_many([{"content": FIRE, "source_path": PATH}])
        return prepared

    handler.prepare = race
    service.process(batch)
    assert contents(database) == {1: PLANT}
    assert_indexed(engine.database)


def test_document_deleted_after_scoring_began_is_stored_anew(
    service: Service, database: Database, engine: Engine
) -> None:
    service.keep(FIRE)
    service.work()
    job_id = service.put(PLANT)
    batch = service.claim()
    handler: Any = service.handlers[Stage.score]
    prepare = handler.prepare

    def race(item: Any) -> Any:
        prepared = prepare(item)
        handler.prepare = prepare
        engine.documents.delete(1)
        return prepared

    handler.prepare = race
    service.process(batch)
    assert list(contents(database).values()) == [PLANT]
    assert statuses(database, job_id) == ["succeeded"]
    assert 1 not in contents(database)


def test_several_documents_with_the_path_fail_the_item(service: Service, database: Database) -> None:
    service.keep(FIRE)
    service.keep(PLANT)
    service.work()
    job_id = service.upload(service.draft(COURT), service.draft(TIDE, "tide.md"))
    service.work()
    failed, stored = get_items(database, job_id)
    assert (failed.status, failed.error_code) == ("failed", "ambiguous_path")
    assert stored.status == "succeeded"
    assert sorted(contents(database).values()) == sorted([FIRE, PLANT, TIDE])
    # Once only one is left, the item can be retried.
    submit_delete(database, service.settings, [2])
    service.work()
    retry(database, service.settings, job_id)
    service.work()
    assert contents(database)[1] == COURT


def test_content_of_another_document_fails_the_item(service: Service, database: Database) -> None:
    service.keep(FIRE)
    service.keep(PLANT, "plant.md")
    service.work()
    job_id = service.put(PLANT)
    service.work()
    assert get_items(database, job_id)[0].error_code == "duplicate_content"
    assert sorted(contents(database).values()) == sorted([FIRE, PLANT])


def test_newer_content_of_a_path_is_not_undone_by_a_retry(service: Service, database: Database) -> None:
    service.keep(FIRE)
    service.keep(PLANT, "plant.md")
    service.work()
    job_id = service.upload(service.draft(PLANT), service.draft(COURT, "plant.md"))
    service.work()
    assert statuses(database, job_id) == ["failed", "succeeded"]
    service.put(TIDE)
    service.work()
    with pytest.raises(Exception, match="newer content"):
        retry(database, service.settings, job_id)
    assert contents(database)[1] == TIDE


def test_documents_without_a_path_are_kept(service: Service, database: Database) -> None:
    service.upload(service.draft(FIRE, None), service.draft(PLANT, None))
    service.work()
    assert sorted(contents(database).values()) == sorted([FIRE, PLANT])


def test_engine_replaces_by_path(engine: Engine) -> None:
    documents = [{"content": text, "source_path": f"{n}.txt"} for n, text in enumerate((FIRE, PLANT))]
    engine.ingest_many(documents)
    documents[0]["content"] = COURT
    results = engine.ingest_many(documents, on_conflict="replace")
    assert [(result.id, result.duplicate, result.error) for result in results] == [
        (1, None, None),
        (2, 2, None),
    ]
    assert contents(engine.database) == {1: COURT, 2: PLANT}


# --- Files --------------------------------------------------------------------------------------------------


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "FILE_KINDS", MappingProxyType({KIND.id: KIND}))


def file_of(service: Service, text: str, path: str = "sea.double", **fields: Any) -> Any:
    return make_file_draft(text.encode(), KIND.id, settings=service.settings, source_path=path, **fields)


@pytest.mark.usefixtures("double")
def test_unchanged_file_is_not_converted_again(service: Service, database: Database) -> None:
    service.upload(file_of(service, FIRE))
    service.work()
    converting: Any = service.handlers[Stage.convert]
    converting._draft = lambda *_: pytest.fail("an unchanged file was converted")
    job_id = service.upload(file_of(service, FIRE, tags=["new"]))
    service.work()
    assert statuses(database, job_id) == ["duplicate"]
    assert rows(database, "SELECT document_id, tag FROM document_tags") == [(1, "new")]


@pytest.mark.usefixtures("double")
def test_changed_file_replaces_its_document(service: Service, database: Database) -> None:
    service.upload(file_of(service, FIRE))
    service.work()
    job_id = service.upload(file_of(service, PLANT))
    service.work()
    assert statuses(database, job_id) == ["succeeded"]
    assert contents(database) == {1: PLANT}
    with database.snapshot() as snapshot:
        stored = document_queries.describe_file(snapshot, 1)
    assert stored is not None
    assert stored.n_bytes == len(PLANT)


@pytest.mark.usefixtures("double")
def test_earlier_file_restored_after_a_change_wins(service: Service, database: Database) -> None:
    service.upload(file_of(service, FIRE))
    service.work()
    service.upload(file_of(service, PLANT), file_of(service, FIRE))
    service.work()
    assert contents(database) == {1: FIRE}


# --- Deaths and races ---------------------------------------------------------------------------------------


def test_worker_killed_at_any_write_leaves_one_document(
    tmp_path: Path, service: Service, database: Database, settings: Settings
) -> None:
    service.keep(text_of(FIRE, PLANT))
    service.work()
    service.upload(service.draft(text_of(COURT, PLANT)), service.draft(TIDE, "tide.md"))
    database.close()
    original = settings.database_path
    place, code = 1 - STRIDE, KILLED
    while code == KILLED:
        place += STRIDE
        copy = tmp_path / f"copy-{place}.db"
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{original}{suffix}", f"{copy}{suffix}")
        own = Settings(database_url=f"sqlite:///{copy}", learning=settings.learning)

        def work(own: Settings = own) -> None:
            Service(open_database(own.database_url), own).work()

        code, message = killed_at(place, work)
        assert code in (KILLED, DONE), message
        survivor = Service(open_database(own.database_url), own)
        held = contents(survivor.database)[1]
        assert held in (text_of(FIRE, PLANT), text_of(COURT, PLANT))
        reconcile(survivor.database, own)
        survivor.work()
        assert contents(survivor.database)[1] == text_of(COURT, PLANT)
        assert sorted(contents(survivor.database).values()) == sorted([text_of(COURT, PLANT), TIDE])
        survivor.database.close()
    assert place > 3


N_PROCESSES = 2
ROUNDS = 8 if LONG else 4
TIMEOUT_SECONDS = 120


def upload_and_work(url: str, number: int, barrier: Any, results: Any) -> None:
    settings = Settings(database_url=url, learning=False, batch_items=3)
    database = open_database(url)
    service = Service(database, settings)
    barrier.wait(TIMEOUT_SECONDS)
    try:
        for n in range(ROUNDS):
            service.upload(
                *(
                    service.draft(f"{FIRE} Round {n} of process {number}, path {path}.", path)
                    for path in ("a.md", "b.md", "a.md")
                )
            )
        while True:
            batch = service.claim()
            if batch is not None:
                service.process(batch)
            elif all(job.ended for job in list_jobs(database, limit=1000)):
                break
        results.put("done")
    except BaseException as error:
        results.put(repr(error))
    finally:
        database.close()


def test_processes_that_upload_the_same_paths_leave_one_document_of_each(
    database: Database, settings: Settings
) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(N_PROCESSES), context.Queue()
    processes = [
        context.Process(
            target=upload_and_work, args=(settings.database_url, n, barrier, results), daemon=True
        )
        for n in range(N_PROCESSES)
    ]
    for one in processes:
        one.start()
    outcomes = []
    try:
        with contextlib.suppress(queue.Empty):
            outcomes = [results.get(timeout=TIMEOUT_SECONDS) for _ in processes]
    finally:
        for one in processes:
            one.join(5)
            one.kill()
    assert outcomes == ["done"] * N_PROCESSES
    assert {job.status for job in list_jobs(database, limit=100)} == {JobStatus.succeeded}
    assert value(database, "SELECT COUNT(*) FROM documents") == 2
    assert_consistent(database)
