"""Results of tools: text for the model, and the same as structured content."""

from __future__ import annotations

from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel

READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
"""Annotations of a tool that changes nothing."""


def writes(*, destructive: bool = False, idempotent: bool = False) -> ToolAnnotations:
    """Return the annotations of a tool that changes something.

    destructive: it overwrites or hides something; idempotent: a second call changes nothing more
    """
    return ToolAnnotations(
        read_only_hint=False, destructive_hint=destructive, idempotent_hint=idempotent, open_world_hint=False
    )


def answer(text: str, result: BaseModel) -> CallToolResult:
    """Return a result with its text."""
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=result.model_dump(mode="json")
    )
