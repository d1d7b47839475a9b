"""Folders and source paths of strangers: the listing of a folder decides what is read, and nothing else does."""

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
from shoal.cli.session import Session
from shoal.cli.upload_files import choose
from shoal.engine import Engine
from shoal.formats.folder_listing import LINK, list_folder, may_be_listed

RAIN, SECRET = "Rain over the sea.\n", "The secret of the volcano.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "srv" / "notes"
    made.mkdir(parents=True)
    (made / "rain.md").write_text(RAIN)
    return made


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return make(tmp_path / "shoal.db", 0)


def texts(library: Path) -> list[str]:
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        return [engine.content(one.id) for one in engine.documents(limit=1000).documents]


def lay_out_secrets(folder: Path) -> None:
    """Files that the listing of the folder passes over, inside and outside."""
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
def test_what_a_document_says_of_its_source_makes_no_file_read_and_deletes_nothing(
    library: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    lay_out_secrets(folder)
    (folder / "far").symlink_to(folder.parent)
    harmless = "A storm and its wind.\n"
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        engine.ingest(content=harmless, source_path=path.format(notes=folder))
    monkeypatch.chdir(folder.parent)
    for given in (folder, Path("notes")):
        done = follow(library, given, delete=True, force=True)
        assert (done.changed, done.deleted, done.vanished) == ((), (), ())
    assert sorted(texts(library)) == sorted([harmless, RAIN])


@pytest.mark.parametrize("command", ["sync", "ingest-dir"])
def test_links_below_a_folder_are_counted_and_not_followed(
    library: Path, folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    lay_out_secrets(folder)
    (folder / "out.md").symlink_to(folder.parent / "secret.md")
    (folder / "hidden.md").symlink_to(folder / ".env.md")
    (folder / "key.md").symlink_to("server.key")
    (folder / "far").symlink_to(folder.parent)
    (folder / "loop").symlink_to(folder)
    (folder / "itself.md").symlink_to("itself.md")
    os.link(folder / "rain.md", folder / "same rain.md")
    assert run(["--db", str(library), "--json", command, str(folder)]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["passed_over"] == {LINK: 6, ".key": 1}
    assert f"6 {LINK}" in printed.err
    assert texts(library) == [RAIN]


def test_links_below_a_folder_are_not_uploaded(folder: Path) -> None:
    lay_out_secrets(folder)
    (folder / "out.md").symlink_to(folder.parent / "secret.md")
    chosen = choose(Session(), [folder])
    assert [file.path.name for file in chosen.files] == ["rain.md"]
    assert chosen.passed_over == {LINK: 1, ".key": 1}
    # A link that takes the place of a file after it was looked at is not sent either.
    from shoal.client.bodies import content_of

    (folder / "rain.md").unlink()
    (folder / "rain.md").symlink_to(folder.parent / "secret.md")
    with pytest.raises(OSError, match="symbolic link"):
        list(content_of(chosen.files[0], lambda _: None))


@pytest.mark.timeout(60)
def test_a_pipe_is_waited_for_by_no_command(
    library: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = folder / "pipe.txt"
    os.mkfifo(pipe)
    for command, n_failed in (("ingest-dir", folder), ("ingest", pipe)):
        assert run(["--db", str(library), "--json", command, str(n_failed)]) == 1
        printed = capsys.readouterr()
        assert json.loads(printed.out)["failed"] == 1
        assert "not a regular file" in printed.err
    chosen = choose(Session(), [folder, pipe])
    assert ([file.path.name for file in chosen.files], chosen.unreadable) == (["rain.md"], 2)
    assert capsys.readouterr().err.count("not a regular file") == 2


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes, as Linux has them")
def test_names_that_are_no_text_and_names_of_several_lines_are_taken_in(
    library: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, name in enumerate((b"caf\xe9.md", b"a\n0 stored, 9 failed.md", b"b\x1b[2J.md")):
        Path(os.fsdecode(bytes(folder) + b"/" + name)).write_text(f"{RAIN}{number}\n")
    Path(os.fsdecode(bytes(folder) + b"/bad\n\xe9.md")).write_bytes(b"\x00\x01" * 50)
    assert run(["--db", str(library), "sync", str(folder), "--delete"]) == 0
    printed = capsys.readouterr()
    assert "4 new" in printed.out
    # No name makes up a line of its own, and none reaches the terminal as an escape.
    assert not any(line.startswith("0 stored") for line in printed.out.splitlines())
    assert "\x1b" not in printed.out + printed.err
    assert sum("bad" in line for line in printed.err.splitlines()) == 1
    assert run(["--db", str(library), "ingest-dir", str(folder)]) == 1
    assert len(texts(library)) == 4
    follow(library, folder)
    assert len(texts(library)) == 4


def test_folders_may_be_nested_deeper_than_the_stack(tmp_path: Path) -> None:
    folders = [os.open(tmp_path, os.O_RDONLY)]
    try:
        for _ in range(sys.getrecursionlimit() + 100):
            os.mkdir("d", dir_fd=folders[-1])
            folders.append(os.open("d", os.O_RDONLY, dir_fd=folders[-1]))
            if len(folders) > 2:
                os.close(folders.pop(-2))
        os.close(os.open("deep.md", os.O_CREAT | os.O_WRONLY, dir_fd=folders[-1]))
        listing = list_folder(tmp_path)
        # Beyond the longest path of the system a folder cannot be listed, which is said.
        assert len(listing.texts) + len(listing.unreadable) == 1
    finally:
        for folder in folders:
            os.close(folder)
        # Not left to the end of the run: what removes it then is recursive.
        subprocess.run(["rm", "-rf", str(tmp_path)], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="takes rights from root as Linux does")
def test_what_may_not_be_read_is_counted_with_its_reason_and_stays(library: Path, folder: Path) -> None:
    (folder / "locked").mkdir()
    (folder / "locked" / "storm.md").write_text("A storm and its wind.\n")
    (folder / "sealed.md").write_text("A market price.\n")
    follow(library, folder)
    (folder / "locked").chmod(0o000)
    (folder / "sealed.md").chmod(0o000)
    try:
        ran = run_shoal("--db", library, "sync", folder, "--delete")
    finally:
        (folder / "locked").chmod(0o755)
    assert ran.returncode == 1
    assert f"failed: {folder}/locked: permission denied" in ran.stderr
    assert f"failed: {folder}/sealed.md: " in ran.stderr
    assert "0 deleted, 1 unchanged, 2 failed" in ran.stdout
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
        ("/n/a.csv", False),
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
def test_a_path_is_one_of_the_listing_or_not(path: str, expected: bool) -> None:
    assert may_be_listed(path, "/n") is expected
    assert may_be_listed(path.removeprefix("/n"), "/") is expected
