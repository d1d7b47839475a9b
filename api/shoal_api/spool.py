"""Where the body of an upload waits until it is whole.

A body goes to disk as it arrives, so memory does not grow with it, a client that breaks off leaves nothing
behind, and the database is not kept busy at the speed of somebody's network.
"""

from __future__ import annotations

import contextlib
import errno
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

from shoal.errors import DiskFullError
from shoal.settings import KIB, Settings

READ_BYTES = 64 * KIB
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""No space, no share of it left, or a file larger than the file system or the process may have."""


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


@contextlib.contextmanager
def spool(settings: Settings) -> Iterator[IO[bytes]]:
    """An empty file without a name: it is gone with the process, however that ends. Raises DiskFullError."""
    folder: Path = settings.data_path / "spool"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, prefix="upload-") as file:
            yield file
    except OSError as error:
        if error.errno in DISK_FULL:
            raise DiskFullError("no space for the spool") from error
        raise


class Tee:
    """Reads a request's body and keeps what was read in a file."""

    def __init__(self, body: Readable, file: IO[bytes]) -> None:
        self._body = body
        self._file = file

    def read(self, size: int = READ_BYTES) -> bytes:
        """The next bytes, b"" at the end. Raises Werkzeug's errors: over the limit, or the client broke off."""
        data = self._body.read(size)
        self._file.write(data)
        return data
