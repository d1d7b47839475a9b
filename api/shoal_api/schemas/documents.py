"""Documents and their chunks."""

from __future__ import annotations

from typing import Any

import marshmallow as ma
from marshmallow import fields, validate

from shoal.declared.search import ABOUT_FILTER, MAX_CONTEXT
from shoal.models.documents import DocFormat, DocumentSort
from shoal.models.files import LocatorKind
from shoal_api.schemas.common import BoundedList, Moment, PageSchema, Record, Records, Schema, between
from shoal_api.schemas.filters import ABOUT_FILTERS

FORMATS = [doc_format.value for doc_format in DocFormat]


ABOUT_CHUNK_TOKENS = (
    "fewest and most tokens of a chunk, such as `300-800`: the text is cut at the best changes of topic that "
    "give such chunks; `any`: wherever the topic changes; default: `SHOAL_CHUNK_TOKENS`"
)


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


def _chunk_tokens() -> fields.String:
    return fields.String(allow_none=True, load_default=None, metadata={"description": ABOUT_CHUNK_TOKENS})


def _chunks() -> fields.List[Any]:
    return fields.List(
        fields.Nested(PassageSchema),
        allow_none=True,
        load_default=None,
        metadata={
            "description": "passages that are cut already, in order and without overlap; without `content`, "
            "they are the text"
        },
    )


class DocumentInputSchema(Schema):
    """An uploaded document: its text, or where to fetch it. Types are checked here, everything else by
    `shoal.formats.drafts`."""

    title = fields.String(
        allow_none=True,
        load_default=None,
        metadata={"description": "up to 512 characters; default: from `source_path` or the first heading"},
    )
    content = fields.String(
        metadata={"description": "up to 32 MiB of UTF-8; required without `url` and `chunks`"}
    )
    url = fields.String(
        metadata={
            "description": "a page or file to fetch instead, if the service allows its host "
            "(`SHOAL_FETCH_URLS`); its text replaces what was fetched from this URL before"
        }
    )
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
    chunk_tokens = _chunk_tokens()
    chunks = _chunks()

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


class NewContentSchema(Schema):
    """New content of a document. Omitted and null fields keep their values."""

    content = fields.String(metadata={"description": "up to 32 MiB of UTF-8; required without `chunks`"})
    title = fields.String(allow_none=True, metadata={"description": "the new title"})
    format = fields.String(
        allow_none=True,
        metadata={"enum": ["markdown", "plaintext", None], "description": "the new format"},
    )
    tags = BoundedList(
        fields.String(), allow_none=True, metadata={"description": "the new tags, in place of the old"}
    )
    metadata = fields.Dict(
        keys=fields.String(),
        allow_none=True,
        metadata={"description": "the new metadata, in place of the old"},
    )
    source_path = fields.String(allow_none=True, metadata={"description": "the new source path"})
    chunk_tokens = _chunk_tokens()
    chunks = _chunks()

    @ma.validates_schema
    def _check_content(self, data: dict[str, Any], **_: Any) -> None:
        if "content" not in data and data["chunks"] is None:
            raise ma.ValidationError("is missing; give `content` or `chunks`", "content")


class StoredSchema(Schema):
    """The stored document of an upload."""

    id = fields.Integer(required=True, metadata={"description": "id of the document"})
    title = fields.String(required=True, metadata={"description": "as it is stored"})
    n_chunks = fields.Integer(required=True, metadata={"description": "number of its chunks"})
    tags = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "as they are stored, in alphabetical order"},
    )
    duplicate = fields.Boolean(
        required=True,
        metadata={"description": "whether the content was stored already; then this is that document"},
    )
    warnings = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "problems of the text, and fields of a duplicate that were not taken over"},
    )


class DocumentSchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the document"})
    title = fields.String(required=True, metadata={"description": "given, or derived from its path or text"})
    format = fields.String(
        required=True, validate=validate.OneOf(FORMATS), metadata={"description": "how its text is read"}
    )
    source_path = fields.String(required=True, allow_none=True)
    tags = fields.List(fields.String(), required=True)
    n_bytes = fields.Integer(required=True)
    n_chunks = fields.Integer(required=True, metadata={"description": "number of its chunks"})
    n_sentences = fields.Integer(required=True)
    coverage = fields.Float(required=True, metadata={"description": "known words / words, 0 to 1"})
    content_hash = fields.String(
        required=True,
        metadata={
            "description": "SHA-256 of the content's UTF-8; unless `chunk_tokens` is `any`, also of how it "
            "is cut"
        },
    )
    metadata = fields.Dict(required=True, metadata={"description": "as it was uploaded"})
    chunk_tokens = fields.String(
        required=True,
        metadata={"description": "what it is cut with: `any`, a range of tokens, or `given` by its caller"},
    )
    created_at = Moment(required=True)
    updated_at = Moment(required=True)


