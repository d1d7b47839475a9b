"""What a converter returns: text that Shoal can parse, and where in the original each part comes from.

Converters write the text as Markdown (`TextBuilder`, `Draft`) and report how far they are in their file.
Files of any kind become drafts: texts are read at once, other kinds wait for their conversion.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Unpack

from shoal.conversion.folder_rights import rights_of_file
from shoal.conversion.recognition import recognise
from shoal.declared.documents import DocumentFields
from shoal.errors import RefusedKindError
from shoal.formats.drafts import (
    draft_from_bytes,
    format_of,
    make_draft,
    make_file_draft,
    make_url_draft,
    read_regular_file,
)
from shoal.models.documents import DocFormat, DocumentDraft, UrlDraft
from shoal.models.files import FileAccount, FileDraft, Locator, LocatorKind, Removed
from shoal.settings import Settings

CONVERTER_VERSION = 5
"""Raised when a converter gives another text, title or places for the same file. A file that an earlier
version converted is converted again when it is sent again."""


Metadata = dict[str, str | int | list[str]]
"""What a file says of itself, by the names in shoal/conversion/metadata.py."""
MAX_ATTACHMENTS = 10_000
MAX_ATTACHMENT_BYTES = 256 * 2**20
"""Of one file. Further ones are left out with a warning."""
MAX_REMOVED_CHARS = 200
MAX_REMOVED = 1000
_ADVICE = {
    "encrypted": "save it without a password",
    "broken": "save it again, or convert it to text",
    "no_text": "leave it out",
    "too_large": "split it into several files",
    "missing_extra": "ask the person who installed Shoal",
    "time_limit": "split it into several files, or raise SHOAL_CONVERSION_SECONDS",
    "memory_limit": "split it into several files, or raise SHOAL_CONVERSION_MEMORY_BYTES",
    "crashed": "save it again, or convert it to text",
    "unsupported": "convert it to text, Markdown or PDF",
}
SECONDS_BETWEEN_REPORTS = 0.5
ROWS_BETWEEN_REPORTS = 1000
"""Rows of a table after which a converter reports."""
REQUEST_HEAD = struct.Struct(">IQ")
"""Lengths in bytes of a request's JSON and of the file after it."""
ANSWER_HEAD = struct.Struct(">Q")
"""Length in bytes of an answer's JSON, and of each report before it: an object with only `share`, 0 to 1.
The bytes of the attachments follow the JSON, which has their names and lengths."""
OUT_OF_MEMORY_STATUS = 77
"""Exit status of a child that reached its limit of memory."""
_NO_TITLE = re.compile(
    r"(?:(?:microsoft |powerpoint[ -]|office |new )*"
    r"(?:presentation|präsentation|présentation|presentación|document|dokument|documento|workbook|slides?|folie|"
    r"diapositive|diapositiva|binder)|(?:untitled|unbenannt|unnamed|no title|sans titre)"
    r"(?: (?:document|page|presentation))?)[ _-]*\d*(?:\.[a-z]{2,4}[x\d]?)?",
    re.IGNORECASE,
)
MAX_HEADING_CHARS = 400
"""A longer heading is written as text: readers of Markdown take none of over 500 characters."""
_MAX_TABLE_COLUMNS = 1000
_MARKS = r"""
        \#{1,6}(?:[ \t]|$) | [-+*](?:[ \t]|$) | `{3} | ~{3} | [=-]+[ \t]*$ | \+\+\+[ \t]*$
      | (?:[*_-][ \t]*){3,}$ | <!-- | \|?[ \t]*:?-+:?[ \t]*\| | \[[^\[\]\r\n]{1,999}\]:
"""
_MISREAD_BESIDES_QUOTES = re.compile(rf"^(?={_MARKS})", re.VERBOSE | re.MULTILINE)
_MISREAD = re.compile(rf"^(?=>|{_MARKS})", re.VERBOSE | re.MULTILINE)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
_BACKTICKS = re.compile(r"`{3,}")
_SPACE = re.compile(r"\s+")
MAX_CONTENT_CHARS = 100_000_000
"""A longer text is refused. The longest books have 5 million characters."""
_MAX_LIST_DEPTH = 8
# Code points that no text has: controls, halves of surrogate pairs, marks of byte order, non-characters.
_NOISE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\ud800-\udfff\ufeff\ufff0-\uffff]")
_NEWLINES = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
_SPACES = re.compile(r"[^\S\n]+")
# The start of a line that Markdown would read as a heading, quote, list, fence, rule, comment or definition.
_STRUCTURE = re.compile(
    r"[#]{1,6}(?=\s|\Z) | > | [-+*](?=\s|\Z) | `{3} | ~{3} | <!-- | \[[^\[\]\n]{1,999}\]: | \|"
    r"| (?:[-*_=][ \t]*)+\Z | \+\+\+",
    re.VERBOSE,
)
_NUMBERED = re.compile(r"(\d{1,9})([.)])(?=\s|\Z)")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file in a file, such as an attachment of a mail; `name` is the name that it has there."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Converted:
    """A converted file.

    `content` is Markdown or plain text, as `format` says; headings of the original are headings of Markdown,
    tables are tables of Markdown. `locators` are in the order of their starts and do not overlap. `title` is
    the title that the original declares, or empty. `removed` has texts that are left out on purpose, in full.
    `warnings` tell a person what is missing from the text. `attachments` become documents of their own.
    `counter` has what the counter of the words of the file has read meanwhile, if anything. `account`: made
    after the conversion, by `shoal.conversion.accounts`.
    """

    content: str
    format: DocFormat
    title: str = ""
    locators: tuple[Locator, ...] = ()
    removed: tuple[Removed, ...] = ()
    warnings: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict)
    attachments: tuple[Attachment, ...] = ()
    counter: object = None
    account: FileAccount | None = None


