"""Attachments stay with their mails through sync, export and import, and go with them."""

from __future__ import annotations

import io
from email.message import EmailMessage
from pathlib import Path

import pytest
from fake_scorer import FakeScorer

from shoal.cli.app import run
from shoal.engine import Engine
from shoal.settings import Settings

SEA, FIRE = "Rain and wind over the sea.\n", "A volcano throws lava.\n"


def mail(subject: str, **files: str) -> bytes:
    message = EmailMessage()
    message["From"] = "Ann <ann@example.org>"
    message["Subject"] = subject
    message.set_content(f"{subject} over the sea.")
    for name, text in files.items():
        data = text.encode()
        message.add_attachment(data, maintype="application", subtype="octet-stream", filename=f"{name}.txt")
    return message.as_bytes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mails"
    folder.mkdir()
    (folder / "plans.eml").write_bytes(mail("Plans", storm=SEA, fire=FIRE))
    return folder


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(db_path=tmp_path / "shoal.db", scorer=FakeScorer())


def family(engine: Engine) -> dict[str, list[str]]:
    """Titles of all documents, each with those of its parents."""
    found = {}
    for document in engine.documents.list(limit=100).documents:
        detail = engine.documents.get(document.id)
        found[document.title] = [parent.title for parent in detail.parents]
    return found


ATTACHED = {"Plans": [], "Storm": ["Plans"], "Fire": ["Plans"]}


def test_sync_keeps_and_deletes_attachments_with_their_mail(engine: Engine, folder: Path) -> None:
    with engine:
        engine.maintenance.sync(folder)
        assert family(engine) == ATTACHED
        ids = {document.title: document.id for document in engine.documents.list(limit=9).documents}
        engine.maintenance.sync(folder)
        assert family(engine) == ATTACHED
        (folder / "plans.eml").write_bytes(mail("New plans", storm=SEA))
        engine.maintenance.sync(folder)
        assert family(engine) == {"Plans": [], "Storm": ["Plans"]}
        assert {document.id for document in engine.documents.list(limit=9).documents} == {
            ids["Plans"], ids["Storm"],
        }  # fmt: skip
        (folder / "plans.eml").unlink()
        engine.maintenance.sync(folder, delete=True, force=True)
        assert family(engine) == {}


def test_an_import_has_the_links_of_the_export(engine: Engine, folder: Path, tmp_path: Path) -> None:
    with engine, Engine(db_path=tmp_path / "other.db", scorer=FakeScorer()) as other:
        engine.ingest_file(folder / "plans.eml")
        for canonical in (False, True):
            lines = "".join(f"{line}\n" for line in engine.maintenance.export(canonical=canonical)).encode()
            other.maintenance.import_export(io.BufferedReader(io.BytesIO(lines)))  # type: ignore[arg-type]
            assert family(other) == ATTACHED
            assert list(other.maintenance.export(canonical=True)) == list(
                engine.maintenance.export(canonical=True)
            )
            plans = next(each for each in other.documents.list(limit=9).documents if each.title == "Plans")
            assert other.documents.delete(plans.id)
            assert family(other) == {}


def test_a_document_that_the_library_had_stays_without_its_mail(
    engine: Engine, folder: Path, tmp_path: Path
) -> None:
    with engine, Engine(db_path=tmp_path / "other.db", scorer=FakeScorer()) as other:
        engine.ingest_file(folder / "plans.eml")
        other.ingest(content=SEA, format="plaintext", title="Mine")
        lines = "".join(f"{line}\n" for line in engine.maintenance.export()).encode()
        other.maintenance.import_export(io.BufferedReader(io.BytesIO(lines)))  # type: ignore[arg-type]
        assert family(other) == {"Mine": ["Plans"], "Plans": [], "Fire": ["Plans"]}
        plans = next(each for each in other.documents.list(limit=9).documents if each.title == "Plans")
        assert other.documents.delete(plans.id)
        assert family(other) == {"Mine": []}


