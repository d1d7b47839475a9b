"""Converters of e-mail: one message (EML) or a mailbox (MBOX), each message a section."""

from __future__ import annotations

import re
from collections.abc import Iterator

from shoal.conversion.converted import ConversionError, Converted, TextBuilder, escaped, heading, report
from shoal.conversion.main_content import RemovedTexts
from shoal.conversion.mime import MAX_PARTS, Part, decode_header, read_part
from shoal.conversion.texts import decode_markup
from shoal.conversion.web_pages import render_page
from shoal.models.documents import DocFormat
from shoal.models.files import LocatorKind

MAX_MESSAGES = 60_000
"""Each is a section; a document can have 65,536."""

_MAX_NESTED = 5
_MAX_LISTED_NAMES = 20
_NO_SUBJECT = "(no subject)"
_HEADERS = ("From", "To", "Cc", "Date")
_FROM_LINE = re.compile(rb"(?:\A|(?<=\n)\r?\n)From [^\r\n]{1,300}\r?\n(?=[A-Za-z][A-Za-z0-9-]{0,60}:|\r?\n)")
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)
_MANY_BLANK_LINES = re.compile(r"\n{3,}")
_FLOWED_END = re.compile(r"(?<=\S) \n(?=[^\s>-])")


def convert_eml(data: bytes, name: str) -> Converted:
    """Convert a message. Raises ConversionError if it is none."""
    mailbox = _Mailbox()
    message = read_part(data)
    if not len(message.headers):
        raise ConversionError("broken" if data.strip() else "no_text", "the file has no headers of an e-mail")
    mailbox.add(message)
    return mailbox.converted(decode_header(message.header("Subject")))


def convert_mbox(data: bytes, name: str) -> Converted:
    """Convert a mailbox; its messages keep their order. Raises ConversionError if it has none."""
    mailbox = _Mailbox()
    for n_messages, source in enumerate(_messages(data)):
        if n_messages >= MAX_MESSAGES:
            raise ConversionError("too_large", f"the mailbox has more than {MAX_MESSAGES:,} messages")
        mailbox.add_safely(source)
    return mailbox.converted("")


def _messages(data: bytes) -> Iterator[bytes]:
    marks = list(_FROM_LINE.finditer(data))
    if not marks:
        raise ConversionError("broken" if data.strip() else "no_text", "the file has no message of a mailbox")
    ends = [mark.start() for mark in marks[1:]] + [len(data)]
    for mark, end in zip(marks, ends, strict=True):
        report(mark.end(), len(data))
        yield _QUOTED_FROM.sub(rb"\1", data[mark.end() : end])


class _Mailbox:
    """The text of messages, and what is missing from it."""

    def __init__(self) -> None:
        self._text = TextBuilder()
        self._removed = RemovedTexts()
        self._attachments: list[str] = []
        self._n_messages = 0
        self._n_broken = 0
        self._n_parts = 0
        self._has_body = False

    def add(self, message: Part) -> None:
        """Add a message with the messages attached to it. Raises ConversionError."""
        self._n_messages += 1
        subject = decode_header(message.header("Subject")) or _NO_SUBJECT
        start = self._text.block(heading(1, subject))
        self._add_body(message, 1)
        self._text.locate(start, LocatorKind.message, subject, self._n_messages, self._n_messages)

    def add_safely(self, source: bytes) -> None:
        """Add a message of many; one that cannot be read is counted."""
        try:
            message = read_part(source)
        except ConversionError:
            self._n_broken += 1
            return
        self.add(message)

    def converted(self, title: str) -> Converted:
        if not self._has_body:
            raise ConversionError("no_text", "the e-mail has no text")
        warnings = []
        if self._attachments:
            names = ", ".join(self._attachments[:_MAX_LISTED_NAMES])
            more = len(self._attachments) - _MAX_LISTED_NAMES
            rest = f" and {more:,} more" if more > 0 else ""
            warnings.append(f"attachments are not in the text: {names}{rest}")
        if self._n_broken:
            warnings.append(f"{self._n_broken:,} messages could not be read")
        return Converted(
            self._text.content(),
            DocFormat.markdown,
            title,
            tuple(self._text.locators),
            self._removed.listed(),
            tuple(warnings),
        )

    def _add_body(self, message: Part, level: int) -> None:
        lines = [f"{name}: {value}" for name in _HEADERS if (value := decode_header(message.header(name)))]
        self._text.block("\n".join(lines))
        pending = [message]
        while pending:
            part = pending.pop()
            self._n_parts += 1
            if self._n_parts > MAX_PARTS * 10:
                raise ConversionError("too_large", "the e-mail has too many parts")
            parts = part.parts()
            if parts:
                pending += reversed(_best(parts) if part.media_type == "multipart/alternative" else parts)
            elif part.media_type == "message/rfc822" and level <= _MAX_NESTED:
                inner = read_part(part.payload(), part.depth + 1)
                self._text.block(heading(level + 1, decode_header(inner.header("Subject")) or _NO_SUBJECT))
                self._add_body(inner, level + 1)
            else:
                self._add_text(part)

    def _add_text(self, part: Part) -> None:
        is_text = part.media_type in ("text/plain", "text/html") and not (
            part.is_attachment and part.file_name
        )
        if not is_text:
            if part.media_type.startswith("multipart/") and not part.body.strip():
                return
            self._attachments.append(part.file_name or f"one of type {part.media_type[:60]}")
            return
        try:
            if part.media_type == "text/html":
                page = render_page(decode_markup(part.payload(), part.charset), whole=True)
                body = page.markdown
                for entry in page.removed:
                    self._removed.add(entry.reason, entry.text)
            else:
                body = _plain_body(part)
        except ConversionError:
            self._attachments.append(f"one of type {part.media_type} that is not readable text")
            return
        self._has_body = self._has_body or bool(body.strip())
        self._text.block(body)


def _best(parts: list[Part]) -> list[Part]:
    """Return the part of equal ones that is the best text: a plain one with words, else the last readable."""
    plain = [part for part in parts if part.media_type == "text/plain" and part.body.strip()]
    if plain:
        return plain[:1]
    inner = [
        part for part in parts if part.media_type == "text/html" or part.media_type.startswith("multipart/")
    ]
    return inner[-1:] or parts[-1:]


def _plain_body(part: Part) -> str:
    """Return a text body as Markdown: quoted replies keep their marks, other lines are not markup."""
    text = part.text()
    if "flowed" in part.header("Content-Type").lower():
        text = _FLOWED_END.sub(" ", text)
    text = "\n".join([line.rstrip() for line in text.split("\n")])
    return _MANY_BLANK_LINES.sub("\n\n", escaped(text, with_quotes=True)).strip()