def shortened(removed: Iterable[Removed]) -> tuple[Removed, ...]:
    """Return the beginnings of removed texts, equal ones once, up to a limit."""
    times: dict[tuple[str, str], int] = {}
    for reason, text, n in removed:
        key = (reason, one_line(text[: 4 * MAX_REMOVED_CHARS])[:MAX_REMOVED_CHARS])
        if key in times or len(times) < MAX_REMOVED:
            times[key] = times.get(key, 0) + n
    return tuple(Removed(reason, text, n) for (reason, text), n in times.items())


class Converter(Protocol):
    """A function that converts the bytes of one format.

    Raises ConversionError with a code and a reason for a person. It follows no reference that leaves the
    file, and runs no script or macro. The process around it limits time, memory and output.
    """

    def __call__(self, data: bytes, name: str) -> Converted:
        """`name`: the name of the file, only for messages and defaults."""


class ConversionError(Exception):
    """A file that cannot be converted. `code`: a key of _ADVICE.

    The message is `problem; advice`, in the form of all messages of errors: what is wrong with the file as a
    sentence that begins with a small letter and has no period, and what a person can do about it.
    """

    def __init__(self, code: str, problem: str, advice: str | None = None) -> None:
        """`advice`: by default the usual one for the code; empty if `problem` ends with it."""
        parts = (problem.strip().rstrip("."), _ADVICE[code] if advice is None else advice)
        super().__init__("; ".join(filter(None, parts)))
        self.code = code


def broken(reason: str) -> ConversionError:
    """Return the error for a file whose content contradicts its format."""
    return ConversionError("broken", f"the file is broken: {reason}")


class _Reports:
    """Where the reports of this process go; None: nowhere."""

    def __init__(self) -> None:
        self.send: Callable[[float], None] | None = None
        self.next = 0.0


_reports = _Reports()


def report_to(send: Callable[[float], None] | None) -> None:
    """Send the reports of this process to a function; None: to nobody."""
    _reports.send, _reports.next = send, time.monotonic() + SECONDS_BETWEEN_REPORTS


def report(done: float, total: float) -> None:
    """Say that `done` of `total` parts of a file are read. Most calls return at once."""
    if _reports.send is None or total <= 0 or (now := time.monotonic()) < _reports.next:
        return
    _reports.next = now + SECONDS_BETWEEN_REPORTS
    _reports.send(min(max(done / total, 0.0), 1.0))


def meaningful_title(title: str) -> str:
    """Return a title that a file declares; empty if it is one that programs give by themselves."""
    line = one_line(title)
    return "" if _NO_TITLE.fullmatch(line) else line


