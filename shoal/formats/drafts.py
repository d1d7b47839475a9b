"""Drafts: submitted documents, checked against every limit and ready to be parsed or queued."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Unpack

from shoal.declared.documents import DocumentFields
from shoal.errors import (
    DocumentTooLargeError,
    EmptyDocumentError,
    InvalidFieldError,
    NotFoundError,
    UndecodableDocumentError,
    UnknownFormatError,
    UnreadableFileError,
)
from shoal.formats.decoding import CERTAIN_ENCODINGS, UTF8, clean, decode
from shoal.formats.given_passages import read_passages
from shoal.formats.headings import (
    MAX_HEADING_CHARS,
    FrontMatter,
    atx_heading,
    find_front_matter,
    plain_heading,
    without_title_label,
)
from shoal.models.documents import DocFormat, DocumentDraft, Passage, UrlDraft
from shoal.models.files import ANY_TOKENS, GIVEN_PASSAGES, FileDraft, TokenRange
from shoal.models.rights import Rights
from shoal.settings import Settings
from shoal.support.languages import is_language_code
from shoal.support.principals import checked_principals
from shoal.support.regular_files import IrregularFileError, read_file

FORMAT_OF_SUFFIX = {
    ".md": DocFormat.markdown,
    ".markdown": DocFormat.markdown,
    ".txt": DocFormat.plaintext,
}
"""Format of a text by extension, in lower case. `shoal.conversion.file_kinds` has all files that are read."""


def format_of(source_path: str | None) -> DocFormat:
    """Return the format of a path by its extension; plain text if the extension is unknown."""
    # Both path flavours: an upload may come from a Windows or a POSIX client.
    suffix = PurePosixPath(PureWindowsPath(source_path or "").name).suffix.lower()
    return FORMAT_OF_SUFFIX.get(suffix, DocFormat.plaintext)


SEPARATOR = b"\0"
"""Between the text, which has no NUL, and how it is cut."""


def content_hash(encoded: bytes, chunk_tokens: str, passages: Sequence[Passage]) -> str:
    """The SHA-256 (hex) of a text's UTF-8; unless it is cut by default, a NUL and how it is cut follow."""
    digest = hashlib.sha256(encoded)
    if chunk_tokens != ANY_TOKENS:
        digest.update(SEPARATOR + chunk_tokens.encode())
        digest.update(json.dumps(passages, ensure_ascii=False, separators=(",", ":")).encode())
    return digest.hexdigest()


UNTITLED = "Untitled"
MAX_METADATA_DEPTH = 64
"""Levels of nesting, as in requests. SQLite can read at least a thousand, so metadata filters can read all
levels."""
_SMALL_WORDS = frozenset(
    ["a", "an", "and", "as", "at", "by", "for", "from", "in", "of", "on", "or", "the", "to", "under", "with"]
)

# A heading with more than blanks and "#" in it. The alternatives of the last group share no character, so
# that a line matches in only one way.
_FIRST_ATX = re.compile(r"(?:\A|[\r\n]) {0,3}#{1,6}[ \t]++((?:[^\S\r\n]|#)*[^\s#][^\r\n]*)")
_FIRST_LINE = re.compile(r"\S[^\r\n]*")
# Characters searched for the first heading: the title of a document is near its top.
_TITLE_WINDOW = 20_000
# A longer first line is a paragraph; its beginning is used as the title.
_MAX_LINE_TITLE = 120


def make_draft(
    *, content: str | None = None, settings: Settings, encoding: str = UTF8, **fields: Unpack[DocumentFields]
) -> DocumentDraft:
    """Check the fields of a document and fill in the missing ones.

    `encoding` is the encoding that the content was decoded from; a guessed one adds a warning. Without
    `content`, the `chunks` are the text.

    Raises InvalidFieldError, UnknownFormatError, EmptyDocumentError or DocumentTooLargeError.
    """
    if unknown := fields.keys() - DocumentFields.__annotations__:
        raise TypeError(f"a document has no field {min(unknown)!r}")
    path = _checked_source_path(fields.get("source_path"), settings)
    form = _checked_format(fields.get("format"), path)
    passages: tuple[Passage, ...] = ()
    if (chunks := fields.get("chunks")) is not None:
        if content is not None:
            _check_text(content, settings)
        content, passages = read_passages(chunks, content, settings)
    elif content is None:
        raise InvalidFieldError("content", "is missing")
    chunk_tokens = _checked_chunk_tokens(fields, settings)
    text, encoded = _checked_content(content, settings)
    matter = find_front_matter(text) if form is DocFormat.markdown else None
    tags = fields.get("tags")
    own_tags = () if tags is None else checked_tags(tags, settings)
    if matter is not None and not own_tags:
        own_tags = _usable_tags(matter, settings)
    return DocumentDraft(
        title=checked_title(fields.get("title"), settings)
        or _default_title(text, form, path, matter, settings),
        content=text,
        format=form,
        content_hash=content_hash(encoded, chunk_tokens, passages),
        n_bytes=len(encoded),
        tags=own_tags,
        source_path=path,
        metadata=checked_metadata(fields.get("metadata"), settings),
        warnings=_warnings(content, text, encoding),
        chunk_tokens=chunk_tokens,
        passages=passages,
        rights=checked_rights(fields.get("allow"), fields.get("deny")),
        language=checked_language(fields.get("language")),
    )


