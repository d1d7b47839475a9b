"""Opening regular files safely: no pipe can take the place of a file, nor a link out of its folder.

The checks are repeated on the open descriptor, so the checked file is the file that is read. Below a folder,
each component of the path is opened relative to its parent, so a link is refused wherever and whenever it
appears.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO

from shoal.errors import DocumentTooLargeError

# A pipe or terminal that replaces the file after the check must not block, nor become the controlling
# terminal.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW
_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class IrregularFileError(OSError):
    """A path leads to a pipe, a device or a socket, or contains a forbidden symbolic link."""


def open_file(path: Path, folder: Path | None = None) -> IO[bytes]:
    """Open a regular file for reading. `folder`: an ancestor, below which no symbolic link is followed.

    Without it, a link is followed to a file in the folder of the link or below, not out of that folder.
    Raises IrregularFileError, IsADirectoryError or another OSError.
    """
    try:
        if folder is not None:
            return _open_below(path.relative_to(folder).parts, folder)
        return _open_target(path) if path.is_symlink() else _open_by_name(str(path), None)
    except OSError as error:
        error.filename = str(path)
        raise


def read_file(path: Path, max_bytes: int, folder: Path | None = None) -> bytes:
    """Read a regular file up to the size it had when it was opened, so that a growing file has an end.

    A file of size 0 is empty, even one that the kernel generates on reading. Raises DocumentTooLargeError
    before anything is read, and OSError as `open_file` does.
    """
    with open_file(path, folder) as file:
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            raise DocumentTooLargeError(f"the file has {size:,} bytes; the limit is {max_bytes:,}")
        return file.read(size)


def is_regular_file(path: Path) -> bool:
    """Whether a path is a regular file and not a link to one, so that it may be replaced."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def _open_target(link: Path) -> IO[bytes]:
    folder = Path(os.path.realpath(link.parent))
    target = Path(os.path.realpath(link, strict=True))
    if target == folder or not target.is_relative_to(folder):
        raise IrregularFileError(errno.ELOOP, f"this is a symbolic link out of its folder; name {target}")
    return _open_below(target.relative_to(folder).parts, folder)


def _open_below(parts: tuple[str, ...], folder: Path) -> IO[bytes]:
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            _require_regular(os.stat(part, dir_fd=folder_fd, follow_symlinks=False), is_folder=True)
            child_fd = os.open(part, _ENTER, dir_fd=folder_fd)
            os.close(folder_fd)
            folder_fd = child_fd
        return _open_by_name(parts[-1], folder_fd)
    finally:
        os.close(folder_fd)


def _open_by_name(name: str, folder_fd: int | None) -> IO[bytes]:
    """Open a file by its path, or by its name in the folder with descriptor `folder_fd`."""
    _require_regular(os.stat(name, dir_fd=folder_fd, follow_symlinks=False))
    descriptor = os.open(name, _READ, dir_fd=folder_fd)
    try:
        _require_regular(os.fstat(descriptor))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _require_regular(status: os.stat_result, *, is_folder: bool = False) -> None:
    """Raise unless this is a regular file, or a folder if `is_folder`."""
    if stat.S_ISLNK(status.st_mode):
        raise IrregularFileError(errno.ELOOP, "this is a symbolic link, which is not followed here")
    if stat.S_ISDIR(status.st_mode) and not is_folder:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not (is_folder or stat.S_ISREG(status.st_mode)):
        raise IrregularFileError(errno.EINVAL, "this is a pipe, a device or a socket, not a regular file")
