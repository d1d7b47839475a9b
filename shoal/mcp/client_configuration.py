"""Configurations of this server for common clients, for people to copy."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

NAME = "shoal"


class ClientConfiguration(NamedTuple):
    """The configuration of this server for some clients: where it belongs, and its text."""

    clients: str
    place: str
    text: str


def for_command(command: Sequence[str]) -> list[ClientConfiguration]:
    """Return the configurations of a server that clients start with a command."""
    program, *arguments = command
    entry = {"command": program, "args": arguments}
    toml = f"[mcp_servers.{NAME}]\ncommand = {json.dumps(program)}\nargs = {json.dumps(arguments)}\n"
    shell = " ".join(map(shlex.quote, command))
    return [
        *_json_forms({"type": "stdio", **entry}, entry),
        ClientConfiguration("Codex", "~/.codex/config.toml", toml),
        ClientConfiguration("Claude Code", "a terminal", f"claude mcp add {NAME} -- {shell}\n"),
    ]


def for_address(url: str, *, needs_key: bool) -> list[ClientConfiguration]:
    """Return the configurations of a server that listens at an address; the key is a placeholder."""
    headers = {"headers": {"Authorization": "Bearer KEY"}} if needs_key else {}
    entry = {"type": "http", "url": url, **headers}
    header = " --header 'Authorization: Bearer KEY'" if needs_key else ""
    return [
        *_json_forms(entry, entry),
        ClientConfiguration(
            "Claude Code",
            "a terminal",
            f"claude mcp add --transport http {NAME} {shlex.quote(url)}{header}\n",
        ),
    ]


def _json_forms(vs_code: dict[str, Any], other: dict[str, Any]) -> list[ClientConfiguration]:
    return [
        ClientConfiguration(
            "Claude Desktop, Claude Code, Cursor, Windsurf",
            "claude_desktop_config.json, .mcp.json, .cursor/mcp.json, mcp_config.json",
            _as_json({"mcpServers": {NAME: other}}),
        ),
        ClientConfiguration("VS Code", ".vscode/mcp.json", _as_json({"servers": {NAME: vs_code}})),
    ]


def _as_json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2) + "\n"
