"""Request bodies under gunicorn: what breaks off, what stalls, and what is left unread.

A request that is refused early leaves most of its body on the connection. gunicorn then promises to keep the
connection and closes it nevertheless, so that the client's next request on it fails. Here the rest is read, and
where that is too much the answer says that the connection ends.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gunicorn.http.errors import ParseException

from shoal.settings import KIB, MIB

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

STALL_SECONDS = 60.0
"""A client that sends nothing for so long in the middle of a body has gone."""

REST_BYTES = 64 * MIB
REST_SECONDS = 2.0
"""How much is read of a body whose request is answered already, so that the client gets to reading the answer."""

PIECE = 256 * KIB


def whole_bodies(application: WSGIApplication) -> WSGIApplication:
    """The application with bodies that end, one way or another. For gunicorn's synchronous workers."""

    def wrapped(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        length = environ.get("CONTENT_LENGTH") or ""
        body = environ["wsgi.input"] = Body(
            environ["wsgi.input"], environ["gunicorn.socket"], int(length) if length.isdigit() else None
        )
        answer = application(environ, start_response)
        if not body.finish():
            # The bound method of gunicorn's response, which has not sent its headers yet.
            start_response.__self__.force_close()  # type: ignore[attr-defined]
        return answer

    return wrapped


class Body:
    """Has `read` alone, which is all that Werkzeug's limited stream asks for."""

    def __init__(self, body: Any, connection: Any, length: int | None = None) -> None:
        """`length` in bytes where it was announced; a body in chunks says itself where it ends."""
        self._body = body
        self._left = length
        self._connection = connection
        self._connection.settimeout(STALL_SECONDS)

    def read(self, size: int = -1, /) -> bytes:
        """Raises OSError where the body breaks off, stalls or is wrongly chunked; Werkzeug makes that a 400."""
        try:
            data: bytes = self._body.read(size) if size >= 0 else self._body.read()
        except ParseException as error:
            raise OSError("the body is wrongly chunked") from error
        if self._left is not None:
            self._left -= len(data)
            # gunicorn takes a connection that was closed for the end of the body.
            if self._left > 0 and size and not data:
                raise OSError("the body broke off")
        return data

    def finish(self) -> bool:
        """Read what is left; False if that is too much, takes too long or fails."""
        deadline = time.monotonic() + REST_SECONDS
        left = REST_BYTES
        with contextlib.suppress(OSError):
            self._connection.settimeout(REST_SECONDS)
            while left > 0 and time.monotonic() < deadline:
                data = self.read(PIECE)
                if not data:
                    self._connection.settimeout(None)
                    return True
                left -= len(data)
        return False
