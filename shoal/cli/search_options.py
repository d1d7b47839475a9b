"""Options of commands, made of the declarations of arguments."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from shoal.cli.session import Session, split_tags
from shoal.declared.arguments import Argument, Choice, Flag, Number, Numbers, TextForm, Value, Whole
from shoal.declared.operations.operation import Operation
from shoal.declared.search import SEARCH

_DEFAULT = re.compile(r"; default [^;]+\Z")
PASSAGES, NOTES = "chunk", "note"

Query = Annotated[
    str, typer.Argument(metavar="QUERY", help="What you want to read about, in your own words.")
]
QueryOrNone = Annotated[
    str | None,
    typer.Argument(metavar="QUERY", help="What you want to read about, in your own words; or --batch."),
]
Server = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help="Search the library of this service."),
]

SEARCHING = {name: each for name, each in SEARCH.items() if name not in ("filters", "context")}
"""Arguments that a command takes: `--filter` says what filters do, and `shoal show` prints neighbours."""
EXPLAINING = {name: each for name, each in SEARCHING.items() if each.is_explained}
SAVED = {name: each for name, each in SEARCHING.items() if each.is_saved and name != "min_confidence"}


def of_operation(operation: Operation[..., Any], *names: str) -> dict[str, Argument]:
    """Return these arguments of an operation, by default all but those that every command has or none."""
    return {
        name: each
        for name, each in operation.arguments.items()
        if (name in names if names else name not in ("limit", "offset", "owner"))
    }


def options_of(arguments: Mapping[str, Argument], *, has_defaults: bool = True) -> list[inspect.Parameter]:
    """Return the parameters of a command for these arguments.

    Without defaults, an option that is not given is None, so that a default of another place holds.
    """
    return [_option(name, argument, has_defaults) for name, argument in arguments.items()]


def values_of(arguments: Mapping[str, Argument], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the options that were given. Raises QueryError."""
    return {
        name: _value(name, argument, options[name])
        for name, argument in arguments.items()
        if options[name] is not None
    }


def given(arguments: Mapping[str, Argument], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that differ from their defaults. Raises QueryError."""
    values = values_of(arguments, options)
    return {
        name: value
        for name, value in values.items()
        if value != arguments[name].default and (value or not isinstance(value, list))
    }


def _option(name: str, argument: Argument, has_default: bool) -> inspect.Parameter:
    kind, default = argument.kind, argument.default if has_default else None
    limits: dict[str, Any] = {}
    metavar = argument.metavar or None
    match kind:
        case Flag():
            type_: Any = bool
        case Whole(low, high):
            type_, limits = int, {"min": low, "max": high}
        case Number(low, high):
            type_, limits = float, {"min": low, "max": high}
        case Choice():
            type_, metavar = str, "/".join(kind.texts)
            default = default and str(default)
        case Value(text=TextForm.repeated | TextForm.with_commas):
            type_, default = list[str], default or None
        case _:
            type_ = str
    flag = f"--{(argument.option or name).replace('_', '-')}"
    if default is None:
        flag = f"{flag}/--not-{flag[2:]}" if type_ is bool else flag
        type_ = type_ | None
    option = typer.Option(flag, metavar=metavar, help=_help(argument), **limits)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[type_, option]
    )


def _help(argument: Argument) -> str:
    """Return the description without Markdown and without the default, which the help has, as a sentence."""
    about = argument.about if argument.default is None else _DEFAULT.sub("", argument.about)
    text = f"{about}{argument.address}".replace("`", "")
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def _value(name: str, argument: Argument, value: Any) -> Any:
    if isinstance(argument.kind, Numbers):
        return argument.kind.of_text(name, value)
    if isinstance(argument.kind, Value) and argument.kind.text is TextForm.with_commas:
        return [part for text in value for part in split_tags(text)]
    if isinstance(argument.kind, Value) and argument.kind.text is TextForm.json:
        return _parsed(name, value)
    return value


def _parsed(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"is not JSON: {error}", param_hint=f"--{name}") from None


def warn(session: Session, answer: dict[str, Any]) -> None:
    """Print the warnings of an answer."""
    for warning in answer.get("warnings") or ():
        session.warn(f"warning: {warning}")