def with_passages(draft: DocumentDraft, passages: Sequence[Passage]) -> DocumentDraft:
    """The draft of a text that its caller has cut into these passages."""
    return dataclasses.replace(
        draft,
        content_hash=content_hash(draft.content.encode(), GIVEN_PASSAGES, tuple(passages)),
        chunk_tokens=GIVEN_PASSAGES,
        passages=tuple(passages),
    )


def draft_from_bytes(data: bytes, *, settings: Settings, **fields: Unpack[DocumentFields]) -> DocumentDraft:
    """Like `make_draft`, from the bytes of a file. Raises also UndecodableDocumentError."""
    content, encoding = decode(
        data, max_bytes=settings.max_document_bytes, min_confidence=settings.min_charset_confidence
    )
    return make_draft(content=content, encoding=encoding, settings=settings, **fields)


def draft_from_file(
    path: str | Path, *, settings: Settings, folder: Path | None = None, **fields: Unpack[DocumentFields]
) -> DocumentDraft:
    """Like `make_draft`, from a regular file.

    `folder`: an ancestor, below which no symbolic link is followed. A file over the limit is refused before
    it is read. Raises NotFoundError if the file does not exist, and UndecodableDocumentError if it cannot be
    read as text.
    """
    data = read_regular_file(path, settings.max_document_bytes, folder)
    if fields.get("source_path") is None:
        fields["source_path"] = str(path)
    return draft_from_bytes(data, settings=settings, **fields)


def read_regular_file(path: str | Path, max_bytes: int, folder: Path | None = None) -> bytes:
    """Return the bytes of a file. Raises NotFoundError, UndecodableDocumentError or DocumentTooLargeError."""
    try:
        return read_file(Path(path), max_bytes, folder)
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise UndecodableDocumentError(f"{path} is a folder") from None
    except IrregularFileError as error:
        raise UndecodableDocumentError(str(error.strerror)) from None
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {error.strerror}") from None


def make_file_draft(
    data: bytes,
    kind: str,
    *,
    settings: Settings,
    **fields: Unpack[DocumentFields],
) -> FileDraft:
    """Check the fields of a file that will be converted. `kind`: such as `pdf`.

    Raises InvalidFieldError, EmptyDocumentError or DocumentTooLargeError.
    """
    if unknown := fields.keys() - DocumentFields.__annotations__:
        raise TypeError(f"a document has no field {min(unknown)!r}")
    limit = settings.max_file_bytes
    if len(data) > limit:
        raise DocumentTooLargeError(f"the file has {len(data):,} bytes; the limit is {limit:,}")
    if not data:
        raise EmptyDocumentError("the file is empty")
    if fields.get("chunks") is not None:
        raise InvalidFieldError("chunks", "are passages of a text; a file is cut after its conversion")
    path = _checked_source_path(fields.get("source_path"), settings)
    tags = fields.get("tags")
    return FileDraft(
        data=data,
        kind=kind,
        name=PurePosixPath(PureWindowsPath(path or "").name).name,
        file_hash=hashlib.sha256(data).hexdigest(),
        title=checked_title(fields.get("title"), settings) or None,
        tags=() if tags is None else checked_tags(tags, settings),
        source_path=path,
        metadata=checked_metadata(fields.get("metadata"), settings),
        chunk_tokens=_checked_chunk_tokens(fields, settings),
        rights=checked_rights(fields.get("allow"), fields.get("deny")),
        language=checked_language(fields.get("language")),
    )


_OF_URL = {"title", "tags", "metadata", "language", "chunk_tokens", "allow", "deny"}


