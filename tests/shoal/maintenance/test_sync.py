"""A library follows a folder: what is new, changed, renamed and gone, however often and by whomever it is run."""

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
from fake_scorer import FakeScorer
from growth import FACTOR, assert_not_quadratic
from hypothesis import given, settings
from hypothesis import strategies as st
from libraries import follow, make, run_until_killed

from shoal.cli.app import run
from shoal.engine import Engine
from shoal.maintenance.sync import Synced, sync
from shoal.maintenance.sync.apply import EmptyFolderError
from shoal.maintenance.sync.folder import Failed, Folder, TextFile
from shoal.maintenance.sync.plan import Plan, Stored, make_plan
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
            str(document.source_path): (document.id, engine.content(document.id))
            for document in engine.documents(limit=1000).documents
        }


def texts_of(library: Path, folder: Path) -> dict[str, str]:
    """The texts of the library by the names of their files in a folder; those of elsewhere by what they have."""
    return {name.removeprefix(f"{folder}/"): text for name, (_, text) in stored(library).items()}


def take_in_under_relative_paths(library: Path, texts: Mapping[str, str], beginning: str) -> None:
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        for name, text in texts.items():
            engine.ingest(content=text, source_path=f"{beginning}{name}")


def names(changes: Any, folder: Path) -> list[str]:
    return [change.name.removeprefix(f"{folder}/") for change in changes]


def assert_nothing_to_do(library: Path, folder: Path, **options: Any) -> None:
    before = stored(library)
    done = follow(library, folder, **options)
    assert (done.new, done.changed, done.renamed, done.deleted, done.tagged) == ((), (), (), (), 0)
    assert stored(library) == before


def test_a_folder_comes_in(library: Path, folder: Path) -> None:
    write(folder, {".hidden.md": "Not read.", ".git/x.md": "Not read.", "picture.png": "Not read."})
    done = follow(library, folder, tags=["mine"])
    assert names(done.new, folder) == sorted(TEXTS)
    assert texts_of(library, folder) == TEXTS
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        assert {document.tags for document in engine.documents().documents} == {("mine",)}
    assert_nothing_to_do(library, folder, tags=["mine"], delete=True)


def test_a_changed_file_is_the_same_document_with_other_content(library: Path, folder: Path) -> None:
    follow(library, folder)
    before = stored(library)
    write(folder, {"fire.md": "# Fire\n\nA volcano throws lava, ash and basalt.\n"})
    done = follow(library, folder)
    assert names(done.changed, folder) == ["fire.md"]
    assert done.unchanged == 2
    after = stored(library)
    name = str(folder / "fire.md")
    assert after[name] == (before[name][0], "# Fire\n\nA volcano throws lava, ash and basalt.\n")
    assert_nothing_to_do(library, folder)


def test_title_and_tags_of_the_text_follow_it_and_those_given_by_hand_stay(
    library: Path, folder: Path
) -> None:
    front = "---\ntitle: {}\ntags: [{}]\n---\nA volcano throws lava.\n"
    write(
        folder,
        {"fire.md": front.format("Old", "hot, red"), "other.md": front.format("Other", "x") + "Ash.\n"},
    )
    follow(library, folder)
    number = stored(library)[str(folder / "fire.md")][0]
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.set_tags(number, ["hot", "red", "by hand"])
    write(folder, {"fire.md": front.format("New", "cold")})
    follow(library, folder)
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        found = engine.document(number).document
        assert (found.title, set(found.tags)) == ("New", {"cold", "by hand"})


def test_a_renamed_file_keeps_its_document(library: Path, folder: Path) -> None:
    follow(library, folder)
    before = stored(library)
    (folder / "far").mkdir()
    (folder / "sea" / "storm.txt").rename(folder / "far" / "gale.txt")
    done = follow(library, folder, delete=True)
    assert names(done.renamed, folder) == ["far/gale.txt"]
    assert done.renamed[0].before == str(folder / "sea" / "storm.txt")
    assert done.deleted == ()
    old, new = str(folder / "sea" / "storm.txt"), str(folder / "far" / "gale.txt")
    assert stored(library)[new] == before[old]
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        assert engine.document(before[old][0]).document.title == "Gale"
    assert_nothing_to_do(library, folder)


