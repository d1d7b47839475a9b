"""No link, pipe or device can take the place of a file, whenever it appears."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import DocumentTooLargeError
from shoal.support.regular_files import IrregularFileError, open_file, read_file


def test_read_file_reads_by_path_and_below_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "c.md"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"Rain.")
    assert read_file(file, 5) == read_file(file, 5, tmp_path) == b"Rain."
    with pytest.raises(DocumentTooLargeError, match="the file has 5 bytes; the limit is 4"):
        read_file(file, 4)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "none", 5, tmp_path)
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path / "a", 5, tmp_path)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
@pytest.mark.parametrize("is_below", [True, False])
def test_open_file_refuses_pipes_sockets_and_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, is_below: bool
) -> None:
    path = tmp_path / "a.md"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        monkeypatch.chdir(tmp_path)
        socket.socket(socket.AF_UNIX).bind("a.md")
    else:
        path = Path("/dev/zero")
    with pytest.raises(IrregularFileError, match="not a regular file"):
        open_file(path, path.parent if is_below else None)


def test_links_are_followed_only_within_their_folder_and_not_below_a_listed_one(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (tmp_path / "secret.md").write_bytes(b"Secret.")
    (folder / "deep" / "own.md").write_bytes(b"Rain.")
    (folder / "plain.md").write_bytes(b"Storm.")
    (folder / "out.md").symlink_to(tmp_path / "secret.md")
    (folder / "in.md").symlink_to("deep/own.md")
    (folder / "twice.md").symlink_to("in.md")
    (folder / "out and in.md").symlink_to(folder / ".." / "folder" / "in.md")
    (folder / "far").symlink_to(tmp_path)
    (folder / "through.md").symlink_to("far/secret.md")
    (folder / "deep" / "up.md").symlink_to("../plain.md")
    for name in ("in.md", "twice.md", "out and in.md"):
        assert read_file(folder / name, 7) == b"Rain."
    for name in ("out.md", "through.md", "deep/up.md", "far"):
        with pytest.raises(IrregularFileError, match="out of its folder"):
            read_file(folder / name, 7)
    for name in ("in.md", "twice.md", "out.md", "far/secret.md"):
        with pytest.raises(IrregularFileError, match="symbolic link"):
            read_file(folder / name, 7, folder)
    (tmp_path / "named").symlink_to(folder)
    assert read_file(tmp_path / "named" / "deep" / "own.md", 7, tmp_path / "named") == b"Rain."


def test_links_that_lead_nowhere_or_to_themselves_are_errors(tmp_path: Path) -> None:
    (tmp_path / "loop.md").symlink_to("loop.md")
    (tmp_path / "a.md").symlink_to("b.md")
    (tmp_path / "b.md").symlink_to("a.md")
    (tmp_path / "dot").symlink_to(".")
    (tmp_path / "none.md").symlink_to("nowhere")
    for name in ("loop.md", "a.md", "dot"):
        with pytest.raises(OSError):  # noqa: PT011 - the system's message
            read_file(tmp_path / name, 7)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "none.md", 7)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("swapped", ["file for link", "file for pipe", "folder for link"])
def test_a_file_replaced_after_the_check_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.md").write_bytes(b"SECRET")
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    file = folder / "sub" / "a.md"
    file.write_bytes(b"Rain.")
    original_stat = os.stat

    def stat_and_swap(path: Any, **options: Any) -> os.stat_result:
        status = original_stat(path, **options)
        if path == ("sub" if swapped == "folder for link" else "a.md"):
            file.unlink()
            if swapped == "file for link":
                file.symlink_to(tmp_path / "outside" / "a.md")
            elif swapped == "file for pipe":
                os.mkfifo(file)
            else:
                file.parent.rmdir()
                file.parent.symlink_to(tmp_path / "outside")
        return status

    monkeypatch.setattr(os, "stat", stat_and_swap)
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the class depends on the system
        read_file(file, 100, folder)
    assert isinstance(caught.value, IrregularFileError) or caught.value.errno in (errno.ELOOP, errno.ENOTDIR)


def test_a_growing_file_is_read_up_to_its_initial_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"Rain.")
    original_fstat, calls = os.fstat, []

    def fstat_and_grow(descriptor: int) -> os.stat_result:
        calls.append(original_fstat(descriptor))
        if len(calls) == 2:
            path.write_bytes(b"Rain. Storm.")
        return calls[-1]

    monkeypatch.setattr(os, "fstat", fstat_and_grow)
    assert read_file(path, 10) == b"Rain."
    assert path.stat().st_size > 10


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "link.md").symlink_to(tmp_path)
    (tmp_path / "a" / "b" / "c.md").write_bytes(b"Rain.")
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0  # noqa: PTH208
    for _ in range(20):
        for name in ("link.md", "none.md", "c.md", "."):
            try:
                read_file(tmp_path / "a" / "b" / name, 10, tmp_path)
            except OSError:
                continue
    after = len(os.listdir("/proc/self/fd")) if before else 0  # noqa: PTH208
    assert after == before
