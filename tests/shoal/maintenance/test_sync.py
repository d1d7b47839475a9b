"""Sync updates a library to match a folder, also in repeated and concurrent runs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from examples import examples
from fake_scorer import FakeScorer
from growth import FACTOR, assert_not_quadratic
from hypothesis import given, settings
from hypothesis import strategies as st
from libraries import follow, make, run_until_killed

from shoal.cli.app import run
from shoal.engine import Engine
from shoal.maintenance.sync import SyncResult
from shoal.maintenance.sync.apply import EmptyFolderError
from shoal.maintenance.sync.folder import Failed, Folder, FolderDocument, Plan, TextFile, make_plan
from shoal.settings import Settings

TEXTS = {
    "fire.md": "# Fire\n\nA volcano throws lava and ash.\n",
    "sea/storm.txt": "Rain and storm. Wind over the sea.\n",
    "sea/deep/ship.markdown": "A ship on the ocean, and waves.\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "notes", TEXTS)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return make(tmp_path / "shoal.db", 0)


def write(folder: Path, texts: Mapping[str, str]) -> Path:
    for name, text in texts.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def stored(library: Path) -> dict[str, tuple[int, str]]:
    """Id and text of the documents by their source path."""
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        return {
            str(document.source_path): (document.id, engine.documents.content(document.id))
            for document in engine.documents.list(limit=1000).documents
        }


def tags_of(library: Path, document_id: int) -> set[str]:
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        return set(engine.documents.get(document_id).document.tags)


def change_tags(library: Path, document_id: int, **changes: Any) -> None:
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.documents.change_tags(document_id, **changes)


def texts_of(library: Path, folder: Path) -> dict[str, str]:
    """Texts of the library by file name relative to the folder, or by source path outside it."""
    return {name.removeprefix(f"{folder}/"): text for name, (_, text) in stored(library).items()}


def ingest_with_relative_paths(library: Path, texts: Mapping[str, str], prefix: str) -> None:
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        for name, text in texts.items():
            engine.ingest(content=text, source_path=f"{prefix}{name}")


def names(changes: Any, folder: Path) -> list[str]:
    return [change.name.removeprefix(f"{folder}/") for change in changes]


def assert_up_to_date(library: Path, folder: Path, **options: Any) -> None:
    before = stored(library)
    result = follow(library, folder, **options)
    assert (result.new, result.changed, result.renamed, result.deleted, result.tagged) == ((), (), (), (), 0)
    assert stored(library) == before


def test_new_files_are_added(library: Path, folder: Path) -> None:
    write(folder, {".hidden.md": "Not read.", ".git/x.md": "Not read.", "picture.png": "Not read."})
    result = follow(library, folder, tags=["mine"])
    assert names(result.new, folder) == sorted(TEXTS)
    assert texts_of(library, folder) == TEXTS
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        assert {document.tags for document in engine.documents.list().documents} == {("mine",)}
    assert_up_to_date(library, folder, tags=["mine"], delete=True)


def test_changed_file_replaces_the_content_of_its_document(library: Path, folder: Path) -> None:
    follow(library, folder)
    before = stored(library)
    write(folder, {"fire.md": "# Fire\n\nA volcano throws lava, ash and basalt.\n"})
    result = follow(library, folder)
    assert names(result.changed, folder) == ["fire.md"]
    assert result.unchanged == 2
    after = stored(library)
    name = str(folder / "fire.md")
    assert after[name] == (before[name][0], "# Fire\n\nA volcano throws lava, ash and basalt.\n")
    assert_up_to_date(library, folder)


def test_derived_title_and_tags_are_updated_and_given_tags_stay(library: Path, folder: Path) -> None:
    front = "---\ntitle: {}\ntags: [{}]\n---\nA volcano throws lava.\n"
    write(
        folder,
        {"fire.md": front.format("Old", "hot, red"), "other.md": front.format("Other", "x") + "Ash.\n"},
    )
    follow(library, folder)
    document_id = stored(library)[str(folder / "fire.md")][0]
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.documents.set_tags(document_id, ["hot", "red", "by hand"])
    write(folder, {"fire.md": front.format("New", "cold")})
    follow(library, folder)
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        document = engine.documents.get(document_id).document
        assert (document.title, set(document.tags)) == ("New", {"cold", "by hand"})


FRONT_MATTER = "---\ntags: [{}]\n---\nA volcano throws lava{}.\n"


def test_sync_does_not_bring_back_a_removed_tag_of_the_front_matter(
    library: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither when an uploaded document gets its absolute path, nor when its file changes or moves."""
    monkeypatch.chdir(folder.parent)
    file = write(folder, {"fire.md": FRONT_MATTER.format("hot, red", "")}) / "fire.md"
    ingest_with_relative_paths(library, {"fire.md": file.read_text()}, "notes/")
    change_tags(library, 1, remove=["red"])
    assert names(follow(library, folder).renamed, folder) == ["fire.md"]
    assert tags_of(library, 1) == {"hot"}
    file.write_text(FRONT_MATTER.format("hot, red", " and ash"))
    assert names(follow(library, folder).changed, folder) == ["fire.md"]
    assert tags_of(library, 1) == {"hot"}
    file = file.rename(folder / "lava.md")
    assert names(follow(library, folder).renamed, folder) == ["lava.md"]
    assert tags_of(library, 1) == {"hot"}
    # The front matter gives a new tag, later also the removed one for a second time.
    for front_matter, expected in (("hot, red, big", {"hot", "big"}), ("big", {"big"}), ("red", {"red"})):
        file.write_text(FRONT_MATTER.format(front_matter, ""))
        follow(library, folder)
        assert tags_of(library, 1) == expected


