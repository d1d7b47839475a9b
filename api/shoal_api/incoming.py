"""Parsing of bulk upload bodies, forms among them, into documents and refusals, in bounded memory.

A spooled body is read twice: first for its hash and form fields, then for its documents.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import flask
import marshmallow as ma
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

from shoal.conversion import archives
from shoal.conversion.converted import draft_of_data, draft_of_fields, largest_file
from shoal.conversion.inflating import READ_BYTES, Readable
from shoal.declared.operations.documents import OtherDocumentOperations
from shoal.errors import (
    INVALID_ARCHIVE_ENTRY,
    MALFORMED_JSON,
    DocumentError,
    DocumentTooLargeError,
    EmptyDocumentError,
    InvalidFieldError,
    UnknownFormatError,
)
from shoal.formats.drafts import make_draft
from shoal.models.documents import DocumentDraft, UrlDraft
from shoal.models.files import FileDraft
from shoal.settings import Settings
from shoal.support.other_names import meant_name
from shoal_api import strict_json
from shoal_api.limits import max_beside_content, max_body_bytes
from shoal_api.problems import ProblemError, field_problem, flatten, shorten
from shoal_api.schemas.documents import DocumentInputSchema

MAX_HEADERS = 2 * READ_BYTES
"""Bytes the decoder may buffer while it searches for the first boundary or the end of a part's headers: the
last block and as much before it."""

MAX_PADDING = 64
"""White space allowed after a boundary on its line. RFC 2046 permits it; no known client sends any."""


class MalformedMultipartError(ValueError):
    """The body is not multipart/form-data with the declared boundary."""


class FormPart:
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


def parts(body: Readable, boundary: str) -> Iterator[FormPart]:
    """Yield the parts of a body in order. Raises MalformedMultipartError and the errors of reading the
    body."""
    events = _events(body, boundary)
    for event in events:
        if isinstance(event, Field | File):
            filename = event.filename if isinstance(event, File) else None
            part = FormPart(event.name or "", filename, _data(events))
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


OF_ALL_BODIES = ("on_conflict",)
"""Query parameters of all uploads, which are no fields of a form."""

FIELDS = tuple(name for name in OtherDocumentOperations.upload.arguments if name not in OF_ALL_BODIES)
"""Fields that apply to all files of a form or an archive."""

MAX_FIELDS = 1000
"""Limit for the parts of a form that are not documents: each tag can be a field, and each empty input sends
one."""

LINES_PER_ITEM = 2
"""Lines allowed per document that an upload may hold, so that each may be followed by an empty line."""

OTHER_JSON = "send one document to `POST /api/v1/documents`, and one document a line as application/x-ndjson"
"""What to do with JSON that is no array."""

RECORDS = (".ndjson", ".jsonl")
"""Extensions of files with one document per line."""


@dataclass(frozen=True)
class Refusal:
    """A document that cannot be accepted, with the reason and its stable code."""

    title: str
    source_path: str | None
    n_bytes: int
    reason: str
    code: str


Documents = Iterator[DocumentDraft | FileDraft | UrlDraft | Refusal]


@dataclass(frozen=True)
class Incoming:
    """The contents of a spooled body. `request_hash` identifies the request; `archive` is None for other
    bodies."""

    request_hash: str
    documents: Documents
    archive: archives.Archive | None = None

    @property
    def skipped(self) -> int:
        return self.archive.skipped if self.archive else 0


@dataclass(frozen=True)
class Common:
    """Values that apply to all files of an upload."""

    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] | None = None
    format: str | None = None
    chunk_tokens: str | None = None
    language: str | None = None
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] | None = None


def read_form(request: flask.Request, file: IO[bytes], settings: Settings) -> Incoming:
    """Read a form. The first pass collects the fields, because they may follow the files they apply to."""
    boundary = request.mimetype_params.get("boundary", "")
    if not boundary:
        raise ProblemError(400, "the content type has no multipart boundary")
    fields: dict[str, list[bytes]] = {}
    n_documents = n_others = n_bytes = 0
    limit = max_beside_content(settings)
    digest = hashlib.sha256()
    try:
        for part in parts(file, boundary):
            content = hashlib.sha256()
            if part.filename is None:
                if part.name not in FIELDS:
                    raise field_problem(printable(part.name), _unknown_field_message(part.name))
                value = part.read(limit - n_bytes)
                if value is None:
                    raise ProblemError(
                        413, f"the fields of the form have more than {limit:,} bytes, which is the limit"
                    )
                fields.setdefault(part.name, []).append(value)
                n_bytes += len(value)
                content.update(value)
            else:
                for data in part:
                    content.update(data)
            if _is_document(part):
                n_documents += 1
            else:
                n_others += 1
            check_number(n_documents, settings)
            if n_others > MAX_FIELDS:
                raise ProblemError(
                    413, f"the form has more than {MAX_FIELDS:,} fields and empty parts, which is the limit"
                )
            digest.update(json.dumps([part.name, part.filename, content.hexdigest()]).encode() + b"\n")
    except MalformedMultipartError as error:
        raise ProblemError(400, str(error)) from None
    common = _common(fields, settings)
    file.seek(0)
    return Incoming(digest.hexdigest(), _form_documents(parts(file, boundary), common, settings))


def _is_document(part: FormPart) -> bool:
    """Whether a part, once read, is a file. For an empty input, browsers send one without name and
    content."""
    return part.filename is not None and bool(part.filename or part.size)


def check_number(n_documents: int, settings: Settings) -> None:
    """Raise a 413 problem for more documents than an upload may hold."""
    limit = settings.max_upload_items
    if n_documents > limit:
        raise ProblemError(413, f"an upload holds at most {limit:,} documents; send the rest as another")


def _form_documents(parts: Iterator[FormPart], common: Common, settings: Settings) -> Documents:
    for part in parts:
        if part.filename is None:
            continue
        data = part.read(largest_file(settings))
        if _is_document(part):
            yield _form_document(part, data, common, settings)


def _form_document(
    part: FormPart, data: bytes | None, common: Common, settings: Settings
) -> DocumentDraft | FileDraft | Refusal:
    path = part.filename or None
    if data is None:
        reason = f"the file has {part.size:,} bytes; the limit is {largest_file(settings):,}"
        return _refuse(path, part.size, reason, DocumentTooLargeError.code)
    return draft_of(path, data, common, settings)


def draft_of(
    path: str | None, data: bytes, common: Common, settings: Settings
) -> DocumentDraft | FileDraft | Refusal:
    """Return the draft of a file, or why it has none."""
    if not data:
        # Checked here because it is fast: an archive can hold 100,000 empty files in a few kilobytes.
        return _refuse(path, 0, "the document has no text", EmptyDocumentError.code)
    # With an explicit format, the file is one text.
    if common.format is None and path and path.lower().endswith(RECORDS):
        return _refuse(
            path,
            len(data),
            "this is a file of records, not one document: send it by itself as the body, with the content "
            "type application/x-ndjson; to store it as one text, set `format` to plaintext",
            UnknownFormatError.code,
        )
    try:
        return draft_of_data(
            data,
            settings=settings,
            format=common.format,
            tags=common.tags,
            metadata=common.metadata,
            chunk_tokens=common.chunk_tokens,
            language=common.language,
            allow=common.allow,
            deny=common.deny,
            source_path=path,
        )
    except DocumentError as error:
        return _refuse(path, len(data), str(error), error.code)


def _refuse(path: str | None, n_bytes: int, reason: str, code: str) -> Refusal:
    name = printable(path or "(a file without a name)")
    return Refusal(name.rstrip("/").rpartition("/")[2] or name, path and name, n_bytes, reason, code)


def read_archive(request: flask.Request, file: IO[bytes], settings: Settings) -> Incoming:
    """Read an archive. Its query parameters, which apply to all files, are part of the request hash."""
    fields = {
        name: [value.encode() for value in values] for name, values in request.args.lists() if name in FIELDS
    }
    common = _common(fields, settings)
    digest = hashlib.sha256(json.dumps(sorted(request.args.items(multi=True))).encode())
    while data := file.read(READ_BYTES):
        digest.update(data)
    archive = archives.Archive(file, request.mimetype, settings)
    return Incoming(digest.hexdigest(), _members(archive, common, settings), archive)


def _members(archive: archives.Archive, common: Common, settings: Settings) -> Documents:
    try:
        for member in archive:
            if member.refusal is not None:
                is_too_large = member.size > largest_file(settings)
                code = DocumentTooLargeError.code if is_too_large else INVALID_ARCHIVE_ENTRY
                yield _refuse(member.name, member.size, member.refusal, code)
            else:
                yield draft_of(member.name, member.data, common, settings)
    except archives.BrokenArchiveError as error:
        raise ProblemError(400, str(error)) from None
    except archives.ArchiveTooLargeError as error:
        raise ProblemError(413, f"{error}; nothing of it was stored") from None


def _common(fields: dict[str, list[bytes]], settings: Settings) -> Common:
    """Parse the values for all files of an upload. Raises a 422 problem for an invalid field."""
    try:
        texts = {name: [value.decode() for value in values] for name, values in fields.items()}
    except UnicodeDecodeError:
        raise ProblemError(400, "a field is not UTF-8") from None
    lists = {
        name: tuple(each.strip() for text in texts[name] for each in text.split(",") if each.strip())
        for name in ("tags", "allow", "deny")
        if name in texts
    }
    common = Common(
        tags=lists.get("tags", ()),
        metadata=_metadata(texts.get("metadata", [])),
        format=next(filter(None, texts.get("format", [])), None),
        chunk_tokens=next(filter(None, texts.get("chunk_tokens", [])), None),
        language=next(filter(None, texts.get("language", [])), None),
        allow=lists.get("allow"),
        deny=lists.get("deny"),
    )
    # An invalid value here would fail every file, so the whole request is refused at once.
    make_draft(
        content="-",
        settings=settings,
        format=common.format,
        tags=common.tags,
        metadata=common.metadata,
        chunk_tokens=common.chunk_tokens,
        language=common.language,
        allow=common.allow,
        deny=common.deny,
    )
    return common


def _unknown_field_message(name: str) -> str:
    """Return the message for a field outside FIELDS: most likely `curl -F file=NAME` without the `@`."""
    if name in OF_ALL_BODIES:
        return "is a query parameter, not a field: append it to the URL"
    meant = meant_name(name, FIELDS)
    if meant is not None:
        return f"is not known; did you mean `{meant}`?"
    return (
        "is not a file; did you forget the @ before its name? "
        f"Fields that are not files are {', '.join(FIELDS[:-1])} and {FIELDS[-1]}"
    )


def _metadata(texts: list[str]) -> dict[str, Any] | None:
    if len(texts) > 1:
        raise field_problem("metadata", "is given more than once")
    if not texts or not texts[0].strip():
        return None
    try:
        value = strict_json.parse_object(texts[0].encode())
        strict_json.check_surrogates(value)
    except strict_json.MalformedJSONError as error:
        raise field_problem("metadata", str(error)) from None
    except strict_json.LoneSurrogateError as error:
        raise field_problem("metadata", error.message) from None
    return value


def read_lines(request: flask.Request, file: IO[bytes], settings: Settings) -> Incoming:
    """Read JSON lines."""
    return Incoming(_digest(file), _line_documents(file, settings))


def read_array(request: flask.Request, file: IO[bytes], settings: Settings) -> Incoming:
    """Read a JSON array of documents."""
    return Incoming(_digest(file), _array_documents(file, settings))


def _digest(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while data := file.read(READ_BYTES):
        digest.update(data)
    file.seek(0)
    return digest.hexdigest()


def _array_documents(file: IO[bytes], settings: Settings) -> Documents:
    limit = max_body_bytes(settings)
    schema = DocumentInputSchema()
    try:
        for number, element in enumerate(strict_json.elements(file, limit), 1):
            place = f"element {number}"
            if element.data is None:
                yield _too_long(place, element.n_bytes, limit)
            else:
                yield _json_document(element.data, place, schema, settings)
    except strict_json.NotAnArrayError as error:
        raise ProblemError(400, f"the body {error} of documents; {OTHER_JSON}") from None
    except strict_json.MalformedArrayError as error:
        raise ProblemError(400, f"the body {error}; nothing of it was stored") from None


def _line_documents(file: IO[bytes], settings: Settings) -> Documents:
    limit = max_body_bytes(settings)
    schema = DocumentInputSchema()
    number = 0
    most = LINES_PER_ITEM * settings.max_upload_items
    while line := file.readline(limit + 1):
        number += 1
        if number > most:
            raise ProblemError(413, f"the upload has more than {most:,} lines; send the rest as another")
        if len(line) > limit:
            size = len(line)
            while not line.endswith(b"\n") and (line := file.readline(READ_BYTES)):
                size += len(line)
            yield _too_long(f"line {number}", size, limit)
        elif line.strip(b" \t\r\n\xef\xbb\xbf"):
            yield _json_document(line, f"line {number}", schema, settings)


def _too_long(place: str, n_bytes: int, limit: int) -> Refusal:
    reason = f"{place}: is longer than {limit:,} bytes"
    return Refusal(place, None, n_bytes, reason, DocumentTooLargeError.code)


def _json_document(
    data: bytes, place: str, schema: ma.Schema, settings: Settings
) -> DocumentDraft | UrlDraft | Refusal:
    """Return the document of a JSON object; `place` says where it stands in the body."""
    value: dict[str, Any] = {}
    try:
        # Without a line break, which the message for an unclosed string would otherwise mention.
        value = strict_json.parse_object(data.rstrip(b"\r\n"), max_beside_content(settings))
        strict_json.check_surrogates(value, exempt=frozenset({"content"}))
        return draft_of_fields(schema.load(value), settings=settings)
    except strict_json.MalformedJSONError as error:
        reason, code = str(error), MALFORMED_JSON
    except strict_json.LoneSurrogateError as error:
        reason, code = str(error), InvalidFieldError.code
    except DocumentError as error:
        reason, code = str(error), error.code
    except ma.ValidationError as error:
        messages, _ = shorten(flatten({"body": error.messages}))
        reason = "; ".join(f"{name}: {', '.join(texts)}" for name, texts in messages.items())
        code = InvalidFieldError.code
    title, path = value.get("title"), value.get("source_path")
    shown = printable(title).strip() if isinstance(title, str) else ""
    return Refusal(
        shown or place,
        printable(path) if isinstance(path, str) else None,
        len(data),
        printable(f"{place}: {reason}"),
        code,
    )


PRINTABLE_CHARS = 512


def printable(text: str) -> str:
    """Return a name safe to store and show: without control characters and lone surrogates, cut to
    PRINTABLE_CHARS."""
    text = text[:PRINTABLE_CHARS]
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " for c in text).encode("utf-8", "replace").decode()
