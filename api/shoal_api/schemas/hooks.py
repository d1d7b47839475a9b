"""Schemas of the hooks of agents."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal_api.schemas.common import Schema

MAX_OWNER_CHARS = 200


class HookOwnerSchema(Schema):
    owner = fields.String(
        load_default=None,
        validate=validate.Length(1, MAX_OWNER_CHARS),
        metadata={"description": "whose notes; default: `SHOAL_NOTE_OWNER` of the service"},
    )


class HookSchema(Schema):
    """The input of a hook, and where the session works."""

    input = fields.Dict(
        keys=fields.String(),
        required=True,
        metadata={
            "description": "the object that the agent sends: `session_id`, `cwd`, `transcript_path`, and by "
            "event `source`, `prompt`, or `tool_name` and `tool_input`; other members are ignored"
        },
    )
    environment = fields.Dict(
        keys=fields.String(),
        load_default=None,
        allow_none=True,
        metadata={
            "description": "`os`, `repo`, `cwd`, `mcp_servers` and `tags` of the session; by default, the "
            "service detects them from `cwd`, if the request comes from its own machine"
        },
    )


class HookOutputSchema(Schema):
    hookEventName = fields.String(required=True, metadata={"description": "as the agent named the event"})  # noqa: N815
    additionalContext = fields.String(required=True, metadata={"description": "notes as quoted data"})  # noqa: N815


class HookAnswerSchema(Schema):
    """What the agent reads; empty without notes."""

    hookSpecificOutput = fields.Nested(  # noqa: N815
        HookOutputSchema, metadata={"description": "what the agent puts into its context"}
    )