class DocumentListSchema(Schema):
    documents = fields.List(
        fields.Nested(DocumentSchema), required=True, metadata={"description": "a page of documents, by id"}
    )
    total = fields.Integer(required=True, metadata={"description": "on all pages"})


class DocumentQuerySchema(PageSchema):
    sort = fields.String(
        load_default=DocumentSort.oldest.value,
        validate=validate.OneOf([each.value for each in DocumentSort]),
        metadata={"description": "order by when they were stored; `-created`: the newest first"},
    )
    tag = fields.String(metadata={"description": "only documents with this tag"})
    q = fields.String(metadata={"description": "only documents with this in title or source path"})
    source_path = fields.String(
        metadata={"description": "only documents with exactly this source path; finds the id for a path"}
    )
    file_type = fields.String(
        metadata={"description": ABOUT_FILTERS["file_type"].replace("chunks of documents", "documents")}
    )
    filter = fields.String(
        metadata={"description": ABOUT_FILTER.replace("result", "document") + ", over fields of documents"}
    )


class DeletionQuerySchema(Schema):
    tag = fields.String(
        validate=validate.Length(min=1, error="must not be empty"),
        metadata={"description": "only documents with this tag; this or `filter` is required"},
    )
    filter = fields.String(
        metadata={"description": "only documents that meet this, over fields of documents"},
    )
    dry_run = fields.Boolean(
        load_default=False,
        metadata={"description": "only say how many documents would be deleted, and which are the first"},
    )


class NamedDocumentSchema(Schema):
    """A document by its names."""

    id = fields.Integer(required=True, metadata={"description": "id of the document"})
    title = fields.String(required=True, metadata={"description": "its title"})
    source_path = fields.String(
        required=True, allow_none=True, metadata={"description": "where it came from; null if unknown"}
    )


class DeletionSchema(Schema):
    """What a deletion would delete."""

    n_documents = fields.Integer(required=True, metadata={"description": "documents that are meant"})
    documents = Records(
        NamedDocumentSchema, required=True, metadata={"description": "the first of them by id, at most 100"}
    )


class TagsSchema(Schema):
    tags = BoundedList(
        fields.String(),
        required=True,
        metadata={"description": "all tags of the document, in place of the old ones"},
    )


class SectionSchema(Schema):
    section_index = fields.Integer(required=True)
    level = fields.Integer(required=True, metadata={"description": "0 before the first heading"})
    path = fields.List(fields.String(), required=True, metadata={"description": "headings, outermost first"})
    heading_start = fields.Integer(
        required=True,
        metadata={
            "description": "where its heading begins in the content; equal to `heading_end` without a heading"
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
        required=True,
        metadata={
            "description": "`heading`, `front matter`, `rule`, `comment`, `link definition` or `boilerplate`"
        },
    )


class RemovedSchema(Schema):
    """Text of a file that is not in the content."""

    reason = fields.String(
        required=True, metadata={"description": "such as `navigation`, `page number` or `repeated header`"}
    )
    text = fields.String(required=True, metadata={"description": "its beginning"})
    times = fields.Integer(required=True, metadata={"description": "how often it was removed"})


class ReportSchema(Schema):
    left_out = Records(
        LeftOutSchema,
        required=True,
        metadata={
            "description": "spans of the text that are in no chunk: all headings and the first 1,000 others"
        },
    )
    n_left_out = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        required=True,
        metadata={"description": "number of all such spans, by reason"},
    )
    warnings = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "problems of the text, such as a guessed encoding"},
    )
    removed = Records(
        RemovedSchema, required=True, metadata={"description": "text of its file that is not in the content"}
    )


class DocumentFileSchema(Schema):
    """The file that a document was converted from."""

    kind = fields.String(required=True, metadata={"description": "such as `pdf`"})
    name = fields.String(required=True, metadata={"description": "without folders; may be empty"})
    n_bytes = fields.Integer(required=True, metadata={"description": "size of the file"})
    file_hash = fields.String(required=True, metadata={"description": "SHA-256 of the file"})
    is_kept = fields.Boolean(
        required=True, metadata={"description": "whether `GET /documents/{document_id}/file` returns it"}
    )


class LabelSchema(Schema):
    """A reef that a chunk is about."""

    reef_id = fields.Integer(required=True)
    reef_name = fields.String(required=True)
    probability = fields.Float(required=True)


