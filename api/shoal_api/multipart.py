"""Streaming reader of multipart/form-data, one part at a time in bounded memory.

Werkzeug's form parser keeps all files of a form at once; its decoder, used here, does not.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.sansio.multipart import (
    NEED_DATA,
    Data,
    Epilogue,
    Event,
    Field,
    File,
    MultipartDecoder,
    NeedData,
)

from shoal.conversion.inflating import READ_BYTES, Readable

MAX_HEADERS = 2 * READ_BYTES
"""Bytes the decoder may buffer while it searches for the first boundary or the end of a part's headers: the
last block and as much before it."""

MAX_PADDING = 64
"""White space allowed after a boundary on its line. RFC 2046 permits it; no known client sends any."""


class MalformedMultipartError(ValueError):
    """The body is not multipart/form-data with the declared boundary."""


class Part:
    """One part of a stream. Data not read before the next part is requested is lost."""

    def __init__(self, name: str, filename: str | None, data: Iterator[bytes]) -> None:
        """Create a part. `filename` is None for a field; browsers send "" for an empty file input."""
        self.name = name
        self.filename = filename
        self.size = 0
        self._data = data

    def __iter__(self) -> Iterator[bytes]:
        for data in self._data:
            self.size += len(data)
            yield data

    def read(self, limit: int) -> bytes | None:
        """Return the whole part, or None if it is longer than `limit` bytes. Sets `size` in both cases."""
        kept = bytearray()
        for data in self:
            if self.size <= limit:
                kept += data
        return bytes(kept) if self.size <= limit else None

    def drain(self) -> None:
        for _ in self:
            pass


def parts(body: Readable, boundary: str) -> Iterator[Part]:
    """Yield the parts of a body in order. Raises MalformedMultipartError and the errors of reading the
    body."""
    events = _events(body, boundary)
    for event in events:
        if isinstance(event, Field | File):
            filename = event.filename if isinstance(event, File) else None
            part = Part(event.name or "", filename, _data(events))
            yield part
            part.drain()


def _events(body: Readable, boundary: str) -> Iterator[Event]:
    with _wrap_errors():
        delimiter = boundary.encode("ascii")
        decoder = MultipartDecoder(delimiter, max_form_memory_size=MAX_HEADERS)
    pieces = _pieces(body, delimiter)
    event: Event = NEED_DATA
    while not isinstance(event, Epilogue):
        data = next(pieces, None)
        with _wrap_errors():
            decoder.receive_data(data)
            event = decoder.next_event()
        while not isinstance(event, NeedData | Epilogue):
            yield event
            with _wrap_errors():
                event = decoder.next_event()


def _pieces(body: Readable, boundary: bytes) -> Iterator[bytes]:
    """Yield the body in pieces that never end between a boundary and the end of its line.

    With such a piece, Werkzeug's decoder (3.1) takes the line break before the boundary for content. Raises
    MalformedMultipartError if more than MAX_PADDING blanks follow a boundary.
    """
    padded = re.compile(rb"--%s[^\S\r\n]{%d}" % (re.escape(boundary), MAX_PADDING + 1))
    unfinished = re.compile(rb"--%s(?:-|[^\S\r\n]{1,%d})\Z" % (re.escape(boundary), MAX_PADDING))
    reach = len(boundary) + MAX_PADDING + len(b"--")
    tail = b""
    while data := body.read(READ_BYTES):
        while unfinished.search((tail + data[-reach:])[-reach:]) and (more := body.read(1)):
            data += more
        if padded.search(tail + data):
            raise MalformedMultipartError(f"more than {MAX_PADDING} blanks follow a boundary of the body")
        tail = (tail + data[-reach:])[-reach:]
        yield data


@contextlib.contextmanager
def _wrap_errors() -> Iterator[None]:
    """Raise the decoder's errors, for malformed bodies and headers that are too long, as
    MalformedMultipartError."""
    try:
        yield
    except (ValueError, RequestEntityTooLarge) as error:
        raise MalformedMultipartError("the body does not match its multipart boundary") from error


def _data(events: Iterator[Event]) -> Iterator[bytes]:
    for event in events:
        assert isinstance(event, Data), "data follows the headers of a part"
        yield event.data
        if not event.more_data:
            return
