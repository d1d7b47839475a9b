"""Many notes in one request, as a JSON array or as JSON lines, with one outcome for each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import flask

from shoal.errors import NoteError
from shoal.models.notes import NoteOutcomes
from shoal_api import idempotency, service, strict_json
from shoal_api.limits import MAX_JSON_BYTES, max_beside_content
from shoal_api.notes import notes_of
from shoal_api.openapi import Blueprint, check_charset
from shoal_api.paths import NOTES
from shoal_api.problems import ProblemError, field_problem
from shoal_api.schemas.notes import MAX_NOTES, NoteOutcomesSchema, OwnerQuerySchema

LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl")

blueprint = Blueprint("bulk notes", __name__, url_prefix=NOTES, description="Many notes in one request")

BODY = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/NewNote"},
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


@blueprint.post("/bulk")
@blueprint.parameters(OwnerQuerySchema)
@blueprint.responds(200, NoteOutcomesSchema)
@blueprint.fails(400, 409, 413, 415)
@blueprint.describe(requestBody=BODY, parameters=[idempotency.NOTES_PARAMETER])
def add_notes(query: dict[str, Any]) -> NoteOutcomes:
    """Add many notes

    A bad note does not stop the others; its outcome says why it was refused. Each element or line has the
    fields of `POST /notes`; the owner is the query parameter. A repeated request stores nothing twice. With
    an idempotency key, it is not counted either, and an interrupted one continues where it ended.
    """
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
        value = strict_json.parse(request.get_data(), max_beside_content(service.current().settings))
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
        value = strict_json.parse_object(line.rstrip(b"\r"), max_beside_content(service.current().settings))
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
