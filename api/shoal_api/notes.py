"""Notes of owners: add, list, change, judge, pin, search and explain them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import flask
from werkzeug.wrappers import Response

from shoal.notes.drafts import make_draft
from shoal.notes.notes import OwnerNotes
from shoal_api import access, idempotency, service
from shoal_api.openapi import Blueprint
from shoal_api.paths import ID, NOTES
from shoal_api.schemas.note_examples import ADDED_NOTE_EXAMPLES, NOTE_EXAMPLES, NOTE_SEARCH_EXAMPLES
from shoal_api.schemas.notes import (
    DEFAULT_OWNER,
    AddedNoteSchema,
    CategoriesSchema,
    CategorizeSchema,
    FeedbackInputSchema,
    FeedbackListSchema,
    HistorySchema,
    NewNoteSchema,
    NoteChangesSchema,
    NoteExplainSchema,
    NoteExplanationSchema,
    NoteListSchema,
    NoteQuerySchema,
    NoteResponseSchema,
    NoteSchema,
    NoteSearchSchema,
    NoteStatusSchema,
    OwnerQuerySchema,
    PinnedSchema,
    PinNoteSchema,
    PurgedSchema,
    PurgeSchema,
    ReasonSchema,
    RestoreSchema,
    ShownSchema,
)

Json = dict[str, Any]

blueprint = Blueprint("notes", __name__, url_prefix=NOTES, description="Short texts that agents remember")


def notes_of(query: Mapping[str, Any], data: Json | None = None) -> OwnerNotes:
    """Return the notes of the owner that a request names, and remove the owner from its body.

    Raises a 422 problem if query parameter and body name different owners, and a 403 problem if the key may
    not name this one.
    """
    owner = access.owner_of(access.named_owner(query, {} if data is None else data), DEFAULT_OWNER)
    return service.current().engine.notes.of(owner)


@blueprint.post("")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.body(NewNoteSchema)
@blueprint.responds(201, AddedNoteSchema, description="Stored", examples=ADDED_NOTE_EXAMPLES)
@blueprint.also_responds(
    200, schema=AddedNoteSchema, description="The owner has the text already; it was counted", success=True
)
@blueprint.fails(404, 409, 503)
@blueprint.describe(parameters=[idempotency.NOTES_PARAMETER])
def add_note(query: Json, data: Json) -> Response:
    """Add a note

    `similar` warns of notes that say nearly the same, or the opposite. A text that is stored already is
    counted again instead, so that a repeated request stores nothing twice. With an idempotency key, a
    repeated request is not counted either; it returns 404 if the note was purged since.
    """
    notes = notes_of(query, data)
    key = idempotency.key(flask.request)
    if key is None:
        added = notes.add(**data)
    else:
        request_hash = idempotency.fingerprint("note", {"owner": notes.owner, **data})
        added = notes.once(key, request_hash).add(make_draft(service.current().settings, data))
    response = flask.jsonify(AddedNoteSchema().dump(added))
    response.status_code = 200 if added.is_duplicate else 201
    response.headers["Location"] = f"{NOTES}/{added.note.id}?{urlencode({'owner': notes.owner})}"
    return response


@blueprint.get("")
@blueprint.parameters(NoteQuerySchema)
@blueprint.responds(200, NoteListSchema)
def list_notes(query: Json) -> Any:
    """List notes"""
    return notes_of({"owner": query.pop("owner", None)}).list(**query)


@blueprint.get("/categories")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.responds(200, CategoriesSchema)
def list_note_categories(query: Json) -> Json:
    """List categories with their numbers of notes"""
    return {"categories": notes_of(query).categories()}


@blueprint.get("/status")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.responds(200, NoteStatusSchema)
def get_note_status(query: Json) -> Any:
    """Count notes"""
    return notes_of(query).status()


@blueprint.post("/search")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.body(NoteSearchSchema)
@blueprint.responds(200, NoteResponseSchema, examples=NOTE_SEARCH_EXAMPLES)
@blueprint.fails(503)
def search_notes(query: Json, data: Json) -> Any:
    """Search notes

    The best notes for a question, a prompt or a command. Notes whose prerequisites do not hold in the
    environment, or that were judged not applicable there, are left out.
    """
    notes = notes_of(query, data)
    return notes.search(data.pop("query"), **data)


@blueprint.post("/pinned")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.body(PinnedSchema)
@blueprint.responds(200, NoteListSchema)
def list_pinned_notes(query: Json, data: Json) -> Json:
    """List the pinned notes that apply to an environment"""
    pinned = notes_of(query, data).pinned(data["environment"])
    return {"notes": pinned, "total": len(pinned)}


@blueprint.post("/shown")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.body(ShownSchema)
@blueprint.responds(204)
@blueprint.fails(404)
def record_shown_notes(query: Json, data: Json) -> Response:
    """Record that a session was shown notes

    A search of this session leaves them out from now on. A note that is shown often enough in an environment
    is pinned there.
    """
    notes = notes_of(query, data)
    notes.record_shown(data.pop("session_id"), data.pop("note_ids"), **data)
    return Response(status=204)


@blueprint.post("/purge")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.body(PurgeSchema)
@blueprint.responds(200, PurgedSchema)
def purge_notes(query: Json, data: Json) -> Json:
    """Delete deprecated notes for good"""
    before = data.pop("before", None)
    notes = notes_of(query, data)
    return {"n_purged": notes.purge(before=None if before is None else dt.datetime.fromisoformat(before))}


@blueprint.get(f"/<{ID}:note_id>")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.responds(200, NoteSchema, examples=NOTE_EXAMPLES)
@blueprint.fails(404)
def get_note(query: Json, note_id: int) -> Any:
    """Get a note with its evidence"""
    return notes_of(query).get(note_id)


@blueprint.patch(f"/<{ID}:note_id>")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.body(NoteChangesSchema)
@blueprint.responds(200, NoteSchema)
@blueprint.fails(404)
def update_note(query: Json, data: Json, note_id: int) -> Any:
    """Change fields of a note"""
    return notes_of(query, data).update(note_id, **data)


@blueprint.get(f"/<{ID}:note_id>/history")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.responds(200, HistorySchema)
@blueprint.fails(404)
def get_note_history(query: Json, note_id: int) -> Json:
    """List the changes of a note"""
    return {"history": notes_of(query).history(note_id)}


@blueprint.get(f"/<{ID}:note_id>/feedback")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.responds(200, FeedbackListSchema)
@blueprint.fails(404)
def list_note_feedback(query: Json, note_id: int) -> Json:
    """List the judgements of a note"""
    return {"feedback": notes_of(query).feedbacks(note_id)}


@blueprint.post(f"/<{ID}:note_id>/feedback")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.body(FeedbackInputSchema)
@blueprint.responds(200, NoteSchema)
@blueprint.fails(404)
def add_note_feedback(query: Json, data: Json, note_id: int) -> Any:
    """Judge whether a note was applicable

    Changes its relevance for the tags of the environment, and maybe its pin.
    """
    return notes_of(query, data).feedback(note_id, **data)


@blueprint.post(f"/<{ID}:note_id>/deprecate")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.body(ReasonSchema)
@blueprint.responds(200, NoteSchema)
@blueprint.fails(404)
def deprecate_note(query: Json, data: Json, note_id: int) -> Any:
    """Hide a note from searches and pins

    `restore` takes this back, until a purge. The body may be left out.
    """
    return notes_of(query, data).deprecate(note_id, **data)


CONFLICT = "An active note has the same text, or a deprecated note cannot be pinned"


@blueprint.post(f"/<{ID}:note_id>/restore")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.body(RestoreSchema)
@blueprint.responds(200, NoteSchema)
@blueprint.conflicts(CONFLICT)
@blueprint.fails(404)
def restore_note(query: Json, data: Json, note_id: int) -> Any:
    """Make a deprecated note active again

    The body may be left out.
    """
    return notes_of(query, data).restore(note_id)


@blueprint.put(f"/<{ID}:note_id>/pin")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.body(PinNoteSchema)
@blueprint.responds(200, NoteSchema)
@blueprint.conflicts(CONFLICT)
@blueprint.fails(404)
def pin_note(query: Json, data: Json, note_id: int) -> Any:
    """Pin a note

    It is shown at the start of every session whose environment has all `tags`. The body may be left out.
    """
    return notes_of(query, data).pin(note_id, **data)


@blueprint.delete(f"/<{ID}:note_id>/pin")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.responds(200, NoteSchema)
@blueprint.fails(404)
def unpin_note(query: Json, note_id: int) -> Any:
    """Take the pin of a note back"""
    return notes_of(query).unpin(note_id)


@blueprint.patch(f"/<{ID}:note_id>/categories")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.body(CategorizeSchema)
@blueprint.responds(200, NoteSchema)
@blueprint.fails(404)
def categorize_note(query: Json, data: Json, note_id: int) -> Any:
    """Add a note to categories, and remove it from others"""
    return notes_of(query, data).categorize(note_id, **data)


@blueprint.post(f"/<{ID}:note_id>/explain")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.body(NoteExplainSchema)
@blueprint.responds(200, NoteExplanationSchema)
@blueprint.fails(404, 503)
def explain_note(query: Json, data: Json, note_id: int) -> Any:
    """Explain step by step why a note is shown for a query, or why not"""
    notes = notes_of(query, data)
    return notes.explain(note_id, data.pop("query"), **data)
