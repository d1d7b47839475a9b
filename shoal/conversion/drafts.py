"""Drafts of files of any kind: texts are read at once, other kinds wait for their conversion."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from shoal.conversion.recognition import recognise
from shoal.declared.documents import DocumentFields
from shoal.errors import RefusedKindError
from shoal.formats.drafts import (
    draft_from_bytes,
    make_draft,
    make_file_draft,
    make_url_draft,
    read_regular_file,
)
from shoal.models.documents import DocumentDraft, UrlDraft
from shoal.models.files import FileDraft
from shoal.settings import Settings


def draft_of_data(
    data: bytes, *, settings: Settings, **fields: Unpack[DocumentFields]
) -> DocumentDraft | FileDraft:
    """Return the draft of a file whose kind follows from its content, and from the suffix of `source_path`.

    With a `format`, the file is a text. Raises DocumentError; RefusedKindError, which names what to do, for a
    kind that has no text.
    """
    if fields.get("format") is not None:
        return draft_from_bytes(data, settings=settings, **fields)
    kind = recognise(data, fields.get("source_path") or "")
    if kind.refusal:
        raise RefusedKindError(kind.refusal_code, kind.refusal, kind.name)
    if kind.converter is None:
        return draft_from_bytes(data, settings=settings, **fields)
    return make_file_draft(data, kind.id, settings=settings, **fields)


def draft_of_file(
    path: str | Path, *, settings: Settings, folder: Path | None = None, **fields: Unpack[DocumentFields]
) -> DocumentDraft | FileDraft:
    """Like `draft_of_data`, from a regular file; `folder`: an ancestor, below which no symbolic link is
    followed.

    Raises also NotFoundError if the file does not exist, and UndecodableDocumentError if it cannot be read.
    """
    data = read_regular_file(path, largest_file(settings), folder)
    if fields.get("source_path") is None:
        fields["source_path"] = str(path)
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