def test_sync_does_not_bring_back_a_removed_tag_of_the_option(library: Path, folder: Path) -> None:
    follow(library, folder, tags=["mine"])
    document_id = stored(library)[str(folder / "fire.md")][0]
    change_tags(library, document_id, remove=["mine"])
    assert follow(library, folder, tags=["mine"]).tagged == 0
    assert tags_of(library, document_id) == set()
    write(folder, {"fire.md": "Another volcano.\n", "new.txt": "A market price."})
    follow(library, folder, tags=["mine"])
    assert tags_of(library, document_id) == set()
    assert tags_of(library, 4) == {"mine"}
    write(folder, {"fire.md": "A third volcano.\n"})
    assert follow(library, folder, tags=["mine", "all"], tag_all=True).tagged == 4
    assert tags_of(library, document_id) == tags_of(library, 4) == {"mine", "all"}
    assert_up_to_date(library, folder, tags=["mine", "all"], tag_all=True)


def test_tag_of_the_option_stays_when_the_front_matter_drops_it(library: Path, folder: Path) -> None:
    write(folder, {"fire.md": FRONT_MATTER.format("hot, red", "")})
    follow(library, folder, tags=["hot"])
    document_id = stored(library)[str(folder / "fire.md")][0]
    write(folder, {"fire.md": FRONT_MATTER.format("red", " and ash")})
    follow(library, folder, tags=["hot"])
    assert tags_of(library, document_id) == {"hot"}


def test_renamed_file_keeps_its_document(library: Path, folder: Path) -> None:
    follow(library, folder)
    before = stored(library)
    (folder / "far").mkdir()
    (folder / "sea" / "storm.txt").rename(folder / "far" / "gale.txt")
    result = follow(library, folder, delete=True)
    assert names(result.renamed, folder) == ["far/gale.txt"]
    assert result.renamed[0].before == str(folder / "sea" / "storm.txt")
    assert result.deleted == ()
    old, new = str(folder / "sea" / "storm.txt"), str(folder / "far" / "gale.txt")
    assert stored(library)[new] == before[old]
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        assert engine.documents.get(before[old][0]).document.title == "Gale"
    assert_up_to_date(library, folder)


