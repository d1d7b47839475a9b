"""Regular files, opened so that neither a pipe nor a link can stand in for one.

The file that was checked is the file that is read: the checks are repeated on the open descriptor. Below a folder
every step of the path is opened inside the one before, so that a link is refused wherever and whenever it appears.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO

from shoal.errors import DocumentTooLargeError

# A pipe or a terminal that takes the file's place after the check must not make us wait, nor become ours.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class IrregularFileError(OSError):
    """A path leads to a pipe, a device or a socket, or follows a symbolic link where none may be."""


def open_file(path: Path, folder: Path | None = None) -> IO[bytes]:
    """Open a regular file for reading. `folder`: a folder above it below which no symbolic link is followed.

    Raises IrregularFileError, IsADirectoryError or another OSError.
    """
    try:
        if folder is None:
            return _opened(str(path), None)
        return _opened_below(path.relative_to(folder).parts, folder)
    except OSError as error:
        error.filename = str(path)
        raise


def read_file(path: Path, max_bytes: int, folder: Path | None = None) -> bytes:
    """The bytes of a regular file, as many as it had when it was opened: one that grows meanwhile has an end.

    A file without a size is empty, also one that the kernel makes up as it is read. Raises DocumentTooLargeError
    before anything is read, and OSError as `open_file`.
    """
    with open_file(path, folder) as file:
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            raise DocumentTooLargeError(f"the file has {size:,} bytes; the limit is {max_bytes:,}")
        return file.read(size)


def is_plain_file(path: Path) -> bool:
    """Whether a path is a regular file itself, and no link to one: a file may be put in its place."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def _opened_below(parts: tuple[str, ...], folder: Path) -> IO[bytes]:
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            _refuse(os.stat(part, dir_fd=at, follow_symlinks=False), is_folder=True)
            inner = os.open(part, _ENTER, dir_fd=at)
            os.close(at)
            at = inner
        return _opened(parts[-1], at)
    finally:
        os.close(at)


def _opened(name: str, at: int | None) -> IO[bytes]:
    """Open a file by its path, or by its name in the folder of the descriptor `at`."""
    _refuse(os.stat(name, dir_fd=at, follow_symlinks=at is None))
    descriptor = os.open(name, _READ if at is None else _READ | os.O_NOFOLLOW, dir_fd=at)
    try:
        _refuse(os.fstat(descriptor))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _refuse(status: os.stat_result, *, is_folder: bool = False) -> None:
    """Raise unless this is a regular file, or a folder where one is expected."""
    if stat.S_ISLNK(status.st_mode):
        raise IrregularFileError(errno.ELOOP, "this is a symbolic link, which is not followed here")
    if stat.S_ISDIR(status.st_mode) and not is_folder:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not (is_folder or stat.S_ISREG(status.st_mode)):
        raise IrregularFileError(errno.EINVAL, "this is a pipe, a device or a socket, and no regular file")
