"""Sync deletes only documents whose files no longer exist, because a deletion cannot be undone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from libraries import follow, make

from shoal.cli.app import run
from shoal.conversion.folder_listing import LINK
from shoal.engine import Engine
from shoal.maintenance.sync import apply
from shoal.maintenance.sync.apply import MOUNT_POINT_DOCUMENTS, EmptyFolderError
from shoal.maintenance.sync.folder import make_plan
from shoal.settings import Settings

RAIN, STORM, LAVA = "Rain over the sea.\n", "A storm and its wind.\n", "A volcano throws lava.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "rain.md").write_text(RAIN)
    return notes


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return make(tmp_path / "shoal.db", 0)


def texts(library: Path) -> dict[str, str]:
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        return {
            str(document.source_path): engine.documents.content(document.id)
            for document in engine.documents.list(limit=1000).documents
        }


def ingest(library: Path, *files: Path, **options: Any) -> None:
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        for file in files:
            engine.ingest_file(file, **options)


@pytest.mark.parametrize("name", ["c.unknown", "data.dat", "README", ".draft.md", ".hidden/a.md"])
def test_unlisted_file_is_not_read_and_keeps_its_document(library: Path, folder: Path, name: str) -> None:
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(STORM)
    ingest(library, folder / "rain.md", file)
    file.write_text(STORM + LAVA)
    result = follow(library, folder, delete=True)
    assert (result.changed, result.renamed, result.deleted, result.unchanged) == ((), (), (), 1)
    file.unlink()
    assert follow(library, folder, delete=True).deleted == ()
    assert texts(library)[str(file)] == STORM


def test_given_format_stays_when_the_file_changes(library: Path, folder: Path) -> None:
    file = folder / "lava.txt"
    file.write_text("# Fire\n\n" + LAVA)
    ingest(library, folder / "rain.md", file, format="markdown")
    file.write_text("# Heat\n\n" + LAVA)
    follow(library, folder)
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        changed = next(
            document for document in engine.documents.list().documents if document.source_path == str(file)
        )
        assert (changed.format, changed.n_chunks) == ("markdown", 1)
        assert [section.path for section in engine.documents.get(changed.id).sections] == [("Heat",)]


def test_files_of_other_types_are_counted_and_skipped(library: Path, folder: Path) -> None:
    for name in ("a.png", "b.PNG", "c.mp3"):
        (folder / name).write_bytes(b"not a text")
    result = follow(library, folder)
    assert [change.name for change in result.new] == [str(folder / "rain.md")]
    assert result.skipped_files == {".png": 2, ".mp3": 1}


@pytest.mark.parametrize(
    ("new_content", "reason"),
    [
        (b" \n", "no text"),
        (b"---\ntitle: Rain\n---\n", "no text besides"),
    ],
)
def test_file_without_text_keeps_its_document(
    library: Path, folder: Path, new_content: bytes, reason: str
) -> None:
    (folder / "storm.txt").write_text(STORM)
    follow(library, folder)
    (folder / "rain.md").write_bytes(new_content)
    settings = Settings(database_url=f"sqlite:///{library}", max_document_bytes=200)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        result = engine.maintenance.sync(folder, delete=True)
    assert result.deleted == ()
    assert [(failure.name, failure.is_refused) for failure in result.failed] == [
        (str(folder / "rain.md"), True)
    ]
    assert reason in result.failed[0].reason
    assert texts(library)[str(folder / "rain.md")] == RAIN


@pytest.mark.parametrize(
    ("new_content", "reason", "advice"),
    [
        (b"\x00\x01\x02" * 50, "content", "is not text"),
        (b"\x89PNG\r\n\x1a\n", "content", "this is an image; convert it"),
        (b"Rain. " * 100, "too_large", "limit"),
    ],
)
def test_file_skipped_for_its_content_keeps_its_document(
    library: Path, folder: Path, new_content: bytes, reason: str, advice: str
) -> None:
    (folder / "storm.txt").write_text(STORM)
    follow(library, folder)
    (folder / "rain.md").write_bytes(new_content)
    settings = Settings(database_url=f"sqlite:///{library}", max_document_bytes=200)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        result = engine.maintenance.sync(folder, delete=True)
    assert (result.deleted, result.vanished, result.failed) == ((), (), ())
    (skipped,) = result.skipped
    assert (skipped.path, skipped.reason) == (str(folder / "rain.md"), reason)
    assert advice in skipped.advice
    assert texts(library)[str(folder / "rain.md")] == RAIN


def test_file_with_a_read_error_keeps_its_document(
    library: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "storm.txt").write_text(STORM)
    follow(library, folder)
    original_open = os.open

    def fail(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith("storm.txt"):
            raise OSError(5, "Input/output error", str(path))
        return original_open(path, *arguments, **options)

    monkeypatch.setattr(os, "open", fail)
    result = follow(library, folder, delete=True)
    assert result.deleted == ()
    assert [failure.name for failure in result.failed] == [str(folder / "storm.txt")]
    assert not result.failed[0].is_refused


def test_files_replaced_by_links_keep_their_documents(library: Path, folder: Path, tmp_path: Path) -> None:
    (folder / "storm.txt").write_text(STORM)
    (folder / "far").mkdir()
    (folder / "far" / "lava.txt").write_text(LAVA)
    follow(library, folder)
    shutil.move(folder / "storm.txt", tmp_path / "storm.txt")
    shutil.move(folder / "far", tmp_path / "far")
    (folder / "storm.txt").symlink_to(tmp_path / "nowhere")
    (folder / "far").symlink_to(tmp_path / "far")
    result = follow(library, folder, delete=True)
    assert (result.deleted, result.vanished, result.failed) == ((), (), ())
    assert result.skipped_files == {LINK: 2}
    assert len(texts(library)) == 3


def test_file_replaced_by_a_folder_has_vanished(library: Path, folder: Path) -> None:
    (folder / "storm.txt").write_text(STORM)
    follow(library, folder)
    (folder / "storm.txt").unlink()
    (folder / "storm.txt").mkdir()
    assert [change.name for change in follow(library, folder, delete=True).deleted] == [
        str(folder / "storm.txt")
    ]


def test_name_in_other_case_is_the_same_file_on_a_case_insensitive_system(
    library: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(library, folder / "rain.md")
    (folder / "rain.md").rename(folder / "Rain.md")
    original_stat = Path.stat

    def stat(path: Path, **options: Any) -> os.stat_result:
        """Behave like a case-insensitive file system."""
        return original_stat(folder / "Rain.md" if path == folder / "rain.md" else path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    (folder / "Rain.md").write_text(RAIN + STORM)
    result = follow(library, folder, delete=True)
    assert [(change.name, change.before) for change in result.changed] == [
        (str(folder / "Rain.md"), str(folder / "rain.md"))
    ]
    assert (result.new, result.deleted) == ((), ())
    assert texts(library) == {str(folder / "Rain.md"): RAIN + STORM}


def test_empty_subfolder_keeps_its_documents_without_force(library: Path, folder: Path) -> None:
    disk = folder / "disk"
    disk.mkdir()
    for i in range(MOUNT_POINT_DOCUMENTS):
        (disk / f"{i}.md").write_text(f"{STORM}{i}.\n")
    follow(library, folder)
    shutil.rmtree(disk)
    disk.mkdir()
    result = follow(library, folder, delete=True)
    assert (result.deleted, result.empty) == ((), (str(disk),))
    assert len(result.vanished) == MOUNT_POINT_DOCUMENTS
    assert len(follow(library, folder, delete=True, force=True).deleted) == MOUNT_POINT_DOCUMENTS
    assert texts(library) == {str(folder / "rain.md"): RAIN}


def test_unrelated_folder_deletes_nothing_without_force(library: Path, folder: Path) -> None:
    follow(library, folder)
    (folder / "rain.md").unlink()
    (folder / "storm.txt").write_text(STORM)
    with pytest.raises(EmptyFolderError, match=r"no document of .* would be left"):
        follow(library, folder, delete=True)
    assert texts(library) == {str(folder / "rain.md"): RAIN}
    assert len(follow(library, folder, delete=True, force=True).deleted) == 1


def test_pipe_does_not_block_a_sync(library: Path, folder: Path) -> None:
    os.mkfifo(folder / "pipe.txt")
    result = follow(library, folder)
    assert [(failure.name, failure.is_refused) for failure in result.failed] == [
        (str(folder / "pipe.txt"), True)
    ]
    assert "pipe" in result.failed[0].reason


def test_file_name_with_control_characters_matches_its_stored_form(library: Path, folder: Path) -> None:
    file = folder / "c\x01.txt"
    file.write_text(STORM)
    ingest(library, folder / "rain.md", file)
    file.write_text(STORM + LAVA)
    result = follow(library, folder, delete=True)
    assert ([change.name for change in result.changed], result.deleted) == ([str(folder / "c .txt")], ())


def test_file_that_reappears_before_deletion_keeps_its_document(
    library: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "storm.txt").write_text(STORM)
    follow(library, folder)
    (folder / "storm.txt").unlink()

    def plan_then_restore_file(*arguments: Any) -> Any:
        plan = make_plan(*arguments)
        (folder / "storm.txt").write_text(STORM)
        return plan

    monkeypatch.setattr(apply, "make_plan", plan_then_restore_file)
    assert follow(library, folder, delete=True).deleted == ()
    assert len(texts(library)) == 2


# --- Libraries with relative paths ---


def test_ingested_folder_is_synced_from_any_working_directory(
    library: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "storm.txt").write_text(STORM)
    (folder / "lava.txt").write_text(LAVA)
    monkeypatch.chdir(folder.parent)
    assert run(["--db", str(library), "ingest-dir", "notes/"]) == 0
    assert sorted(texts(library)) == sorted(
        str(folder / name) for name in ("rain.md", "storm.txt", "lava.txt")
    )
    (folder / "storm.txt").rename(folder / "gale.txt")
    (folder / "lava.txt").unlink()
    monkeypatch.chdir(tmp_path.parent)
    result = follow(library, folder, delete=True)
    assert ([change.name for change in result.renamed], [change.name for change in result.deleted]) == (
        [str(folder / "gale.txt")],
        [str(folder / "lava.txt")],
    )


@pytest.mark.parametrize("prefix", ["notes/", ""])
def test_relative_path_matches_the_file_with_its_suffix_and_text(
    library: Path, folder: Path, prefix: str
) -> None:
    (folder / "storm.txt").write_text(STORM)
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.ingest(content=RAIN, source_path=f"{prefix}rain.md")
        engine.ingest(content=STORM, source_path=f"{prefix}gale.txt")
    result = follow(library, folder, delete=True)
    assert [change.name for change in result.renamed] == [str(folder / "rain.md")]
    assert ([change.document_id for change in result.same], result.new) == ([2], ())
    (folder / "rain.md").unlink()
    assert [change.document_id for change in follow(library, folder, delete=True, force=True).deleted] == [1]
    assert list(texts(library)) == [f"{prefix}gale.txt"]


def test_uploads_from_a_folder_of_the_same_name_are_unchanged(
    library: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploaded = {"notes/storm.txt": STORM, "notes/gone.md": LAVA, "notes/data.csv": LAVA + STORM}
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        # Two documents share their text with files, as if the folder had been ingested.
        engine.ingest(content=RAIN, source_path="notes/rain.md")
        engine.ingest(content=RAIN + LAVA, source_path="notes/mist.md")
        for name, text in uploaded.items():
            engine.ingest(content=text, source_path=name)
    (folder / "mist.md").write_text(RAIN + LAVA)
    (folder / "storm.txt").write_text("Our own storm.\n")
    monkeypatch.chdir(folder.parent)
    assert follow(library, Path("notes"), delete=True).deleted == ()
    assert texts(library).items() >= uploaded.items()


def test_warnings_are_reported_when_a_text_is_stored(
    library: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "accents.txt").write_bytes("Un été à la plage, où l'élève a mangé des pâtés.".encode("latin-1"))
    result = follow(library, folder, dry_run=True)
    assert result.warnings == ()
    assert run(["--db", str(library), "sync", str(folder)]) == 0
    stderr = capsys.readouterr().err
    assert f"warning: {folder}/accents.txt: the file is not UTF-8" in stderr
    assert run(["--db", str(library), "sync", str(folder)]) == 0
    assert "warning" not in capsys.readouterr().err
