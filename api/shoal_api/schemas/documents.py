"""Documents and their chunks."""

from __future__ import annotations

from typing import Any

import marshmallow as ma
from marshmallow import fields, validate

from shoal.models import DocFormat
from shoal.search.request import MAX_CONTEXT
from shoal_api.schemas.common import BoundedList, Moment, PageSchema, Records, Schema, between

FORMATS = [each.value for each in DocFormat]


class DocumentInputSchema(Schema):
    """A document as it is handed in. Types are checked here, everything else by `shoal.formats.drafts`."""

    title = fields.String(
        allow_none=True,
        load_default=None,
        metadata={"description": "up to 512 characters; default: from `source_path` or the first heading"},
    )
    content = fields.String(required=True, metadata={"description": "up to 32 MiB of UTF-8"})
    format = fields.String(
        allow_none=True,
        load_default=None,
        metadata={"enum": ["markdown", "plaintext", None], "description": "default: from `source_path`"},
    )
    tags = BoundedList(
        fields.String(),
        allow_none=True,
        load_default=(),
        metadata={"description": "up to 64 of up to 64 characters"},
    )
    metadata = fields.Dict(
        keys=fields.String(),
        allow_none=True,
        load_default=None,
        metadata={"description": "any JSON object up to 64 KiB"},
    )
    source_path = fields.String(
        allow_none=True,
        load_default=None,
        metadata={"description": "where the text comes from; a label only"},
    )

    @ma.post_load
    def _without_null_tags(self, data: dict[str, Any], **_: Any) -> dict[str, Any]:
        return data | {"tags": data["tags"] or ()}


class NewContentSchema(Schema):
    """The new content of a document; what is left out, or null, stays as it is."""

    content = fields.String(required=True, metadata={"description": "up to 32 MiB of UTF-8"})
    title = fields.String(allow_none=True, metadata={"description": "instead of the one it has"})
    format = fields.String(
        allow_none=True,
        metadata={"enum": ["markdown", "plaintext", None], "description": "instead of the one it has"},
    )
    tags = BoundedList(fields.String(), allow_none=True, metadata={"description": "instead of those it has"})
    metadata = fields.Dict(
        keys=fields.String(), allow_none=True, metadata={"description": "instead of what it has"}
    )
    source_path = fields.String(allow_none=True, metadata={"description": "instead of the one it has"})


class StoredSchema(Schema):
    """What became of one document handed in."""

    id = fields.Integer(required=True, metadata={"description": "id of the document"})
    title = fields.String(required=True, metadata={"description": "as it is stored"})
    n_chunks = fields.Integer(required=True, metadata={"description": "chunks that the text was cut into"})
    tags = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "as they are stored, in the order of the alphabet"},
    )
    duplicate = fields.Boolean(
        required=True, metadata={"description": "the content was stored already; this is that document"}
    )
    warnings = fields.List(
        fields.String(),
        required=True,
        metadata={
            "description": "what is doubtful about the text, and what was not taken over from a duplicate"
        },
    )


class DocumentSchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the document"})
    title = fields.String(required=True, metadata={"description": "given, or from its path or text"})
    format = fields.String(
        required=True, validate=validate.OneOf(FORMATS), metadata={"description": "how its text is read"}
    )
    source_path = fields.String(required=True, allow_none=True)
    tags = fields.List(fields.String(), required=True)
    n_bytes = fields.Integer(required=True)
    n_chunks = fields.Integer(required=True, metadata={"description": "chunks that its text was cut into"})
    n_sentences = fields.Integer(required=True)
    coverage = fields.Float(required=True, metadata={"description": "known words / words, 0 to 1"})
    content_hash = fields.String(required=True, metadata={"description": "SHA-256 of the content's UTF-8"})
    metadata = fields.Dict(required=True, metadata={"description": "as it was handed in"})
    created_at = Moment(required=True)
    updated_at = Moment(required=True)


class DocumentListSchema(Schema):
    documents = fields.List(
        fields.Nested(DocumentSchema), required=True, metadata={"description": "a page of them, by id"}
    )
    total = fields.Integer(required=True, metadata={"description": "on all pages"})


class DocumentQuerySchema(PageSchema):
    tag = fields.String(metadata={"description": "only documents with this tag"})
    q = fields.String(metadata={"description": "only documents with this in title or source path"})
    source_path = fields.String(
        metadata={"description": "only documents with exactly this source path: the way from a path to an id"}
    )


class TagQuerySchema(Schema):
    tag = fields.String(
        required=True,
        validate=validate.Length(min=1, error="must not be empty"),
        metadata={"description": "every document with this tag is deleted"},
    )


class TagsSchema(Schema):
    tags = BoundedList(
        fields.String(),
        required=True,
        metadata={"description": "all that the document is to have, and has then"},
    )


