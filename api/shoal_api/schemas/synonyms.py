"""Schemas of synonyms and acronyms."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal.library.synonyms import MAX_CHARS, MAX_GROUP, MAX_SYNONYMS
from shoal.models.synonyms import (
    Acronym,
    AcronymPage,
    AcronymScan,
    AcronymStatus,
    Synonym,
    SynonymImport,
    SynonymPage,
)
from shoal_api.schemas.common import BoundedList, PageSchema, Schema, StrictBoolean, between
from shoal_api.schemas.notes import MaybeAbsentSchema
from shoal_api.schemas.records import record_schema

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


class AcronymQuerySchema(PageSchema):
    status = fields.String(
        load_default=AcronymStatus.proposed.value,
        validate=validate.OneOf([each.value for each in AcronymStatus]),
        metadata={"description": "only those with this status; default `proposed`"},
    )
    acronym = fields.String(
        validate=validate.Length(max=MAX_CHARS), metadata={"description": "only this acronym, in any case"}
    )


class ScanSchema(MaybeAbsentSchema):
    """How long to scan."""

    max_seconds = fields.Integer(
        strict=True,
        load_default=10,
        validate=between(1, MAX_SCAN_SECONDS),
        metadata={"description": f"1 to {MAX_SCAN_SECONDS}, default 10; another scan goes on"},
    )


SynonymSchema = record_schema(Synonym)
SynonymListSchema = record_schema(SynonymPage, "SynonymList")
SynonymImportedSchema = record_schema(SynonymImport, "SynonymImported")
AcronymSchema = record_schema(Acronym)
AcronymListSchema = record_schema(AcronymPage, "AcronymList")
ScannedSchema = record_schema(AcronymScan, "Scanned")
