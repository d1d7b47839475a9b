"""multipart/form-data part by part, in memory bounded by what the reader asks for.

Werkzeug's own form parser keeps every file of a form at once; its decoder, used here, does not.
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

from shoal_api.spool import READ_BYTES, Readable

MAX_HEADERS = 2 * READ_BYTES
"""Bytes the decoder may hold back while it looks for the first boundary or the end of a part's headers: what it was given
last, and as much before that."""

MAX_PADDING = 64
"""White space that may follow a boundary on its line, by RFC 2046; nobody is known to send any."""


class MalformedMultipartError(ValueError):
    """The body is not multipart/form-data with the boundary that was announced."""


class Part:
    """One part while it passes by: what is not read before the next one is asked for is gone."""

    def __init__(self, name: str, filename: str | None, data: Iterator[bytes]) -> None:
        """`filename` is None for a field; "" is what a browser sends for a file input left empty."""
        self.name = name
        self.filename = filename
        self.size = 0
        self._data = data

    def __iter__(self) -> Iterator[bytes]:
        for data in self._data:
            self.size += len(data)
            yield data

    def read(self, limit: int) -> bytes | None:
        """The whole part, or None where it is longer than `limit` bytes; `size` tells how long."""
        kept = bytearray()
        for data in self:
            if self.size <= limit:
                kept += data
        return bytes(kept) if self.size <= limit else None

    def drain(self) -> None:
        for _ in self:
            pass


def parts(body: Readable, boundary: str) -> Iterator[Part]:
    """The parts of a body in order. Raises MalformedMultipartError, and whatever reading the body raises."""
    events = _events(body, boundary)
    for event in events:
        if isinstance(event, Field | File):
            filename = event.filename if isinstance(event, File) else None
            part = Part(event.name or "", filename, _data(events))
            yield part
            part.drain()


def _events(body: Readable, boundary: str) -> Iterator[Event]:
    with _as_malformed():
        delimiter = boundary.encode("ascii")
        decoder = MultipartDecoder(delimiter, max_form_memory_size=MAX_HEADERS)
    pieces = _pieces(body, delimiter)
    event: Event = NEED_DATA
    while not isinstance(event, Epilogue):
        data = next(pieces, None)
        with _as_malformed():
            decoder.receive_data(data)
            event = decoder.next_event()
        while not isinstance(event, NeedData | Epilogue):
            yield event
            with _as_malformed():
                event = decoder.next_event()


def _pieces(body: Readable, boundary: bytes) -> Iterator[bytes]:
    """The body in pieces of which none ends between a boundary and the end of its line.

    Given such a piece, Werkzeug's decoder (3.1) takes the line break before the boundary for content. Raises
    MalformedMultipartError where more than MAX_PADDING blanks follow a boundary.
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
def _as_malformed() -> Iterator[None]:
    """What the decoder says of a body that it cannot take apart, or only after an endless head."""
    try:
        yield
    except (ValueError, RequestEntityTooLarge) as error:
        raise MalformedMultipartError("the body is not what its multipart boundary announces") from error


def _data(events: Iterator[Event]) -> Iterator[bytes]:
    for event in events:
        assert isinstance(event, Data), "data follows the headers of a part"
        yield event.data
        if not event.more_data:
            return
