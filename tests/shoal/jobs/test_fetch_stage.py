"""Items that name a URL: fetched by a worker, refreshed without a transfer, tried again after failures."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from examples import LONG
from fake_scorer import FakeScorer
from faked_clock import fake_clock
from faults import DONE, KILLED, killed_at
from job_parts import assert_consistent, rows, statuses, value
from replacing_parts import FIRE, PLANT, TIDE, contents
from web_server import WebServer, response, running

from shoal.conversion.converted import draft_of_url
from shoal.engine import Engine
from shoal.errors import FetchError, InvalidFieldError
from shoal.formats.drafts import make_draft
from shoal.jobs.queue import claims
from shoal.jobs.queue.claims import Batch, claim, has_claimable_work
from shoal.jobs.queue.queries import get_items, get_job
from shoal.jobs.queue.recovery import reconcile
from shoal.jobs.queue.submission import Upload, submit_delete, submit_document, submit_replacement
from shoal.jobs.queue.transitions import retry
from shoal.jobs.stages import convert
from shoal.jobs.stages.runner import handlers_for, process
from shoal.maintenance.doctor import CheckContext, run_checks
from shoal.models.documents import DocumentDraft, UrlDraft
from shoal.models.jobs import Stage
from shoal.settings import Settings
from shoal.storage import document_queries
from shoal.storage.database import Database
from shoal.storage.opening import open_database

STRIDE = 1 if LONG else 3
"""Every which write is one to die at."""
PAGE = "<!doctype html><html><title>A Page</title><main>{}</main></html>"


@pytest.fixture(scope="module")
def started() -> Iterator[WebServer]:
    with running() as server:
        yield server


@pytest.fixture
def server(started: WebServer) -> WebServer:
    started.answers.clear()
    started.requests.clear()
    return started


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return dataclasses.replace(settings, fetch_urls="*:*", fetch_private="*", fetch_seconds=5.0)


class Worker:
    """A worker that a test runs step by step."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database, self.settings = database, settings
        self.handlers = handlers_for(database, FakeScorer(), settings)

    def claim(self) -> Batch:
        batch = claim(self.database, claims.new_owner(), self.settings)
        assert batch is not None
        return batch

    def step(self) -> bool:
        if not has_claimable_work(self.database):
            return False
        process(self.claim(), self.database, self.handlers, self.settings)
        return True

    def work(self) -> None:
        while self.step():
            pass
        assert_consistent(self.database)
        assert value(self.database, "SELECT COUNT(*) FROM waves WHERE bytes < 0") == 0

    def submit(self, *drafts: UrlDraft | DocumentDraft) -> int:
        upload = Upload(self.database, self.settings).begin()
        for draft in drafts:
            upload.add(draft)
        return upload.finish()

    def get(self, url: str, **fields: Any) -> int:
        """Submit a URL, work, and return the job."""
        job_id = self.submit(draft_of_url(url, settings=self.settings, **fields))
        self.work()
        return job_id


@pytest.fixture
def worker(database: Database, settings: Settings) -> Worker:
    return Worker(database, settings)


def test_page_becomes_a_document_with_its_url(worker: Worker, database: Database, server: WebServer) -> None:
    url = server.page("/fire", PAGE.format(FIRE), Content_Type="text/html")
    job_id = worker.get(url + "#part", tags=["web"], metadata={"n": 1})
    assert statuses(database, job_id) == ["succeeded"]
    with database.snapshot() as snapshot:
        detail = document_queries.get_detail(snapshot, 1)
    document = detail.document
    assert (document.source_path, document.title, document.tags) == (url, "A Page", ("web",))
    assert detail.file is not None
    assert (detail.file.kind, detail.file.name) == ("html", "fire.html")
    assert value(database, "SELECT COUNT(*) FROM job_item_files") == 0


def test_sizes_of_job_and_wave_are_those_of_what_was_fetched(
    worker: Worker, database: Database, server: WebServer
) -> None:
    text = make_draft(content=TIDE, settings=worker.settings)
    urls = [server.page("/a.md", FIRE), server.url("/missing")]
    job_id = worker.submit(text, *(draft_of_url(url, settings=worker.settings) for url in urls))
    worker.work()
    assert statuses(database, job_id) == ["succeeded", "succeeded", "failed"]
    progress = get_job(database, job_id).progress
    size = len(TIDE.encode()) + len(FIRE.encode())
    assert (progress.bytes_total, progress.bytes_done) == (size, size)
    assert value(database, "SELECT SUM(bytes) FROM waves") == size


