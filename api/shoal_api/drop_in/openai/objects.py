"""Objects of OpenAI's API: ids, names, attributes, times and pages."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from shoal.engine import Engine
from shoal.errors import NotFoundError
from shoal.models.stored import StoredDocument
from shoal_api.problems import ProblemError, field_problem

T = TypeVar("T")

UPLOADED = re.compile(r"(file-[0-9a-f]{24})/", re.ASCII)
"""What the source path of a document begins with that was uploaded as a file."""
NUMBER = re.compile(r"\d{1,18}", re.ASCII)
OWN = "shoal_"
"""What the names of attributes begin with that a search adds."""
CITED = (
    "why",
    "source",
    "title",
    "section",
    "start_line",
    "end_line",
    "document_id",
    "chunk_id",
    "place",
    "page",
    "time_start",
    "time_end",
)
"""What a search adds to the attributes of a file: the reason, and the citation."""
MAX_ATTRIBUTES, MAX_KEY_CHARS, MAX_VALUE_CHARS = 16, 64, 512
"""Limits of attributes and metadata, by the contract."""


def file_id_of(collection_id: str, document_id: int, source_path: str | None) -> str:
    """Return the id of a file: that of the upload, or of a document that came otherwise."""
    match = UPLOADED.match(source_path or "")
    return match[1] if match else f"file-{collection_id}-{document_id}"


def filename_of(document: StoredDocument) -> str:
    """Return the name of a file."""
    return name_of(document.source_path, document.title)


def name_of(source_path: str | None, title: str) -> str:
    """Return the name of the file that a document was uploaded as; the title of any other."""
    match = UPLOADED.match(source_path or "")
    return (source_path or "")[match.end() :] if match else title


def document_of_file(
    library: Engine, file_id: str, collection_id: str | None = None, *, source_path: str | None = None
) -> StoredDocument | None:
    """Return the document of a file; None without one. `collection_id`: that of the library, where files
    count that were not uploaded as such. `source_path`: that of an uploaded file, which an index has; without
    it, those of all documents are read."""
    if UPLOADED.match(f"{file_id}/"):
        beginning = {"source_path": {"$prefix": f"{file_id}/"}} if source_path is None else None
        found = library.documents.list(source_path=source_path, filter=beginning, limit=1)
        return next(iter(found.documents), None)
    number = file_id.removeprefix(f"file-{collection_id}-")
    if number == file_id or not NUMBER.fullmatch(number):
        return None
    try:
        document = library.documents.get(int(number)).document
    except NotFoundError:
        return None
    return None if UPLOADED.match(document.source_path or "") else document


def attributes_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of the metadata of a document an attribute can be: texts, numbers and truth values."""
    return {name: value for name, value in metadata.items() if isinstance(value, str | int | float)}


def checked_metadata(given: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the metadata of a vector store. Raises a problem."""
    checked = _checked(given, "metadata")
    for name, value in checked.items():
        if not isinstance(value, str):
            raise field_problem(f"metadata.{name}", "must be a text")
    return checked


def checked_attributes(given: Mapping[str, Any] | None, place: str = "attributes") -> dict[str, Any]:
    """Return the attributes of a file. Raises a problem."""
    checked = _checked(given, place)
    for name in checked:
        if name.startswith(OWN):
            raise field_problem(f"{place}.{name}", f"must not begin with {OWN}, as those that a search adds")
    return checked


def _checked(given: Mapping[str, Any] | None, place: str) -> dict[str, Any]:
    values = dict(given or {})
    if len(values) > MAX_ATTRIBUTES:
        raise field_problem(place, f"must have at most {MAX_ATTRIBUTES} members")
    for name, value in values.items():
        if not 0 < len(name) <= MAX_KEY_CHARS:
            raise field_problem(place, f"a name must have 1 to {MAX_KEY_CHARS} characters")
        is_finite = isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value))
        if not is_finite and not isinstance(value, str):
            raise field_problem(f"{place}.{name}", "must be a text, a number, true or false")
        if isinstance(value, str) and len(value) > MAX_VALUE_CHARS:
            raise field_problem(f"{place}.{name}", f"must have at most {MAX_VALUE_CHARS} characters")
    return values


def refuse(field: str, reason: str) -> ProblemError:
    """Return the problem of a request for what Shoal cannot do."""
    return field_problem(field, f"is not supported: {reason}")


def seconds_of(timestamp: str) -> int:
    """Return a time of the library in seconds since 1970."""
    return int(dt.datetime.fromisoformat(timestamp).timestamp())


def page_of(items: Sequence[T], id_of: Callable[[T], str], query: Mapping[str, Any]) -> dict[str, Any]:
    """Return a page of items, which are in order. Raises a problem for an id that none has."""
    place_of = {id_of(item): place for place, item in enumerate(items)}
    bounds = {name: query[name] for name in ("after", "before") if name in query}
    for name, value in bounds.items():
        if value not in place_of:
            raise field_problem(name, "is not the id of an object in this list")
    end = place_of[bounds["before"]] if "before" in bounds else len(items)
    first = place_of[bounds["after"]] + 1 if "after" in bounds else 0
    is_backward = "before" in bounds and "after" not in bounds
    if is_backward:
        first = max(0, end - query["limit"])
    page = items[first : min(end, first + query["limit"])]
    has_more = first > 0 if is_backward else first + len(page) < end
    return list_of(page, id_of, has_more=has_more)


def list_of(page: Sequence[T], id_of: Callable[[T], str], *, has_more: bool) -> dict[str, Any]:
    """Return the object of a page, whose items are still to be represented."""
    return {
        "object": "list",
        "data": list(page),
        "first_id": id_of(page[0]) if page else None,
        "last_id": id_of(page[-1]) if page else None,
        "has_more": has_more,
    }
