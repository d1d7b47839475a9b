"""Files wait in their job until a worker converts them; every end of a conversion is the end of one item."""

from __future__ import annotations

import dataclasses
import hashlib
from types import MappingProxyType
from typing import Any

import pytest
from conversion_doubles import KIND
from job_parts import assert_consistent, claim_now, rows, statuses, value

import lagoon
from shoal.conversion.file_kinds import FILE_KINDS
from shoal.errors import CONVERSION_CODES
from shoal.formats.drafts import make_draft, make_file_draft
from shoal.jobs import in_process
from shoal.jobs.queue import claims, queries
from shoal.jobs.queue.claims import claim, release
from shoal.jobs.queue.progress import fraction_done
from shoal.jobs.queue.submission import Upload, submit_replacement
from shoal.jobs.queue.transitions import retry
from shoal.jobs.stages import convert, runner
from shoal.jobs.stages.contract import Handlers
from shoal.jobs.stages.runner import handlers_for, process
from shoal.models.files import FileAccount, FileDraft, Locator, LocatorKind, MissingPart, SourceFile
from shoal.models.jobs import JobStatus, Stage
from shoal.settings import Settings
from shoal.storage import document_queries
from shoal.storage.chunk_queries import get_chunks
from shoal.storage.database import Database
from shoal.storage.document_queries import get_content, get_detail

WHALES = "The whale swam past the ship. Sailors rowed the boats. The captain shouted at the crew. "
BREAD = "Flour and water make a dough. The oven bakes the bread. Yeast raises the loaf. "


@pytest.fixture(autouse=True)
def _double(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "FILE_KINDS", MappingProxyType({KIND.id: KIND}))


@pytest.fixture(scope="module")
def scorer() -> Any:
    return lagoon.load()


@pytest.fixture
def handlers(database: Database, settings: Settings, scorer: Any) -> Handlers:
    return handlers_for(database, scorer, settings)


def file_draft(text: str, settings: Settings, name: str = "sea.double", **fields: str) -> FileDraft:
    return make_file_draft(text.encode(), KIND.id, settings=settings, source_path=name, **fields)  # type: ignore[arg-type]


def run(database: Database, settings: Settings, handlers: Handlers) -> None:
    while (batch := claim_now(database, settings)) is not None:
        process(batch, database, handlers, settings)


def submit(database: Database, settings: Settings, *drafts: FileDraft) -> int:
    upload = Upload(database, settings).begin()
    for draft in drafts:
        upload.add(draft)
    return upload.finish()


@pytest.mark.parametrize(
    ("parts", "is_stored", "is_searched"),
    [("main", False, False), ("masked", True, False), ("all", True, True)],
)
def test_parts_of_web_pages_are_stored_and_searched_as_the_setting_says(
    database: Database,
    settings: Settings,
    scorer: Any,
    monkeypatch: pytest.MonkeyPatch,
    parts: str,
    is_stored: bool,
    is_searched: bool,
) -> None:
    monkeypatch.setattr(convert, "FILE_KINDS", FILE_KINDS)
    settings = dataclasses.replace(settings, web_parts=parts)
    page = f"<article><p>{WHALES * 8}</p></article><div class=comments><p>{BREAD * 2}</p></div>"
    draft = make_file_draft(page.encode(), "html", settings=settings, source_path="sea.html")
    submit(database, settings, draft)
    run(database, settings, handlers_for(database, scorer, settings))
    document_id = value(database, "SELECT id FROM documents")
    with database.snapshot() as snapshot:
        report = get_detail(snapshot, document_id).report
        chunks = get_chunks(snapshot, document_id).chunks
        content = get_content(snapshot, document_id)
    assert ("Yeast" in content) is is_stored
    assert any("Yeast" in chunk.text for chunk in chunks) is is_searched
    assert ("comments" in {removed.reason for removed in report.removed}) is not is_searched


def test_file_becomes_a_document_with_places(
    database: Database, settings: Settings, handlers: Handlers
) -> None:
    text = f"{WHALES * 8}\f{BREAD * 8}"
    job_id = submit(database, settings, file_draft(text, settings))
    run(database, settings, handlers)
    assert statuses(database, job_id) == ["succeeded"]
    with database.snapshot() as snapshot:
        detail = get_detail(snapshot, 1)
        chunks = get_chunks(snapshot, 1).chunks
    assert detail.document.title == "A Declared Title"
    assert "a picture was left out" in detail.report.warnings
    assert detail.report.removed == (("page number", "1", 2),)
    assert detail.file is not None
    assert (detail.file.kind, detail.file.name, detail.file.is_kept) == ("double", "sea.double", False)
    for chunk in chunks:
        assert text[chunk.start_char : chunk.end_char] == chunk.text
        assert chunk.place is not None
        pages = text[: chunk.start_char].count("\f") + 1, text[: chunk.end_char].count("\f") + 1
        assert (chunk.place.first, chunk.place.last) == pages
    assert {chunk.place.label for chunk in chunks if chunk.place} >= {"page 1", "page 2"}
    assert value(database, "SELECT COUNT(*) FROM job_item_files") == 0
    assert_consistent(database)