def test_swapped_files_keep_their_documents(library: Path, folder: Path) -> None:
    follow(library, folder)
    before = stored(library)
    a, b = folder / "fire.md", folder / "sea" / "storm.txt"
    text = a.read_text()
    a.write_text(b.read_text())
    b.write_text(text)
    result = follow(library, folder, delete=True)
    assert len(result.renamed) == 2
    after = stored(library)
    assert after[str(a)][0] == before[str(b)][0]
    assert after[str(b)][0] == before[str(a)][0]
    assert texts_of(library, folder)["fire.md"] == TEXTS["sea/storm.txt"]
    assert_up_to_date(library, folder, delete=True)


def test_vanished_documents_are_deleted_only_with_delete(library: Path, folder: Path) -> None:
    follow(library, folder)
    shutil.rmtree(folder / "sea")
    result = follow(library, folder)
    assert names(result.vanished, folder) == ["sea/deep/ship.markdown", "sea/storm.txt"]
    assert texts_of(library, folder) == TEXTS
    result = follow(library, folder, delete=True)
    assert names(result.deleted, folder) == ["sea/deep/ship.markdown", "sea/storm.txt"]
    assert texts_of(library, folder) == {"fire.md": TEXTS["fire.md"]}
    assert_up_to_date(library, folder, delete=True)


def test_empty_folder_deletes_nothing_without_force(library: Path, folder: Path) -> None:
    follow(library, folder)
    shutil.rmtree(folder)
    folder.mkdir()
    with pytest.raises(EmptyFolderError, match="is it mounted"):
        follow(library, folder, delete=True)
    assert texts_of(library, folder) == TEXTS
    assert len(follow(library, folder, delete=True, force=True).deleted) == 3
    assert stored(library) == {}


