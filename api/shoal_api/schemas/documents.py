"""Documents and their chunks."""

from __future__ import annotations

import functools
from typing import Any

import marshmallow as ma
from marshmallow import fields

from shoal.declared.documents import DOCUMENT
from shoal.models.documents import DocFormat
from shoal.models.responses import (
    Document,
)
from shoal.models.stored import (
    StoredSection,
)
from shoal.models.vocabulary import IslandScore, ReefScore
from shoal_api.schemas.arguments import body_fields, schema_of
from shoal_api.schemas.common import Record, Schema
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


class LinksSchema(Schema):
    self = fields.String(required=True)
    chunks = fields.String(required=True, metadata={"description": "URL of its chunks"})
    content = fields.String(required=True, metadata={"description": "URL of its text"})


record_schema(StoredSection, "Section")
record_schema(ReefScore, "ChunkReef")
record_schema(IslandScore, "ChunkIsland")
record_schema(Document, "DocumentDetail", links=functools.partial(Record, LinksSchema))
