"""The fields that filters know, and how a name becomes a field.

A name that is none of these is a path into the metadata of a document: `year`, `author.name`. `metadata.` in
front says so explicitly, which a key needs that is named like a field, or nearly so.
"""

from __future__ import annotations

import difflib
import enum
import functools
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

METADATA = "metadata"
MAX_PATH_PARTS = 16
"""Keys on the way to a nested value of the metadata."""
_NEAR = 0.8
"""Similarity from which an unknown name is taken for a misspelt field, by `difflib`: one letter of five."""
_COMPARED = 60
"""Characters of a name that are compared; no field has as many."""
_BARE = re.compile(r"""[^\s()\[\],=<>!"'\\.]+""")
"""A part of a path that needs no quotation marks."""
KEYWORDS = frozenset({"AND", "OR", "NOT", "IN", "EXISTS", "CONTAINS", "STARTS", "WITH", "TO"})


class Kind(enum.Enum):
    """What the values of a field are, which decides how they compare.

    time   seconds; also written as H:MM:SS
    named  a number with a name; either is equal to it
    json   as in JSON: texts, numbers, truth values and null
    """

    text = enum.auto()
    number = enum.auto()
    date = enum.auto()
    time = enum.auto()
    named = enum.auto()
    json = enum.auto()


class Known(NamedTuple):
    """A field of documents or, if `of_chunk`, of chunks. `is_many`: one document or chunk can have several
    values."""

    kind: Kind
    about: str
    of_chunk: bool = False
    is_many: bool = False


FIELDS: MappingProxyType[str, Known] = MappingProxyType(
    {
        "id": Known(Kind.number, "id of the document"),
        "title": Known(Kind.text, "title of the document"),
        "source_path": Known(Kind.text, "path or address that the document came from"),
        "folder": Known(Kind.text, "folders of the path, each with all above it", is_many=True),
        "format": Known(Kind.text, "`markdown` or `plaintext`"),
        "file_type": Known(Kind.text, "type of document, or suffix of the path", is_many=True),
        "tags": Known(Kind.text, "tags of the document", is_many=True),
        "created": Known(Kind.date, "when the document was stored first"),
        "updated": Known(Kind.date, "when the document was changed last"),
        "date": Known(Kind.date, "`date` of the metadata, if it is a date; otherwise as `created`"),
        "section": Known(Kind.text, "headings that the passage stands under", of_chunk=True, is_many=True),
        "page": Known(Kind.number, "pages that the passage stands on", of_chunk=True, is_many=True),
        "time_start": Known(Kind.time, "where the passage begins in its recording", of_chunk=True),
        "time_end": Known(Kind.time, "where the passage ends in its recording", of_chunk=True),
        "reef": Known(Kind.named, "first label of the passage", of_chunk=True, is_many=True),
        "island": Known(Kind.named, "island of the first label", of_chunk=True, is_many=True),
        "archipelago": Known(Kind.named, "strongest archipelago of the passage", of_chunk=True, is_many=True),
        "confidence": Known(Kind.number, "how clearly the passage has one topic", of_chunk=True),
        "coverage": Known(Kind.number, "share of the passage's words that are known", of_chunk=True),
    }
)
_OF_RIGHTS = {name: Known(Kind.text, "", is_many=True) for name in ("allow", "deny")}
"""Fields of the rights of a document. No name of a filter means them."""
ALIASES = MappingProxyType(
    {
        "document_id": "id",
        "path": "source_path",
        "tag": "tags",
        "created_at": "created",
        "updated_at": "updated",
        "section_path": "section",
    }
)


@dataclass(frozen=True, slots=True)
class Field:
    """A field by its name, or a path into the metadata: then `name` is `metadata`."""

    name: str
    path: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        return Kind.json if self.path else (FIELDS.get(self.name) or _OF_RIGHTS[self.name]).kind

    @property
    def of_chunk(self) -> bool:
        return not self.path and self.name in FIELDS and FIELDS[self.name].of_chunk

    @property
    def text(self) -> str:
        """The name as an expression has it, the shortest that means this field."""
        if not self.path:
            return self.name
        parts = [part if _is_bare(part) else quoted(part) for part in self.path]
        needs_prefix = parts[0] == self.path[0] and (
            self.path[0] == METADATA or (len(self.path) == 1 and _near_field(self.path[0]) is not None)
        )
        return ".".join([METADATA, *parts] if needs_prefix else parts)


ALLOW, DENY = Field("allow"), Field("deny")
"""The principals that may see a document, and those that may not."""


class UnknownFieldError(ValueError):
    """A name that is too near to that of a field to be one of the metadata. `near`: the field."""

    def __init__(self, message: str, near: str | None = None) -> None:
        super().__init__(message)
        self.near = near


def field_of(parts: tuple[str, ...], *, is_quoted: bool = False) -> Field:
    """Return the field that a path of names means. A quoted first name is one of the metadata.

    Raises UnknownFieldError.
    """
    if len(parts) > MAX_PATH_PARTS:
        raise UnknownFieldError(f"a path has at most {MAX_PATH_PARTS} names")
    if not is_quoted:
        if parts == (METADATA,):
            raise UnknownFieldError("metadata needs a key, such as metadata.year")
        if parts[0] == METADATA:
            return Field(METADATA, parts[1:])
        if len(parts) == 1:
            name = ALIASES.get(parts[0], parts[0])
            if name in FIELDS:
                return Field(name)
            near = _near_field(name)
            if near is not None:
                raise UnknownFieldError(
                    f"there is no field {name[:60]}; did you mean {near}? A key of the metadata with this "
                    f"name is metadata.{name[:60]}",
                    near,
                )
    return Field(METADATA, parts)


def _near_field(name: str) -> str | None:
    """The field that a name means or may mean."""
    return _near_short(name[: _COMPARED + 1])


@functools.lru_cache(maxsize=1024)
def _near_short(name: str) -> str | None:
    """The same for a short name. Comparing takes longer than many a search."""
    if name in FIELDS or name in ALIASES:
        return ALIASES.get(name, name)
    close = difflib.get_close_matches(name[:_COMPARED].lower(), [*FIELDS, *ALIASES], n=1, cutoff=_NEAR)
    return ALIASES.get(close[0], close[0]) if close else None


def _is_bare(part: str) -> bool:
    return _BARE.fullmatch(part) is not None and part.upper() not in KEYWORDS


def quoted(text: str) -> str:
    """Return a text in quotation marks."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
