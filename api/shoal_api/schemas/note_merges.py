"""Schemas of duplicates and merges of notes."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal.declared.arguments import MAX_ID
from shoal.models.notes import (
    PROPOSAL_STATUSES,
    MergePage,
    MergeProposal,
    NoteMerge,
    ProposalPage,
)
from shoal.notes.merging import AGENT, MAX_MERGED, PERSON
from shoal_api.schemas.common import (
    BoundedList,
    PageSchema,
    StrictBoolean,
    StrictFloat,
    between,
    stated,
)
from shoal_api.schemas.notes import MaybeAbsentSchema, OwnedSchema, OwnerQuerySchema
from shoal_api.schemas.records import record_schema

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


MergeProposalSchema = record_schema(MergeProposal)
ProposalListSchema = record_schema(ProposalPage, "ProposalList")
NoteMergeSchema = record_schema(NoteMerge)
MergeListSchema = record_schema(MergePage, "MergeList")