def make_url_draft(url: str, *, settings: Settings, **fields: Unpack[DocumentFields]) -> UrlDraft:
    """Check the fields of a page or file that will be fetched: title, tags, metadata, language, chunk_tokens,
    and who may see it.

    Raises InvalidFieldError.
    """
    for name in sorted(fields.keys() - _OF_URL):
        if fields.get(name) is not None:
            raise InvalidFieldError(name, "cannot be given together with a URL, which decides it")
    tags = fields.get("tags")
    return UrlDraft(
        url,
        title=checked_title(fields.get("title"), settings) or None,
        tags=() if tags is None else checked_tags(tags, settings),
        metadata=checked_metadata(fields.get("metadata"), settings),
        chunk_tokens=_checked_chunk_tokens(fields, settings),
        rights=checked_rights(fields.get("allow"), fields.get("deny")),
        language=checked_language(fields.get("language")),
    )


def checked_language(given: object) -> str | None:
    """Return the code of a language that is given, None to detect it. Raises InvalidFieldError."""
    if given is None:
        return None
    if not isinstance(given, str) or not is_language_code(given):
        raise InvalidFieldError("language", "must be a code of ISO 639-1 such as de")
    return given


def _checked_chunk_tokens(fields: DocumentFields, settings: Settings) -> str:
    """Return how a document is cut: `any`, a range of tokens, or `given`."""
    given = fields.get("chunk_tokens")
    if fields.get("chunks") is not None:
        if given not in (None, GIVEN_PASSAGES):
            raise InvalidFieldError("chunk_tokens", "cannot be given with `chunks`, which are not cut again")
        return GIVEN_PASSAGES
    if given is None:
        given = settings.chunk_tokens
    if not isinstance(given, str):
        raise InvalidFieldError("chunk_tokens", "must be a text such as 300-800")
    try:
        return str(TokenRange.of(given) or ANY_TOKENS)
    except ValueError as error:
        raise InvalidFieldError("chunk_tokens", str(error)) from None


def _check_text(content: object, settings: Settings) -> None:
    """Raise unless the content is a text that is not too long to be looked at."""
    if not isinstance(content, str):
        raise InvalidFieldError("content", "must be a text")
    limit = settings.max_document_bytes
    # A cheap check first: UTF-8 has at least as many bytes as characters.
    if len(content) > limit:
        raise DocumentTooLargeError(
            f"the document has over {limit:,} bytes, which is the limit; split it into several"
        )


def _checked_content(content: str, settings: Settings) -> tuple[str, bytes]:
    """Return the clean text, and its UTF-8."""
    _check_text(content, settings)
    limit = settings.max_document_bytes
    text = clean(content)
    encoded = text.encode()
    if len(encoded) > limit:
        raise DocumentTooLargeError(
            f"the document has {len(encoded):,} bytes; the limit is {limit:,}; split it into several"
        )
    if not text or text.isspace():
        raise EmptyDocumentError("the document has no text")
    return text, encoded


def _warnings(content: str, cleaned: str, encoding: object) -> tuple[str, ...]:
    if not isinstance(encoding, str):
        raise InvalidFieldError("encoding", "must be the name of an encoding")
    warnings = []
    if encoding not in CERTAIN_ENCODINGS:
        warnings.append(
            f"the file is not UTF-8 and was read as {encoding}; if letters with accents look wrong, save it "
            "as UTF-8"
        )
    if cleaned != content:
        n = sum(map(str.__ne__, content, cleaned))
        subject = "a control character was" if n == 1 else f"{n:,} control characters were each"
        warnings.append(f"{subject} replaced by a space")
    return tuple(warnings)


def _checked_format(given: DocFormat | str | None, source_path: str | None) -> DocFormat:
    known = ", ".join(DocFormat)
    if given is None:
        return format_of(source_path)
    if not isinstance(given, str):
        raise InvalidFieldError("format", f"must be one of {known}")
    try:
        return DocFormat(given)
    except ValueError:
        raise UnknownFormatError(f"format: {given!r} is not one of {known}") from None


def _checked_source_path(source_path: object, settings: Settings) -> str | None:
    if source_path is None or source_path == "":
        return None
    if not isinstance(source_path, str):
        raise InvalidFieldError("source_path", "must be a text")
    limit = settings.max_source_path_chars
    if len(source_path) > limit:
        raise InvalidFieldError("source_path", f"is {len(source_path):,} characters; the limit is {limit:,}")
    return clean(source_path)


def checked_title(title: object, settings: Settings) -> str:
    """Return the title on one line; empty if none was given. Raises InvalidFieldError."""
    if title is None:
        return ""
    if not isinstance(title, str):
        raise InvalidFieldError("title", "must be a text")
    if len(title) > settings.max_title_chars:
        raise InvalidFieldError(
            "title", f"is {len(title):,} characters; the limit is {settings.max_title_chars:,}"
        )
    return _one_line(title)


