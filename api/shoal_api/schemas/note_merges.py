"""Schemas of duplicates and merges of notes."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal.models.notes import DECIDED_BY, PROPOSAL_STATUSES
from shoal.notes.merging import AGENT, MAX_MERGED, PERSON
from shoal_api.schemas.common import (
    MAX_ID,
    BoundedList,
    Moment,
    PageSchema,
    Records,
    Schema,
    StrictBoolean,
    StrictFloat,
    between,
    stated,
)
from shoal_api.schemas.notes import MaybeAbsentSchema, OwnedSchema, OwnerQuerySchema

CANONICAL = (
    "the text of the merged note; required if notes may contradict each other. Default: the proposed text, "
    "else that of the note that survives"
)


def _decided_by() -> fields.String:
    return fields.String(
        validate=validate.OneOf([PERSON, AGENT]),
        metadata={"description": f"who decides; default `{PERSON}`"},
    )


class NewDedupSchema(MaybeAbsentSchema):
    """What to compare."""

    recheck = StrictBoolean(
        metadata={"description": "also compare notes that were compared before; default false"}
    )


class ProposalQuerySchema(PageSchema, OwnerQuerySchema):
    status = fields.String(
        validate=validate.OneOf(PROPOSAL_STATUSES),
        metadata={"description": "only proposals with this status; default `open`"},
    )


class ProposedNoteSchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the note"})
    text = fields.String(required=True, metadata={"description": "its text; empty if it was purged"})


class MergeProposalSchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the proposal"})
    notes = Records(
        ProposedNoteSchema, required=True, metadata={"description": "the notes that may say the same, by id"}
    )
    similarity = fields.Float(required=True, metadata={"description": "of the least similar pair, 0 to 1"})
    is_opposite = fields.Boolean(
        required=True,
        metadata={
            "description": "whether the texts may contradict each other; then the text that holds must be "
            "given to accept it"
        },
    )
    canonical_text = fields.String(
        required=True,
        metadata={"description": "proposed text; empty: that of the note that survives"},
    )
    confidence = fields.Float(
        required=True,
        allow_none=True,
        metadata={"description": "of the chat endpoint, 0 to 1; null if it was not asked"},
    )
    reason = fields.String(
        required=True, metadata={"description": "why the chat endpoint's judgement is in doubt, or empty"}
    )
    status = fields.String(
        required=True,
        validate=validate.OneOf(PROPOSAL_STATUSES),
        metadata={"description": "`outdated`: a note was changed, merged or deprecated since"},
    )
    created_at = Moment(required=True, metadata={"description": "when it was made, UTC in ISO 8601"})
    decided_at = Moment(required=True, allow_none=True, metadata={"description": "null while it is open"})


class ProposalListSchema(Schema):
    proposals = Records(
        MergeProposalSchema, required=True, metadata={"description": "a page of proposals, by id"}
    )
    total = fields.Integer(required=True, metadata={"description": "on all pages"})


class AcceptSchema(MaybeAbsentSchema):
    """How to merge the notes of a proposal."""

    canonical_text = fields.String(metadata={"description": CANONICAL})
    decided_by = _decided_by()


class RejectSchema(MaybeAbsentSchema):
    """A rejection, which has no options."""


class NewMergeSchema(OwnedSchema):
    """Notes to merge."""

    note_ids = BoundedList(
        fields.Integer(strict=True),
        required=True,
        metadata={"description": f"2 to {MAX_MERGED} active notes that say the same"},
    )
    canonical_text = fields.String(metadata={"description": CANONICAL})
    confidence = StrictFloat(metadata=stated(0, 1, "how sure you are; default 1"))
    reason = fields.String(metadata={"description": "for the log; default empty"})
    decided_by = _decided_by()


class UndoSchema(MaybeAbsentSchema):
    """An undo, which has no options."""


class MergeQuerySchema(PageSchema, OwnerQuerySchema):
    note_id = fields.Integer(
        validate=between(1, MAX_ID), metadata={"description": "only merges of this note"}
    )


class NoteMergeSchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the merge"})
    run_id = fields.String(required=True, metadata={"description": "the same for the merges of one run"})
    survivor_id = fields.Integer(
        required=True, metadata={"description": "the note that has the text and the evidence of all"}
    )
    absorbed_ids = fields.List(
        fields.Integer(), required=True, metadata={"description": "the notes that it absorbed; deprecated"}
    )
    canonical_text = fields.String(required=True, metadata={"description": "text of the merged note"})
    confidence = fields.Float(required=True, metadata={"description": "of the decision, 0 to 1"})
    reason = fields.String(required=True, metadata={"description": "for the decision; may be empty"})
    decided_by = fields.String(
        required=True, validate=validate.OneOf(DECIDED_BY), metadata={"description": "who decided"}
    )
    created_at = Moment(required=True, metadata={"description": "when, UTC in ISO 8601"})
    undone_at = Moment(required=True, allow_none=True, metadata={"description": "null unless it was undone"})


class MergeListSchema(Schema):
    merges = Records(
        NoteMergeSchema, required=True, metadata={"description": "a page of merges, newest first"}
    )
    total = fields.Integer(required=True, metadata={"description": "on all pages"})
