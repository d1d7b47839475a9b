"""Documents and their chunks, uploads, and jobs."""

from __future__ import annotations

import functools
from typing import Any

import marshmallow as ma
from marshmallow import fields

from shoal.declared.documents import DOCUMENT
from shoal.models.responses import (
    Document,
    Job,
)
from shoal.models.stored import (
    StoredSection,
)
from shoal.models.vocabulary import IslandScore, ReefScore
from shoal_api.schemas.arguments import body_fields, schema_of
from shoal_api.schemas.common import Record, Schema
from shoal_api.schemas.records import record_schema


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
            ("language", fields.String),
            ("allow", functools.partial(fields.List, fields.String())),
            ("deny", functools.partial(fields.List, fields.String())),
        )
    },
    "Changes of a document. What is left out stays; null empties it, and lets the language be detected.",
)


class LinksSchema(Schema):
    self = fields.String(required=True)
    chunks = fields.String(required=True, metadata={"description": "URL of its chunks"})
    content = fields.String(required=True, metadata={"description": "URL of its text"})


record_schema(StoredSection, "Section")
record_schema(ReefScore, "ChunkReef")
record_schema(IslandScore, "ChunkIsland")
record_schema(Document, "DocumentDetail", links=functools.partial(Record, LinksSchema))


class JobLinksSchema(Schema):
    self = fields.String(required=True)
    items = fields.String(required=True, metadata={"description": "URL of its items"})
    events = fields.String(required=True, metadata={"description": "URL of its events"})


JobSchema = record_schema(Job, links=functools.partial(Record, JobLinksSchema))
