"""What agents ask: passages, what was learned for a user, and notes for what an agent is about to do."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import flask
from werkzeug.routing import BaseConverter

from shoal.declared.operations.notes import AgentOperations as Agents
from shoal.declared.operations.notes import OtherNoteOperations
from shoal.declared.operations.searches import SearchOperations
from shoal.errors import InvalidFieldError, NoteError
from shoal.models.notes import NoteOutcomes
from shoal.notes import hooks
from shoal.notes.environment import Environment
from shoal.notes.hook_input import HookInput, hook_input_of
from shoal.notes.notes import OwnerNotes
from shoal.service.addresses import is_loopback
from shoal.settings import Settings
from shoal_api import access, idempotency, service
from shoal_api.openapi import Blueprint
from shoal_api.problems import ProblemError, field_problem
from shoal_api.schemas.arguments import HookOwnerSchema
from shoal_api.schemas.examples import RECALL_EXAMPLES, RETRIEVAL_EXAMPLES
from shoal_api.service import engine

hooks_blueprint = Blueprint("hooks", __name__, description="Hooks of coding agents")
blueprint = Blueprint("retrieval", __name__, description="Passages, and what agents learned")


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
        return engine().notes.of(access.owner_of(user_id, user_id))
    except NoteError as error:
        raise field_problem("user_id", error.message) from None


@blueprint.serves(Agents.remember)
def remember(data: dict[str, Any], user_id: str) -> NoteOutcomes:
    notes, key = _notes_of(user_id), idempotency.key(flask.request)
    if key is None:
        return NoteOutcomes.of(notes.remember(data["items"]))
    request_hash = idempotency.fingerprint("remember", {"owner": notes.owner, **data})
    return notes.once(key, request_hash).remember(data["items"])


@blueprint.serves(Agents.recall, examples=RECALL_EXAMPLES)
def recall(data: dict[str, Any], user_id: str) -> Any:
    return _notes_of(user_id).recall(**data)


blueprint.serves_all(
    service.library, retrieve=(SearchOperations.retrieve, "retrieve", {"examples": RETRIEVAL_EXAMPLES})
)


@hooks_blueprint.serves(OtherNoteOperations.answer_hook, query=HookOwnerSchema)
def answer_hook(query: dict[str, Any], data: dict[str, Any], event: Any) -> flask.Response:
    here = service.current()
    hook_input = hook_input_of(data["input"], event)
    given = _environment(data["environment"])
    is_near = _comes_from_this_machine(flask.request)
    if not is_near:
        hook_input = _without_transcript(hook_input)
    detect = _environments(here.settings).of if is_near else lambda _folder: Environment()
    notes = here.engine.notes.of(access.owner_of(query["owner"], here.settings.note_owner))
    text = hooks.answer_hook(
        notes, here.settings, hook_input, detect if given is None else lambda _folder: given
    )
    return flask.Response(text, content_type="application/json")


def _comes_from_this_machine(request: flask.Request) -> bool:
    """Whether the session works on this machine, so that its folder and its transcript may be read here.

    A proxy on this machine says by its headers for whom it asks.
    """
    is_forwarded = "X-Forwarded-For" in request.headers or "Forwarded" in request.headers
    return is_loopback(request.remote_addr or "") and not is_forwarded


def _without_transcript(hook_input: HookInput) -> HookInput:
    return dataclasses.replace(hook_input, transcript_path="")


def _environment(value: Mapping[str, Any] | None) -> Environment | None:
    try:
        return None if value is None else Environment.from_json(value)
    except InvalidFieldError as error:
        raise field_problem(error.field, error.message) from None


@functools.cache
def _environments(settings: Settings) -> hooks.Environments:
    return hooks.Environments(settings)
