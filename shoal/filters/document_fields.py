"""From stored rows to the values of a field of documents."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.filters.dates import span_of
from shoal.filters.fields import Field
from shoal.storage import field_values
from shoal.storage.database import Snapshot
from shoal.storage.file_types import AUDIO, IMAGE, VIDEO

Value = tuple[int, object]
"""A row and a scalar, a list or an object."""
MAX_PARSED = 4_096
"""Different values that are parsed once."""
_PLAIN_KEY = re.compile(r"\w+", re.ASCII)
MAX_SUFFIXES = 3
"""Suffixes of a name, such as the two of `x.tar.gz`."""

MAX_FOLDERS = 16
"""Folders of a path, from the outermost."""


def read_values(
    snapshot: Snapshot, field: Field, ids: NDArray[np.int64], among: Sequence[int] | None
) -> Iterator[Value]:
    """Yield the values of a field of all documents, or of those among some. A row is the place in `ids`,
    which are ascending."""
    row_of = {document_id: row for row, document_id in enumerate(ids.tolist())} if among is None else None
    for document_id, value in _values(snapshot, field, ids, among):
        if row_of is not None:
            yield row_of[document_id], value
        else:
            yield int(np.searchsorted(ids, document_id)), value


def _values(
    snapshot: Snapshot, field: Field, ids: NDArray[np.int64], among: Sequence[int] | None
) -> Iterator[Any]:
    if field.path:
        key, *others = field.path
        for document_id, value in _of_key(snapshot, key, among):
            yield from ((document_id, inner) for inner in _nested(value, others))
    elif field.name == "id":
        yield from ((each, each) for each in (ids.tolist() if among is None else among))
    else:
        rows: Iterator[Any] = field_values.of_documents(snapshot, field.name, among=among)
        match field.name:
            case "created" | "updated":
                yield from ((row[0], _moment(row[1])) for row in rows)
            case "date":
                yield from ((row[0], _date(row[1], row[2])) for row in rows)
            case "folder":
                yield from ((row[0], folders) for row in rows if (folders := _folders(row[1])))
            case "file_type":
                yield from ((row[0], _file_types(*row[1:])) for row in rows)
            case _:
                yield from rows


def _of_key(snapshot: Snapshot, key: str, among: Sequence[int] | None) -> Iterator[tuple[Any, Any]]:
    """Yield the value of a key of the metadata, by document id."""
    if _PLAIN_KEY.fullmatch(key):
        # SQLite reads JSON faster than Python, and many documents have the same value.
        parsed = functools.lru_cache(maxsize=MAX_PARSED)(json.loads)
        rows: Iterator[Any] = field_values.of_documents(snapshot, "key", key=key, among=among)
        for document_id, text in rows:
            if text is not None:
                yield document_id, parsed(text)
        return
    for document_id, text in field_values.of_documents(snapshot, "metadata", key=key, among=among):
        metadata = json.loads(str(text))
        if key in metadata:
            yield document_id, metadata[key]


def _nested(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """Yield the values at the end of a path; a list on the way stands for its elements."""
    if not path:
        yield value
    elif isinstance(value, list):
        for element in value:
            if isinstance(element, dict):
                yield from _nested(element, path)
    elif isinstance(value, dict) and path[0] in value:
        yield from _nested(value[path[0]], path[1:])


def _moment(text: str) -> int | None:
    """Microseconds since 1970."""
    span = span_of(text)
    return None if span is None else span[0]


def _date(created_at: str, declared: object) -> int | None:
    span = span_of(declared) if isinstance(declared, str) else None
    return _moment(created_at) if span is None else span[0]


def _folders(source_path: str) -> list[str]:
    """The folders of a path or address, outermost first: `notes` and `notes/sea` of `notes/sea/tides.md`."""
    scheme, separator, path = source_path.replace("\\", "/").rpartition("://")
    if separator:
        path = path.split("?")[0].split("#")[0]
    parts = path.split("/")[: MAX_FOLDERS + 1]
    parts = parts[:-1] if len(parts) <= MAX_FOLDERS else parts[:MAX_FOLDERS]
    folders = ("/".join(parts[: n + 1]) for n in range(len(parts)))
    return [f"{scheme}{separator}{folder}" for folder in folders if folder]


def _file_types(*row: Any) -> list[str]:
    """What `file_type` is compared with: file or text, medium, suffixes."""
    doc_format, kind, source_path, is_audio, is_video, is_image = row
    types = [kind if kind is not None else field_values.KIND_OF_FORMAT[doc_format]]
    types += [name for name, has in ((AUDIO, is_audio), (VIDEO, is_video), (IMAGE, is_image)) if has]
    suffixes = PurePosixPath((source_path or "").replace("\\", "/").lower()).suffixes[-MAX_SUFFIXES:]
    return [*types, *("".join(suffixes[first:]) for first in range(len(suffixes)))]
