"""Hooks of agents: notes for what an agent is about to do, in the form in which agents expect them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import flask

from shoal.errors import InvalidFieldError
from shoal.notes import hooks
from shoal.notes.environment import Environment
from shoal.notes.hook_input import EVENT_NAMES, HookInput, hook_input_of
from shoal.service.addresses import is_loopback
from shoal.settings import Settings
from shoal_api import access, service
from shoal_api.openapi import Blueprint
from shoal_api.paths import API
from shoal_api.problems import field_problem
from shoal_api.schemas.hooks import HookAnswerSchema, HookOwnerSchema, HookSchema

blueprint = Blueprint("hooks", __name__, url_prefix=f"{API}/hooks", description="Hooks of coding agents")

EVENTS = ", ".join(f"'{event}'" for event in EVENT_NAMES)


@blueprint.post(f"/<any({EVENTS}):event>")
@blueprint.parameters(HookOwnerSchema)
@blueprint.body(HookSchema)
@blueprint.responds(200, HookAnswerSchema)
@blueprint.fails(404, 503)
def answer_hook(query: dict[str, Any], data: dict[str, Any], event: Any) -> flask.Response:
    """Answer a hook of an agent

    Returns the notes for the event as quoted data, and writes that the session was shown them; an empty
    object without notes. `stop` queues the transcript of the session for the extraction of lessons. `shoal
    hook` sends these requests.
    """
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