class SectionSchema(Schema):
    section_index = fields.Integer(required=True)
    level = fields.Integer(required=True, metadata={"description": "0 before the first heading"})
    path = fields.List(fields.String(), required=True, metadata={"description": "headings, outermost first"})
    heading_start = fields.Integer(
        required=True,
        metadata={
            "description": "where its heading begins in the content; equal to `heading_end` where it has none"
        },
    )
    heading_end = fields.Integer(required=True, metadata={"description": "where its heading ends"})
    start_char = fields.Integer(required=True)
    end_char = fields.Integer(required=True)
    n_chunks = fields.Integer(required=True, metadata={"description": "chunks in it"})


class LeftOutSchema(Schema):
    start_char = fields.Integer(required=True)
    end_char = fields.Integer(required=True)
    reason = fields.String(
        required=True, metadata={"description": "`heading`, `front matter`, `rule` or `comment`"}
    )


class ReportSchema(Schema):
    left_out = Records(
        LeftOutSchema,
        required=True,
        metadata={"description": "spans of the text that are in no chunk"},
    )
    warnings = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "what is doubtful about the text, such as a guessed encoding"},
    )


class ChunkSummarySchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the chunk"})
    chunk_index = fields.Integer(required=True)
    section_path = fields.List(fields.String(), required=True)
    start_char = fields.Integer(required=True)
    end_char = fields.Integer(required=True)
    start_line = fields.Integer(required=True)
    end_line = fields.Integer(required=True)
    confidence = fields.Float(required=True)
    coverage = fields.Float(required=True)
    top_reef_name = fields.String(required=True, allow_none=True)


class LinksSchema(Schema):
    self = fields.String(required=True)
    chunks = fields.String(required=True, metadata={"description": "address of its chunks"})
    content = fields.String(required=True, metadata={"description": "address of its text"})


class DocumentDetailSchema(DocumentSchema):
    sections = fields.List(
        fields.Nested(SectionSchema), required=True, metadata={"description": "in the order of the text"}
    )
    report = fields.Nested(
        ReportSchema,
        required=True,
        metadata={"description": "what became of every part of the text that is in no chunk"},
    )
    chunks = fields.List(
        fields.Nested(ChunkSummarySchema),
        required=True,
        metadata={"description": "the first 100, without text and reefs; all of them at `links.chunks`"},
    )
    links = fields.Nested(LinksSchema, required=True)


class ChunkReefSchema(Schema):
    reef_id = fields.Integer(required=True)
    reef_name = fields.String(required=True)
    z_score = fields.Float(
        required=True,
        metadata={"description": "how far the reef stands out from ordinary text of this length"},
    )
    raw_bm25 = fields.Float(
        required=True, metadata={"description": "the sum it is made from: what the words add to the reef"}
    )
    n_contributing_words = fields.Integer(
        required=True, metadata={"description": "different words that add to it"}
    )


class ChunkIslandSchema(Schema):
    island_id = fields.Integer(required=True)
    island_name = fields.String(required=True)
    aggregate_z = fields.Float(
        required=True, metadata={"description": "how far the island stands out: of its reefs together"}
    )
    n_contributing_reefs = fields.Integer(
        required=True, metadata={"description": "reefs of the island that the chunk has"}
    )


class ChunkSchema(ChunkSummarySchema):
    document_id = fields.Integer(required=True)
    section_index = fields.Integer(required=True)
    text = fields.String(required=True, metadata={"description": "content[start_char:end_char]"})
    sentence_count = fields.Integer(required=True)
    matched_words = fields.Integer(required=True)
    arch_scores = fields.List(
        fields.Float(),
        required=True,
        metadata={"description": "of the four archipelagos, in the order of their ids"},
    )
    top_reef_id = fields.Integer(required=True, allow_none=True)
    vocabulary_version = fields.Integer(required=True)
    data_checksum = fields.String(required=True)
    reefs = Records(ChunkReefSchema, required=True, metadata={"description": "strongest first"})
    islands = Records(ChunkIslandSchema, required=True, metadata={"description": "strongest first"})


class ContextChunkSchema(Schema):
    """A neighbour: a citation like the chunk itself."""

    chunk_id = fields.Integer(required=True)
    chunk_index = fields.Integer(required=True)
    text = fields.String(required=True)
    start_char = fields.Integer(required=True)
    end_char = fields.Integer(required=True)
    start_line = fields.Integer(required=True)
    end_line = fields.Integer(required=True)


class NeighboursSchema(Schema):
    context = fields.Integer(
        load_default=0,
        validate=between(0, MAX_CONTEXT),
        metadata={"description": "chunks before and after it to add as `before` and `after`"},
    )


class ChunkDetailSchema(ChunkSchema):
    document = fields.Nested(
        DocumentSchema, required=True, metadata={"description": "the document that it is part of"}
    )
    before = Records(ContextChunkSchema, required=True, metadata={"description": "with `context`"})
    after = Records(ContextChunkSchema, required=True, metadata={"description": "with `context`"})


class ChunkListSchema(Schema):
    chunks = fields.List(
        fields.Nested(ChunkSchema),
        required=True,
        metadata={"description": "a page of them, in the order of the text"},
    )
    total = fields.Integer(required=True, metadata={"description": "on all pages"})


class ContentSchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the document"})
    content = fields.String(required=True, metadata={"description": "its text as it is stored"})