class FilePlaceSchema(Schema):
    """The place of a passage in the file that its document was converted from."""

    kind = fields.String(required=True, metadata={"description": f"one of {', '.join(LocatorKind)}"})
    name = fields.String(
        required=True,
        metadata={"description": "printed page label, sheet, chapter, subject or speaker; may be empty"},
    )
    first = fields.Float(
        required=True, metadata={"description": "number from 1, or seconds if `kind` is `time`"}
    )
    last = fields.Float(required=True, metadata={"description": "the same of its end, inclusive"})
    label = fields.String(required=True, metadata={"description": "in words, such as `page 12`"})


class ChunkSummarySchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the chunk"})
    chunk_index = fields.Integer(required=True)
    section_path = fields.List(fields.String(), required=True)
    start_char = fields.Integer(required=True)
    end_char = fields.Integer(required=True)
    start_line = fields.Integer(required=True)
    end_line = fields.Integer(required=True)
    place = Record(FilePlaceSchema, required=True, allow_none=True)
    modality = fields.String(required=True)
    time_start = fields.String(required=True, allow_none=True)
    time_end = fields.String(required=True, allow_none=True)
    confidence = fields.Float(required=True)
    coverage = fields.Float(required=True)
    top_reef_name = fields.String(required=True, allow_none=True)
    labels = Records(LabelSchema, required=True)
    awaits_rescore = fields.Boolean(required=True)


class LinksSchema(Schema):
    self = fields.String(required=True)
    chunks = fields.String(required=True, metadata={"description": "URL of its chunks"})
    content = fields.String(required=True, metadata={"description": "URL of its text"})


class DocumentDetailSchema(DocumentSchema):
    sections = Records(SectionSchema, required=True, metadata={"description": "in text order"})
    report = fields.Nested(
        ReportSchema,
        required=True,
        metadata={"description": "why parts of the text are in no chunk, and warnings"},
    )
    file = fields.Nested(
        DocumentFileSchema,
        required=True,
        allow_none=True,
        metadata={"description": "what it was converted from; null for a document sent as text"},
    )
    chunks = Records(
        ChunkSummarySchema,
        required=True,
        metadata={"description": "the first 100, without text and reefs; `links.chunks` lists all"},
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
        required=True, metadata={"description": "sum of the contributions of the chunk's words to the reef"}
    )
    n_contributing_words = fields.Integer(
        required=True, metadata={"description": "number of different words that contribute to it"}
    )
    probability = fields.Float(required=True)


class ChunkIslandSchema(Schema):
    island_id = fields.Integer(required=True)
    island_name = fields.String(required=True)
    aggregate_z = fields.Float(
        required=True, metadata={"description": "how far the island stands out, from its reefs together"}
    )
    n_contributing_reefs = fields.Integer(
        required=True, metadata={"description": "number of the chunk's reefs on the island"}
    )


class ChunkSchema(ChunkSummarySchema):
    document_id = fields.Integer(required=True)
    section_index = fields.Integer(required=True)
    text = fields.String(required=True, metadata={"description": "content[start_char:end_char]"})
    content_hash = fields.String(
        required=True, metadata={"description": "SHA-256 of the UTF-8 of `text`, in hex"}
    )
    sentence_count = fields.Integer(required=True)
    matched_words = fields.Integer(required=True)
    arch_scores = fields.List(
        fields.Float(),
        required=True,
        metadata={"description": "scores of the four archipelagos, by id"},
    )
    top_reef_id = fields.Integer(required=True, allow_none=True)
    vocabulary_version = fields.Integer(required=True)
    data_checksum = fields.String(required=True)
    reefs = Records(ChunkReefSchema, required=True, metadata={"description": "by z-score, highest first"})
    islands = Records(ChunkIslandSchema, required=True, metadata={"description": "strongest first"})


class ContextChunkSchema(Schema):
    """A neighbouring chunk, with its position."""

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
        metadata={"description": "number of chunks before and after it to return as `before` and `after`"},
    )


class ChunkDetailSchema(ChunkSchema):
    document = fields.Nested(DocumentSchema, required=True, metadata={"description": "its document"})
    before = Records(ContextChunkSchema, required=True, metadata={"description": "with `context`"})
    after = Records(ContextChunkSchema, required=True, metadata={"description": "with `context`"})


class ChunkListSchema(Schema):
    chunks = Records(
        ChunkSchema,
        required=True,
        metadata={"description": "a page of chunks, in text order"},
    )
    total = fields.Integer(required=True, metadata={"description": "on all pages"})


class ContentSchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the document"})
    content = fields.String(required=True, metadata={"description": "its text as it is stored"})
