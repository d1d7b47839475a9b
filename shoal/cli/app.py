"""The command line: registers the commands and turns errors into exit codes."""

from __future__ import annotations

import importlib
import logging
import re
import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from shoal import __version__
from shoal.cli.progress import long_work_shown
from shoal.cli.session import (
    Collection,
    Db,
    Debug,
    InterruptedCommandError,
    Json,
    Session,
    opened,
    print_json,
)
from shoal.cli.terminal import ClosedPipeError, discard_stdout, prepare_streams
from shoal.errors import (
    CollectionNameError,
    FilterError,
    NoteError,
    PinError,
    QueryError,
    ShoalError,
    SynonymError,
)
from shoal.support.other_names import meant_name
from shoal.support.plain_text import plain

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130

MODULES = {
    "documents": ("ingest", "ingest-dir", "rescore", "export"),
    "search": ("search", "explain", "facets", "suggest", "similarity"),
    "stored": ("list", "show", "status", "delete", "tags"),
    "saved_searches": ("saved-search",),
    "queries": ("queries",),
    "evaluation": ("evaluate",),
    "encoder": ("encoder",),
    "grounding": ("verify",),
    "vocabulary": ("vocabulary",),
    "synonyms": ("synonyms", "acronyms"),
    "pins": ("pin",),
    "notes": ("note",),
    "service": ("up", "serve", "worker", "migrate", "settings", "new-key", "version"),
    "keys": ("key",),
    "mcp": ("mcp",),
    "hooks": ("hook",),
    "jobs": ("upload", "jobs"),
    "sync": ("sync",),
    "sources": ("source",),
    "collections": ("collection",),
    "maintenance": ("doctor", "backup", "restore", "import", "import-index", "reconvert"),
    "copying": ("copy",),
    "demo": ("demo",),
}
"""Commands by module of this package, in the order of the help."""

COMMAND_ALIASES = {
    "add": "ingest", "index": "ingest", "documents": "list", "docs": "list", "ls": "list", "find": "search",
    "query": "search", "ask": "search", "cat": "show", "get": "show", "rm": "delete", "remove": "delete",
    "del": "delete", "stats": "status", "info": "status", "start": "up", "run": "up", "check": "doctor",
    "init": "migrate", "tag": "tags", "config": "settings",
    "notes": "note", "memory": "note", "pins": "pin", "sources": "source",
}  # fmt: skip
"""Names that other programs use for these commands. Spelling suggestions do not find them."""


_NO_NUMBER = re.compile(r"is not a valid (int|float)\w*(?: range)?\.")


def _name_number(match: re.Match[str]) -> str:
    return "is not a whole number" if match[1] == "int" else "is not a number"


def _possible_options(error: Any) -> Sequence[str]:
    """The option that is meant by one that a command does not have, or those that are spelt like it."""
    known = {
        option.lstrip("-"): option
        for parameter in error.ctx.command.params
        for option in parameter.opts
        if option.startswith("--")
    }
    meant = meant_name(error.option_name.lstrip("-"), known)
    return (error.possibilities or ()) if meant is None else [known[meant]]