class TextBuilder:
    """Content that grows block by block, with the places of its parts."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.length = 0
        self.locators: list[Locator] = []

    def block(self, text: str, separator: str = "\n\n") -> int:
        """Append a block after a blank line and return its start. An empty block adds nothing."""
        if not text:
            return self.length
        if self.length:
            self._parts.append(separator)
            self.length += len(separator)
        start = self.length
        self._parts.append(text)
        self.length += len(text)
        return start

    def locate(self, start: int, kind: LocatorKind, name: str, first: float, last: float) -> None:
        """Name the place of everything from `start` to the end of the content, if there is anything."""
        if start < self.length:
            self.locators.append(Locator(start, self.length, kind, one_line(name)[:500], first, last))

    def content(self) -> str:
        return "".join(self._parts)


def one_line(text: str) -> str:
    """Return a text with each white space as one blank, without any at its ends."""
    return _SPACE.sub(" ", text).strip()


def escaped(text: str, *, with_quotes: bool = False) -> str:
    """Return prose whose lines are not read as headings, lists, rules or code: marks get a backslash.

    `with_quotes`: lines that begin with `>` are quotes, as in e-mail.
    """
    marks = _MISREAD_BESIDES_QUOTES if with_quotes else _MISREAD
    return marks.sub(_backslash, _INDENT.sub("", text))


def _backslash(_mark: re.Match[str]) -> str:
    return "\\"


def heading(level: int, text: str) -> str:
    """Return a heading of Markdown; one that is too long becomes text, one without words nothing."""
    line = one_line(text)
    if len(line) > MAX_HEADING_CHARS:
        return escaped(line)
    return f"{'#' * min(max(level, 1), 6)} {line}" if line else ""


def fence(code: str, language: str = "") -> str:
    """Return code in a fence that is longer than any in it."""
    longest = max((len(run) for run in _BACKTICKS.findall(code)), default=2)
    marks = "`" * (longest + 1)
    return f"{marks}{language}\n{code}\n{marks}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown; the first row has the headers. Rows that are too short are filled up."""
    rows = [[one_line(cell).replace("|", "\\|") for cell in row[:_MAX_TABLE_COLUMNS]] for row in rows]
    width = max(map(len, rows), default=0)
    if not width:
        return ""
    lines = [f"| {' | '.join([*row, *[''] * (width - len(row))])} |" for row in rows]
    lines.insert(1, f"|{' --- |' * width}")
    return "\n".join(lines)


def clean(text: str) -> str:
    """Return the text without control characters, with one kind of newline, and single spaces."""
    text = _NOISE.sub("", _NEWLINES.sub("\n", text))
    return _SPACES.sub(" ", text)


def cleaned_line(text: str) -> str:
    return " ".join(_NOISE.sub("", text).split())


def _escaped_lines(text: str) -> str:
    """Put a backslash before the marks that would make a line of plain text a block of Markdown."""
    lines = [line.strip() for line in text.split("\n")]
    return "\n".join(map(_escape_line, filter(None, lines)))


def _escape_line(line: str) -> str:
    if line[0].isalpha():
        return line
    if _STRUCTURE.match(line):
        return "\\" + line
    return _NUMBERED.sub(r"\1\\\2", line, count=1) if _NUMBERED.match(line) else line


class Draft:
    """Collects blocks, locators, removed text and warnings of one document.

    `place` names the origin of the blocks that follow it; blocks before the first have none.
    """

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self._text = TextBuilder()
        self._last_item = ""  # the kind of the item that was the last block
        self._place: tuple[LocatorKind, str, float, float] | None = None
        self._place_start: int | None = None
        self._removed: dict[tuple[str, str], int] = {}

    def place(self, kind: LocatorKind, name: str, first: float, last: float | None = None) -> None:
        self.end_place()
        self._place = (kind, cleaned_line(name), first, first if last is None else last)

    def end_place(self) -> None:
        if self._place is not None and self._place_start is not None:
            self._text.locate(self._place_start, *self._place)
        self._place = self._place_start = None

    def heading(self, level: int, text: str) -> None:
        text = heading(level, cleaned_line(text))
        if text:
            self._block(text)

    def paragraph(self, text: str) -> None:
        text = _escaped_lines(clean(text))
        if text:
            self._block(text)

    def markdown(self, text: str) -> None:
        """Add blocks that are Markdown already."""
        if text.strip():
            self._block(text.strip())

    def continue_paragraph(self, text: str, *, joiner: str = " ") -> None:
        """Add text to the last block, as at a page break within a paragraph."""
        text = cleaned_line(text)
        if text:
            self._write(joiner, text)

    def item(self, depth: int, text: str, number: int | None = None) -> None:
        """Add an item of a list; `depth` from 0. Items that follow each other are one list."""
        mark = "- " if number is None else f"{number % 10**9}. "
        text = cleaned_line(text)
        if text:
            kind = "bullet" if number is None else "number"
            goes_on = self._last_item and (depth > 0 or self._last_item == kind)
            indent = "   " * min(max(depth, 0), _MAX_LIST_DEPTH) if goes_on else ""
            # Marks at the start of the text would begin a list within the list.
            self._write("\n" if goes_on else "\n\n", indent + mark + _escape_line(text))
            if depth <= 0 or not goes_on:
                self._last_item = kind

    def table(self, rows: Iterable[Sequence[str]]) -> None:
        """Add a table; the first row is its head. Empty rows and columns are left out."""
        kept = [row for row in ([cleaned_line(cell) for cell in row] for row in rows) if any(row)]
        width = max(map(len, kept), default=0)
        kept = [row + [""] * (width - len(row)) for row in kept]
        columns = [i for i in range(width) if any(row[i] for row in kept)]
        kept = [[row[i] for i in columns] for row in kept]
        if len(columns) == 1 or len(kept) == 1:
            for row in kept:
                self.paragraph(" ".join(filter(None, row)))
        elif kept:
            self._block(table(kept))

    def remove(self, reason: str, text: str, times: int = 1) -> None:
        """Record text of the original that is not in the content."""
        key = (reason, cleaned_line(text))
        if key[1]:
            self._removed[key] = self._removed.get(key, 0) + times

    def warn(self, message: str) -> None:
        if message not in self.warnings:
            self.warnings.append(message)

    @property
    def is_empty(self) -> bool:
        return not self._text.length

    def converted(
        self, title: str = "", format_: DocFormat = DocFormat.markdown, metadata: Metadata | None = None
    ) -> Converted:
        """Return the document. Raises ConversionError if it has no text."""
        self.end_place()
        if self.is_empty:
            raise ConversionError("no_text", "the file has no text")
        return Converted(
            self._text.content() + "\n",
            format_,
            cleaned_line(title),
            tuple(self._text.locators),
            tuple(Removed(reason, text, times) for (reason, text), times in self._removed.items()),
            tuple(self.warnings),
            metadata or {},
        )

    def _block(self, text: str) -> None:
        self._write("\n\n", text)
        self._last_item = ""

    def _write(self, separator: str, text: str) -> None:
        start = self._text.block(text, separator)
        if self._place is not None and self._place_start is None:
            self._place_start = start
        if self._text.length > MAX_CONTENT_CHARS:
            raise ConversionError(
                "too_large", f"the text of the file has more than {MAX_CONTENT_CHARS:,} characters"
            )


