"""Schema of the query parameters of bulk uploads."""

from __future__ import annotations

from marshmallow import fields

from shoal.models.documents import DocFormat
from shoal.models.jobs import OnConflict
from shoal_api.schemas.common import CommaList, Schema


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
    format = fields.String(
        metadata={
            "enum": [each.value for each in DocFormat],
            "description": "for all files; default: from the name of each file; for archives only",
        }
    )
