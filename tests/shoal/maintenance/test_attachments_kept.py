"""Attachments stay with their mails through sync, export and import, and go with them."""

from __future__ import annotations

import io
from email.message import EmailMessage
from pathlib import Path

import pytest
from fake_scorer import FakeScorer

from shoal.engine import Engine

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
