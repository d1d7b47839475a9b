"""Messages of MIME: parts, headers and payloads, read without recursion and within limits."""

from __future__ import annotations

import codecs
import email.errors
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.header import decode_header as split_header
from email.message import Message
from email.parser import BytesHeaderParser
from email.policy import compat32

from shoal.conversion.converted import broken
from shoal.conversion.texts import decode_text, known_encoding

MAX_DEPTH = 10
"""Parts within parts; what is nested deeper is passed over."""
MAX_PARTS = 10_000
MAX_HEADER_BYTES = 256 * 1024
_MAX_HEADER_CHARS = 4000

_AS_IT_IS = frozenset({"", "7bit", "8bit", "binary"})
_BLANK_LINE = re.compile(rb"\r?\n[ \t]*\r?\n|\A\r?\n")
_ENCODED_WORDS = re.compile(r"=\?[^\s?]{1,40}\?[bBqQ]\?[^?]*+\?=(?:\s++=\?[^\s?]{1,40}\?[bBqQ]\?[^?]*+\?=)*+")
_LINE_ENDS = (b"\n", b"\r\n")
_NEWLINE, _CARRIAGE_RETURN = 0x0A, 0x0D
_LINE_REST = re.compile(rb"[ \t]*+(?=\r?\n|\Z)")
_MARKS_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
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
        """Return a header as it is written, bytes beyond ASCII as surrogates; empty if there is none."""
        value = self.headers.get(name, "")
        if isinstance(value, str):
            return value
        name = name.lower()
        return next((str(raw) for key, raw in self.headers.raw_items() if key.lower() == name), "")

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
        parts: list[Part] = []
        start: int | None = None
        for mark, end, is_last in _boundaries(self.body, b"--" + boundary.encode("utf-8", "replace")):
            if start is not None:
                parts.append(self._inner(start, mark))
            if is_last or len(parts) >= MAX_PARTS:
                return parts
            start = end
        if start is not None:
            parts.append(self._inner(start, len(self.body)))  # it was cut
        return parts

    def _inner(self, start: int, end: int) -> Part:
        """Return the part behind the line end at `start`."""
        if self.body.startswith(_LINE_ENDS, start):
            start += 2 if self.body[start] == _CARRIAGE_RETURN else 1
        return read_part(self.body[start:end], self.depth + 1)

    def _parameter(self, name: str) -> str | None:
        try:
            value = self.headers.get_param(name)
        except (ValueError, LookupError, TypeError):
            return None
        if isinstance(value, tuple):
            value = value[2]
        return value if isinstance(value, str) else None


def _boundaries(body: bytes, line: bytes) -> Iterator[tuple[int, int, bool]]:
    """Yield start and end of the lines between parts, and whether one is the last. The line end before it
    belongs to it, that after it does not."""
    at = body.find(line)
    while at >= 0:
        end = at + len(line)
        is_last = body.startswith(b"--", end)
        rest = _LINE_REST.match(body, end + 2 if is_last else end)
        if rest and (at == 0 or body[at - 1] == _NEWLINE):
            start = max(at - 1, 0)
            yield start - (start > 0 and body[start - 1] == _CARRIAGE_RETURN), rest.end(), is_last
        at = body.find(line, end)


def read_part(data: bytes, depth: int = 0) -> Part:
    """Split a message into headers and body. Raises ConversionError if the headers have no end."""
    if data.startswith(_LINE_ENDS):
        return Part(Message(policy=compat32), data, depth)  # a part without headers
    end = _BLANK_LINE.search(data, 0, MAX_HEADER_BYTES)
    if end is None and len(data) > MAX_HEADER_BYTES:
        raise broken("the headers of the message have no end")
    headers = _PARSER.parsebytes(data[: end.start()] if end else data)
    body = data[end.end() :] if end else b""
    if isinstance(text := headers.get_payload(), str) and text.strip():
        # Lines that are no headers before the blank line are text.
        body = text.encode("utf-8", "surrogateescape") + b"\n\n" + body
    for name in ("Content-Type", "Content-Disposition"):
        value = str(headers.get(name, ""))
        if len(value) > _MAX_HEADER_CHARS:
            # The time for parameters is quadratic in the length of the header.
            headers.replace_header(name, value[:_MAX_HEADER_CHARS])
    return Part(headers, body, depth)


def read_message(data: bytes) -> Part:
    """Read a whole file of one message, in UTF-8 or as ASCII, or in UTF-16. Raises ConversionError."""
    return read_part(as_ascii(data).lstrip(b"\r\n"))


def as_ascii(data: bytes) -> bytes:
    """Return a file of messages in an encoding that contains ASCII: UTF-16 becomes UTF-8."""
    if data.startswith(_MARKS_16) or (len(data) > 1 and 0 in data[:2]):
        return decode_text(data).encode("utf-8", "replace")
    return data.removeprefix(codecs.BOM_UTF8)


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


def decode_header(value: str, charset: str | None = None) -> str:
    """Return a header as people read it, on one line.

    `charset`: of bytes beyond ASCII that are not UTF-8, such as that of the body.
    """
    value = value[:_MAX_HEADER_CHARS]
    if not value.isascii():
        value = _decoded(value.encode("utf-8", "surrogateescape"), "utf-8", charset)
    if "=?" in value:
        value = _ENCODED_WORDS.sub(_decoded_words, value)
    return _CONTROL.sub(" ", value).strip()


def _decoded_words(match: re.Match[str]) -> str:
    """Return the text of encoded words that follow each other; a character may be cut between two."""
    try:
        pieces = split_header(match.group())
    except (ValueError, email.errors.HeaderParseError):
        return match.group()
    return "".join(
        piece if isinstance(piece, str) else _decoded(piece, charset or "utf-8") for piece, charset in pieces
    )


def _decoded(data: bytes, *charsets: str | None) -> str:
    """Return bytes as text in the first encoding that fits, else in the usual one of Western Europe."""
    for charset in filter(None, map(known_encoding, charsets)):
        try:
            return data.decode(charset)
        except ValueError:
            continue
    return data.decode("cp1252", "replace")