def test_files_that_change_places_keep_their_documents(library: Path, folder: Path) -> None:
    follow(library, folder)
    before = stored(library)
    a, b = folder / "fire.md", folder / "sea" / "storm.txt"
    text = a.read_text()
    a.write_text(b.read_text())
    b.write_text(text)
    done = follow(library, folder, delete=True)
    assert len(done.renamed) == 2
    after = stored(library)
    assert after[str(a)][0] == before[str(b)][0]
    assert after[str(b)][0] == before[str(a)][0]
    assert texts_of(library, folder)["fire.md"] == TEXTS["sea/storm.txt"]
    assert_nothing_to_do(library, folder, delete=True)


def test_what_is_gone_stays_until_it_is_to_be_deleted(library: Path, folder: Path) -> None:
    follow(library, folder)
    shutil.rmtree(folder / "sea")
    done = follow(library, folder)
    assert names(done.vanished, folder) == ["sea/deep/ship.markdown", "sea/storm.txt"]
    assert texts_of(library, folder) == TEXTS
    done = follow(library, folder, delete=True)
    assert names(done.deleted, folder) == ["sea/deep/ship.markdown", "sea/storm.txt"]
    assert texts_of(library, folder) == {"fire.md": TEXTS["fire.md"]}
    assert_nothing_to_do(library, folder, delete=True)


def test_a_folder_that_may_not_be_mounted_deletes_nothing(library: Path, folder: Path) -> None:
    follow(library, folder)
    shutil.rmtree(folder)
    folder.mkdir()
    with pytest.raises(EmptyFolderError, match="is it mounted"):
        follow(library, folder, delete=True)
    assert texts_of(library, folder) == TEXTS
    assert len(follow(library, folder, delete=True, force=True).deleted) == 3
    assert stored(library) == {}


