"""Retrieve and recall: passages of the library, and what a user's agent learned, in the form of agents."""

from __future__ import annotations

from typing import Any

import flask
from werkzeug.routing import BaseConverter

from shoal.errors import NoteError
from shoal.models.notes import NoteOutcomes
from shoal.notes.notes import OwnerNotes
from shoal_api import access, idempotency, service
from shoal_api.openapi import Blueprint
from shoal_api.paths import API
from shoal_api.problems import ProblemError, field_problem
from shoal_api.schemas.note_examples import RECALL_EXAMPLES, RETRIEVAL_EXAMPLES
from shoal_api.schemas.notes import NoteOutcomesSchema, RecalledSchema, RecallSchema, RememberSchema
from shoal_api.schemas.retrieval import RetrievalSchema, RetrieveSchema

blueprint = Blueprint("retrieval", __name__, url_prefix=API, description="Passages, and what agents learned")


class UserConverter(BaseConverter):
    """The id of a user in a path: any text, also with slashes, so that no id is taken for another."""

    regex = "(?s:.+)"
    part_isolating = False


def register(app: flask.Flask) -> None:
    """Let routes use the converter `user`."""
    app.url_map.converters["user"] = UserConverter


def _notes_of(user_id: str) -> OwnerNotes:
    try:
        flask.request.environ["PATH_INFO"].encode("latin-1").decode()
    except UnicodeDecodeError:
        # Replacement characters would make one user of several.
        raise ProblemError(400, "the URL is not UTF-8") from None
    try:
        return service.current().engine.notes.of(access.owner_of(user_id, user_id))
    except NoteError as error:
        raise field_problem("user_id", error.message) from None


@blueprint.post("/users/<user:user_id>/remember")
@blueprint.body(RememberSchema)
@blueprint.responds(200, NoteOutcomesSchema)
@blueprint.fails(409, 503)
@blueprint.describe(parameters=[idempotency.NOTES_PARAMETER])
def remember(data: dict[str, Any], user_id: str) -> NoteOutcomes:
    """Store what an agent learned for a user

    Short, doubtful and unspecific items are refused, and each outcome says why. An item that says nearly the
    same as a stored note counts as another occurrence of it.
    """
    notes, key = _notes_of(user_id), idempotency.key(flask.request)
    if key is None:
        return NoteOutcomes.of(notes.remember(data["items"]))
    request_hash = idempotency.fingerprint("remember", {"owner": notes.owner, **data})
    return notes.once(key, request_hash).remember(data["items"])


@blueprint.post("/users/<user:user_id>/recall")
@blueprint.body(RecallSchema)
@blueprint.responds(200, RecalledSchema, examples=RECALL_EXAMPLES)
@blueprint.fails(503)
def recall(data: dict[str, Any], user_id: str) -> Any:
    """Recall what is known for a user

    Only notes of this user are searched.
    """
    return _notes_of(user_id).recall(data.pop("query"), **data)


@blueprint.post("/retrieve")
@blueprint.body(RetrieveSchema)
@blueprint.responds(200, RetrievalSchema, examples=RETRIEVAL_EXAMPLES)
@blueprint.fails(503)
def retrieve(data: dict[str, Any]) -> Any:
    """Retrieve passages of the library as plain content with metadata and a similarity"""
    return service.current().engine.retrieve(data.pop("query"), **data)
