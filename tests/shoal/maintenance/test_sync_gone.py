"""What makes a file gone for a library that follows its folder, and what does not: a document once deleted is lost."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from libraries import follow, make

from shoal.cli.app import run
from shoal.engine import Engine
from shoal.formats.folder_listing import LINK
from shoal.maintenance.sync import apply, sync
from shoal.maintenance.sync.apply import MANY, EmptyFolderError
from shoal.maintenance.sync.plan import make_plan
from shoal.settings import Settings

RAIN, STORM, LAVA = "Rain over the sea.\n", "A storm and its wind.\n", "A volcano throws lava.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "notes"
    made.mkdir()
    (made / "rain.md").write_text(RAIN)
    return made


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return make(tmp_path / "shoal.db", 0)


def texts(library: Path) -> dict[str, str]:
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        return {
            str(one.source_path): engine.content(one.id) for one in engine.documents(limit=1000).documents
        }


def take_in(library: Path, *files: Path, **options: Any) -> None:
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        for file in files:
            engine.ingest_file(file, **options)


@pytest.mark.parametrize("name", ["c.text", "data.csv", "README", ".draft.md", ".hidden/a.md"])
def test_a_file_that_is_not_listed_is_neither_read_nor_gone(library: Path, folder: Path, name: str) -> None:
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(STORM)
    take_in(library, folder / "rain.md", file)
    file.write_text(STORM + LAVA)
    done = follow(library, folder, delete=True)
    assert (done.changed, done.renamed, done.deleted, done.unchanged) == ((), (), (), 1)
    file.unlink()
    assert follow(library, folder, delete=True).deleted == ()
    assert texts(library)[str(file)] == STORM


def test_a_format_that_was_chosen_for_a_file_stays_when_it_changes(library: Path, folder: Path) -> None:
    file = folder / "lava.txt"
    file.write_text("# Fire\n\n" + LAVA)
    take_in(library, folder / "rain.md", file, format="markdown")
    file.write_text("# Heat\n\n" + LAVA)
    follow(library, folder)
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        changed = next(one for one in engine.documents().documents if one.source_path == str(file))
        assert (changed.format, changed.n_chunks) == ("markdown", 1)
        assert [section.path for section in engine.document(changed.id).sections] == [("Heat",)]


def test_files_of_other_kinds_are_counted_and_left_alone(library: Path, folder: Path) -> None:
    for name in ("a.pdf", "b.PDF", "c.docx"):
        (folder / name).write_bytes(b"not a text")
    done = follow(library, folder)
    assert [one.name for one in done.new] == [str(folder / "rain.md")]
    assert done.passed_over == {".pdf": 2, ".docx": 1}


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (b"\x00\x01\x02" * 50, "not a text"),
        (b" \n", "no text"),
        (b"Rain. " * 100, "limit"),
        (b"---\ntitle: Rain\n---\n", "no text besides"),
    ],
)
def test_a_file_that_holds_no_text_now_is_not_gone(
    library: Path, folder: Path, now: bytes, reason: str
) -> None:
    (folder / "storm.txt").write_text(STORM)
    follow(library, folder)
    (folder / "rain.md").write_bytes(now)
    settings = Settings(database_url=f"sqlite:///{library}", max_document_bytes=200)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        done = sync(engine, folder, delete=True)
    assert done.deleted == ()
    assert [(one.name, one.is_refused) for one in done.failed] == [(str(folder / "rain.md"), True)]
    assert reason in done.failed[0].reason
    assert texts(library)[str(folder / "rain.md")] == RAIN


def test_what_the_system_does_not_let_see_is_not_gone(
    library: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "storm.txt").write_text(STORM)
    follow(library, folder)
    opened = os.open

    def fail(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith("storm.txt"):
            raise OSError(5, "Input/output error", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", fail)
    done = follow(library, folder, delete=True)
    assert done.deleted == ()
    assert [one.name for one in done.failed] == [str(folder / "storm.txt")]
    assert not done.failed[0].is_refused


def test_what_links_have_taken_the_place_of_is_not_gone(library: Path, folder: Path, tmp_path: Path) -> None:
    (folder / "storm.txt").write_text(STORM)
    (folder / "far").mkdir()
    (folder / "far" / "lava.txt").write_text(LAVA)
    follow(library, folder)
    shutil.move(folder / "storm.txt", tmp_path / "storm.txt")
    shutil.move(folder / "far", tmp_path / "far")
    (folder / "storm.txt").symlink_to(tmp_path / "nowhere")
    (folder / "far").symlink_to(tmp_path / "far")
    done = follow(library, folder, delete=True)
    assert (done.deleted, done.vanished, done.failed) == ((), (), ())
    assert done.passed_over == {LINK: 2}
    assert len(texts(library)) == 3


def test_a_folder_in_the_place_of_a_file_is_a_file_gone(library: Path, folder: Path) -> None:
    (folder / "storm.txt").write_text(STORM)
    follow(library, folder)
    (folder / "storm.txt").unlink()
    (folder / "storm.txt").mkdir()
    assert [one.name for one in follow(library, folder, delete=True).deleted] == [str(folder / "storm.txt")]


def test_a_name_in_other_letters_is_the_same_file_where_the_system_says_so(
    library: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_in(library, folder / "rain.md")
    (folder / "rain.md").rename(folder / "Rain.md")
    looked_at = Path.stat

    def stat(path: Path, **options: Any) -> os.stat_result:
        """As on a file system that does not tell capitals from small letters."""
        return looked_at(folder / "Rain.md" if path == folder / "rain.md" else path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    (folder / "Rain.md").write_text(RAIN + STORM)
    done = follow(library, folder, delete=True)
    assert [(one.name, one.before) for one in done.changed] == [
        (str(folder / "Rain.md"), str(folder / "rain.md"))
    ]
    assert (done.new, done.deleted) == ((), ())
    assert texts(library) == {str(folder / "Rain.md"): RAIN + STORM}


def test_of_an_empty_folder_inside_nothing_is_deleted_unasked(library: Path, folder: Path) -> None:
    disk = folder / "disk"
    disk.mkdir()
    for i in range(MANY):
        (disk / f"{i}.md").write_text(f"{STORM}{i}.\n")
    follow(library, folder)
    shutil.rmtree(disk)
    disk.mkdir()
    done = follow(library, folder, delete=True)
    assert (done.deleted, done.empty) == ((), (str(disk),))
    assert len(done.vanished) == MANY
    assert len(follow(library, folder, delete=True, force=True).deleted) == MANY
    assert texts(library) == {str(folder / "rain.md"): RAIN}


def test_another_folder_in_its_place_deletes_nothing(library: Path, folder: Path) -> None:
    follow(library, folder)
    (folder / "rain.md").unlink()
    (folder / "storm.txt").write_text(STORM)
    with pytest.raises(EmptyFolderError, match=r"no document of .* would be left"):
        follow(library, folder, delete=True)
    assert texts(library) == {str(folder / "rain.md"): RAIN}
    assert len(follow(library, folder, delete=True, force=True).deleted) == 1


def test_a_pipe_among_the_texts_is_not_waited_for(library: Path, folder: Path) -> None:
    os.mkfifo(folder / "pipe.txt")
    done = follow(library, folder)
    assert [(one.name, one.is_refused) for one in done.failed] == [(str(folder / "pipe.txt"), True)]
    assert "pipe" in done.failed[0].reason


def test_a_name_with_control_characters_is_followed_under_the_one_it_is_stored_by(
    library: Path, folder: Path
) -> None:
    file = folder / "c\x01.txt"
    file.write_text(STORM)
    take_in(library, folder / "rain.md", file)
    file.write_text(STORM + LAVA)
    done = follow(library, folder, delete=True)
    assert ([one.name for one in done.changed], done.deleted) == ([str(folder / "c .txt")], ())


def test_a_file_that_is_back_in_time_keeps_its_document(
    library: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "storm.txt").write_text(STORM)
    follow(library, folder)
    (folder / "storm.txt").unlink()

    def plan_and_come_back(*arguments: Any) -> Any:
        plan = make_plan(*arguments)
        (folder / "storm.txt").write_text(STORM)
        return plan

    monkeypatch.setattr(apply, "make_plan", plan_and_come_back)
    assert follow(library, folder, delete=True).deleted == ()
    assert len(texts(library)) == 2


# --- Libraries with relative paths ---


def test_a_folder_that_was_ingested_is_followed_from_any_other(
    library: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "storm.txt").write_text(STORM)
    (folder / "lava.txt").write_text(LAVA)
    monkeypatch.chdir(folder.parent)
    assert run(["--db", str(library), "ingest-dir", "notes/"]) == 0
    assert sorted(texts(library)) == sorted(str(folder / n) for n in ("rain.md", "storm.txt", "lava.txt"))
    (folder / "storm.txt").rename(folder / "gale.txt")
    (folder / "lava.txt").unlink()
    monkeypatch.chdir(tmp_path.parent)
    done = follow(library, folder, delete=True)
    assert ([one.name for one in done.renamed], [one.name for one in done.deleted]) == (
        [str(folder / "gale.txt")],
        [str(folder / "lava.txt")],
    )


@pytest.mark.parametrize("beginning", ["notes/", ""])
def test_a_relative_path_is_that_of_the_file_with_its_end_and_its_text(
    library: Path, folder: Path, beginning: str
) -> None:
    (folder / "storm.txt").write_text(STORM)
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.ingest(content=RAIN, source_path=f"{beginning}rain.md")
        engine.ingest(content=STORM, source_path=f"{beginning}gale.txt")
    done = follow(library, folder, delete=True)
    assert [one.name for one in done.renamed] == [str(folder / "rain.md")]
    assert ([one.document_id for one in done.same], done.new) == ([2], ())
    (folder / "rain.md").unlink()
    assert [one.document_id for one in follow(library, folder, delete=True, force=True).deleted] == [1]
    assert list(texts(library)) == [f"{beginning}gale.txt"]


def test_what_somebody_uploaded_from_a_folder_of_the_same_name_is_left_alone(
    library: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploaded = {"notes/storm.txt": STORM, "notes/gone.md": LAVA, "notes/data.csv": LAVA + STORM}
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        # As many as there are files of the same text, to look like a folder that was taken in.
        engine.ingest(content=RAIN, source_path="notes/rain.md")
        engine.ingest(content=RAIN + LAVA, source_path="notes/mist.md")
        for name, text in uploaded.items():
            engine.ingest(content=text, source_path=name)
    (folder / "mist.md").write_text(RAIN + LAVA)
    (folder / "storm.txt").write_text("Our own storm.\n")
    monkeypatch.chdir(folder.parent)
    assert follow(library, Path("notes"), delete=True).deleted == ()
    assert texts(library).items() >= uploaded.items()


def test_what_is_doubtful_of_a_text_is_told_when_it_comes_in(
    library: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "accents.txt").write_bytes("Un été à la plage, où l'élève a mangé des pâtés.".encode("latin-1"))
    done = follow(library, folder, dry_run=True)
    assert done.warnings == ()
    assert run(["--db", str(library), "sync", str(folder)]) == 0
    told = capsys.readouterr().err
    assert f"warning: {folder}/accents.txt: the file is not UTF-8" in told
    assert run(["--db", str(library), "sync", str(folder)]) == 0
    assert "warning" not in capsys.readouterr().err
