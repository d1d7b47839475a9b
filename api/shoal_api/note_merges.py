"""Duplicates among notes: compare, decide on proposals, merge and undo."""

from __future__ import annotations

from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal_api import idempotency, service
from shoal_api.jobs import accepted
from shoal_api.notes import notes_of
from shoal_api.openapi import Blueprint
from shoal_api.paths import ID, NOTES
from shoal_api.schemas.jobs import AcceptedSchema
from shoal_api.schemas.note_merges import (
    AcceptSchema,
    MergeListSchema,
    MergeProposalSchema,
    MergeQuerySchema,
    NewDedupSchema,
    NewMergeSchema,
    NoteMergeSchema,
    ProposalListSchema,
    ProposalQuerySchema,
    RejectSchema,
    UndoSchema,
)
from shoal_api.schemas.notes import OwnerQuerySchema

Json = dict[str, Any]

blueprint = Blueprint("note merges", __name__, url_prefix=NOTES, description="Notes that say the same")

CONFLICT = "The state of a note, proposal or merge does not allow it; the message says why"


@blueprint.post("/dedup")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.body(NewDedupSchema)
@blueprint.responds(202, AcceptedSchema)
@blueprint.fails(409)
@blueprint.describe(parameters=[idempotency.PARAMETER])
def dedup_notes(query: Json, data: Json) -> Response:
    """Find duplicates among notes

    Starts a job that compares the notes that wait with the others. Similar notes become proposals; with a
    chat endpoint (`SHOAL_LLM_URL`), it decides, and what is in doubt becomes a proposal. While a job for the
    owner is open, the same job is returned. The body may be left out.
    """
    here = service.current()
    owner = notes_of(query, data).owner
    key = idempotency.key(flask.request)
    job = here.engine.jobs.submit_dedup(
        owner,
        recheck=data.get("recheck", False),
        idempotency_key=key,
        request_hash=idempotency.fingerprint("dedup", {"owner": owner, **data}),
    )
    here.notify()
    return accepted(job)


@blueprint.get("/proposals")
@blueprint.parameters(ProposalQuerySchema)
@blueprint.responds(200, ProposalListSchema)
def list_merge_proposals(query: Json) -> Any:
    """List proposals to merge notes"""
    return notes_of({"owner": query.pop("owner", None)}).proposals(**query)


@blueprint.post(f"/proposals/<{ID}:proposal_id>/accept")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.body(AcceptSchema)
@blueprint.responds(200, MergeProposalSchema)
@blueprint.conflicts(CONFLICT)
@blueprint.fails(404)
def accept_merge_proposal(query: Json, data: Json, proposal_id: int) -> Any:
    """Merge the notes of a proposal

    A proposal whose texts may contradict each other needs a `canonical_text`. Otherwise the body may be left
    out.
    """
    return notes_of(query, data).decide(proposal_id, True, **data)


@blueprint.post(f"/proposals/<{ID}:proposal_id>/reject")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.body(RejectSchema)
@blueprint.responds(200, MergeProposalSchema)
@blueprint.conflicts(CONFLICT)
@blueprint.fails(404)
def reject_merge_proposal(query: Json, data: Json, proposal_id: int) -> Any:
    """Reject a proposal to merge notes

    No two of its notes are proposed together again, nor merged by a chat endpoint. The body may be left out.
    """
    return notes_of(query, data).decide(proposal_id, False, **data)


@blueprint.get("/merges")
@blueprint.parameters(MergeQuerySchema)
@blueprint.responds(200, MergeListSchema)
@blueprint.fails(404)
def list_note_merges(query: Json) -> Any:
    """List merges of notes, newest first"""
    return notes_of({"owner": query.pop("owner", None)}).merges(**query)


@blueprint.post("/merges")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.body(NewMergeSchema)
@blueprint.responds(201, NoteMergeSchema, description="Merged")
@blueprint.conflicts(CONFLICT)
@blueprint.fails(404)
def merge_notes(query: Json, data: Json) -> Any:
    """Merge notes that say the same

    One note survives with the evidence of all; the others are deprecated.
    """
    notes = notes_of(query, data)
    return notes.merge(data.pop("note_ids"), **data)


@blueprint.post(f"/merges/<{ID}:merge_id>/undo")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.body(UndoSchema)
@blueprint.responds(200, NoteMergeSchema)
@blueprint.conflicts(CONFLICT)
@blueprint.fails(404)
def undo_note_merge(query: Json, data: Json, merge_id: int) -> Any:
    """Undo a merge of notes

    The absorbed notes are active again, and the survivor is as it was, with the evidence since. These notes
    are not proposed together again. The body may be left out.
    """
    return notes_of(query, data).undo_merge(merge_id)