def test_pages_do_not_wait_for_each_other_in_one_batch(
    worker: Worker, database: Database, server: WebServer
) -> None:
    urls = [server.page("/a.md", FIRE), server.page("/b.md", TIDE)]
    worker.submit(*(draft_of_url(url, settings=worker.settings) for url in urls))
    batches = [worker.claim(), worker.claim()]
    assert [len(batch.items) for batch in batches] == [1, 1]
    for batch in batches:
        process(batch, database, worker.handlers, worker.settings)
    worker.work()
    assert sorted(contents(database).values()) == sorted([FIRE, TIDE])


def test_default_title_comes_from_the_name_of_the_page(
    worker: Worker, database: Database, server: WebServer
) -> None:
    worker.get(server.page("/a-note.md", FIRE) + "?v=1.2")
    assert rows(database, "SELECT title, source_path FROM documents") == [
        ("A Note", server.url("/a-note.md?v=1.2"))
    ]


def test_unchanged_page_ends_its_item_without_a_transfer(
    worker: Worker, database: Database, server: WebServer
) -> None:
    url = server.page("/fire", PAGE.format(FIRE), Content_Type="text/html", ETag='"1"')
    worker.get(url, tags=["a"])
    before = rows(database, "SELECT content_hash, title FROM documents")
    worker.handlers[Stage.convert]._process.convert = lambda *_: pytest.fail("it was converted")  # type: ignore[union-attr]
    job_id = worker.get(url, tags=["b"], metadata={"n": 2})
    assert statuses(database, job_id) == ["duplicate"]
    assert get_items(database, job_id)[0].document_id == 1
    assert server.requests[-1][1]["if-none-match"] == '"1"'
    with database.snapshot() as snapshot:
        document = document_queries.get_document(snapshot, 1)
    assert (document.tags, dict(document.metadata)) == (("a", "b"), {"n": 2})
    assert rows(database, "SELECT content_hash, title FROM documents") == before


def test_changed_page_replaces_its_document(worker: Worker, database: Database, server: WebServer) -> None:
    url = server.page("/notes.md", FIRE, ETag='"1"')
    worker.get(url)
    server.page("/notes.md", PLANT, ETag='"2"')
    worker.get(url)
    assert contents(database) == {1: PLANT}
    job_id = worker.get(url)
    assert statuses(database, job_id) == ["duplicate"]
    assert server.requests[-1][1]["if-none-match"] == '"2"'


def test_date_of_the_page_serves_where_there_is_no_etag(
    worker: Worker, database: Database, server: WebServer
) -> None:
    url = server.page("/a.md", FIRE, Last_Modified="Mon, 01 Jan 2024 00:00:00 GMT")
    worker.get(url)
    assert statuses(database, worker.get(url)) == ["duplicate"]
    assert "if-modified-since" in server.requests[-1][1]


@pytest.mark.parametrize("change", ["content", "delete", "title", "path", "converter"])
def test_page_is_fetched_again_if_its_document_is_not_what_it_was(
    worker: Worker, database: Database, server: WebServer, change: str
) -> None:
    url = server.page("/a.md", FIRE, ETag='"1"')
    worker.get(url)
    fields: dict[str, Any] = {}
    if change == "content":
        draft = make_draft(content=PLANT, settings=worker.settings, source_path=url)
        submit_replacement(database, worker.settings, 1, draft)
        worker.work()
    elif change == "title":
        fields = {"title": "Another"}
    else:
        statement = {
            "delete": "DELETE FROM documents",
            "path": "UPDATE documents SET source_path = 'elsewhere.md'",
            "converter": "UPDATE fetched_pages SET converter = 0",
        }[change]
        with database.write() as transaction:
            transaction.execute(statement)
    worker.get(url, **fields)
    is_known = "if-none-match" in server.requests[-1][1]
    # A document that has moved still has the content; a refresh of its page only finds a duplicate.
    assert is_known == (change == "path")
    assert FIRE in contents(database).values()


