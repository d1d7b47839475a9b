"""Replace jobs: the last accepted one wins, and readers see either the old or the new document."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from fake_scorer import FakeScorer
from indexed_library import assert_indexed
from job_parts import assert_consistent, statuses
from replacing_parts import COURT, FIRE, PLANT, TIDE, chunks_of, contents, text_of

from shoal.engine import Engine
from shoal.formats.drafts import make_draft
from shoal.jobs.queue import claims
from shoal.jobs.queue.claims import Batch, claim
from shoal.jobs.queue.queries import get_items, get_job
from shoal.jobs.queue.submission import submit_document, submit_replacement
from shoal.jobs.stages.runner import handlers_for, process
from shoal.models.documents import DocumentDraft
from shoal.models.jobs import JobKind, JobStatus, Stage
from shoal.settings import Settings
from shoal.storage.database import Database


@pytest.fixture
def engine(settings: Settings, database: Database) -> Iterator[Engine]:
    with Engine(settings=settings, scorer=FakeScorer()) as opened:
        yield opened


def draft(content: str, settings: Settings, title: str = "T", tags: Sequence[str] = ()) -> DocumentDraft:
    return make_draft(content=content, title=title, tags=tags, format="markdown", settings=settings)


class Workers:
    """Workers of a service without learning that process batches in any order."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self.handlers = handlers_for(database, FakeScorer(), settings)

    def claim(self) -> Batch | None:
        return claim(self._database, claims.new_owner(), self._settings)

    def process(self, batch: Batch) -> None:
        process(batch, self._database, self.handlers, self._settings)

    def work(self) -> None:
        while batch := self.claim():
            self.process(batch)
        assert_consistent(self._database)

    def stored(self, content: str) -> int:
        job_id = submit_document(self._database, self._settings, draft(content, self._settings))
        self.work()
        document_id = get_items(self._database, job_id)[0].document_id
        assert document_id is not None
        return document_id


@pytest.fixture
def workers(database: Database, settings: Settings) -> Workers:
    return Workers(database, settings)


def replace(database: Database, settings: Settings, document_id: int, content: str) -> int:
    return submit_replacement(database, settings, document_id, draft(content, settings))


def test_job_replaces_a_document(database: Database, settings: Settings, workers: Workers) -> None:
    document_id = workers.stored(FIRE)
    job_id = replace(database, settings, document_id, PLANT)
    assert contents(database) == {document_id: FIRE}
    workers.work()
    job = get_job(database, job_id)
    assert (job.kind, job.status) == (JobKind.replacing, JobStatus.succeeded)
    assert get_items(database, job_id)[0].document_id == document_id
    assert contents(database) == {document_id: PLANT}


def test_last_accepted_replacement_wins(database: Database, settings: Settings, workers: Workers) -> None:
    document_id = workers.stored(FIRE)
    first = replace(database, settings, document_id, PLANT)
    second = replace(database, settings, document_id, COURT)
    held = workers.claim()
    assert held is not None
    assert [item.job_id for item in held.items] == [first]
    # The other replacement waits, even for a free worker.
    assert workers.claim() is None
    workers.process(held)
    workers.work()
    assert contents(database) == {document_id: COURT}
    assert get_job(database, second).status is JobStatus.succeeded


def test_text_of_a_document_under_replacement_is_stored_again(
    database: Database, settings: Settings, workers: Workers
) -> None:
    document_id = workers.stored(FIRE)
    replace(database, settings, document_id, PLANT)
    again = submit_document(database, settings, draft(FIRE, settings))
    held = workers.claim()
    assert held is not None
    assert workers.claim() is None, "it is not decided yet whether this is a duplicate"
    workers.process(held)
    workers.work()
    assert statuses(database, again) == ["succeeded"]
    assert sorted(contents(database).values()) == sorted([FIRE, PLANT])


def test_documents_can_exchange_their_texts(database: Database, settings: Settings, workers: Workers) -> None:
    first, second = workers.stored(FIRE), workers.stored(PLANT)
    jobs = [
        replace(database, settings, second, COURT),
        replace(database, settings, first, PLANT),
    ]
    workers.work()
    assert [get_job(database, job_id).status for job_id in jobs] == [JobStatus.succeeded] * 2
    assert contents(database) == {first: PLANT, second: COURT}


def test_impossible_replacement_fails_with_a_reason(
    database: Database, settings: Settings, workers: Workers
) -> None:
    taken, document_id, gone = workers.stored(FIRE), workers.stored(PLANT), workers.stored(COURT)
    same = replace(database, settings, document_id, FIRE)
    of_nothing = replace(database, settings, gone, TIDE)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        engine.documents.delete(gone)
    workers.work()
    assert get_items(database, same)[0].error == f"the same content is stored already as document {taken}"
    error = get_items(database, of_nothing)[0].error
    assert error == f"document {gone} was deleted before its new content was stored"
    assert contents(database) == {taken: FIRE, document_id: PLANT}


def test_document_replaced_during_scoring_is_scored_again(
    database: Database, settings: Settings, workers: Workers
) -> None:
    """A worker continues without knowing that it has lost its lease."""
    document_id = workers.stored(FIRE)
    replace(database, settings, document_id, text_of(PLANT, COURT))
    batch = workers.claim()
    assert batch is not None
    handler: Any = workers.handlers[Stage.score]
    prepared = handler.prepare(batch.items[0])
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        engine.documents.replace(document_id, content=text_of(COURT, TIDE))
        kept = chunks_of(engine, document_id)
        prepare_anew = handler.prepare
        calls = itertools.count()

        def prepare(item: Any) -> Any:
            return prepared if next(calls) == 0 else prepare_anew(item)

        handler.prepare = prepare
        workers.process(batch)
        assert next(calls) == 2
        assert contents(database) == {document_id: text_of(PLANT, COURT)}
        assert_indexed(engine.database)
        assert chunks_of(engine, document_id)[COURT] == kept[COURT]


def test_readers_see_either_the_old_or_the_new_document(settings: Settings, engine: Engine) -> None:
    texts = [text_of(FIRE, PLANT, COURT), text_of(PLANT, TIDE), text_of(TIDE, FIRE, COURT, PLANT)]
    document_id = engine.ingest(content=texts[0], format="markdown").id
    assert document_id is not None
    expected = {}
    for text in texts:
        engine.documents.replace(document_id, content=text)
        expected[text] = [
            (chunk.chunk_index, chunk.text, chunk.start_char, chunk.reefs)
            for chunk in engine.documents.chunks(document_id).chunks
        ]
    done = threading.Event()

    def rewrite() -> None:
        try:
            for text in texts * 8:
                engine.documents.replace(document_id, content=text)
        finally:
            done.set()

    thread = threading.Thread(target=rewrite)
    thread.start()
    seen = 0
    try:
        while not done.is_set():
            with engine.database.snapshot() as snapshot:
                content = snapshot.value("SELECT content FROM document_texts")
                rows_seen = [
                    (row["chunk_index"], row["text"], row["start_char"])
                    for row in snapshot.rows("SELECT * FROM chunks ORDER BY chunk_index")
                ]
            assert rows_seen == [row[:3] for row in expected[content]]
            for result in engine.search("magma, flower, tide and verdict", top_k=20, mode="reef").results:
                assert any(result.text == row[1] for rows_of in expected.values() for row in rows_of)
            seen += 1
    finally:
        thread.join()
    assert seen