def test_what_a_file_says_of_itself_becomes_metadata_unless_it_was_given(
    database: Database, settings: Settings, handlers: Handlers
) -> None:
    given = {"language": "de", "shelf": 7}
    full = {"x": "x" * (settings.max_metadata_bytes - 20)}
    submit(
        database,
        settings,
        dataclasses.replace(file_draft(f"By Ann. {WHALES}", settings), metadata=given),
        dataclasses.replace(file_draft(f"By Ann. {BREAD}", settings, "bread.double"), metadata=full),
    )
    run(database, settings, handlers)
    with database.snapshot() as snapshot:
        assert get_detail(snapshot, 1).document.metadata == {**given, "author": ["Ann"], "page_count": 2}
        assert get_detail(snapshot, 2).document.metadata == full


def test_texts_pass_through_a_job_with_files(
    database: Database, settings: Settings, handlers: Handlers
) -> None:
    upload = Upload(database, settings).begin()
    upload.add(make_draft(content=BREAD, settings=settings))
    upload.add(file_draft(WHALES, settings))
    job_id = upload.finish()
    run(database, settings, handlers)
    assert statuses(database, job_id) == ["succeeded", "succeeded"]
    assert rows(database, "SELECT COUNT(*) FROM chunks WHERE locator IS NULL AND document_id = 1") == [(1,)]


def test_job_without_files_is_not_converted(database: Database, settings: Settings) -> None:
    upload = Upload(database, settings).begin()
    upload.add(make_draft(content=BREAD, settings=settings))
    job_id = upload.finish()
    assert Stage.convert not in queries.get_job(database, job_id).plan


@pytest.mark.parametrize("text", ["encrypted", "crash"])
def test_file_that_cannot_be_converted_is_one_failed_item(
    database: Database, settings: Settings, handlers: Handlers, text: str
) -> None:
    bad, good = file_draft(text, settings, "bad.double"), file_draft(WHALES, settings)
    job_id = submit(database, settings, bad, good)
    run(database, settings, handlers)
    assert statuses(database, job_id) == ["failed", "succeeded"]
    item = queries.get_items(database, job_id)[0]
    assert item.error_code == {"encrypted": "file_encrypted", "crash": "file_crashed"}[text]
    assert item.error_code in CONVERSION_CODES
    assert item.attempts == 0
    assert_consistent(database)


def test_progress_in_a_file_shows_until_its_conversion_ends(
    database: Database, settings: Settings, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "REPORT_SECONDS", 0.0)
    job_id = submit(database, settings, file_draft("halfway " + WHALES, settings))
    batch = claim_now(database, settings)
    assert batch is not None
    seen: list[tuple[float, float | None, float]] = []

    def look() -> None:
        job, waves = queries.get_job(database, job_id), queries.get_waves(database, job_id)
        (item,) = queries.get_items(database, job_id)
        done, total, *_ = in_process.progress(database, job_id)
        seen.append((fraction_done(job, waves), item.stage_share, done / total))

    before = queries.get_job(database, job_id).revision
    process(batch, database, handlers, settings, look)
    # Without learning, conversion is two thirds of the work of a file; for the bar of a command it is half.
    assert seen[0] == (pytest.approx(1 / 3), 0.5, pytest.approx(0.25, abs=0.01))
    assert seen[-1] == (pytest.approx(2 / 3), None, pytest.approx(0.5, abs=0.01))
    assert queries.get_job(database, job_id).revision >= before + 2
    run(database, settings, handlers)
    assert statuses(database, job_id) == ["succeeded"]


def test_slow_conversion_ends_at_its_limit(database: Database, settings: Settings, scorer: Any) -> None:
    settings = dataclasses.replace(settings, conversion_seconds=1.0)
    handlers = handlers_for(database, scorer, settings)
    # A first file starts the child, whose start has a limit of its own.
    job_id = submit(
        database, settings, file_draft(WHALES, settings), file_draft("slow", settings, "slow.double")
    )
    run(database, settings, handlers)
    assert statuses(database, job_id) == ["succeeded", "failed"]
    assert queries.get_items(database, job_id)[1].error_code == "file_time_limit"