def draft_of_data(
    data: bytes, *, settings: Settings, name: str | None = None, **fields: Unpack[DocumentFields]
) -> DocumentDraft | FileDraft:
    """Return the draft of a file whose kind follows from its content, and from the suffix of `name`, by
    default that of `source_path`.

    With a `format`, the file is a text. Raises DocumentError; RefusedKindError, which names what to do, for a
    kind that has no text.
    """
    if fields.get("format") is not None:
        return draft_from_bytes(data, settings=settings, **fields)
    kind = recognise(data, name or fields.get("source_path") or "")
    if kind.refusal:
        raise RefusedKindError(kind.refusal_code, kind.refusal, kind.name)
    if kind.converter is None:
        if name is not None:
            fields["format"] = format_of(name)
        return draft_from_bytes(data, settings=settings, **fields)
    return make_file_draft(data, kind.id, settings=settings, **fields)


def draft_of_file(
    path: str | Path, *, settings: Settings, folder: Path | None = None, **fields: Unpack[DocumentFields]
) -> DocumentDraft | FileDraft:
    """Like `draft_of_data`, from a regular file; `folder`: an ancestor, below which no symbolic link is
    followed, and whose `.shoal-access` says who may see the file.

    Raises also NotFoundError if the file does not exist, and UndecodableDocumentError if it cannot be read.
    """
    data = read_regular_file(path, largest_file(settings), folder)
    if fields.get("source_path") is None:
        fields["source_path"] = str(path)
    rights = None if folder is None else rights_of_file(Path(path), folder)
    if rights is not None and fields.get("allow") is None and fields.get("deny") is None:
        fields["allow"], fields["deny"] = rights
    return draft_of_data(data, settings=settings, **fields)


def draft_of_url(url: str, *, settings: Settings, **fields: Unpack[DocumentFields]) -> UrlDraft:
    """Return the draft of a page or file that a worker fetches.

    `fields` are title, tags, metadata and chunk_tokens. Raises InvalidFieldError, and FetchError if the
    settings do not allow the URL.
    """
    # A late import: the library that fetches takes a while to load.
    from shoal.conversion.web_addresses import FetchPolicy, parse_url

    address = parse_url(url, settings.max_source_path_chars)
    FetchPolicy(settings).check_url(address)
    return make_url_draft(str(address), settings=settings, **fields)


def draft_of_fields(fields: Mapping[str, Any], *, settings: Settings) -> DocumentDraft | UrlDraft:
    """Return the draft of a submitted object with `content`, `chunks` or `url`. Raises DocumentError."""
    given = dict(fields)
    if "url" in given:
        return draft_of_url(given.pop("url"), settings=settings, **given)
    return make_draft(content=given.pop("content", None), settings=settings, **given)


def largest_file(settings: Settings) -> int:
    """Return the size in bytes of the largest file of any kind."""
    return max(settings.max_file_bytes, settings.max_document_bytes)
