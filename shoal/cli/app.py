"""The command line put together, and the one place where an error becomes an exit code."""

from __future__ import annotations

import importlib
import logging
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from shoal import __version__
from shoal.cli.session import Db, Debug, InterruptedCommandError, Json, Session
from shoal.cli.terminal import ClosedPipeError, discard_stdout, plain, prepare_streams
from shoal.errors import QueryError, ShoalError

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130

MODULES = {
    "documents": ("ingest", "ingest-dir", "rescore", "export"),
    "search": ("search", "explain"),
    "stored": ("list", "show", "status", "delete", "tags"),
    "evaluation": ("evaluate",),
    "vocabulary": ("vocabulary",),
    "service": ("up", "serve", "worker", "migrate", "settings", "new-key", "version"),
    "jobs": ("upload", "jobs"),
    "sync": ("sync",),
    "maintenance": ("doctor", "backup", "restore", "import"),
    "demo": ("demo",),
}
"""Which module of this package has which commands, in the order of the help."""

MEANT = {
    "add": "ingest", "index": "ingest", "documents": "list", "docs": "list", "ls": "list", "find": "search",
    "query": "search", "ask": "search", "cat": "show", "get": "show", "rm": "delete", "remove": "delete",
    "del": "delete", "stats": "status", "info": "status", "start": "up", "run": "up", "check": "doctor",
    "init": "migrate", "tag": "tags", "config": "settings",
}  # fmt: skip
"""What other programs call our commands, and no spelling leads to."""


class Commands(TyperGroup):
    """The commands; a word that is none suggests those that may be meant."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and (meant := MEANT.get(args[0])):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {meant!r}?")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="shoal",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"shoal {__version__}\n")
        raise typer.Exit


@app.callback()
def shoal(
    context: typer.Context,
    db: Db = None,
    as_json: Json = False,
    debug: Debug = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Take in documents and find the passages that are about what you ask, with the reasons why.

    Start without any service:

    \b
        shoal ingest-dir notes/            store every .md, .markdown and .txt below notes/
        shoal search "how bees find food"  the best passages, with file and lines
        shoal search "..." --scores        and the reefs that each has in common with the query

    A reef is a named neighbourhood of word meanings. A passage matches when it and the query are about the same
    reefs, whether or not they share a word. `shoal explain "..."` shows how a query is understood.

    For many documents or users, run the service: `shoal up`, then `shoal upload DIR --wait`.

    --db, --json and --debug may stand before or after the command.
    """
    context.obj = Session(db=db, as_json=as_json, debug=debug)


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code; what went wrong is told on stderr."""
    prepare_streams()
    debug = "--debug" in arguments
    if debug:
        logging.basicConfig(stream=sys.stderr, level=logging.DEBUG)
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except (ClosedPipeError, BrokenPipeError):
        return _abandon_stdout()
    except KeyboardInterrupt:
        return INTERRUPTED
    except InterruptedCommandError as error:
        _say_why(str(error), as_json="--json" in arguments, before="")
        return INTERRUPTED
    except Exception as error:  # the edge: what is not told here is told nowhere
        if debug:
            traceback.print_exc()
        return _tell(error, as_json="--json" in arguments)
    return code


def load(arguments: Sequence[str]) -> None:
    """Register the commands: those of the one module that the arguments can mean, else all of them.

    Loading all costs a search some 20 ms of its cold start (`benchmarks/cold_start.py`).
    """
    home = {name: module for module, names in MODULES.items() for name in names}
    # A text to search for or a tag may read like a command, too: then there are several candidates.
    meant = {home[argument] for argument in arguments if argument in home}
    for module in meant if len(meant) == 1 else MODULES:
        importlib.import_module(f"shoal.cli.{module}").register(app)


def _run(arguments: Sequence[str]) -> int:
    app.registered_commands.clear()
    load(arguments)
    try:
        app(args=list(arguments) or ["--help"], prog_name="shoal")
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else FAILED
    return DONE


def _abandon_stdout() -> int:
    discard_stdout()
    return DONE


def _tell(error: Exception, *, as_json: bool) -> int:
    _say_why(_reason(error), as_json=as_json)
    return WRONG_USAGE if isinstance(error, QueryError) else FAILED


def _say_why(reason: str, *, as_json: bool, before: str = "error: ") -> None:
    reason = plain(reason)
    if as_json:
        Session(as_json=True).emit({"error": reason})
    sys.stderr.write(f"{before}{reason}\n")


def _reason(error: Exception) -> str:
    if isinstance(error, QueryError):
        return f"{_option(error.field)}: {error}"
    if isinstance(error, ShoalError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return "there is not enough memory for this"
    return f"internal error, {type(error).__name__}: {error}; `--debug` shows where"


def _option(field: str) -> str:
    """An argument of the library as it is written on the command line."""
    return field.upper() if field == "query" else f"--{field.replace('_', '-')}"
