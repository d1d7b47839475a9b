"""Which files of a folder are read, and what is said about the others."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest
from fake_scorer import FakeScorer
from hypothesis import given
from hypothesis import strategies as st
from libraries import follow, make

from shoal.cli.app import run
from shoal.cli.jobs import select_files
from shoal.cli.session import Session
from shoal.conversion.folder_listing import PathPatterns, PatternError, Selection, is_listable, list_folder
from shoal.engine import Engine

NAMES = (
    "top.md",
    "notes.jnl",
    "README",
    "song.mp3",
    "drafts/old.md",
    "deep/drafts/older.md",
    "deep/notes.jnl",
    "deep/er/table.csv",
    "#odd.md",
    "!odd.md",
    ".hidden.md",
    ".git/config.md",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"Rain over the sea, as told in {name.strip('.')}.\n")
    return folder


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return make(tmp_path / "shoal.db", 0)


def read(folder: Path, selection: Selection) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in list_folder(folder, selection).texts}


def reasons(folder: Path, selection: Selection) -> dict[str, str]:
    return {
        os.path.relpath(entry.path, folder): str(entry.reason)
        for entry in list_folder(folder, selection).skipped
    }


def stored_names(library: Path) -> set[str]:
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        return {Path(document.source_path or "").name for document in engine.documents.list().documents}


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (
            (),
            (),
            {"top.md", "drafts/old.md", "deep/drafts/older.md", "deep/er/table.csv", "#odd.md", "!odd.md"},
        ),
        (("*.jnl",), (), {"notes.jnl", "deep/notes.jnl"}),
        (("/*.jnl",), (), {"notes.jnl"}),
        (("deep/**",), (), {"deep/notes.jnl", "deep/drafts/older.md", "deep/er/table.csv"}),
        (("deep/**/*.csv", "README"), (), {"deep/er/table.csv", "README"}),
        ((), ("drafts/", "*odd*"), {"top.md", "deep/er/table.csv"}),
        ((), ("/drafts", "#odd.md", "!odd.md"), {"top.md", "deep/drafts/older.md", "deep/er/table.csv"}),
        (("*.md",), ("deep",), {"top.md", "drafts/old.md", "#odd.md", "!odd.md"}),
        (("[!d]*.md", "t?p.md"), ("**/drafts/**",), {"top.md", "#odd.md", "!odd.md"}),
        (("none",), (), set()),
    ],
)
def test_globs_choose_files(
    folder: Path, include: tuple[str, ...], exclude: tuple[str, ...], expected: set[str]
) -> None:
    selection = Selection.of(include, exclude)
    assert read(folder, selection) == expected
    listable = {name for name in NAMES if is_listable(f"/n/{name}", "/n", selection)}
    # Which folders are excluded is known from the path of a file, too.
    assert listable == expected


def test_every_file_that_is_not_read_has_a_reason(folder: Path) -> None:
    (folder / "link.md").symlink_to("top.md")
    (folder / ".gitignore").write_text("er/\n")
    assert reasons(folder, Selection.of((), ("drafts/",), gitignore=True)) == {
        ".git": "hidden",
        ".gitignore": "hidden",
        ".hidden.md": "hidden",
        "README": "unknown",
        "deep/drafts": "excluded",
        "deep/er": "gitignored",
        "deep/notes.jnl": "unknown",
        "drafts": "excluded",
        "link.md": "link",
        "notes.jnl": "unknown",
        "song.mp3": "kind",
    }
    assert reasons(folder, Selection.of(("*.csv",)))["top.md"] == "not_included"
    entries = {Path(entry.path).name: entry for entry in list_folder(folder).skipped}
    assert entries["song.mp3"].advice.startswith("this is an audio file; convert it")
    assert "--include" in entries["README"].advice


def test_inner_gitignore_files_count_below_their_folder(folder: Path) -> None:
    (folder / ".gitignore").write_text("# comment\n*.md\n!top.md\n[z-a]\n\\\n/deep/er\n")
    (folder / "deep" / ".gitignore").write_bytes(b"\xef\xbb\xbf!older.md\r\n/top.md\r\n")
    assert read(folder, Selection()) > {"drafts/old.md"}
    assert read(folder, Selection(gitignore=True)) == {"top.md", "deep/drafts/older.md"}


def test_gitignore_that_cannot_be_read_hides_its_folder(folder: Path) -> None:
    (folder / "deep" / ".gitignore").symlink_to("/etc/passwd")
    (folder / "drafts" / ".gitignore").write_bytes(b"a" * 300_000)
    for name, content in {
        "stars": "*a*a*a*a*a*b",
        "deep stars": "**/a/**/a/**/b",
        "long": "a" * 2000,
    }.items():
        (folder / name).mkdir()
        (folder / name / ".gitignore").write_text(content)
        (folder / name / "text.md").write_text("Rain")
    listing = list_folder(folder, Selection(gitignore=True))
    assert {path.name for path in listing.texts} == {"top.md", "#odd.md", "!odd.md"}
    said = {entry.path.name: entry.reason for entry in listing.unreadable}
    assert set(said) == {"deep", "drafts", "stars", "deep stars", "long"}
    assert "symbolic link" in said["deep"]
    assert "limit" in said["drafts"]
    assert "too many stars" in said["stars"]


@pytest.mark.parametrize("pattern", ["*a*a*a*b", "**/a/**/a/b", "[a-z]*" * 3, "a*" * 4])
def test_patterns_match_hostile_names_in_bounded_time(pattern: str) -> None:
    patterns = PathPatterns.of_globs([pattern])
    assert patterns is not None
    began = time.process_time()
    for path in ("a" * 255, "a/" * 1000, "é\udce9\n" * 60):
        patterns.matches(path)
    assert time.process_time() - began < 20


@given(st.text(max_size=30))
def test_any_pattern_is_accepted_or_refused(pattern: str) -> None:
    PathPatterns.of_gitignore(b"*.md").matches(pattern or "a")
    try:
        patterns = PathPatterns.of_globs([pattern])
    except PatternError:
        return
    assert patterns is not None
    patterns.matches("a/b.md")


@pytest.mark.parametrize("command", ["ingest-dir", "sync"])
def test_commands_take_the_selection(
    library: Path, folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (folder / "picture.jnl").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / ".gitignore").write_text("/notes.jnl\n")
    arguments = ["--db", str(library), command, str(folder)]
    assert run([*arguments, "--include", "*.jnl", "--include", "/t*", "--gitignore", "--json"]) == 0
    captured = capsys.readouterr()
    assert stored_names(library) == {"top.md", "notes.jnl"}
    report = json.loads(captured.out)
    by_name = {os.path.relpath(entry["path"], folder): entry for entry in report["skipped"]}
    assert by_name["picture.jnl"]["reason"] == "content"
    assert by_name["picture.jnl"]["kind"] == "an image"
    assert by_name["notes.jnl"]["reason"] == "gitignored"
    assert by_name["README"]["reason"] == "not_included"
    assert sum(report["skipped_files"].values()) == len(report["skipped"])
    assert f"skipped: {folder}/picture.jnl: this is an image; " in captured.err
    assert f"{folder}/README" not in captured.err
    assert run([*arguments, "--exclude", "*.md", "--exclude", "*.csv", "--verbose"]) in (0, 1)
    assert f"skipped: {folder}/README: its extension is not known; " in capsys.readouterr().err
    assert run([*arguments, "--exclude", "[z-a]"]) == 2
    assert "--exclude" in capsys.readouterr().err


def test_upload_takes_the_selection_for_folders_only(folder: Path) -> None:
    chosen = select_files(Session(), [folder, folder / "README"], Selection.of(("*.jnl",), ("deep/",)))
    assert [file.path.name for file in chosen.files] == ["notes.jnl", "README"]
    assert {entry.reason for entry in chosen.skipped} == {"hidden", "excluded", "not_included"}


def test_upload_skips_empty_files_of_folders_only(folder: Path) -> None:
    (folder / "deep" / "__init__.py").write_bytes(b"")
    chosen = select_files(Session(), [folder, folder / "deep" / "__init__.py"])
    assert [file.path.name for file in chosen.files].count("__init__.py") == 1
    assert [entry.path for entry in chosen.skipped if entry.reason == "empty"] == [
        f"{folder}/deep/__init__.py"
    ]


def test_links_given_by_name_are_followed_only_within_their_folder(
    library: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "deep" / "out.md").symlink_to("../top.md")
    (folder / "in.md").symlink_to("deep/notes.jnl")
    assert run(["--db", str(library), "ingest", str(folder / "deep" / "out.md"), str(folder / "in.md")]) == 1
    assert re.search(r"out\.md: .*out of its folder; name .*/top\.md", capsys.readouterr().err)
    assert stored_names(library) == {"in.md"}
    chosen = select_files(Session(), [folder / "deep" / "out.md", folder / "in.md"])
    assert ([file.path.name for file in chosen.files], chosen.unreadable) == (["in.md"], 1)


def test_documents_of_skipped_files_are_neither_changed_nor_deleted(library: Path, folder: Path) -> None:
    follow(library, folder, selection=Selection.of(("*.jnl", "*.md")))
    before = stored_names(library)
    assert "notes.jnl" in before
    (folder / "notes.jnl").unlink()
    (folder / "drafts" / "old.md").write_text("Another text of rain.")
    (folder / ".gitignore").write_text("older.md\n")
    for selection in (Selection(), Selection.of((), ("*.jnl", "drafts/")), Selection.of(("top.md",))):
        result = follow(
            library,
            folder,
            delete=True,
            selection=Selection(selection.include, selection.exclude, gitignore=True),
        )
        assert (result.deleted, result.vanished) == ((), ())
    assert stored_names(library) >= before
    result = follow(library, folder, delete=True, selection=Selection.of(("*.jnl",)))
    assert [Path(change.name).name for change in result.deleted] == ["notes.jnl"]
