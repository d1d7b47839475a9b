"""Generate docs/cli.md from the code: `python tests/docs/cli_page.py`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from shoal.cli.app import app, load

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"

INTRODUCTION = """\
# Commands

`shoal COMMAND --help` shows the same text. Every command takes `--db PATH` (the database file; default:
`SHOAL_DATABASE_URL`, or `shoal.db`), `--json` (one JSON document on stdout and nothing else) and `--debug`
(show tracebacks and the log of the library), before or after its name. Logs go to stderr. Exit codes:
0 success, 1 failure with the reason on stderr, 2 wrong usage, 130 interrupted.

"""


COMMON = {"--db", "--json", "--debug", "--help"}
"""Options of every command. The introduction describes them."""


KINDS = {
    "StringParamType": "TEXT", "IntParamType": "N", "IntRange": "N", "FloatParamType": "X", "FloatRange": "X",
    "Path": "PATH", "TyperPath": "PATH", "Choice": "NAME",
}  # fmt: skip


def page() -> str:
    """Return the whole page as Markdown."""
    app.registered_commands.clear()
    app.registered_groups.clear()
    load([])
    group: Any = typer.main.get_command(app)
    return INTRODUCTION + "\n".join(_commands(group))


def _commands(group: Any, prefix: str = "") -> Iterator[str]:
    """Yield the section of each command, and those of a group after its own."""
    for name, command in group.commands.items():
        yield _command(f"{prefix}{name}", command)
        yield from _commands(command, f"{prefix}{name} ") if hasattr(command, "commands") else ()


def _command(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [
        p
        for p in command.params
        if p.param_type_name == "option" and not p.hidden and not COMMON & set(p.opts)
    ]
    usage = " ".join(["shoal", name, *(_metavar(argument) for argument in arguments)])
    parts = [f"## shoal {name}\n", f"`{usage}`\n", f"{_help(command)}\n"]
    rows = [(f"`{_metavar(p)}`", p.help or "") for p in arguments if p.help]
    rows += [(_names(p), _meaning(p)) for p in options]
    if rows:
        parts += ["| | |", "|---|---|", *(f"| {left} | {_cell(right)} |" for left, right in rows), ""]
    return "\n".join(parts)


def _metavar(argument: Any) -> str:
    name: str = (argument.metavar or (argument.name or "").upper()).strip("[]")
    name = name if argument.nargs == 1 or name.endswith("...") else f"{name}..."
    return name if argument.required else f"[{name}]"


def _names(option: Any) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    return (
        f"`{names}`" if option.is_flag else f"`{names} {option.metavar or KINDS[type(option.type).__name__]}`"
    )


def _meaning(option: Any) -> str:
    default = option.default
    has_default = not option.is_flag and isinstance(default, int | float | str) and default != ""
    return f"{option.help or ''} Default: `{default}`." if has_default else option.help or ""


def _help(command: Any) -> str:
    """The help text as Markdown: a preformatted paragraph (after a line with \\b) becomes a block of code."""
    text = inspect.cleandoc(command.help or "").replace("\r", "")
    paragraphs = re.split(r"^\x08\n", text, flags=re.MULTILINE)
    markdown = [paragraphs[0].strip()]
    for paragraph in paragraphs[1:]:
        block, _, rest = paragraph.partition("\n\n")
        markdown.append("```text\n" + inspect.cleandoc(block).rstrip() + "\n```")
        markdown.append(rest.strip())
    return "\n\n".join(part for part in markdown if part)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
