"""Documents and their chunks, uploads, and jobs."""

from __future__ import annotations

import functools
from typing import Any

import marshmallow as ma
from marshmallow import fields, validate

from shoal.declared.documents import DOCUMENT
from shoal.models.documents import DocFormat
from shoal.models.jobs import OnConflict
from shoal.models.responses import (
    Document,
    Job,
)
from shoal.models.stored import (
    StoredSection,
)
from shoal.models.vocabulary import IslandScore, ReefScore
from shoal_api.schemas.arguments import body_fields, schema_of
from shoal_api.schemas.common import CommaList, Record, Schema
from shoal_api.schemas.records import record_schema

FORMATS = [doc_format.value for doc_format in DocFormat]


class PassageSchema(Schema):
    """A passage that the caller has cut. It is stored as it is, without the white space at its ends."""

    text = fields.String(required=True, metadata={"description": "up to `SHOAL_MAX_CHUNK_CHARS` characters"})
    heading = fields.Raw(
        metadata={
            "description": "the headings above it: a text, or a list of up to 6 texts from the outermost on",
            "oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        }
    )
    start = fields.Integer(
        allow_none=True,
        strict=True,
        metadata={
            "description": "offset of `text` in `content`, in code points; without it, the passage is found "
            "after the one before"
        },
    )
    page = fields.Integer(
        allow_none=True, strict=True, metadata={"description": "the page that it begins on, from 1"}
    )
    page_end = fields.Integer(
        allow_none=True, strict=True, metadata={"description": "the page that it ends on; default: `page`"}
    )
    line = fields.Integer(
        allow_none=True,
        strict=True,
        metadata={"description": "the line of its source that it begins on, from 1"},
    )
    line_end = fields.Integer(
        allow_none=True, strict=True, metadata={"description": "the line that it ends on; default: `line`"}
    )


PASSAGES = {
    "chunks": fields.List(
        fields.Nested(PassageSchema),
        allow_none=True,
        load_default=None,
        metadata={"description": DOCUMENT["chunks"].about},
    )
}


class _CheckedDocument(Schema):
    @ma.validates_schema
    def _check_origin(self, data: dict[str, Any], **_: Any) -> None:
        if "content" in data and "url" in data:
            raise ma.ValidationError("cannot be given together with `content`", "url")
        if "url" in data and data["chunks"] is not None:
            raise ma.ValidationError("cannot be given together with `url`", "chunks")
        if "content" not in data and "url" not in data and data["chunks"] is None:
            raise ma.ValidationError("is missing; give `content`, `chunks` or `url`", "content")

    @ma.post_load
    def _without_null_tags(self, data: dict[str, Any], **_: Any) -> dict[str, Any]:
        return data | {"tags": data["tags"] or ()}


DocumentInputSchema = schema_of(
    "DocumentInput",
    {
        **body_fields(DOCUMENT),
        **PASSAGES,
        "content": fields.String(
            metadata={"description": "up to 32 MiB of UTF-8; required without `url` and `chunks`"}
        ),
        "url": fields.String(
            metadata={
                "description": "a page or file to fetch instead, if the service allows its host "
                "(`SHOAL_FETCH_URLS`); its text replaces what was fetched from this URL before"
            }
        ),
    },
    "An uploaded document: its text, or where to fetch it. Types are checked here, everything else by the "
    "library.",
    _CheckedDocument,
)


class _CheckedContent(Schema):
    @ma.validates_schema
    def _check_content(self, data: dict[str, Any], **_: Any) -> None:
        if "content" not in data and data["chunks"] is None:
            raise ma.ValidationError("is missing; give `content` or `chunks`", "content")


NewContentSchema = schema_of(
    "NewContent",
    {
        **body_fields(DOCUMENT),
        **PASSAGES,
        "content": fields.String(
            metadata={"description": "up to 32 MiB of UTF-8; required without `chunks`"}
        ),
    },
    "New content of a document. Omitted and null fields keep their values.",
    _CheckedContent,
)


ChangesSchema = schema_of(
    "DocumentChanges",
    {
        name: functools.partial(make, allow_none=True, metadata={"description": DOCUMENT[name].about})()
        for name, make in (
            ("title", fields.String),
            ("tags", functools.partial(fields.List, fields.String())),
            ("metadata", fields.Dict),
            ("allow", functools.partial(fields.List, fields.String())),
            ("deny", functools.partial(fields.List, fields.String())),
        )
    },
    "Changes of a document. What is left out stays; null empties it.",
)


class LinksSchema(Schema):
    self = fields.String(required=True)
    chunks = fields.String(required=True, metadata={"description": "URL of its chunks"})
    content = fields.String(required=True, metadata={"description": "URL of its text"})


record_schema(StoredSection, "Section")
record_schema(ReefScore, "ChunkReef")
record_schema(IslandScore, "ChunkIsland")
record_schema(Document, "DocumentDetail", links=functools.partial(Record, LinksSchema))


class UploadQuerySchema(Schema):
    """`on_conflict` applies to every upload; the others are fields of a form, and parameters for an
    archive, which has no fields."""

    on_conflict = fields.Enum(
        OnConflict,
        by_value=True,
        load_default=OnConflict.keep,
        metadata={
            "description": "`replace`: a document replaces the content of the stored one with its "
            "`source_path`"
        },
    )
    tags = CommaList(
        fields.String(), metadata={"description": "comma-separated; for all files; for archives only"}
    )
    metadata = fields.String(
        metadata={"description": "a JSON object; for all files; for archives only"},
    )
    allow = CommaList(fields.String(), metadata={"description": "who may see all files; for archives only"})
    deny = CommaList(fields.String(), metadata={"description": "who may not see them; for archives only"})
    format = fields.String(
        metadata={
            "enum": [each.value for each in DocFormat],
            "description": "for all files; default: from the name of each file; for archives only",
        }
    )


class JobLinksSchema(Schema):
    self = fields.String(required=True)
    items = fields.String(required=True, metadata={"description": "URL of its items"})
    events = fields.String(required=True, metadata={"description": "URL of its events"})


class WaitQuerySchema(Schema):
    wait = fields.Float(
        load_default=0.0,
        validate=validate.Range(min=0, error="must not be negative"),
        metadata={"description": "seconds to wait for a change, at most 60"},
    )


JobSchema = record_schema(Job, links=functools.partial(Record, JobLinksSchema))