def test_documents_of_elsewhere_are_left_alone(
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


def test_a_text_that_another_document_has_is_not_stored_twice(library: Path, folder: Path) -> None:
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.ingest(content=TEXTS["fire.md"], source_path="elsewhere.md", tags=["old"])
    write(folder, {"copy.txt": TEXTS["sea/storm.txt"]})
    done = follow(library, folder, tags=["mine"])
    assert names(done.same, folder) == ["fire.md", "sea/storm.txt"]
    assert done.same[0].document_id == 1
    assert len(stored(library)) == 3
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        assert set(engine.document(1).document.tags) == {"old", "mine"}
    # The one that stands for both goes; the other takes its place.
    (folder / "copy.txt").unlink()
    done = follow(library, folder, delete=True)
    assert names(done.renamed, folder) == ["sea/storm.txt"]
    assert done.deleted == ()
    assert_nothing_to_do(library, folder, tags=["mine"], delete=True)


def test_a_folder_that_was_uploaded_before_is_followed_from_there(
    library: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    take_in_under_relative_paths(library, TEXTS, "notes/")
    ids = sorted(number for number, _ in stored(library).values())
    planned = follow(library, Path("notes"), dry_run=True)
    done = follow(library, Path("notes"), delete=True)
    assert len(planned.renamed) == len(done.renamed) == 3
    write(folder, {"fire.md": "A volcano, and more lava.\n"})
    assert len(follow(library, Path("notes"), delete=True).changed) == 1
    assert sorted(number for number, _ in stored(library).values()) == ids
    assert texts_of(library, folder) == TEXTS | {"fire.md": "A volcano, and more lava.\n"}
    assert_nothing_to_do(library, Path("notes"), delete=True)


def test_a_file_that_cannot_be_read_is_told_and_its_document_stays(library: Path, folder: Path) -> None:
    follow(library, folder)
    (folder / "fire.md").write_bytes(b"\x7fELF\x00\x01\x02\x03" * 100)
    write(folder, {"empty.txt": " \n", "new.txt": "A market price and a wage."})
    done = follow(library, folder, delete=True)
    assert sorted(one.name.removeprefix(f"{folder}/") for one in done.failed) == ["empty.txt", "fire.md"]
    assert names(done.new, folder) == ["new.txt"]
    assert texts_of(library, folder) == TEXTS | {"new.txt": "A market price and a wage."}


def test_a_folder_inside_that_cannot_be_listed_loses_nothing(
    library: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow(library, folder)
    listing = os.scandir

    def scandir(path: Any) -> Any:
        if str(path).endswith("/sea"):
            raise PermissionError(13, "Permission denied", str(path))
        return listing(path)

    monkeypatch.setattr(os, "scandir", scandir)
    done = follow(library, folder, delete=True)
    assert [(one.name, one.reason) for one in done.failed] == [(f"{folder}/sea", "permission denied")]
    assert done.deleted == ()
    assert texts_of(library, folder) == TEXTS


def test_a_dry_run_tells_what_would_be_done_and_does_nothing(library: Path, folder: Path) -> None:
    follow(library, folder)
    before = stored(library)
    write(folder, {"fire.md": "Another volcano.\n", "new.txt": "A market price."})
    (folder / "sea" / "storm.txt").rename(folder / "gale.txt")
    (folder / "sea" / "deep" / "ship.markdown").unlink()
    planned = follow(library, folder, delete=True, dry_run=True)
    assert stored(library) == before
    done = follow(library, folder, delete=True)

    def told(one: Synced) -> Any:
        kinds = (one.new, one.changed, one.renamed, one.deleted, one.vanished, one.same)
        return [names(kind, folder) for kind in kinds], one.unchanged

    assert told(planned) == told(done)


KILLED = """
import os, signal, sys
from pathlib import Path
from fake_scorer import FakeScorer
from shoal.engine import Engine
from shoal.settings import Settings
from shoal.maintenance.sync import sync
def watch(progress):
    if progress.items_done:
        os.kill(os.getpid(), signal.SIGKILL)
settings = Settings(database_url=f"sqlite:///{sys.argv[1]}", wave_bytes=1, batch_items=1)
with Engine(settings=settings, scorer=FakeScorer()) as engine:
    sync(engine, Path(sys.argv[2]), delete=True, watch=watch)
"""


def test_a_sync_that_is_killed_goes_on_when_run_again(library: Path, folder: Path) -> None:
    follow(library, folder)
    (folder / "sea" / "deep" / "ship.markdown").unlink()
    new = {f"new-{i}.txt": f"Rain and storm, number {i}.\n" for i in range(4)}
    write(folder, {"fire.md": "Another volcano.\n", **new})
    run_until_killed(KILLED, library, folder)
    # Nothing goes before what is to come is there.
    assert "sea/deep/ship.markdown" in texts_of(library, folder)
    assert 3 < len(stored(library)) + (texts_of(library, folder)["fire.md"] != TEXTS["fire.md"]) < 9
    follow(library, folder, delete=True)
    assert texts_of(library, folder) == {
        "fire.md": "Another volcano.\n",
        "sea/storm.txt": TEXTS["sea/storm.txt"],
        **new,
    }
    assert_nothing_to_do(library, folder, delete=True)


TWICE = """
import sys
from pathlib import Path
from fake_scorer import FakeScorer
from shoal.engine import Engine
from shoal.maintenance.sync import sync
with Engine(db_path=sys.argv[1], scorer=FakeScorer()) as engine:
    done = sync(engine, Path(sys.argv[2]), delete=True)
assert not done.failed, done.failed
"""


def test_two_at_once_do_the_work_once(library: Path, folder: Path) -> None:
    follow(library, folder)
    (folder / "sea" / "storm.txt").rename(folder / "gale.txt")
    write(
        folder,
        {"fire.md": "Another volcano.\n", **{f"new-{i}.txt": f"Rain, number {i}.\n" for i in range(5)}},
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", TWICE, str(library), str(folder)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for _ in range(2)
    ]
    assert [one.wait(timeout=120) for one in running] == [0, 0]
    assert len(stored(library)) == 8
    assert_nothing_to_do(library, folder, delete=True)


# --- The plan alone ---

NAMES = ("a", "b", "c", "d")
State = dict[str, str]
states = st.dictionaries(st.sampled_from(NAMES), st.sampled_from("uvwxyz"), max_size=len(NAMES))


def as_folder(state: State) -> Folder:
    files = tuple(TextFile(Path(f"/{name}"), f"/{name}", text, 1) for name, text in sorted(state.items()))
    return Folder("/", files, ())


def carried_out(plan: Plan, documents: list[Stored], first_id: int) -> list[Stored]:
    left = {one.id: one for one in documents}
    for document, file in (*plan.kept, *plan.changed):
        left[document.id] = Stored(document.id, file.name, file.content_hash, file.name)
    for gone in plan.vanished:
        del left[gone.id]
    for i, file in enumerate(plan.new):
        left[first_id + i] = Stored(first_id + i, file.name, file.content_hash, file.name)
    return list(left.values())


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(states, min_size=1, max_size=6))
def test_documents_are_those_of_the_folder_after_any_changes(history: list[State]) -> None:
    documents: list[Stored] = []
    next_id = 1
    for state in history:
        folder = as_folder(state)
        plan = make_plan(folder, documents, {})
        known = {one.content_hash: one.id for one in documents}
        documents = carried_out(plan, documents, next_id)
        next_id += len(plan.new)
        # A document for each text, under the name of a file that says so, and its id as long as the text is there.
        assert sorted(one.content_hash for one in documents) == sorted(set(state.values()))
        for one in documents:
            assert state[one.name.removeprefix("/")] == one.content_hash
            assert known.get(one.content_hash, one.id) == one.id
        again = make_plan(folder, documents, {})
        assert (again.changed, again.new, again.vanished) == ((), (), ())
        assert not any(pair.is_renamed for pair in again.kept)


def test_documents_of_files_that_could_not_be_read_are_not_gone() -> None:
    unknown = (Failed("/notes/bad.md", "why"), Failed("/notes/locked", "why", is_folder=True))
    documents = [
        Stored(i, name, f"text {i}", name)
        for i, name in enumerate(
            ["/notes/bad.md", "/notes/locked/a.md", "/notes/locked-not/a.md", "/notes/gone.md"]
        )
    ]
    plan = make_plan(Folder("/notes", (), unknown), documents, {})
    assert [one.name for one in plan.vanished] == ["/notes/gone.md", "/notes/locked-not/a.md"]


def test_many_files_gone_from_a_folder_with_many_that_cannot_be_read_take_linear_time() -> None:
    def plan(n: int) -> Plan:
        documents = [Stored(i, f"/n/gone{i}.md", f"text {i}", f"/n/gone{i}.md") for i in range(n)]
        failed = tuple(Failed(f"/n/sub/{i}", "why", is_folder=True) for i in range(n))
        return make_plan(Folder("/n", (), failed), documents, {})

    assert len(plan(50).vanished) == 50
    assert_not_quadratic(lambda: plan(50), lambda: plan(50 * FACTOR))


def test_of_several_documents_of_a_file_the_newest_follows_it() -> None:
    documents = [Stored(1, "/n/a.md", "older", "/n/a.md"), Stored(2, "/n/a.md", "old", "/n/a.md")]
    file = TextFile(Path("/n/a.md"), "/n/a.md", "new", 1)
    plan = make_plan(Folder("/n", (file,), ()), documents, {})
    assert [pair.document.id for pair in plan.changed] == [2]
    assert [one.id for one in plan.vanished] == [1]


def test_what_is_hashed_is_the_text_as_it_is_stored(library: Path, tmp_path: Path) -> None:
    file = tmp_path / "n" / "a.txt"
    file.parent.mkdir()
    file.write_bytes(b"\xef\xbb\xbfRain\x00and storm.\r\n")
    follow(library, file.parent)
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        text = engine.content(1)
        assert engine.document(1).document.content_hash == hashlib.sha256(text.encode()).hexdigest()
    assert_nothing_to_do(library, file.parent)


# --- The command ---


def test_the_command_tells_what_it_did(
    library: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*options: str) -> tuple[int, Any]:
        code = run(["--db", str(library), "sync", str(folder), *options])
        return code, capsys.readouterr()

    code, printed = command("--dry-run")
    assert code == 0
    assert "it would be 3 new" in printed.out
    code, printed = command("--tags", "mine")
    assert code == 0
    assert f"new        {folder}/fire.md (document 1)" in printed.out
    (folder / "fire.md").unlink()
    write(folder, {"empty.txt": ""})
    code, printed = command()
    assert code == 0
    assert "0 failed, 1 not stored" in printed.out
    assert "--delete removes them" in printed.out
    assert f"not stored: {folder}/empty.txt: the document has no text" in printed.err
    code, printed = command("--delete", "--json")
    assert code == 0
    told = json.loads(printed.out)
    assert [one["name"] for one in told["deleted"]] == [f"{folder}/fire.md"]
    assert told["unchanged"] == 2
    assert command("--strict")[0] == 1
    assert run(["--db", str(library), "sync", str(folder / "none")]) == 2


def test_settings_of_the_run_are_those_of_the_files(tmp_path: Path, folder: Path) -> None:
    small = Settings(database_url=f"sqlite:///{tmp_path / 'a.db'}", max_document_bytes=35)
    with Engine(settings=small, scorer=FakeScorer()) as engine:
        done = sync(engine, folder)
    assert [one.name.removeprefix(f"{folder}/") for one in done.failed] == ["fire.md"]
    assert "limit" in done.failed[0].reason