def test_documents_outside_the_folder_are_unchanged(
    library: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.ingest(content="By hand, of lava.")
        for i, neighbour in enumerate(("-", "0", "s")):
            engine.ingest(content=f"A neighbour's rain, {i}.", source_path=f"{folder}{neighbour}/a.md")
        engine.ingest(content="Under a name like it.", source_path="notes/uploaded.md")
    monkeypatch.chdir(folder.parent)
    follow(library, Path("notes"))
    shutil.rmtree(folder / "sea")
    assert len(follow(library, Path("notes"), delete=True).deleted) == 2
    assert len(stored(library)) == 6


def test_text_of_another_document_is_not_stored_twice(library: Path, folder: Path) -> None:
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.ingest(content=TEXTS["fire.md"], source_path="elsewhere.md", tags=["old"])
    write(folder, {"copy.txt": TEXTS["sea/storm.txt"]})
    result = follow(library, folder, tags=["mine"])
    assert names(result.same, folder) == ["fire.md", "sea/storm.txt"]
    assert result.same[0].document_id == 1
    assert len(stored(library)) == 3
    assert tags_of(library, 1) == {"old"}
    assert follow(library, folder, tags=["mine"], tag_all=True).tagged == 1
    assert tags_of(library, 1) == {"old", "mine"}
    # The file of the shared document is deleted; the document moves to the other file.
    (folder / "copy.txt").unlink()
    result = follow(library, folder, delete=True)
    assert names(result.renamed, folder) == ["sea/storm.txt"]
    assert result.deleted == ()
    assert_up_to_date(library, folder, tags=["mine"], delete=True)


def test_documents_with_relative_paths_are_matched_and_renamed(
    library: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    ingest_with_relative_paths(library, TEXTS, "notes/")
    ids = sorted(document_id for document_id, _ in stored(library).values())
    planned = follow(library, Path("notes"), dry_run=True)
    result = follow(library, Path("notes"), delete=True)
    assert len(planned.renamed) == len(result.renamed) == 3
    write(folder, {"fire.md": "A volcano, and more lava.\n"})
    assert len(follow(library, Path("notes"), delete=True).changed) == 1
    assert sorted(document_id for document_id, _ in stored(library).values()) == ids
    assert texts_of(library, folder) == TEXTS | {"fire.md": "A volcano, and more lava.\n"}
    assert_up_to_date(library, Path("notes"), delete=True)


def test_unreadable_file_is_reported_and_its_document_stays(library: Path, folder: Path) -> None:
    follow(library, folder)
    (folder / "fire.md").write_bytes(b"\x7fELF\x00\x01\x02\x03" * 100)
    write(folder, {"empty.txt": " \n", "new.txt": "A market price and a wage."})
    result = follow(library, folder, delete=True)
    assert names(result.failed, folder) == ["empty.txt"]
    assert [(entry.path, entry.reason) for entry in result.skipped] == [(f"{folder}/fire.md", "content")]
    assert names(result.new, folder) == ["new.txt"]
    assert texts_of(library, folder) == TEXTS | {"new.txt": "A market price and a wage."}


def test_unreadable_subfolder_keeps_its_documents(
    library: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow(library, folder)
    original_scandir = os.scandir

    def scandir(path: Any) -> Any:
        if str(path).endswith("/sea"):
            raise PermissionError(13, "Permission denied", str(path))
        return original_scandir(path)

    monkeypatch.setattr(os, "scandir", scandir)
    result = follow(library, folder, delete=True)
    assert [(failure.name, failure.reason) for failure in result.failed] == [
        (f"{folder}/sea", "permission denied")
    ]
    assert result.deleted == ()
    assert texts_of(library, folder) == TEXTS


def test_dry_run_reports_the_changes_without_making_them(library: Path, folder: Path) -> None:
    follow(library, folder)
    before = stored(library)
    write(folder, {"fire.md": "Another volcano.\n", "new.txt": "A market price."})
    (folder / "sea" / "storm.txt").rename(folder / "gale.txt")
    (folder / "sea" / "deep" / "ship.markdown").unlink()
    planned = follow(library, folder, delete=True, dry_run=True)
    assert stored(library) == before
    result = follow(library, folder, delete=True)

    def summary(result: SyncResult) -> Any:
        kinds = (result.new, result.changed, result.renamed, result.deleted, result.vanished, result.same)
        return [names(kind, folder) for kind in kinds], result.unchanged

    assert summary(planned) == summary(result)


KILLED = """
import os, signal, sys
from pathlib import Path
from fake_scorer import FakeScorer
from shoal.engine import Engine
from shoal.settings import Settings
def watch(progress):
    if progress.items_done:
        os.kill(os.getpid(), signal.SIGKILL)
settings = Settings(database_url=f"sqlite:///{sys.argv[1]}", wave_bytes=1, batch_items=1)
with Engine(settings=settings, scorer=FakeScorer()) as engine:
    engine.maintenance.sync(Path(sys.argv[2]), delete=True, watch=watch)
"""


def test_killed_sync_completes_when_repeated(library: Path, folder: Path) -> None:
    follow(library, folder)
    (folder / "sea" / "deep" / "ship.markdown").unlink()
    new = {f"new-{i}.txt": f"Rain and storm, number {i}.\n" for i in range(4)}
    write(folder, {"fire.md": "Another volcano.\n", **new})
    run_until_killed(KILLED, library, folder)
    # Deletions come after all additions.
    assert "sea/deep/ship.markdown" in texts_of(library, folder)
    assert 3 < len(stored(library)) + (texts_of(library, folder)["fire.md"] != TEXTS["fire.md"]) < 9
    follow(library, folder, delete=True)
    assert texts_of(library, folder) == {
        "fire.md": "Another volcano.\n",
        "sea/storm.txt": TEXTS["sea/storm.txt"],
        **new,
    }
    assert_up_to_date(library, folder, delete=True)


CONCURRENT = """
import sys
from pathlib import Path
from fake_scorer import FakeScorer
from shoal.engine import Engine
with Engine(db_path=sys.argv[1], scorer=FakeScorer()) as engine:
    result = engine.maintenance.sync(Path(sys.argv[2]), delete=True)
assert not result.failed, result.failed
"""


def test_concurrent_syncs_make_each_change_once(library: Path, folder: Path) -> None:
    follow(library, folder)
    (folder / "sea" / "storm.txt").rename(folder / "gale.txt")
    write(
        folder,
        {"fire.md": "Another volcano.\n", **{f"new-{i}.txt": f"Rain, number {i}.\n" for i in range(5)}},
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CONCURRENT, str(library), str(folder)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for _ in range(2)
    ]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    assert len(stored(library)) == 8
    assert_up_to_date(library, folder, delete=True)


# --- The plan ---

NAMES = ("a", "b", "c", "d")
State = dict[str, str]
states = st.dictionaries(st.sampled_from(NAMES), st.sampled_from("uvwxyz"), max_size=len(NAMES))


def as_folder(state: State) -> Folder:
    files = tuple(TextFile(Path(f"/{name}"), f"/{name}", text, 1) for name, text in sorted(state.items()))
    return Folder("/", files, ())


def apply_plan(plan: Plan, documents: list[FolderDocument], first_id: int) -> list[FolderDocument]:
    by_id = {document.id: document for document in documents}
    for document, file in (*plan.kept, *plan.changed):
        by_id[document.id] = FolderDocument(document.id, file.name, file.content_hash, file.name)
    for vanished in plan.vanished:
        del by_id[vanished.id]
    for i, file in enumerate(plan.new):
        by_id[first_id + i] = FolderDocument(first_id + i, file.name, file.content_hash, file.name)
    return list(by_id.values())


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(st.lists(states, min_size=1, max_size=6))
def test_plan_makes_documents_match_any_folder_history(history: list[State]) -> None:
    documents: list[FolderDocument] = []
    next_id = 1
    for state in history:
        folder = as_folder(state)
        plan = make_plan(folder, documents, {})
        old_ids = {document.content_hash: document.id for document in documents}
        documents = apply_plan(plan, documents, next_id)
        next_id += len(plan.new)
        # Each text has one document, named after a file with it, with a constant id while the text exists.
        assert sorted(document.content_hash for document in documents) == sorted(set(state.values()))
        for document in documents:
            assert state[document.name.removeprefix("/")] == document.content_hash
            assert old_ids.get(document.content_hash, document.id) == document.id
        next_plan = make_plan(folder, documents, {})
        assert (next_plan.changed, next_plan.new, next_plan.vanished) == ((), (), ())
        assert not any(pair.is_renamed for pair in next_plan.kept)


def test_documents_of_unreadable_files_have_not_vanished() -> None:
    failed = (Failed("/notes/bad.md", "why"), Failed("/notes/locked", "why", is_folder=True))
    documents = [
        FolderDocument(i, name, f"text {i}", name)
        for i, name in enumerate(
            ["/notes/bad.md", "/notes/locked/a.md", "/notes/locked-not/a.md", "/notes/gone.md"]
        )
    ]
    plan = make_plan(Folder("/notes", (), failed), documents, {})
    assert [document.name for document in plan.vanished] == ["/notes/gone.md", "/notes/locked-not/a.md"]


def test_plan_takes_linear_time_for_many_vanished_and_unreadable_files() -> None:
    def plan(n: int) -> Plan:
        documents = [FolderDocument(i, f"/n/gone{i}.md", f"text {i}", f"/n/gone{i}.md") for i in range(n)]
        failed = tuple(Failed(f"/n/sub/{i}", "why", is_folder=True) for i in range(n))
        return make_plan(Folder("/n", (), failed), documents, {})

    assert len(plan(50).vanished) == 50
    assert_not_quadratic(lambda: plan(50), lambda: plan(50 * FACTOR))


def test_newest_of_several_documents_follows_its_file() -> None:
    documents = [
        FolderDocument(1, "/n/a.md", "older", "/n/a.md"),
        FolderDocument(2, "/n/a.md", "old", "/n/a.md"),
    ]
    file = TextFile(Path("/n/a.md"), "/n/a.md", "new", 1)
    plan = make_plan(Folder("/n", (file,), ()), documents, {})
    assert [pair.document.id for pair in plan.changed] == [2]
    assert [document.id for document in plan.vanished] == [1]


def test_hash_is_of_the_text_as_stored(library: Path, tmp_path: Path) -> None:
    file = tmp_path / "n" / "a.txt"
    file.parent.mkdir()
    file.write_bytes(b"\xef\xbb\xbfRain\x00and storm.\r\n")
    follow(library, file.parent)
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        text = engine.documents.content(1)
        assert engine.documents.get(1).document.content_hash == hashlib.sha256(text.encode()).hexdigest()
    assert_up_to_date(library, file.parent)


# --- The command ---


def test_sync_command_counts_files_whose_text_is_stored(
    library: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--db", str(library), "sync", str(folder)]) == 0
    assert "already" not in capsys.readouterr().out
    text = (folder / "fire.md").read_text(encoding="utf-8")
    write(folder, {"copy.md": text, "second-copy.md": text})
    assert run(["--db", str(library), "sync", str(folder)]) == 0
    assert "3 unchanged, 2 with a text that is stored already, 0 failed" in capsys.readouterr().out


def test_sync_command_reports_its_changes(
    library: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*options: str) -> tuple[int, Any]:
        code = run(["--db", str(library), "sync", str(folder), *options])
        return code, capsys.readouterr()

    code, captured = command("--dry-run")
    assert code == 0
    assert "it would be 3 new" in captured.out
    code, captured = command("--tags", "mine")
    assert code == 0
    assert f"new        {folder}/fire.md (document 1)" in captured.out
    (folder / "fire.md").unlink()
    write(folder, {"empty.txt": ""})
    code, captured = command()
    assert code == 0
    assert "0 failed, 1 not stored" in captured.out
    assert "--delete removes them" in captured.out
    assert f"not stored: {folder}/empty.txt: the document has no text" in captured.err
    code, captured = command("--delete", "--json")
    assert code == 0
    report = json.loads(captured.out)
    assert [change["name"] for change in report["deleted"]] == [f"{folder}/fire.md"]
    assert report["unchanged"] == 2
    assert command("--strict")[0] == 1
    assert run(["--db", str(library), "sync", str(folder / "none")]) == 2


def test_sync_uses_the_settings_of_the_engine(tmp_path: Path, folder: Path) -> None:
    small = Settings(database_url=f"sqlite:///{tmp_path / 'a.db'}", max_document_bytes=35)
    with Engine(settings=small, scorer=FakeScorer()) as engine:
        result = engine.maintenance.sync(folder)
    (skipped,) = result.skipped
    assert (skipped.path, skipped.reason) == (f"{folder}/fire.md", "too_large")
    assert "limit" in skipped.advice


def test_a_folder_says_who_may_see_its_files(library: Path, folder: Path) -> None:
    write(folder, {"a.md": "Lava and ash.", "hr/b.md": "Salaries of the year.", "hr/board/c.md": "A merger."})
    (folder / "hr" / ".shoal-access").write_text("# of people\nallow group:hr\ndeny user:bob\n")
    (folder / "hr" / "board" / ".shoal-access").write_text("deny user:x\n")

    def rights() -> dict[str, Any]:
        with Engine(db_path=library, scorer=FakeScorer()) as engine:
            assert not engine.maintenance.sync(folder).failed
            listed = engine.documents.list().documents
            return {Path(each.source_path or "").name: each.rights for each in listed}

    first = rights()
    assert first["a.md"] is None
    assert first["b.md"] == (("group:hr",), ("user:bob",))
    assert first["c.md"] == ((), ("user:x",))
    # A change of the rights alone is seen, and a change of the text keeps them.
    (folder / "hr" / ".shoal-access").write_text("allow group:hr\nallow user:ann\n")
    (folder / "hr" / "board" / "c.md").write_text("Another merger.")
    second = rights()
    assert second["b.md"] == (("group:hr", "user:ann"), ())
    assert second["c.md"] == ((), ("user:x",))
    # What cannot be read stores nothing new, and shows nothing more.
    (folder / "hr" / ".shoal-access").write_text("allow everybody\n")
    (folder / "hr" / "d.md").write_text("Bonuses.")
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        failed = {Path(each.name).name for each in engine.maintenance.sync(folder).failed}
        assert failed >= {"b.md", "d.md"}
        assert "d.md" not in {Path(each.source_path or "").name for each in engine.documents.list().documents}
