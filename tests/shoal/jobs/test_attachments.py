"""Attachments of mails become documents of their own, linked to every mail that has them."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import shutil
import zipfile
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from faults import DONE, KILLED, killed_at
from job_parts import assert_consistent, claim_now, rows, statuses, value

import lagoon
from shoal.formats.drafts import make_file_draft
from shoal.jobs.queue import attachments as queue
from shoal.jobs.queue import claims, queries
from shoal.jobs.queue.claims import claim, release
from shoal.jobs.queue.recovery import reclaim_expired_leases
from shoal.jobs.queue.submission import Upload, submit_delete, submit_document, submit_replacement
from shoal.jobs.queue.transitions import retry
from shoal.jobs.stages.contract import Handlers
from shoal.jobs.stages.runner import handlers_for, process
from shoal.models.files import FileDraft
from shoal.models.jobs import JobStatus
from shoal.settings import Settings
from shoal.storage import document_queries
from shoal.storage.database import Database
from shoal.storage.opening import open_database

WHALES = "The whale swam past the ship. Sailors rowed the boats. The captain shouted at the crew. "
BREAD = "Flour and water make a dough. The oven bakes the bread. Yeast raises the loaf. "
WINE = "Grapes ripen on the hills. The farmer presses them in autumn. The wine rests in barrels. "
PICTURE = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


@pytest.fixture(scope="module")
def scorer() -> Any:
    return lagoon.load()


@pytest.fixture
def handlers(database: Database, settings: Settings, scorer: Any) -> Handlers:
    return handlers_for(database, scorer, settings)


def mail(subject: str, **files: str | bytes) -> bytes:
    """Return a mail with files; `__` in their names stands for a period."""
    message = EmailMessage()
    message["From"] = "Ann <ann@example.org>"
    message["Subject"] = subject
    message.set_content(f"{subject}. See the files attached.")
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        message.add_attachment(
            data, maintype="application", subtype="octet-stream", filename=name.replace("__", ".")
        )
    return message.as_bytes()


def zipped(**files: str | bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "."), content)
    return buffer.getvalue()


def draft(data: bytes, settings: Settings, path: str = "a.eml", **fields: Any) -> FileDraft:
    return make_file_draft(data, "eml", settings=settings, source_path=path, **fields)


def run(database: Database, settings: Settings, handlers: Handlers) -> None:
    while (batch := claim_now(database, settings)) is not None:
        process(batch, database, handlers, settings)


def store(database: Database, settings: Settings, handlers: Handlers, *mails: bytes) -> int:
    upload = Upload(database, settings).begin()
    for number, data in enumerate(mails):
        upload.add(draft(data, settings, f"{number}.eml"))
    job_id = upload.finish()
    run(database, settings, handlers)
    assert_consistent(database)
    return job_id


def links(database: Database) -> set[tuple[str, str, str]]:
    """Titles of attachments and of their mails, and the names that they have there."""
    return set(
        rows(
            database,
            "SELECT c.title, p.title, l.name FROM document_parents l JOIN documents c ON c.id = l.document_id "
            "JOIN documents p ON p.id = l.parent_id",
        )
    )


def titles(database: Database) -> list[str]:
    return [row[0] for row in rows(database, "SELECT title FROM documents ORDER BY title")]


def id_of(database: Database, title: str) -> int:
    with database.snapshot() as snapshot:
        return int(snapshot.value("SELECT id FROM documents WHERE title = :title", {"title": title}))


def test_size_of_an_attached_text_is_that_of_its_decoded_text(
    database: Database, settings: Settings, handlers: Handlers
) -> None:
    text = "Der Bäcker knetet den Teig für die Brötchen. Das Öl glänzt über der Schüssel. " * 3
    store(database, settings, handlers, mail("Rezept", teig__txt=text.encode("latin-1")))
    [(n_bytes,)] = rows(
        database,
        "SELECT d.n_bytes FROM document_parents l JOIN documents d ON d.id = l.document_id",
    )
    assert n_bytes == len(text.encode())


def test_attachments_become_documents_linked_to_their_mail(
    database: Database, settings: Settings, handlers: Handlers
) -> None:
    archive = zipped(deep__txt=WINE, inner__zip=zipped(x__txt="x"), folder__x="")
    job_id = store(
        database,
        settings,
        handlers,
        mail("Plans", whales__txt=WHALES, bread__html=f"<p>{BREAD}</p>", all__zip=archive, a__png=PICTURE),
    )
    assert statuses(database, job_id) == ["succeeded"] * 4
    assert links(database) == {
        ("Whales", "Plans", "whales.txt"),
        ("Bread", "Plans", "bread.html"),
        ("Deep", "Plans", "all.zip/deep.txt"),
    }
    job = queries.get_job(database, job_id)
    assert (job.status, job.progress.total, job.progress.done) == (JobStatus.succeeded, 4, 4)
    assert job.progress.bytes_total == job.progress.bytes_done
    (warning,) = queries.get_items(database, job_id)[0].warnings
    assert warning.startswith("attachments that are not read: ")
    assert "a.png (an image)" in warning
    assert "all.zip/inner.zip (is an archive itself" in warning
    with database.snapshot() as snapshot:
        plans, whales = id_of(database, "Plans"), id_of(database, "Whales")
        sent = document_queries.get_detail(snapshot, plans)
        assert [each.title for each in sent.attachments] == ["Deep", "Bread", "Whales"]
        attached = document_queries.get_detail(snapshot, whales)
        assert [each.title for each in attached.parents] == ["Plans"]


def test_an_attachment_that_cannot_be_read_fails_alone_with_its_reason(
    database: Database, settings: Settings, handlers: Handlers
) -> None:
    job_id = store(
        database, settings, handlers, mail("Plans", broken__docx=b"PK\x03\x04 nothing", whales__txt=WHALES)
    )
    items = queries.get_items(database, job_id)
    assert [(each.title, each.status) for each in items] == [
        ("Plans", "succeeded"), ("broken.docx", "failed"), ("Whales", "succeeded"),
    ]  # fmt: skip
    assert "broken" in (items[1].error or "")
    assert [each.attached_to for each in items] == [None, 1, 1]
    assert queries.get_job(database, job_id).status is JobStatus.partial


def test_fields_given_for_a_mail_hold_for_its_attachments(
    database: Database, settings: Settings, handlers: Handlers
) -> None:
    given = draft(mail("Plans", whales__txt=WHALES), settings, tags=["sea"], metadata={"shelf": 7})
    submit_document(database, settings, given)
    run(database, settings, handlers)
    stored = rows(database, "SELECT d.metadata, t.tag, d.source_path FROM documents d "
                  "JOIN document_tags t ON t.document_id = d.id WHERE d.title = 'Whales'")  # fmt: skip
    assert stored == [('{"shelf":7}', "sea", None)]


def test_one_attachment_of_two_mails_is_one_document_and_goes_with_the_last(
    database: Database, settings: Settings, handlers: Handlers
) -> None:
    store(database, settings, handlers, mail("One", a__txt=WHALES), mail("Two", b__txt=WHALES))
    assert links(database) == {("A", "One", "a.txt"), ("A", "Two", "b.txt")}
    submit_delete(database, settings, [id_of(database, "One")])
    run(database, settings, handlers)
    assert links(database) == {("A", "Two", "b.txt")}
    submit_delete(database, settings, [id_of(database, "Two")])
    run(database, settings, handlers)
    assert titles(database) == []
    assert value(database, "SELECT COUNT(*) FROM attached_documents") == 0


@pytest.mark.parametrize("is_first", [True, False])
def test_what_was_uploaded_by_itself_stays(
    database: Database, settings: Settings, handlers: Handlers, is_first: bool
) -> None:
    own = make_file_draft(WHALES.encode(), "text", settings=settings, source_path="mine.txt")
    if is_first:
        submit_document(database, settings, own)
        run(database, settings, handlers)
    store(database, settings, handlers, mail("One", a__txt=WHALES))
    if not is_first:
        submit_document(database, settings, own)
        run(database, settings, handlers)
    submit_delete(database, settings, [id_of(database, "One")])
    run(database, settings, handlers)
    assert titles(database) == ["Mine" if is_first else "A"]


def test_mails_in_mails_go_together(database: Database, settings: Settings, handlers: Handlers) -> None:
    inner = mail("Inner", deep__txt=WHALES)
    outer = mail("Outer", inner__eml=inner, box__zip=zipped(letter__eml=mail("Third", x__txt=BREAD)))
    store(database, settings, handlers, outer)
    assert links(database) == {
        ("Inner", "Outer", "inner.eml"),
        ("Deep", "Inner", "deep.txt"),
        ("Third", "Outer", "box.zip/letter.eml"),
        ("X", "Third", "x.txt"),
    }
    submit_delete(database, settings, [id_of(database, "Outer")])
    run(database, settings, handlers)
    assert titles(database) == []


def test_mails_nested_without_end_stop_at_a_depth(
    database: Database, settings: Settings, handlers: Handlers
) -> None:
    data = mail("Level 0", end__txt=WHALES)
    for level in range(1, queue.MAX_DEPTH + 3):
        data = mail(f"Level {level}", inner__eml=data)
    job_id = store(database, settings, handlers, data)
    assert len(statuses(database, job_id)) == queue.MAX_DEPTH + 1
    assert "inner.eml (too many within each other)" in queries.get_items(database, job_id)[-1].warnings[0]


def test_a_family_has_limits(
    database: Database, settings: Settings, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "MAX_FAMILY", 3)
    inner = mail("Inner", a__txt=WHALES, b__txt=BREAD, c__txt=WINE)
    job_id = store(database, settings, handlers, mail("Outer", inner__eml=inner))
    assert len(statuses(database, job_id)) == 4
    assert len(links(database)) == 3


def test_a_conversion_that_is_lost_is_repeated_without_doubles(
    database: Database, settings: Settings, handlers: Handlers
) -> None:
    job_id = submit_document(database, settings, draft(mail("Plans", a__txt=WHALES), settings))
    batch = claim(database, claims.new_owner(), settings, 1000.0)
    assert batch is not None
    release(database, batch)
    again = claim(database, claims.new_owner(), settings, 1000.0)
    assert again is not None
    process(again, database, handlers, settings)
    # The first owner comes back and must store nothing.
    process(batch, database, handlers, settings)
    assert value(database, "SELECT COUNT(*) FROM job_item_parents") == 1
    run(database, settings, handlers)
    assert statuses(database, job_id) == ["succeeded", "succeeded"]
    assert_consistent(database)


def test_a_mail_that_failed_later_is_retried_without_doubles(
    database: Database, settings: Settings, handlers: Handlers
) -> None:
    job_id = submit_document(database, settings, draft(mail("Plans", a__txt=WHALES), settings))
    batch = claim_now(database, settings)
    assert batch is not None
    process(batch, database, handlers, settings)
    with database.write() as transaction:
        transaction.execute("UPDATE job_items SET status = 'failed' WHERE seq = 0", {})
        transaction.execute("UPDATE waves SET total = total - 1", {})
        transaction.execute(
            "UPDATE jobs SET n_failed = 1, bytes_done = (SELECT n_bytes FROM job_items WHERE seq = 0)", {}
        )
    run(database, settings, handlers)
    assert links(database) == set()
    assert retry(database, settings, job_id)
    run(database, settings, handlers)
    assert statuses(database, job_id) == ["succeeded", "succeeded"]
    assert links(database) == {("A", "Plans", "a.txt")}
    assert_consistent(database)


def test_a_replaced_mail_keeps_the_attachments_that_it_still_has(
    database: Database, settings: Settings, handlers: Handlers
) -> None:
    alone = "Clouds gather over the hills. "
    first = mail("Plans", a__txt=WHALES, b__txt=BREAD, d__txt=alone)
    store(database, settings, handlers, first, mail("Other", b__txt=BREAD))
    plans, kept = id_of(database, "Plans"), id_of(database, "A")
    changed = draft(mail("Plans changed", a__txt=WHALES, c__txt=WINE), settings)
    submit_replacement(database, settings, plans, changed)
    run(database, settings, handlers)
    assert links(database) == {
        ("A", "Plans changed", "a.txt"), ("C", "Plans changed", "c.txt"), ("B", "Other", "b.txt"),
    }  # fmt: skip
    assert (id_of(database, "Plans changed"), id_of(database, "A")) == (plans, kept)
    assert titles(database) == ["A", "B", "C", "Other", "Plans changed"]
    assert_consistent(database)


def test_an_attachment_with_new_content_is_one_no_more(
    database: Database, settings: Settings, handlers: Handlers
) -> None:
    store(database, settings, handlers, mail("Plans", a__txt=WHALES))
    own = make_file_draft(BREAD.encode(), "text", settings=settings, source_path="b.txt")
    submit_replacement(database, settings, id_of(database, "A"), own)
    run(database, settings, handlers)
    assert links(database) == set()
    submit_delete(database, settings, [id_of(database, "Plans")])
    run(database, settings, handlers)
    assert len(titles(database)) == 1


def test_the_same_mail_again_changes_nothing(
    database: Database, settings: Settings, handlers: Handlers
) -> None:
    data = mail("Plans", a__txt=WHALES)
    store(database, settings, handlers, data)
    before = links(database), titles(database)
    job_id = store(database, settings, handlers, data)
    assert statuses(database, job_id) == ["duplicate"]
    assert (links(database), titles(database)) == before


@pytest.mark.slow
def test_a_worker_killed_at_any_write_loses_and_doubles_nothing(
    tmp_path: Path, database: Database, settings: Settings
) -> None:
    upload = Upload(database, settings).begin()
    inner = mail("Inner", deep__txt=WINE)
    upload.add(draft(mail("One", a__txt=WHALES, inner__eml=inner), settings, "1.eml"))
    upload.add(draft(mail("Two", b__txt=WHALES), settings, "2.eml"))
    job_id = upload.finish()
    database.close()
    place, code = 1, KILLED
    while code == KILLED:
        copy = tmp_path / f"copy-{place}.db"
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{settings.database_path}{suffix}", f"{copy}{suffix}")
        own = dataclasses.replace(settings, database_url=f"sqlite:///{copy}", learning=False)

        def work(own: Settings = own) -> None:
            opened = open_database(own.database_url)
            run(opened, own, handlers_for(opened, lagoon.load(), own))

        code, message = killed_at(place, work)
        assert code in (KILLED, DONE), message
        survivor = open_database(own.database_url)
        reclaim_expired_leases(survivor, own, survivor.now() + own.lease_seconds + 1)
        run(survivor, own, handlers_for(survivor, lagoon.load(), own))
        assert statuses(survivor, job_id).count("succeeded") == 5
        assert statuses(survivor, job_id).count("duplicate") == 1
        assert links(survivor) == {
            ("A", "One", "a.txt"), ("A", "Two", "b.txt"), ("Inner", "One", "inner.eml"),
            ("Deep", "Inner", "deep.txt"),
        }  # fmt: skip
        assert_consistent(survivor)
        survivor.close()
        place += 2
    assert place > 10
