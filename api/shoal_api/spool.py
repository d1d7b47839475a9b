"""Upload bodies as files, received completely before they are read.

Memory does not grow with the body, an aborted upload leaves nothing behind, and no write transaction waits
for the network.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import flask
from werkzeug.exceptions import RequestEntityTooLarge

from shoal.conversion.inflating import READ_BYTES
from shoal.errors import DiskFullError
from shoal.settings import Settings
from shoal.support.byte_units import KIB

SPOOL_FROM = 512 * KIB
"""Bodies larger than this go to a file."""
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""No space left, quota exceeded, or a file above the limit of the file system or process."""


def spool_folder(settings: Settings) -> Path:
    """Return the folder of temporary files, creating it if necessary. Raises OSError."""
    folder = settings.data_path / "spool"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def has_body(request: flask.Request) -> bool:
    """Whether a request has a body, which may be empty if its length is not declared."""
    length = request.headers.get("Content-Length", "0")
    return length != "0" or "chunked" in request.headers.get("Transfer-Encoding", "")


@contextlib.contextmanager
def spooled(request: flask.Request, settings: Settings) -> Iterator[IO[bytes]]:
    """Yield the body of an upload as a file, at its start.

    waitress provides a file. Bodies from other servers are copied to an unnamed file, which vanishes with the
    process. Raises DiskFullError, and Werkzeug's errors for a body that is too large or incomplete.
    """
    # Raises if the declared length is above the limit.
    body = request.stream
    received = request.environ["wsgi.input"]
    if getattr(received, "seekable", bool)():
        if received.seek(0, 2) > settings.max_upload_bytes:
            raise RequestEntityTooLarge
        received.seek(0)
        yield received
        return
    with (
        disk_full_is_an_error(),
        tempfile.TemporaryFile(dir=spool_folder(settings), prefix="upload-") as file,
    ):
        shutil.copyfileobj(body, file, READ_BYTES)
        file.seek(0)
        yield file


@contextlib.contextmanager
def disk_full_is_an_error() -> Iterator[None]:
    """Raise DiskFullError where there is no space for a body."""
    try:
        yield
    except OSError as error:
        if error.errno in DISK_FULL:
            raise DiskFullError("no space for the body of an upload") from error
        raise