def test_page_with_the_content_of_another_document_is_a_duplicate_of_it(
    worker: Worker, database: Database, server: WebServer
) -> None:
    submit_document(database, worker.settings, make_draft(content=FIRE, settings=worker.settings))
    worker.work()
    url = server.page("/a.md", FIRE, ETag='"1"')
    for _ in range(2):
        job_id = worker.get(url, tags=["web"])
        assert (statuses(database, job_id), get_items(database, job_id)[0].document_id) == (["duplicate"], 1)
    assert server.requests[-1][1]["if-none-match"] == '"1"'
    assert contents(database) == {1: FIRE}


def test_same_bytes_without_an_etag_are_not_converted_again(
    worker: Worker, database: Database, server: WebServer
) -> None:
    url = server.page("/fire.html", PAGE.format(FIRE), Content_Type="text/html")
    worker.get(url)
    worker.handlers[Stage.convert]._process.convert = lambda *_: pytest.fail("it was converted")  # type: ignore[union-attr]
    assert statuses(database, worker.get(url)) == ["duplicate"]
    assert rows(database, "SELECT * FROM fetched_pages") == []


def test_failure_for_a_time_is_tried_again_later(
    worker: Worker, database: Database, server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers["/a.md"] = response(status="503 Busy", Retry_After="3600")
    job_id = worker.submit(draft_of_url(server.url("/a.md"), settings=worker.settings))
    assert worker.step()
    assert not worker.step()
    item = get_items(database, job_id)[0]
    assert (item.status, item.attempts, item.error) == ("enqueued", 1, None)
    # A server cannot hold the other documents of a wave for longer.
    pause = value(database, "SELECT retry_at FROM job_items")
    assert 0 < pause - time.time() <= convert.MAX_PAUSE  # type: ignore[operator]
    server.page("/a.md", FIRE)
    later = time.time() + convert.MAX_PAUSE
    fake_clock(monkeypatch, lambda: later)
    worker.work()
    assert statuses(database, job_id) == ["succeeded"]
    assert get_items(database, job_id)[0].attempts == 0


def test_failures_end_with_the_last_attempt(
    worker: Worker, database: Database, server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert, "FIRST_PAUSE", 0.0)
    server.answers["/a.md"] = response(status="503 Busy")
    job_id = worker.get(server.url("/a.md"))
    item = get_items(database, job_id)[0]
    assert (item.status, item.error_code) == ("failed", "url_failed")
    assert len(server.requests) == worker.settings.max_attempts
    server.page("/a.md", FIRE)
    retry(database, worker.settings, job_id)
    worker.work()
    assert statuses(database, job_id) == ["succeeded"]


def test_failure_that_lasts_is_not_tried_again(worker: Worker, database: Database, server: WebServer) -> None:
    job_id = worker.get(server.url("/missing"))
    item = get_items(database, job_id)[0]
    assert (item.status, item.error_code) == ("failed", "url_failed")
    assert len(server.requests) == 1


def test_worker_checks_its_own_settings(worker: Worker, database: Database, server: WebServer) -> None:
    job_id = worker.submit(draft_of_url(server.page("/a.md", FIRE), settings=worker.settings))
    worker.handlers = handlers_for(
        database, FakeScorer(), Settings(database_url=worker.settings.database_url)
    )
    worker.work()
    assert get_items(database, job_id)[0].error_code == "url_refused"
    assert not server.requests


def test_damaged_file_fails_after_the_fetch_and_can_be_retried(
    worker: Worker, database: Database, server: WebServer
) -> None:
    job_id = worker.get(server.page("/a.docx", b"PK\x03\x04" + bytes(999), Content_Type="text/plain"))
    item = get_items(database, job_id)[0]
    assert (item.status, item.error_code) == ("failed", "file_broken")
    retry(database, worker.settings, job_id)
    worker.work()
    assert len(server.requests) == 1
    assert statuses(database, job_id) == ["failed"]


@pytest.mark.parametrize("earlier", ["replace", "delete"])
@pytest.mark.parametrize("path", ["/a.md", "/a.html"])
def test_page_is_not_unchanged_while_an_earlier_job_may_change_its_document(
    worker: Worker, database: Database, server: WebServer, earlier: str, path: str
) -> None:
    url = server.page(path, PAGE.format(FIRE), Content_Type="text/html", ETag='"1"')
    worker.get(url)
    (text,) = contents(database).values()
    if earlier == "delete":
        submit_delete(database, worker.settings, [1])
    else:
        draft = make_draft(content=PLANT, settings=worker.settings, source_path=url)
        submit_replacement(database, worker.settings, 1, draft)
    held = worker.claim()
    worker.submit(draft_of_url(url, settings=worker.settings))
    while worker.step():
        pass
    process(held, database, worker.handlers, worker.settings)
    worker.work()
    assert list(contents(database).values()) == [text]
    assert "if-none-match" not in server.requests[-1][1]


def test_library_is_healthy_whatever_the_state_of_a_fetch(
    worker: Worker, database: Database, server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert, "FIRST_PAUSE", 0.0)
    server.answers["/a.md"] = response(status="503 Busy")
    job_id = worker.submit(draft_of_url(server.url("/a.md"), settings=worker.settings))

    def findings() -> list[str]:
        context = CheckContext(worker.settings, FakeScorer())
        try:
            return [finding.problem for finding in run_checks(context).findings if finding.is_error]
        finally:
            context.close()

    assert findings() == []
    worker.step()
    assert findings() == []
    server.page("/a.md", FIRE, ETag='"1"')
    while worker.step():
        assert findings() == []
    assert statuses(database, job_id) == ["succeeded"]


def test_worker_killed_at_any_write_leaves_one_document(
    tmp_path: Path, worker: Worker, database: Database, settings: Settings, server: WebServer
) -> None:
    url = server.page("/fire.md", FIRE, ETag='"1"')
    worker.submit(draft_of_url(url, settings=settings))
    database.close()
    place, code = 1 - STRIDE, KILLED
    while code == KILLED:
        place += STRIDE
        copy = tmp_path / f"copy-{place}.db"
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{settings.database_path}{suffix}", f"{copy}{suffix}")
        own = dataclasses.replace(settings, database_url=f"sqlite:///{copy}")

        def work(own: Settings = own) -> None:
            Worker(open_database(own.database_url), own).work()

        code, message = killed_at(place, work)
        assert code in (KILLED, DONE), message
        survivor = Worker(open_database(own.database_url), own)
        reconcile(survivor.database, own)
        survivor.work()
        assert contents(survivor.database) == {1: FIRE}
        assert statuses(survivor.database, survivor.get(url)) == ["duplicate"]
        assert server.requests[-1][1]["if-none-match"] == '"1"'
        survivor.database.close()
    assert place > 4


def test_embedded_job_waits_for_the_next_try(
    settings: Settings, database: Database, server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert, "FIRST_PAUSE", 0.05)
    page = response(FIRE.encode())
    answers = [response(status="503 Busy"), page]
    server.answers["/a.md"] = lambda connection, _target, _headers: connection.sendall(answers.pop(0))
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        assert engine.ingest_url(server.url("/a.md")).id == 1


def test_url_that_is_not_allowed_is_no_draft(settings: Settings) -> None:
    off = dataclasses.replace(settings, fetch_urls="")
    with pytest.raises(FetchError, match="SHOAL_FETCH_URLS"):
        draft_of_url("http://example.org/", settings=off)
    with pytest.raises(InvalidFieldError, match="format"):
        draft_of_url("http://example.org/", settings=settings, format="markdown")
    with pytest.raises(InvalidFieldError, match="url"):
        draft_of_url("http://example.org/" + "a" * 2000, settings=settings)


def test_engine_fetches_a_page(settings: Settings, database: Database, server: WebServer) -> None:
    url = server.page("/a.md", FIRE, ETag='"1"')
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        first, second = engine.ingest_url(url, tags=["web"]), engine.ingest_url(url)
        assert (first.id, first.duplicate, second.id, second.duplicate) == (1, None, 1, 1)
        with pytest.raises(FetchError) as caught:
            engine.ingest_url(server.url("/missing"))
    assert caught.value.code == "url_failed"


def test_original_is_kept_on_request(database: Database, settings: Settings, server: WebServer) -> None:
    worker = Worker(database, dataclasses.replace(settings, keep_originals=True))
    page = PAGE.format(FIRE)
    worker.get(server.page("/fire", page, Content_Type="text/html"))
    assert value(database, "SELECT data FROM document_files") == page.encode()
