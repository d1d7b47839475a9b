"""The commands and the tools for agents that operations name, and those that no operation has."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer

from shoal.access.operations import DECLARED
from shoal.cli.app import app, load
from shoal.declared.operations.operation import operations_of

OPERATIONS = list(operations_of(*DECLARED))
COMMANDS_OF_A_MACHINE = {
    "up", "serve", "worker", "migrate", "settings", "new-key", "version", "mcp", "sync", "doctor", "backup",
    "restore", "import", "import-index", "reconvert", "copy", "demo", "export", "ingest-dir", "evaluate",
    "saved-search run", "key pair", "key token", "encoder check", "encoder convert", "encoder embed", "note extract",
}  # fmt: skip
"""They are about files, processes and databases, which no operation of a service is."""
OTHER_FORMS = {"search", "fetch", "list_memories", "change_memory"}
"""Forms of `search_chunks` and `read_passage` for research agents, and of `note_list` and `note_update` for a user."""


def commands(group: Any, prefix: str = "") -> Iterator[str]:
    """Yield the names of all commands that are no groups."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}"


def test_every_command_is_of_an_operation_or_of_the_machine() -> None:
    app.registered_commands.clear()
    app.registered_groups.clear()
    load([])
    offered = set(commands(typer.main.get_command(app)))
    named = {each.terms.command for each in OPERATIONS} - {""}
    assert named <= offered
    assert offered - named == COMMANDS_OF_A_MACHINE


def test_every_tool_is_of_an_operation() -> None:
    pytest.importorskip("mcp", reason="needs the extra mcp: `pip install 'shoal[mcp]'`")
    from shoal.mcp.server import ServerOptions, _document_tools, _note_tools

    backend = cast(Any, SimpleNamespace(notes=lambda _owner: None))
    offered = {
        each.name for tools in (_document_tools, _note_tools) for each in tools(backend, ServerOptions())
    }
    named = {each.terms.tool for each in OPERATIONS} - {""}
    assert named <= offered
    assert offered - named == OTHER_FORMS