def checked_tags(tags: object, settings: Settings) -> tuple[str, ...]:
    """Return the tags stripped and unique, in the given order. Raises InvalidFieldError."""
    if isinstance(tags, str | bytes | Mapping) or not isinstance(tags, Iterable):
        raise InvalidFieldError("tags", "must be a list of texts")
    unique: dict[str, None] = {}
    for tag in tags:
        if not isinstance(tag, str):
            raise InvalidFieldError("tags", f"must be texts; {tag!r} is not")
        name = _one_line(tag)
        if not name:
            raise InvalidFieldError("tags", "must not be empty")
        if len(name) > settings.max_tag_chars:
            raise InvalidFieldError(
                "tags", f"{name[:20]!r}… is {len(name):,} characters; the limit is {settings.max_tag_chars:,}"
            )
        unique[name] = None
        if len(unique) > settings.max_tags:
            raise InvalidFieldError("tags", f"there are over {settings.max_tags:,}, which is the limit")
    return tuple(unique)


def checked_rights(allow: object, deny: object) -> Rights | None:
    """Return the rights of a document; None without any. Raises InvalidFieldError."""
    lists = {}
    for name, given in (("allow", allow), ("deny", deny)):
        try:
            lists[name] = None if given is None else checked_principals(given)
        except ValueError as error:
            raise InvalidFieldError(name, str(error)) from None
    rights = Rights(lists["allow"], lists["deny"] or ())
    return None if rights == Rights() else rights


def _usable_tags(matter: FrontMatter, settings: Settings) -> tuple[str, ...]:
    """Return the tags of the front matter that are within the limits; the others are ignored without an
    error."""
    tags = (_one_line(tag) for tag in matter.tags)
    valid_tags = dict.fromkeys(tag for tag in tags if tag and len(tag) <= settings.max_tag_chars)
    return tuple(valid_tags)[: settings.max_tags]


def is_too_large(metadata: Mapping[str, Any], settings: Settings) -> bool:
    """Whether metadata have more bytes of JSON than a document may have."""
    return len(json.dumps(dict(metadata), ensure_ascii=False).encode()) > settings.max_metadata_bytes


def checked_metadata(metadata: object, settings: Settings) -> dict[str, Any]:
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping) or not all(isinstance(key, str) for key in metadata):
        raise InvalidFieldError("metadata", "must be an object with texts as keys")
    try:
        encoded = json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        # A lone surrogate is a ValueError as well: it has no UTF-8.
        raise InvalidFieldError("metadata", "must be valid JSON") from None
    if len(encoded) > settings.max_metadata_bytes:
        raise InvalidFieldError(
            "metadata", f"is {len(encoded):,} bytes of JSON; the limit is {settings.max_metadata_bytes:,}"
        )
    copy: dict[str, Any] = json.loads(encoded)
    if _is_nested_beyond(copy, MAX_METADATA_DEPTH):
        raise InvalidFieldError("metadata", f"is nested more than {MAX_METADATA_DEPTH} levels deep")
    return copy


def _is_nested_beyond(value: object, depth: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(_is_nested_beyond(item, depth - 1) for item in inner)


def _default_title(
    content: str, form: DocFormat, source_path: str | None, matter: FrontMatter | None, settings: Settings
) -> str:
    candidates = [matter.title or "" if matter else "", _title_of_path(source_path)]
    if form is DocFormat.markdown and (heading := _FIRST_ATX.search(content, 0, _TITLE_WINDOW)):
        candidates.append(atx_heading(heading.group(1)[:MAX_HEADING_CHARS]))
    if line := _FIRST_LINE.search(content, matter.end_char if matter else 0):
        candidates.append(_shortened(plain_heading(line.group()[:MAX_HEADING_CHARS])))
    for candidate in candidates:
        title = without_title_label(_one_line(candidate))
        if title:
            return title[: settings.max_title_chars].rstrip()
    return UNTITLED


def _title_of_path(source_path: str | None) -> str:
    """Make a title of a file name: `notes/the-art_of-war.md` gives "The Art of War"; existing capitals are
    kept."""
    stem = PurePosixPath(PureWindowsPath(source_path or "").name).stem
    words = re.sub(r"[-_\s]+", " ", stem).strip()
    return words if any(letter.isupper() for letter in words) else _capitalised(words)


def _capitalised(words: str) -> str:
    first, *others = words.split() or [""]
    return " ".join(
        [first[:1].upper() + first[1:]]
        + [word if word in _SMALL_WORDS else word[:1].upper() + word[1:] for word in others]
    )


def _shortened(line: str) -> str:
    if len(line) <= _MAX_LINE_TITLE:
        return line
    return line[:_MAX_LINE_TITLE].rsplit(None, 1)[0] + "…"


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())
