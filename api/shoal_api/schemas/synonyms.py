"""Schemas of synonyms and acronyms."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal.library.synonyms import MAX_CHARS, MAX_GROUP, MAX_SYNONYMS
from shoal.storage.synonym_records import AcronymStatus
from shoal_api.schemas.common import BoundedList, Moment, PageSchema, Records, Schema, StrictBoolean, between
from shoal_api.schemas.notes import MaybeAbsentSchema

MAX_SCAN_SECONDS = 30

ROOT = "the word or phrase that also finds the others; null: each of them finds the others"
WORDS = f"words and phrases, up to {MAX_GROUP}, of up to {MAX_CHARS} characters each"


class SynonymQuerySchema(PageSchema):
    q = fields.String(
        validate=validate.Length(max=MAX_CHARS),
        metadata={"description": "only entries with a word that contains this"},
    )


class NewSynonymSchema(Schema):
    """Words that a search takes for each other."""

    root = fields.String(allow_none=True, load_default=None, metadata={"description": ROOT})
    synonyms = BoundedList(
        fields.String(), max_items=MAX_GROUP, required=True, metadata={"description": WORDS}
    )


class SynonymSchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the entry"})
    root = fields.String(required=True, allow_none=True, metadata={"description": ROOT})
    synonyms = fields.List(fields.String(), required=True, metadata={"description": WORDS})
    created_at = Moment(required=True)
    updated_at = Moment(required=True)


class SynonymListSchema(Schema):
    synonyms = Records(SynonymSchema, required=True, metadata={"description": "a page of entries, by id"})
    total = fields.Integer(required=True, metadata={"description": "on all pages"})


class ExportedSynonymSchema(Schema):
    root = fields.String(metadata={"description": "absent if each word finds the others"})
    synonyms = fields.List(fields.String(), required=True, metadata={"description": WORDS})


class SynonymExportSchema(Schema):
    synonyms = fields.List(
        fields.Nested(ExportedSynonymSchema), required=True, metadata={"description": "all entries, by id"}
    )


class SynonymImportSchema(Schema):
    """Entries of an export."""

    synonyms = BoundedList(
        fields.Dict(keys=fields.String()),
        max_items=MAX_SYNONYMS,
        required=True,
        metadata={"description": "objects with `synonyms`, and with `root` if only that finds the others"},
    )
    replace = StrictBoolean(
        load_default=False, metadata={"description": "delete all former entries first; default false"}
    )


class SynonymImportedSchema(Schema):
    stored = fields.Integer(required=True, metadata={"description": "number of new entries"})
    duplicates = fields.Integer(required=True, metadata={"description": "number that were there already"})
    refused = fields.List(
        fields.String(),
        required=True,
        metadata={"description": "entries that contradict others, with the reasons; the first 100"},
    )


class AcronymQuerySchema(PageSchema):
    status = fields.String(
        load_default=AcronymStatus.proposed.value,
        validate=validate.OneOf([each.value for each in AcronymStatus]),
        metadata={"description": "only those with this status; default `proposed`"},
    )
    acronym = fields.String(
        validate=validate.Length(max=MAX_CHARS), metadata={"description": "only this acronym, in any case"}
    )


class AcronymSchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the pair"})
    acronym = fields.String(required=True, metadata={"description": "such as `WHO`"})
    expansion = fields.String(required=True, metadata={"description": "such as `World Health Organization`"})
    status = fields.String(required=True, metadata={"description": "`proposed`, `confirmed` or `rejected`"})
    n_documents = fields.Integer(
        required=True, metadata={"description": "number of documents that define it so"}
    )
    synonym_id = fields.Integer(
        required=True, allow_none=True, metadata={"description": "the entry that its confirmation made"}
    )
    document_id = fields.Integer(
        required=True, allow_none=True, metadata={"description": "a document that defines it; null if none"}
    )
    start_char = fields.Integer(
        required=True, allow_none=True, metadata={"description": "where its definition begins there"}
    )
    end_char = fields.Integer(
        required=True, allow_none=True, metadata={"description": "where its definition ends there"}
    )


class AcronymListSchema(Schema):
    acronyms = Records(
        AcronymSchema, required=True, metadata={"description": "a page, those in most documents first"}
    )
    total = fields.Integer(required=True, metadata={"description": "on all pages"})
    n_unscanned = fields.Integer(
        required=True, metadata={"description": "documents that no scan has read since they were stored"}
    )


class ScanSchema(MaybeAbsentSchema):
    """How long to scan."""

    max_seconds = fields.Integer(
        strict=True,
        load_default=10,
        validate=between(1, MAX_SCAN_SECONDS),
        metadata={"description": f"1 to {MAX_SCAN_SECONDS}, default 10; another scan goes on"},
    )


class ScannedSchema(Schema):
    scanned = fields.Integer(required=True, metadata={"description": "number of documents read"})
    new = fields.Integer(required=True, metadata={"description": "number of new proposals"})
    n_unscanned = fields.Integer(required=True, metadata={"description": "documents that are left to scan"})
