"""Converters of e-mail: one message (EML) or a mailbox (MBOX), each message a section.

The files attached to messages become documents of their own if they can be read, those in attached archives
among them; a warning names the others and says why.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from email.utils import getaddresses
from itertools import chain
from typing import NamedTuple

from shoal.conversion.archives import (
    ARCHIVE,
    GZIP,
    ZIP,
    Archive,
    ArchiveTooLargeError,
    BrokenArchiveError,
)
from shoal.conversion.converted import (
    MAX_ATTACHMENT_BYTES,
    MAX_ATTACHMENTS,
    Attachment,
    ConversionError,
    Converted,
    TextBuilder,
    escaped,
    heading,
    report,
)
from shoal.conversion.file_kinds import FILE_KINDS
from shoal.conversion.main_content import RemovedTexts
from shoal.conversion.metadata import described
from shoal.conversion.mime import (
    MAX_PARTS,
    Part,
    as_ascii,
    decode_header,
    leaf_parts,
    read_message,
    read_part,
)
from shoal.conversion.recognition import recognise
from shoal.conversion.texts import decode_markup
from shoal.conversion.web_pages import Page, render_page
from shoal.models.documents import DocFormat
from shoal.models.files import LocatorKind
from shoal.settings import Settings

MAX_MESSAGES = 60_000
"""Each is a section; a document can have 65,536."""

_KIND_OF_TYPE = {media_type: kind for kind in FILE_KINDS.values() for media_type in kind.media_types}
_MAX_NESTED = 5
_NO_SUBJECT = "(no subject)"
_SHOWN_TYPES = frozenset({"message/delivery-status", "message/disposition-notification"})
_DATA_TYPES = frozenset({"text/calendar", "text/css", "text/rtf", "text/vcard", "text/x-vcard", "text/xml"})
_MIN_PAGE_SHARE = 4  # of the bytes of a plain part; the markup of a page takes more
_HEADERS = ("From", "To", "Cc", "Bcc", "Date")
_FROM_LINE = re.compile(rb"(?:\A|(?<=\n)\r?\n)From [^\r\n]{1,300}\r?\n(?=[A-Za-z][A-Za-z0-9-]{0,60}:|\r?\n)")
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)
_MANY_BLANK_LINES = re.compile(r"\n{3,}")
_FLOWED_END = re.compile(r"(?<=\S) \n(?=[^\s>-])")
MAX_NAME_CHARS = 255
MAX_LISTED_NAMES = 20
_PACKED = ((b"PK", ZIP[0]), (b"\x1f\x8b", GZIP[0]))


def convert_eml(data: bytes, name: str) -> Converted:
    """Convert a message. Raises ConversionError if it is none."""
    mailbox = _Mailbox()
    message = read_message(data)
    if not len(message.headers):
        raise ConversionError("broken" if data.strip() else "no_text", "the file has no headers of an e-mail")
    mailbox.add(message)
    converted = mailbox.converted(_header(message, "Subject"))
    people = [_people(message, name) for name in ("From", "To", "Cc", "Bcc")]
    return replace(
        converted,
        metadata=described(
            sender=people[0],
            recipients=chain.from_iterable(people[1:]),
            subject=converted.title,
            keywords=_header(message, "Keywords"),
            language=_header(message, "Content-Language"),
            sent=_header(message, "Date"),
            message_id=_header(message, "Message-ID"),
        ),
    )


def convert_mbox(data: bytes, name: str) -> Converted:
    """Convert a mailbox; its messages keep their order. Raises ConversionError if it has none."""
    mailbox = _Mailbox()
    data = as_ascii(data)
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
        self._attachments: list[Attachment] = []
        self._attached_bytes = 0
        self._unreadable: list[str] = []
        self._n_messages = 0
        self._n_broken = 0
        self._n_parts = 0
        self._has_text = False

    def add(self, message: Part) -> None:
        """Add a message with the messages attached to it. Raises ConversionError."""
        self._n_messages += 1
        subject = _header(message, "Subject")
        self._has_text = self._has_text or bool(subject)
        subject = subject or _NO_SUBJECT
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
        if not (self._has_text or self._attachments or self._unreadable):
            raise ConversionError("no_text", "the e-mail has no text")
        warnings = []
        if self._unreadable:
            warnings.append(unread_warning(self._unreadable))
        if self._n_broken:
            warnings.append(f"{self._n_broken:,} messages could not be read")
        return Converted(
            self._text.content(),
            DocFormat.markdown,
            title,
            tuple(self._text.locators),
            self._removed.listed(),
            tuple(warnings),
            attachments=tuple(self._attachments),
        )

    def _add_body(self, message: Part, level: int) -> None:
        lines = [f"{name}: {value}" for name in _HEADERS if (value := _header(message, name))]
        self._text.block("\n".join(lines))
        pending = [message]
        attached: list[str] = []
        while pending:
            part = pending.pop()
            self._n_parts += 1
            if self._n_parts > MAX_PARTS * 10:
                raise ConversionError("too_large", "the e-mail has too many parts")
            parts = part.parts()
            if parts:
                pending += reversed(_best(parts) if part.media_type == "multipart/alternative" else parts)
            elif part.media_type == "message/rfc822" and level <= _MAX_NESTED:
                inner = read_part(part.payload().lstrip(b"\r\n"), part.depth + 1)
                self._text.block(heading(level + 1, _header(inner, "Subject") or _NO_SUBJECT))
                self._add_body(inner, level + 1)
            elif _is_text(part):
                self._add_text(part)
            elif part.body.strip():
                attached.append(part.file_name)
                self._attach(part)
        if names := list(filter(None, attached)):
            self._text.block(f"Attachments: {escaped(', '.join(names))}")

    def _attach(self, part: Part) -> None:
        """Take a file out of the message. One without a name gets one by its type."""
        data = part.payload()
        kind = _KIND_OF_TYPE.get(part.media_type)
        number = len(self._attachments) + len(self._unreadable) + 1
        name = part.file_name or f"attachment {number}{kind.suffixes[0] if kind and kind.suffixes else ''}"
        if (
            len(self._attachments) >= MAX_ATTACHMENTS
            or self._attached_bytes + len(data) > MAX_ATTACHMENT_BYTES
        ):
            self._unreadable.append(f"{name} (too many or too large)")
        elif data:
            self._attachments.append(Attachment(name, data))
            self._attached_bytes += len(data)

    def _add_text(self, part: Part) -> None:
        try:
            if part.media_type == "text/html":
                page = _page(part)
                body = page.markdown
                for entry in page.removed:
                    self._removed.add(entry.reason, entry.text)
            else:
                body = _plain_body(part)
        except ConversionError:
            self._unreadable.append(f"one of type {part.media_type[:60]} that is not readable text")
            return
        self._has_text = self._has_text or bool(body.strip())
        self._text.block(body)


def _header(message: Part, name: str) -> str:
    value = message.header(name)
    return decode_header(value, None if value.isascii() else message.charset)


def _people(message: Part, name: str) -> list[str]:
    """Return the people in a header, as `Name <address>`."""
    value = _header(message, name)
    if "@" not in value:
        return [value]
    pairs = getaddresses([value])
    return [f"{person} <{address}>" if person and address else person or address for person, address in pairs]


def _is_text(part: Part) -> bool:
    """Whether a part is text that people read, and no file."""
    is_shown = part.media_type.startswith("text/") or part.media_type in _SHOWN_TYPES
    return is_shown and part.media_type not in _DATA_TYPES and not (part.is_attachment and part.file_name)


def _page(part: Part) -> Page:
    return render_page(decode_markup(part.payload(), part.charset), whole=True)


def _best(parts: list[Part]) -> list[Part]:
    """Return the part of equal ones that is the best text: a plain one, else the last readable.

    A plain one may only say that the reader cannot show the other.
    """
    plain = [part for part in parts if part.media_type == "text/plain" and part.body.strip()]
    inner = [
        part for part in parts if part.media_type == "text/html" or part.media_type.startswith("multipart/")
    ]
    if plain and not (inner and _is_substitute(plain[0], inner[-1])):
        return plain[:1]
    return inner[-1:] or parts[-1:]


def _is_substitute(plain: Part, other: Part) -> bool:
    """Whether a plain part has less than half of the words of a page."""
    if len(other.body) < _MIN_PAGE_SHARE * len(plain.body):
        return False
    pages = [part for part in leaf_parts(other) if part.media_type == "text/html"][:1]
    try:
        n_words = sum(len(_page(page).markdown.split()) for page in pages)
        return n_words > 2 * len(plain.text().split())
    except ConversionError:
        return False


def _plain_body(part: Part) -> str:
    """Return a text body as Markdown: quoted replies keep their marks, other lines are not markup."""
    text = part.text()
    if "flowed" in part.header("Content-Type").lower():
        text = _FLOWED_END.sub(" ", text)
    text = "\n".join([line.rstrip() for line in text.split("\n")])
    return _MANY_BLANK_LINES.sub("\n\n", escaped(text, with_quotes=True)).strip()


class ReadableFile(NamedTuple):
    """A file to convert. `name`: in the outer file, such as `plans.zip/house.pdf`; `kind`: id of its kind."""

    name: str
    kind: str
    data: bytes


class FilesInFile(NamedTuple):
    """The files of a file, and the names of those that are not read, each with the reason in brackets."""

    files: list[ReadableFile]
    unread: list[str]


def find_files(attachments: Iterable[Attachment], settings: Settings) -> FilesInFile:
    """Return what can be read of the files in a file, within the limits of one file and of archives."""
    found = FilesInFile([], [])
    left = MAX_ATTACHMENT_BYTES
    for full_name, data, refusal in _unpacked(attachments, settings):
        name = full_name[:MAX_NAME_CHARS]
        if refusal is not None:
            found.unread.append(f"{name} ({refusal})")
            continue
        if not data:
            continue
        kind = recognise(data, name)
        if kind.refusal:
            found.unread.append(f"{name} ({kind.name})")
        elif len(found.files) >= MAX_ATTACHMENTS or len(data) > left:
            found.unread.append(f"{name} (too many or too large)")
        else:
            left -= len(data)
            found.files.append(ReadableFile(name, kind.id, data))
    return found


def _unpacked(
    attachments: Iterable[Attachment], settings: Settings
) -> Iterator[tuple[str, bytes, str | None]]:
    """Yield names and bytes of files, members in place of archives, each with why it is refused, if it is."""
    for attachment in attachments:
        name, data = attachment.name, attachment.data
        media_type = next((each for mark, each in _PACKED if data.startswith(mark)), None)
        if media_type is None or recognise(data, name).id != ARCHIVE:
            yield name, data, None
            continue
        try:
            for member in Archive(io.BytesIO(data), media_type, settings):
                yield f"{name}/{member.name}", member.data, member.refusal
        except (BrokenArchiveError, ArchiveTooLargeError) as error:
            yield name, b"", str(error).removesuffix("; nothing of it was stored")


def unread_warning(names: Sequence[str]) -> str:
    """Return the warning that names files that are not read."""
    more = len(names) - MAX_LISTED_NAMES
    rest = f" and {more:,} more" if more > 0 else ""
    return f"attachments that are not read: {', '.join(names[:MAX_LISTED_NAMES])}{rest}"
