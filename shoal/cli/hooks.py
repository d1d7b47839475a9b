"""The command `shoal hook` as people call it. Agents reach `shoal.hook` without this module."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from shoal import hook as process
from shoal.cli.session import Owner, Session, command
from shoal.errors import SettingsError

TIMEOUT_SECONDS = 10
"""Time that agents give a hook. It ends itself after half of it."""

Event = Annotated[
    str | None, typer.Argument(metavar="EVENT", help="session-start, prompt, tool-use or stop.")
]
Server = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help="Address of the service to ask. Default: SHOAL_SERVER."),
]
Start = Annotated[
    str | None,
    typer.Option(
        "--start",
        metavar="COMMAND",
        help="What session-start runs if no service answers: 'shoal up'. Default: SHOAL_HOOK_START.",
    ),
]
PrintConfig = Annotated[
    bool, typer.Option("--print-config", help="Print the configuration for common agents and exit.")
]


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, "hook")(hook)


def hook(
    session: Session,
    event: Event = None,
    server: Server = None,
    owner: Owner = None,
    start: Start = None,
    print_config: PrintConfig = False,
) -> None:
    """Answer a hook of a coding agent with notes.

    Agents run this command: it reads the JSON of the hook on stdin, and answers with JSON on stdout. It asks
    the service that `shoal up` runs for the database, or --server; without a service, it reads the database
    itself. Whatever goes wrong, it answers `{}` with exit code 0, and writes a line into `hooks.log` in the
    data folder. The path of the database must be absolute, because hooks run in the folders of projects. A
    library on PostgreSQL needs --server. With --start, session-start runs the service in the background if
    none answers, and does not wait for it.

    \b
        shoal --db ~/notes.db hook --print-config      what to put into the settings of an agent
        echo '{"prompt": "..."}' | shoal hook prompt --db ~/notes.db
    """
    options = {
        "--db": session.db,
        "--server": server,
        "--owner": owner,
        "--collection": session.collection,
        "--start": start,
    }
    given = [f"{name}={value}" for name, value in options.items() if value]
    if not print_config:
        process.main([*([event] if event else []), *given])
    if server:
        if start:
            raise SettingsError("--start runs the service of the database; a --server runs already")
        # The service knows its database, whose URL may have a password.
        given = [option for option in given if not option.startswith("--db=")]
    elif not session.settings().is_sqlite:
        raise SettingsError(
            "hooks of a library on PostgreSQL ask its service; name it with --server, such as "
            "--server http://127.0.0.1:8000"
        )
    else:
        path = session.settings().database_path
        given = [f"--db={path}", *(option for option in given if not option.startswith("--db="))]
        if not path.exists():
            raise SettingsError(
                f"there is no database {path}; `shoal migrate` creates one, --db names another"
            )
    configurations = _configurations(_program(), given)
    session.emit(configurations)
    for configuration in configurations:
        session.say(f"# {configuration.agent} ({configuration.place})\n{configuration.text}")


class HookConfiguration(NamedTuple):
    """The configuration of the hooks for an agent: where it belongs, and its text."""

    agent: str
    place: str
    text: str


def _configurations(program: list[str], options: list[str]) -> list[HookConfiguration]:
    shared = {"SessionStart": "session-start", "UserPromptSubmit": "prompt", "Stop": "stop"}
    gemini = {"SessionStart": "session-start", "BeforeAgent": "prompt", "AfterAgent": "stop"}

    def arguments(event: str) -> list[str]:
        is_start = event == "session-start"
        return [event, *(option for option in options if is_start or not option.startswith("--start="))]

    def entries(events: dict[str, str], timeout: int, **tool_use: Any) -> str:
        hooks: dict[str, Any] = {
            name: [{"hooks": [_entry([*program, "hook", *arguments(event)], timeout)]}]
            for name, event in events.items()
        }
        for name, matcher in tool_use.items():
            entry = _entry([*program, "hook", *arguments("tool-use")], timeout)
            hooks[name] = [{**matcher, "hooks": [entry]}]
        return json.dumps({"hooks": hooks}, indent=2) + "\n"

    return [
        HookConfiguration(
            "Claude Code",
            "~/.claude/settings.json",
            entries(shared, TIMEOUT_SECONDS, PreToolUse={"matcher": "*"}),
        ),
        HookConfiguration("Codex", "~/.codex/hooks.json", entries(shared, TIMEOUT_SECONDS)),
        # Milliseconds; this agent takes no context from a hook before a tool.
        HookConfiguration("Gemini CLI", "~/.gemini/settings.json", entries(gemini, 1000 * TIMEOUT_SECONDS)),
    ]


def _entry(arguments: list[str], timeout: int) -> dict[str, Any]:
    return {"type": "command", "command": " ".join(map(shlex.quote, arguments)), "timeout": timeout}


def _program() -> list[str]:
    """Return the start of the command line. Agents run it in any folder, with another PATH."""
    program = Path(sys.executable).with_name("shoal")
    return [str(program)] if program.exists() else [sys.executable, "-P", "-m", "shoal.cli"]
