"""Notes of owners, one at a time and many at once, and their duplicates."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

import flask
from marshmallow import fields
from werkzeug.wrappers import Response

from shoal.declared.notes import DEFAULT_OWNER, MAX_NOTES
from shoal.declared.operations.notes import NoteMergeOperations as Merges
from shoal.declared.operations.notes import NoteOperations as Notes
from shoal.declared.operations.notes import OtherNoteOperations as Others
from shoal.errors import NoteError
from shoal.models.notes import AddedNote, NoteOutcomes
from shoal.notes.drafts import make_draft
from shoal.notes.notes import OwnerNotes
from shoal_api import access, idempotency, strict_json
from shoal_api.jobs import accepted
from shoal_api.limits import MAX_JSON_BYTES, max_beside_content
from shoal_api.openapi import Blueprint, check_charset
from shoal_api.paths import NOTES
from shoal_api.problems import ProblemError, field_problem
from shoal_api.schemas.common import StrictFloat, between
from shoal_api.schemas.examples import ADDED_NOTE_EXAMPLES, NOTE_EXAMPLES, NOTE_SEARCH_EXAMPLES
from shoal_api.schemas.records import record_schema
from shoal_api.service import current, engine

Json = dict[str, Any]

LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl")

BODY = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/AddNoteRequest"},
                "description": f"up to {MAX_NOTES:,} notes, in up to 1 MiB",
            }
        },
        LINES[0]: {
            "schema": {
                "type": "string",
                "description": "one note per line, as in `POST /notes`; up to "
                f"{MAX_NOTES:,} notes in up to 16 MiB",
            }
        },
    },
}

blueprint = Blueprint("notes", __name__, description="Short texts that agents remember")
bulk = Blueprint("bulk notes", __name__, description="Many notes in one request")
merges = Blueprint("note merges", __name__, description="Notes that say the same")


_tag_scores = functools.partial(
    fields.Dict, keys=fields.String(), values=StrictFloat(validate=between(-1, 1))
)


def notes_of(query: Json, data: Json | None = None) -> OwnerNotes:
    """Return the notes of the owner that a request names, and remove the owner from its body.

    Raises a 422 problem if query parameter and body name different owners, and a 403 problem if the key may
    not name this one.
    """
    owner = access.owner_of(access.named_owner(query, {} if data is None else data), DEFAULT_OWNER)
    return engine().notes.of(owner)


@blueprint.serves(Notes.add_note, examples=ADDED_NOTE_EXAMPLES)
@blueprint.also_responds(
    200, record_schema(AddedNote), description="The owner has the text already; it was counted", success=True
)
def add_note(query: Json, data: Json) -> Response:
    notes = notes_of(query, data)
    key = idempotency.key(flask.request)
    if key is None:
        added = notes.add(**data)
    else:
        request_hash = idempotency.fingerprint("note", {"owner": notes.owner, **data})
        added = notes.once(key, request_hash).add(make_draft(current().settings, data))
    response = flask.jsonify(record_schema(AddedNote)().dump(added))
    response.status_code = 200 if added.is_duplicate else 201
    response.headers["Location"] = f"{NOTES}/{added.note.id}?{urlencode({'owner': notes.owner})}"
    return response


def _pinned(notes: OwnerNotes) -> Callable[..., Json]:
    def pinned(environment: Mapping[str, Any] | None = None) -> Json:
        found = notes.pinned(environment or {})
        return {"notes": found, "total": len(found)}

    return pinned


def _purge(notes: OwnerNotes) -> Callable[..., int]:
    return lambda before=None: notes.purge(before=before and dt.datetime.fromisoformat(before))


blueprint.serves_all(
    notes_of,
    list_notes=(Notes.notes, "list"),
    list_note_categories=(Notes.note_categories, "categories"),
    get_note_status=(Notes.note_status, "status"),
    search_notes=(Notes.search_notes, "search", {"examples": NOTE_SEARCH_EXAMPLES}),
    list_pinned_notes=(Notes.pinned_notes, _pinned),
    record_shown_notes=(
        Notes.record_shown_notes,
        lambda notes: functools.partial(notes.record_shown, event=""),
    ),
    purge_notes=(Notes.purge_notes, _purge),
    get_note=(Notes.note, "get", {"examples": NOTE_EXAMPLES}),
    update_note=(Notes.update_note, "update"),
    get_note_history=(Notes.note_history, "history"),
    list_note_feedback=(Notes.note_judgements, "feedbacks"),
    add_note_feedback=(Notes.judge_note, "feedback", {"special": {"tag_scores": _tag_scores}}),
    deprecate_note=(Notes.deprecate_note, "deprecate"),
    restore_note=(Notes.restore_note, "restore"),
    forget_note=(Notes.forget_note, "forget"),
    pin_note=(Notes.pin_note, "pin"),
    unpin_note=(Notes.unpin_note, "unpin"),
    categorize_note=(Notes.categorize_note, "categorize"),
    explain_note=(Notes.explain_note, "explain"),
)


@merges.serves(Merges.dedup_notes)
def dedup_notes(query: Json, data: Json) -> Response:
    here = current()
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


merges.serves_all(
    notes_of,
    list_merge_proposals=(Merges.merge_proposals, "proposals"),
    accept_merge_proposal=(
        Merges.accept_merge_proposal,
        lambda notes: functools.partial(notes.decide, accept=True),
    ),
    reject_merge_proposal=(
        Merges.reject_merge_proposal,
        lambda notes: functools.partial(notes.decide, accept=False),
    ),
    list_note_merges=(Merges.note_merges, "merges"),
    merge_notes=(Merges.merge_notes, "merge"),
    undo_note_merge=(Merges.undo_note_merge, "undo_merge"),
)


@bulk.serves(Others.add_notes, describe={"requestBody": BODY})
def add_notes(query: dict[str, Any]) -> NoteOutcomes:
    notes, items = notes_of(query), _items(flask.request)
    key = idempotency.key(flask.request)
    if key is None:
        return NoteOutcomes.of(notes.add_many(items))
    body = hashlib.sha256(flask.request.get_data()).hexdigest()
    request_hash = idempotency.fingerprint("notes", [notes.owner, flask.request.mimetype, body])
    return notes.once(key, request_hash).add_many(items)


def _items(request: flask.Request) -> Iterable[Any]:
    """Return the notes of a body, parsed as they are read; what is not JSON is a NoteError."""
    check_charset(request)
    if request.mimetype in LINES:
        return _of_lines(request.get_data())
    if not request.is_json:
        raise ProblemError(415, f"send the notes as application/json or {LINES[0]}")
    request.max_content_length = MAX_JSON_BYTES
    try:
        value = strict_json.parse(request.get_data(), max_beside_content(current().settings))
    except strict_json.MalformedJSONError as error:
        raise ProblemError(400, f"the body {error}") from None
    if not isinstance(value, list):
        raise field_problem("body", "must be an array of notes")
    _check_number(len(value))
    return map(_without_surrogates, value)


def _of_lines(data: bytes) -> Iterable[Any]:
    # Counted before any is parsed: lines without a note do not count.
    lines = [line for line in data.split(b"\n") if line.strip(b" \t\r\xef\xbb\xbf")]
    _check_number(len(lines))
    return map(_of_line, lines)


def _check_number(n_notes: int) -> None:
    if not n_notes:
        raise field_problem("body", "holds no notes")
    if n_notes > MAX_NOTES:
        raise ProblemError(
            413, f"the body has {n_notes:,} notes; the limit is {MAX_NOTES:,}; send the rest in another"
        )


def _of_line(line: bytes) -> Any:
    if len(line) > MAX_JSON_BYTES:
        return NoteError("note", f"is longer than {MAX_JSON_BYTES:,} bytes")
    try:
        value = strict_json.parse_object(line.rstrip(b"\r"), max_beside_content(current().settings))
        return _without_surrogates(value)
    except strict_json.MalformedJSONError as error:
        return NoteError("note", str(error))


def _without_surrogates(value: Any) -> Any:
    try:
        if isinstance(value, dict):
            strict_json.check_surrogates(value)
    except strict_json.LoneSurrogateError as error:
        return NoteError(error.field, error.message)
    return value
