"""The owner of notes as a query parameter, where it is not one of the declared arguments."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal.declared.operations.notes import NoteOperations
from shoal_api.schemas.common import Schema

MAX_OWNER_CHARS = 200


class OwnerQuerySchema(Schema):
    """The owner as a query parameter."""

    owner = fields.String(metadata={"description": NoteOperations.note.arguments["owner"].about})


class HookOwnerSchema(Schema):
    owner = fields.String(
        load_default=None,
        validate=validate.Length(1, MAX_OWNER_CHARS),
        metadata={"description": "whose notes; default: `SHOAL_NOTE_OWNER` of the service"},
    )