def test_the_result_of_a_mail_counts_its_attachments_and_names_those_that_failed(
    engine: Engine, tmp_path: Path
) -> None:
    path = tmp_path / "plans.eml"
    path.write_bytes(mail("Plans", storm=SEA, empty=" \n"))
    with engine:
        result = engine.ingest_file(path)
        assert (result.title, result.error, result.n_attachments) == ("Plans", None, 1)
        assert result.warnings == ("the attachment empty.txt is not stored: the document has no text",)
        # Deletion of a mail with the library's own method.
        assert engine.documents.delete(result.id or 0)
        assert family(engine) == {}


EARLIER = "UPDATE document_files SET converter = converter - 1"


@pytest.fixture
def keeping(tmp_path: Path) -> Engine:
    """A library that keeps the files."""
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'kept.db'}", keep_originals=True)
    return Engine(settings=settings, scorer=FakeScorer())


def test_a_mail_of_an_earlier_version_gets_its_attachments(keeping: Engine, folder: Path) -> None:
    with keeping as engine:
        plans = engine.ingest_file(folder / "plans.eml", title="By hand", tags=["sea"]).id
        with engine.database.write() as transaction:
            transaction.execute("DELETE FROM documents WHERE id <> :id", {"id": plans})
            transaction.execute(EARLIER)
        result = engine.maintenance.reconvert()
        assert (result.n_converted, result.n_attachments, result.failed) == (1, 2, ())
        assert family(engine) == {"By hand": [], "Storm": ["By hand"], "Fire": ["By hand"]}
        assert engine.documents.get(plans or 0).document.tags == ("sea",)
        assert engine.documents.file(plans or 0).data == (folder / "plans.eml").read_bytes()
        assert engine.maintenance.reconvert().n_converted == 0
        assert engine.documents.delete(plans or 0)
        assert family(engine) == {}


def test_attachments_converted_again_keep_their_ids_and_links(keeping: Engine, folder: Path) -> None:
    page = "<html><body><p>The old text of the page about the sea.</p></body></html>"
    (folder / "page.eml").write_bytes(mail("Page", page=page).replace(b"page.txt", b"page.html"))
    with keeping as engine:
        mail_id = engine.ingest_file(folder / "page.eml").id or 0
        (attached,) = engine.documents.get(mail_id).attachments
        with engine.database.write() as transaction:
            transaction.execute(EARLIER)
            row = {"id": attached.id}
            transaction.execute("UPDATE documents SET content_hash = 'x', title = 'Own' WHERE id = :id", row)
        result = engine.maintenance.reconvert()
        assert result.failed == ()
        assert [each.id for each in engine.documents.get(mail_id).attachments] == [attached.id]
        assert engine.documents.content(attached.id).strip() == "The old text of the page about the sea."
        assert engine.documents.delete(mail_id)
        assert family(engine) == {}


def test_documents_whose_files_are_not_kept_are_listed(engine: Engine, folder: Path) -> None:
    with engine:
        plans = engine.ingest_file(folder / "plans.eml").id
        with engine.database.write() as transaction:
            transaction.execute(EARLIER)
        result = engine.maintenance.reconvert()
        assert (result.n_converted, result.n_without_file) == (0, 1)
        assert [each.id for each in result.without_file] == [plans]
        # Sent again, it is converted by this version.
        assert engine.ingest_file(folder / "plans.eml").duplicate == plans


def test_the_command_says_what_it_converted_and_what_is_not_kept(
    engine: Engine, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with engine:
        engine.ingest_file(folder / "plans.eml")
        with engine.database.write() as transaction:
            transaction.execute(EARLIER)
    assert run(["--db", str(tmp_path / "shoal.db"), "reconvert"]) == 0
    printed = capsys.readouterr()
    assert "not kept: document" in printed.err
    assert "0 documents converted, 0 attachments, 0 failed, 1 without their files" in printed.out
