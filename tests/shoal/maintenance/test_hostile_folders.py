"""Untrusted folders and source paths: only files in the listing of a folder are read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_scorer import FakeScorer
from libraries import follow, make
from unprivileged import run_shoal

from shoal.cli.app import run
from shoal.cli.jobs import select_files
from shoal.cli.session import Session
from shoal.conversion.folder_listing import LINK, count_skipped, is_listable, list_folder
from shoal.engine import Engine

RAIN, SECRET = "Rain over the sea.\n", "The secret of the volcano.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    notes = tmp_path / "srv" / "notes"
    notes.mkdir(parents=True)
    (notes / "rain.md").write_text(RAIN)
    return notes


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return make(tmp_path / "shoal.db", 0)


def texts(library: Path) -> list[str]:
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        return [
            engine.documents.content(document.id) for document in engine.documents.list(limit=1000).documents
        ]


def write_secrets(folder: Path) -> None:
    """Create files inside and outside the folder that its listing skips."""
    for name in ("../secret.md", ".private/env.md", ".env.md", "server.key", "sub/.git/config.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(SECRET + name)


@pytest.mark.parametrize(
    "path",
    [
        "{notes}/../secret.md",
        "{notes}/sub/../../secret.md",
        "{notes}/sub/../server.key",
        "{notes}/.private/env.md",
        "{notes}/.env.md",
        "{notes}/server.key",
        "{notes}/sub/.git/config.txt",
        "{notes}//server.key",
        "{notes}/./.env.md",
        "{notes}/far/secret.md",
        "notes/../secret.md",
        "notes/.env.md",
        "../secret.md",
        "server.key",
    ],
)
def test_source_path_of_a_document_reads_no_file_and_deletes_nothing(
    library: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    write_secrets(folder)
    (folder / "far").symlink_to(folder.parent)
    harmless = "A storm and its wind.\n"
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.ingest(content=harmless, source_path=path.format(notes=folder))
    monkeypatch.chdir(folder.parent)
    for synced_folder in (folder, Path("notes")):
        result = follow(library, synced_folder, delete=True, force=True)
        assert (result.changed, result.deleted, result.vanished) == ((), (), ())
    assert sorted(texts(library)) == sorted([harmless, RAIN])


@pytest.mark.parametrize("command", ["sync", "ingest-dir"])
def test_links_in_a_folder_are_counted_and_not_followed(
    library: Path, folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    write_secrets(folder)
    (folder / "out.md").symlink_to(folder.parent / "secret.md")
    (folder / "hidden.md").symlink_to(folder / ".env.md")
    (folder / "key.md").symlink_to("server.key")
    (folder / "far").symlink_to(folder.parent)
    (folder / "loop").symlink_to(folder)
    (folder / "itself.md").symlink_to("itself.md")
    os.link(folder / "rain.md", folder / "same rain.md")
    assert run(["--db", str(library), "--json", command, str(folder)]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["skipped_files"] == {LINK: 6, "hidden": 3, ".key": 1}
    assert f"6 {LINK}s" in captured.err
    assert texts(library) == [RAIN]


def test_links_in_a_folder_are_not_uploaded(folder: Path) -> None:
    write_secrets(folder)
    (folder / "out.md").symlink_to(folder.parent / "secret.md")
    chosen = select_files(Session(), [folder])
    assert [file.path.name for file in chosen.files] == ["rain.md"]
    assert count_skipped(chosen.skipped) == {LINK: 1, "hidden": 3, ".key": 1}
    # A link that replaces a file after the choice is not sent either.
    from shoal.client.bodies import content_of

    (folder / "rain.md").unlink()
    (folder / "rain.md").symlink_to(folder.parent / "secret.md")
    with pytest.raises(OSError, match="symbolic link"):
        list(content_of(chosen.files[0], lambda _: None))


@pytest.mark.timeout(60)
def test_pipe_blocks_no_command(library: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = folder / "pipe.txt"
    os.mkfifo(pipe)
    for command, path in (("ingest-dir", folder), ("ingest", pipe)):
        assert run(["--db", str(library), "--json", command, str(path)]) == 1
        captured = capsys.readouterr()
        assert json.loads(captured.out)["failed"] == 1
        assert "not a regular file" in captured.err
    chosen = select_files(Session(), [folder, pipe])
    assert ([file.path.name for file in chosen.files], chosen.unreadable) == (["rain.md"], 2)
    assert capsys.readouterr().err.count("not a regular file") == 2


@pytest.mark.skipif(sys.platform != "linux", reason="file names of arbitrary bytes, as on Linux")
def test_file_names_with_invalid_utf8_and_line_breaks_are_stored(
    library: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, name in enumerate((b"caf\xe9.md", b"a\n0 stored, 9 failed.md", b"b\x1b[2J.md")):
        Path(os.fsdecode(bytes(folder) + b"/" + name)).write_text(f"{RAIN}{number}\n")
    Path(os.fsdecode(bytes(folder) + b"/bad\n\xe9.md")).write_bytes(b"\x00\x01" * 50)
    assert run(["--db", str(library), "sync", str(folder), "--delete"]) == 0
    captured = capsys.readouterr()
    assert "4 new" in captured.out
    # No name starts an output line of its own or reaches the terminal as an escape sequence.
    assert not any(line.startswith("0 stored") for line in captured.out.splitlines())
    assert "\x1b" not in captured.out + captured.err
    assert sum("bad" in line for line in captured.err.splitlines()) == 1
    assert run(["--db", str(library), "ingest-dir", str(folder)]) == 1
    assert len(texts(library)) == 4
    follow(library, folder)
    assert len(texts(library)) == 4


def test_folders_may_be_nested_deeper_than_the_recursion_limit(tmp_path: Path) -> None:
    folders = [os.open(tmp_path, os.O_RDONLY)]
    try:
        for _ in range(sys.getrecursionlimit() + 100):
            os.mkdir("d", dir_fd=folders[-1])
            folders.append(os.open("d", os.O_RDONLY, dir_fd=folders[-1]))
            if len(folders) > 2:
                os.close(folders.pop(-2))
        os.close(os.open("deep.md", os.O_CREAT | os.O_WRONLY, dir_fd=folders[-1]))
        listing = list_folder(tmp_path)
        # A folder beyond the path length limit of the system cannot be listed, and is reported.
        assert len(listing.texts) + len(listing.unreadable) == 1
    finally:
        for folder in folders:
            os.close(folder)
        # pytest would remove the folder recursively, and fail.
        subprocess.run(["rm", "-rf", str(tmp_path)], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="drops root privileges as on Linux")
def test_unreadable_files_are_reported_and_their_documents_stay(library: Path, folder: Path) -> None:
    (folder / "locked").mkdir()
    (folder / "locked" / "storm.md").write_text("A storm and its wind.\n")
    (folder / "sealed.md").write_text("A market price.\n")
    follow(library, folder)
    (folder / "locked").chmod(0o000)
    (folder / "sealed.md").chmod(0o000)
    try:
        result = run_shoal("--db", library, "sync", folder, "--delete")
    finally:
        (folder / "locked").chmod(0o755)
    assert result.returncode == 1
    assert f"failed: {folder}/locked: permission denied" in result.stderr
    assert f"failed: {folder}/sealed.md: " in result.stderr
    assert "0 deleted, 1 unchanged, 2 failed" in result.stdout
    assert len(texts(library)) == 3


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/n/a.md", True),
        ("/n/sub/b.TXT", True),
        ("/n/a..b/c.md", True),
        ("/n", False),
        ("/n/", False),
        ("/n/.md", False),
        ("/n/a.key", False),
        ("/n/../n/a.md", False),
        ("/n/sub/../a.md", False),
        ("/n/./a.md", False),
        ("/n//a.md", False),
        ("/n/sub//a.md", False),
        ("/n/.sub/a.md", False),
        ("/nn/a.md", False),
        ("n/a.md", False),
        ("", False),
    ],
)
def test_may_be_listed_accepts_only_listable_paths(path: str, expected: bool) -> None:
    assert is_listable(path, "/n") is expected
    assert is_listable(path.removeprefix("/n"), "/") is expected
