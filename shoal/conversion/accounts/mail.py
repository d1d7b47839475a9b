"""Visible words of pages and mail."""

from __future__ import annotations

import binascii
import codecs
import email
import email.policy
import re
from collections.abc import Iterator
from email.header import decode_header, make_header
from email.message import Message
from typing import Any

from shoal.conversion.accounts.markup import FilePart, decoded, visible_html, words_of

_MAX_PARTS = 20_000
_HEADERS = ("Subject", "From", "To", "Cc", "Bcc", "Date")
_FROM_LINE = re.compile(rb"^From [^\r\n]{1,300}\r?\n(?=[A-Za-z][A-Za-z0-9-]{0,60}:)", re.MULTILINE)
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_READ_TYPES = frozenset({"message/delivery-status", "message/disposition-notification"})
_DATA_TYPES = frozenset({"text/calendar", "text/css", "text/rtf", "text/vcard", "text/x-vcard", "text/xml"})


def html_parts(data: bytes) -> Iterator[FilePart]:
    """Yield the text of a page."""
    yield FilePart("text", "", words_of(visible_html(decoded(data))))


def eml_parts(data: bytes) -> Iterator[FilePart]:
    """Yield the headers that people see and the parts of a message."""
    yield from _message_parts(email.message_from_bytes(_narrow(data)), "")


def _narrow(data: bytes) -> bytes:
    """Return a message in UTF-16 as UTF-8."""
    head = data[:200]
    if data.startswith(_WIDE_MARKS):
        return data.decode("utf-16", "replace").encode()
    if head[0::2].count(0) > len(head) // 3:
        return data.decode("utf-16-be", "replace").encode()
    return data.decode("utf-16-le", "replace").encode() if head[1::2].count(0) > len(head) // 3 else data


def mbox_parts(data: bytes) -> Iterator[FilePart]:
    """Yield the parts of each message of a mailbox."""
    marks = list(_FROM_LINE.finditer(data))
    ends = [mark.start() for mark in marks[1:]] + [len(data)]
    for number, (mark, end) in enumerate(zip(marks, ends, strict=True), 1):
        message = email.message_from_bytes(data[mark.end() : end])
        yield from _message_parts(message, f"message {number}")


def mhtml_parts(data: bytes) -> Iterator[FilePart]:
    """Yield the page of a saved page: its first part of HTML."""
    for part in email.message_from_bytes(data).walk():
        if part.get_content_type() in ("text/html", "application/xhtml+xml"):
            yield FilePart("text", "", words_of(visible_html(_text(part))))
            return


def _message_parts(message: Message, place: str) -> Iterator[FilePart]:
    headers = [_header(message, name) for name in _HEADERS]
    yield FilePart("headers", place, words_of("\n".join(headers)))
    pending: list[Any] = [message]
    n_parts = 0
    while pending and n_parts < _MAX_PARTS:
        part = pending.pop()
        n_parts += 1
        kind = part.get_content_type()
        payload: Any = part.get_payload()
        if kind == "multipart/alternative" and isinstance(payload, list):
            pending += _shown(payload)
        elif kind == "message/rfc822" and isinstance(payload, list):
            for inner in payload:
                encoding = str(part.get("Content-Transfer-Encoding", "")).strip().lower()
                yield from _message_parts(_decoded_message(inner, encoding), place)
        elif kind in _READ_TYPES or (
            kind.startswith("text/") and kind not in _DATA_TYPES and not _is_attached(part)
        ):
            yield FilePart("text", place, words_of(_visible(part)))
        elif isinstance(payload, list):
            pending += reversed(payload)
        else:
            data = part.get_payload(decode=True)
            size = len(data) if isinstance(data, bytes) else 0
            if size:
                name = _decoded(part.get_filename() or kind)
                yield FilePart("attachment", " ".join(filter(None, [place, name])), n_bytes=size)


def _shown(parts: list[Message]) -> list[Message]:
    """Return the one of equal parts that counts: plain text, unless it has less than half of the words."""
    plain = [part for part in parts if part.get_content_type() == "text/plain"]
    if plain and len(words_of(_visible(plain[0]))) * 2 >= max(
        (
            len(words_of(_visible(leaf)))
            for part in parts
            for leaf in part.walk()
            if leaf.get_content_type() == "text/html"
        ),
        default=0,
    ):
        return plain[:1]
    rest = [
        part
        for part in parts
        if part.get_content_type() == "text/html" or part.get_content_maintype() == "multipart"
    ]
    return rest[-1:] or parts[-1:]


def _is_attached(part: Message) -> bool:
    return part.get_content_disposition() == "attachment" and bool(part.get_filename())


def _visible(part: Message) -> str:
    text = _text(part)
    return visible_html(text) if part.get_content_type() == "text/html" else text


def _text(part: Message) -> str:
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        inner = part.get_payload()
        return "\n".join(str(each) for each in inner) if isinstance(inner, list) else ""
    charset = part.get_content_charset() or ""
    try:
        return data.decode(charset)
    except (LookupError, ValueError):
        return decoded(data)


def _decoded_message(message: Message, encoding: str) -> Message:
    """Return a message inside of another that is encoded as a whole, which the standard forbids."""
    text = message.get_payload()
    if encoding not in ("base64", "quoted-printable") or message.keys() or not isinstance(text, str):
        return message
    decode = binascii.a2b_base64 if encoding == "base64" else binascii.a2b_qp
    try:
        return email.message_from_bytes(decode(text.encode("ascii", "replace")))
    except ValueError:
        return message


def _header(message: Message, name: str) -> str:
    values = [str(value) for key, value in message.raw_items() if key.lower() == name.lower()]
    return "\n".join(map(_decoded, values))


def _decoded(value: str) -> str:
    if not value.isascii():
        value = decoded(value.encode("utf-8", "surrogateescape"))
    try:
        return str(make_header(decode_header(value)))
    except (LookupError, ValueError, email.errors.HeaderParseError):
        return value