class Commands(TyperGroup):
    """The command group. An unknown command fails with a suggestion."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and (suggestion := COMMAND_ALIASES.get(args[0])):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {suggestion!r}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named. Numbers that are none and unknown options are named in words."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _NO_NUMBER.sub(_name_number, error.message)
            raise
        except Exception as error:
            if hasattr(error, "possibilities"):
                error.possibilities = _possible_options(error)
            raise


app = typer.Typer(
    name="shoal",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        sys.stdout.write(f"shoal {__version__}\n")
        raise typer.Exit


@app.callback()
def shoal(
    context: typer.Context,
    db: Db = None,
    collection: Collection = None,
    as_json: Json = False,
    debug: Debug = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Store documents and find the passages that are about your query, with the reasons.

    Start without a service:

    \b
        shoal ingest-dir notes/            store every file of a known kind below notes/
        shoal search "how bees find food"  the best passages, with file and lines
        shoal search "..." --scores        the same, with the reasons of each

    Known kinds are Markdown, plain text, PDF, Word, HTML and others (docs/formats.md). A passage matches if
    it has words of the query, or shares a reef with it: a named group of words with related meanings. So it
    can match without a common word. `shoal explain "..."` shows how a query is analyzed.

    For many documents or users, run the service: `shoal up`, then `shoal upload DIR --wait`.

    --db, --collection, --json and --debug work before or after the command.
    """
    context.obj = Session(db=db, collection=collection, as_json=as_json, debug=debug)


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code. Errors go to stderr."""
    prepare_streams()
    opened.clear()
    debug = "--debug" in arguments
    if debug:
        logging.basicConfig(stream=sys.stderr, level=logging.DEBUG)
    try:
        with nullcontext() if debug else long_work_shown():
            code = _run(arguments)
        sys.stdout.flush()
    except (ClosedPipeError, BrokenPipeError):
        return _abandon_stdout()
    except KeyboardInterrupt:
        return INTERRUPTED
    except InterruptedCommandError as error:
        _print_reason(str(error), as_json="--json" in arguments, prefix="")
        return INTERRUPTED
    except Exception as error:  # the outermost handler: nothing else reports the error
        if debug:
            traceback.print_exc()
        return _report_error(_diagnosed(error), as_json="--json" in arguments)
    return code


def _diagnosed(error: Exception) -> Exception:
    """Return the error of a damaged library if an unexpected error comes from it, else the error itself."""
    if not opened or isinstance(error, ShoalError | OSError | MemoryError):
        return error
    from contextlib import closing

    from shoal.maintenance.stored_values import damage_behind
    from shoal.storage.opening import open_database

    try:
        with closing(open_database(opened[-1].database_url, opened[-1].data_path)) as database:
            return damage_behind(error, database) or error
    except ShoalError:
        return error


def load(arguments: Sequence[str]) -> None:
    """Register the commands of the one module that the arguments name; all commands if that is ambiguous.

    Loading all modules adds about 20 ms to the cold start of a search (`benchmarks/cold_start.py`).
    """
    module_of = {name: module for module, names in MODULES.items() for name in names}
    # A query or a tag may also be the name of a command, so there can be several candidates.
    candidates = {module_of[argument] for argument in arguments if argument in module_of}
    for module in candidates if len(candidates) == 1 else MODULES:
        importlib.import_module(f"shoal.cli.{module}").register(app)


def _run(arguments: Sequence[str]) -> int:
    app.registered_commands.clear()
    app.registered_groups.clear()
    load(arguments)
    try:
        app(args=list(arguments) or ["--help"], prog_name="shoal")
    except SystemExit as exit_request:
        return exit_request.code if isinstance(exit_request.code, int) else FAILED
    return DONE


def _abandon_stdout() -> int:
    discard_stdout()
    return DONE


def _report_error(error: Exception, *, as_json: bool) -> int:
    _print_reason(_reason(error), as_json=as_json)
    if isinstance(error, FilterError) and error.excerpt is not None:
        before, blamed, after = (" ".join(plain(part).split("\n")) for part in error.excerpt)
        sys.stderr.write(f"  {before}{blamed}{after}\n  {' ' * len(before)}{'^' * max(len(blamed), 1)}\n")
    is_usage = isinstance(error, QueryError | NoteError | SynonymError | PinError | CollectionNameError)
    return WRONG_USAGE if is_usage else FAILED


def _print_reason(reason: str, *, as_json: bool, prefix: str = "error: ") -> None:
    reason = plain(reason)
    if as_json:
        print_json({"error": reason})
    sys.stderr.write(f"{prefix}{reason}\n")


def _reason(error: Exception) -> str:
    if isinstance(error, QueryError):
        return f"{_option(error.field)}: {error}"
    if isinstance(error, ShoalError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return "not enough memory"
    return f"internal error, {type(error).__name__}: {error}; `--debug` shows where"


def _option(field: str) -> str:
    """The command-line name of a library argument."""
    return field.upper() if field in ("query", "a", "b") else f"--{field.replace('_', '-')}"
