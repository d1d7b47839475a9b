"""The body of an upload as a file, whole before anything is read of it.

So memory does not grow with the body, a client that breaks off leaves nothing behind, and the database is not kept
busy at the speed of a network.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

import flask
from werkzeug.exceptions import RequestEntityTooLarge

from shoal.errors import DiskFullError
from shoal.settings import KIB, Settings

READ_BYTES = 64 * KIB
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""No space, no share of it left, or a file larger than the file system or the process may have."""


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


def spool_folder(settings: Settings) -> Path:
    """The folder of temporary files, made where it is missing. Raises OSError."""
    folder = settings.data_path / "spool"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def spooled(request: flask.Request, settings: Settings) -> Iterator[IO[bytes]]:
    """The body of an upload, at its start. waitress has it in a file already; other servers' bodies go to a file without a
    name, which is gone with the process.

    Raises DiskFullError, and Werkzeug's errors for a body that is too large or breaks off.
    """
    request.max_content_length = settings.max_upload_bytes
    # Raises for an announced length over the limit.
    body = request.stream
    received = request.environ["wsgi.input"]
    if getattr(received, "seekable", bool)():
        if received.seek(0, 2) > settings.max_upload_bytes:
            raise RequestEntityTooLarge
        received.seek(0)
        yield received
        return
    try:
        with tempfile.TemporaryFile(dir=spool_folder(settings), prefix="upload-") as file:
            shutil.copyfileobj(body, file, READ_BYTES)
            file.seek(0)
            yield file
    except OSError as error:
        if error.errno in DISK_FULL:
            raise DiskFullError("no space for the body of an upload") from error
        raise