def test_failed_file_can_be_tried_again(
    database: Database, settings: Settings, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = submit(database, settings, file_draft(WHALES, settings))
    with monkeypatch.context() as patch:
        patch.setattr(convert, "FILE_KINDS", {})
        run(database, settings, handlers)
    assert statuses(database, job_id) == ["failed"]
    retry(database, settings, job_id)
    run(database, settings, handlers)
    assert queries.get_job(database, job_id).status is JobStatus.succeeded


def test_known_file_is_not_converted_again(
    database: Database, settings: Settings, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(database, settings, file_draft(WHALES, settings))
    run(database, settings, handlers)
    # Without a converter, only a file that is not converted can succeed.
    monkeypatch.setattr(convert, "FILE_KINDS", {})
    again = dataclasses.replace(file_draft(WHALES, settings, "copy.double"), tags=("sea",))
    job_id = submit(database, settings, again)
    run(database, settings, handlers)
    assert statuses(database, job_id) == ["duplicate"]
    assert rows(database, "SELECT tag FROM document_tags") == [("sea",)]
    assert_consistent(database)


def test_released_conversion_is_repeated(database: Database, settings: Settings, handlers: Handlers) -> None:
    job_id = submit(database, settings, file_draft(WHALES, settings))
    batch = claim_now(database, settings)
    assert batch is not None
    assert batch.stage is Stage.convert
    assert statuses(database, job_id) == ["converting"]
    release(database, batch)
    assert statuses(database, job_id) == ["enqueued"]
    run(database, settings, handlers)
    assert statuses(database, job_id) == ["succeeded"]


def test_what_a_document_lacks_of_its_file_is_stored_until_another_text_takes_its_place(
    database: Database, settings: Settings, handlers: Handlers
) -> None:
    submit(database, settings, file_draft(WHALES, settings))
    run(database, settings, handlers)
    account = FileAccount(100, 90, (MissingPart("comment", "page 2", 10, 0, False, "a note"),))
    with database.write() as transaction:
        file = document_queries.get_file(transaction, 1)
        assert file is not None
        assert file.account is None
        document_queries.delete_file(transaction, 1)
        document_queries.write_file(transaction, 1, dataclasses.replace(file, account=account))
    with database.snapshot() as snapshot:
        stored = get_detail(snapshot, 1).file
        assert stored is not None
        assert stored.account == account
        assert (
            document_queries.count_incomplete(snapshot),
            document_queries.incomplete_documents(snapshot, 5),
        ) == (
            1,
            (1,),
        )
    submit_replacement(database, settings, 1, make_draft(content=BREAD, settings=settings))
    run(database, settings, handlers)
    with database.snapshot() as snapshot:
        assert document_queries.count_incomplete(snapshot) == 0


def test_file_is_kept_on_request(database: Database, settings: Settings, scorer: Any) -> None:
    settings = dataclasses.replace(settings, keep_originals=True)
    submit(database, settings, file_draft(WHALES, settings))
    run(database, settings, handlers_for(database, scorer, settings))
    with database.snapshot() as snapshot:
        assert document_queries.get_data(snapshot, 1) == WHALES.encode()


def test_replacement_by_text_forgets_the_file(
    database: Database, settings: Settings, handlers: Handlers
) -> None:
    submit(database, settings, file_draft(WHALES, settings))
    run(database, settings, handlers)
    submit_replacement(database, settings, 1, make_draft(content=BREAD, settings=settings))
    run(database, settings, handlers)
    with database.snapshot() as snapshot:
        assert get_detail(snapshot, 1).file is None
        assert [chunk.place for chunk in get_chunks(snapshot, 1).chunks] == [None]


def test_replacement_by_a_file_has_its_places(
    database: Database, settings: Settings, handlers: Handlers
) -> None:
    upload = Upload(database, settings).begin()
    upload.add(make_draft(content=BREAD, settings=settings))
    upload.finish()
    run(database, settings, handlers)
    submit_replacement(database, settings, 1, file_draft(f"{BREAD}\f{WHALES * 9}", settings))
    run(database, settings, handlers)
    with database.snapshot() as snapshot:
        chunks = get_chunks(snapshot, 1).chunks
        assert get_detail(snapshot, 1).file is not None
    assert [chunk.place.last for chunk in chunks if chunk.place][-1] == 2


def test_exported_file_is_not_converted(database: Database, settings: Settings, handlers: Handlers) -> None:
    file = SourceFile(
        "double",
        "sea.double",
        hashlib.sha256(b"").hexdigest(),
        0,
        1,
        (Locator(0, len(WHALES), LocatorKind.page, "", 7, 7),),
    )
    draft = dataclasses.replace(make_draft(content=WHALES, settings=settings), file=file)
    upload = Upload(database, settings).begin()
    upload.add(draft)
    job_id = upload.finish()
    assert Stage.convert not in queries.get_job(database, job_id).plan
    run(database, settings, handlers)
    with database.snapshot() as snapshot:
        [chunk] = get_chunks(snapshot, 1).chunks
    assert chunk.place is not None
    assert chunk.place.label == "page 7"


def test_progress_of_a_file_shows_the_stages_that_it_has_passed(
    database: Database, settings: Settings, handlers: Handlers
) -> None:
    upload = Upload(database, settings, local_owner=claims.new_owner()).begin()
    upload.add(file_draft(WHALES * 8, settings))
    job_id = upload.finish()
    shares = []
    while batch := claim(database, claims.new_owner(), settings, job_id=job_id):
        process(batch, database, handlers, settings)
        done, total, *_ = in_process.progress(database, job_id)
        shares.append(round(done / total, 2))
    assert shares[0] == 0.5
    assert shares[-1] == 1.0
    assert set(shares) <= {0.5, 0.75, 1.0}
