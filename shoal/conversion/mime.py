"""Messages of MIME: parts, headers and payloads, read without recursion and within limits."""

from __future__ import annotations

import email.errors
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.header import decode_header as split_header
from email.message import Message
from email.parser import BytesHeaderParser
from email.policy import compat32

from shoal.conversion.converted import broken
from shoal.conversion.texts import decode_text

MAX_DEPTH = 10
"""Parts within parts; what is nested deeper is passed over."""
MAX_PARTS = 10_000
MAX_HEADER_BYTES = 256 * 1024
_MAX_HEADER_CHARS = 4000

_AS_IT_IS = frozenset({"", "7bit", "8bit", "binary"})
_BLANK_LINE = re.compile(rb"\r?\n[ \t]*\r?\n|\A\r?\n")
_ENCODED_WORD = re.compile(r"=\?[^\s?]{1,40}\?[bBqQ]\?[^\s?]*\?=")
_PARSER = BytesHeaderParser(policy=compat32)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\s]+")


@dataclass(frozen=True, slots=True)
class Part:
    """A message, or a part of one: its headers, its body as it is written, and how deep it is."""

    headers: Message
    body: bytes
    depth: int

    @property
    def media_type(self) -> str:
        return self.headers.get_content_type()

    @property
    def charset(self) -> str | None:
        return self._parameter("charset")

    @property
    def is_attachment(self) -> bool:
        return str(self.headers.get("Content-Disposition", "")).lstrip().lower().startswith("attachment")

    @property
    def file_name(self) -> str:
        """The name of an attachment, empty if it has none."""
        try:
            name = self.headers.get_filename()
        except (ValueError, LookupError, TypeError):
            return ""
        return decode_header(name)[:255] if name else ""

    def header(self, name: str) -> str:
        """Return a header as it is written; empty if there is none."""
        return str(self.headers.get(name, ""))

    def payload(self) -> bytes:
        """Return the body without its transfer encoding; damaged parts of it are left out."""
        encoding = self.header("Content-Transfer-Encoding").strip().lower()
        if encoding in _AS_IT_IS:
            return self.body
        message = Message(policy=compat32)
        message["Content-Transfer-Encoding"] = encoding
        message.set_payload(self.body.decode("ascii", "surrogateescape"))
        try:
            payload = message.get_payload(decode=True)
        except (ValueError, email.errors.MessageError):
            return self.body
        return payload if isinstance(payload, bytes) else self.body

    def text(self) -> str:
        return decode_text(self.payload(), self.charset)

    def parts(self) -> list[Part]:
        """Return the parts of a multipart body, and none of another."""
        if self.headers.get_content_maintype() != "multipart" or self.depth >= MAX_DEPTH:
            return []
        boundary = self._parameter("boundary")
        if not boundary:
            return []
        mark = re.compile(
            rb"(?:\A|\r?\n)--" + re.escape(boundary.encode("utf-8", "replace")) + rb"(--)?[ \t]*+(?=\r?\n|\Z)"
        )
        parts: list[Part] = []
        start: int | None = None
        for match in mark.finditer(self.body):
            if start is not None:
                parts.append(read_part(self.body[start : match.start()], self.depth + 1))
            if match.group(1) or len(parts) >= MAX_PARTS:
                return parts
            start = match.end()
        if start is not None:
            parts.append(read_part(self.body[start:], self.depth + 1))  # it was cut
        return parts

    def _parameter(self, name: str) -> str | None:
        try:
            value = self.headers.get_param(name)
        except (ValueError, LookupError, TypeError):
            return None
        if isinstance(value, tuple):
            value = value[2]
        return value if isinstance(value, str) else None


def read_part(data: bytes, depth: int = 0) -> Part:
    """Split a message into headers and body. Raises ConversionError if the headers have no end."""
    data = data[1:] if data[:1] == b"\n" else data[2:] if data[:2] == b"\r\n" else data
    if data[:1] in (b"\n", b"\r"):
        return Part(Message(policy=compat32), data, depth)  # a part without headers
    end = _BLANK_LINE.search(data, 0, MAX_HEADER_BYTES)
    if end is None and len(data) > MAX_HEADER_BYTES:
        raise broken("the headers of the message have no end")
    headers = _PARSER.parsebytes(data[: end.start()] if end else data)
    for name in ("Content-Type", "Content-Disposition"):
        value = str(headers.get(name, ""))
        if len(value) > _MAX_HEADER_CHARS:
            # The time for parameters is quadratic in the length of the header.
            headers.replace_header(name, value[:_MAX_HEADER_CHARS])
    return Part(headers, data[end.end() :] if end else b"", depth)


def leaf_parts(part: Part) -> Iterator[Part]:
    """Yield the parts that have no parts, in order."""
    pending = [part]
    n_parts = 0
    while pending and n_parts < MAX_PARTS:
        current = pending.pop()
        n_parts += 1
        inner = current.parts()
        if inner:
            pending += reversed(inner)
        else:
            yield current


def decode_header(value: str) -> str:
    """Return a header as people read it, on one line."""
    value = value[:_MAX_HEADER_CHARS]
    if _ENCODED_WORD.search(value):
        try:
            pieces = split_header(value)
        except (ValueError, email.errors.HeaderParseError):
            pieces = []
        value = "".join(_decoded(piece, charset) for piece, charset in pieces) or value
    else:
        value = _decoded(value.encode("utf-8", "surrogateescape"), None)
    return _CONTROL.sub(" ", value).strip()


def _decoded(piece: bytes | str, charset: str | None) -> str:
    if isinstance(piece, str):
        return piece
    try:
        return piece.decode(charset or "utf-8")
    except (LookupError, ValueError):
        return piece.decode("latin-1")
