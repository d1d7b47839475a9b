"""Compressed request bodies (`Content-Encoding`), unpacked into a file before a view reads them.

The limits of a body are those of what it unpacks to, so that a view never meets more than it would of a body
that is not compressed.
"""

from __future__ import annotations

import tempfile
from typing import IO

import flask
from werkzeug.wsgi import get_input_stream

from shoal.conversion.inflating import DEFLATE, GZIP, RATIO_FLOOR, Inflated, PackedDataError
from shoal.settings import Settings
from shoal_api.problems import ProblemError
from shoal_api.spool import SPOOL_FROM, disk_full_is_an_error, has_body, spool_folder

CODINGS = {GZIP: GZIP, "x-gzip": GZIP, DEFLATE: DEFLATE}
"""Names in the header, and the coding that each means (RFC 9110, 8.4.1)."""
IDENTITY = ("", "identity")


def unpack_body(request: flask.Request, settings: Settings) -> IO[bytes] | None:
    """Replace a compressed body by what it unpacks to; return the file, to be closed after the request.

    Raises ProblemError: 415 for an unknown coding, 400 for damaged data, 413 for more than the limit of the
    body (`max_content_length`) or for an unusual ratio. Raises DiskFullError.
    """
    name = request.headers.get("Content-Encoding", "").strip().lower()
    if name in IDENTITY or not has_body(request):
        return None
    if name not in CODINGS:
        taken = f"{GZIP}, {DEFLATE}"
        raise ProblemError(
            415,
            f"send the body with `Content-Encoding: {GZIP}` or `{DEFLATE}`, or without; an archive is "
            "recognized by its content type",
            headers={"Accept-Encoding": taken},
        )
    environ, limit = request.environ, request.max_content_length

    def check_size(n_bytes: int, n_packed: int) -> None:
        if limit is not None and n_bytes > limit:
            raise ProblemError(413, f"the body unpacks to more than {limit:,} bytes, which is the limit")
        most = settings.max_archive_ratio
        if n_bytes > max(RATIO_FLOOR, most * n_packed):
            raise ProblemError(413, f"the body unpacks to over {most:g} times its size, which is the limit")

    with disk_full_is_an_error():
        file: IO[bytes] = tempfile.SpooledTemporaryFile(  # noqa: SIM115 - closed after the request
            SPOOL_FROM, "w+b", dir=str(spool_folder(settings)), prefix="body-"
        )
        try:
            packed = get_input_stream(environ, max_content_length=limit)
            inflated = Inflated(packed, check_size, CODINGS[name])
            while data := inflated.read():
                file.write(data)
        except PackedDataError as error:
            file.close()
            raise ProblemError(400, str(error)) from None
        except BaseException:
            file.close()
            raise
    environ["CONTENT_LENGTH"] = str(file.tell())
    file.seek(0)
    environ["wsgi.input"] = file
    environ.pop("HTTP_CONTENT_ENCODING")
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    return file
