"""The session of a command: global options, output streams and access to the engine.

`command` registers a function as a command. Its first parameter receives the `Session`. The options `--db`,
`--json` and `--debug` are added to every command, so they work before and after the command's name.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import inspect
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.terminal import ClosedPipeError, console
from shoal.errors import NotFoundError, ShoalError
from shoal.support.plain_text import plain
from shoal.support.regular_files import is_regular_file

if TYPE_CHECKING:
    from rich.console import Console

    from shoal.engine import Engine
    from shoal.settings import Settings


def json_form(value: Any) -> Any:
    """Convert dataclasses and named tuples to objects, enums to values, sequences and sets to arrays."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: json_form(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return json_form(value._asdict())
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): json_form(item) for key, item in value.items()}
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, Sequence | Set):
        return [json_form(item) for item in value]
    return value


def print_json(value: Any) -> None:
    """Print the JSON form of a value on stdout."""
    # ASCII only: works in any encoding, and no character of a document can control the terminal.
    sys.stdout.write(json.dumps(json_form(value), indent=2, ensure_ascii=True, default=str) + "\n")


Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="KEY",
        envvar="SHOAL_API_KEY",
        show_envvar=False,
        help="API key, if the service needs one. Prefer SHOAL_API_KEY: other users can see command lines.",
    ),
]
TextLanguage = Annotated[
    str | None,
    typer.Option(
        "--language",
        metavar="CODE",
        help="Language of the texts, such as de (ISO 639-1). Default: detected for each passage.",
    ),
]
ChunkTokens = Annotated[
    str | None,
    typer.Option(
        "--chunk-tokens",
        metavar="LOW-HIGH",
        help="Cut into passages of so many tokens, such as 300-800, at changes of topic; any: wherever the "
        "topic changes. Default: that of the settings.",
    ),
]
Owner = Annotated[
    str | None,
    typer.Option("--owner", metavar="NAME", help="Whose notes. Default: SHOAL_NOTE_OWNER, default."),
]


def write_file(lines: Iterable[str], path: Path) -> int:
    """Write lines to a temporary file, move it to `path` and return the line count. Raises ShoalError."""
    count = 0
    if (path.is_symlink() or path.exists()) and not is_regular_file(path):
        # Moving a file onto a device would replace the device for every program on the machine.
        raise ShoalError(
            f"{path} is no regular file, but a link, a pipe or a device; leave it out to write to stdout"
        )
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.absolute().parent)
    except OSError as error:
        raise ShoalError(f"cannot write to {path.absolute().parent}: {error.strerror}") from error
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            for line in lines:
                file.write(line.rstrip("\n") + "\n")
                count += 1
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return count


SQLITE, POSTGRES = "sqlite:///", "postgresql://"
MAIN = "main"


class InterruptedCommandError(Exception):
    """Ctrl-C, with a line that says what was done and what was not."""


Db = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="PATH|URL", help="Database file (default: shoal.db, or SHOAL_DATABASE_URL)."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks and the log of the library.")]

Collection = Annotated[
    str | None,
    typer.Option(
        "--collection", metavar="NAME", help="Collection to use (default: main, or SHOAL_COLLECTION)."
    ),
]

Limit = Annotated[int, typer.Option(min=1, max=1000, help="How many to show.")]
Offset = Annotated[int, typer.Option(min=0, help="How many to skip.")]

_SHARED = {
    "db": (Db, None),
    "collection": (Collection, None),
    "as_json": (Json, False),
    "debug": (Debug, False),
}


opened: list[Settings] = []
"""Of the libraries that this run of the command line has opened, the last one last."""


@dataclass(frozen=True)
class Session:
    """One run of the command line."""

    db: str | None = None
    collection: str | None = None
    as_json: bool = False
    debug: bool = False

    @cached_property
    def out(self) -> Console:
        """Results for people, on stdout."""
        return console(sys.stdout)

    @cached_property
    def err(self) -> Console:
        """Progress, warnings and reasons, on stderr."""
        return console(sys.stderr)

    def emit(self, answer: Any) -> None:
        """Print the JSON form of an answer, the only JSON of this run; nothing without `--json`."""
        if self.as_json:
            print_json(answer)

    def show(self, answer: Any, shown: Shown) -> None:
        """Print an answer as JSON with `--json`, else by the function `shown` or with its members in it."""
        if self.as_json:
            print_json(answer)
        elif callable(shown):
            shown(self, answer)
        elif shown:
            self.say(shown.format_map(json_form(answer)))

    def say(self, text: str) -> None:
        """Print a line for people on stdout; nothing with `--json`."""
        if not self.as_json:
            sys.stdout.write(plain(text) + "\n")

    def say_rest(self, n_shown: int, total: int, none: str) -> None:
        """Say that there are others than those that were shown, or if there are none, `none`."""
        if not total:
            self.say(none)
        elif total > n_shown:
            self.say(f"{n_shown:,} of {total:,}; --limit and --offset show others")

    def warn(self, text: str) -> None:
        """Print a line for people on stderr, also with `--json`."""
        sys.stdout.flush()
        sys.stderr.write(plain(text) + "\n")

    def settings(self, **overrides: Any) -> Settings:
        """The settings of this run: `overrides`, then the options, then the environment. Their database is
        that of the collection `main`. Raises SettingsError."""
        from shoal.settings import Settings

        return Settings.from_environment(
            database_url=database_url(self.db), collection=self.collection, **overrides
        )

    def library_settings(self, *, must_exist: bool = True, **overrides: Any) -> Settings:
        """The same settings with the database of the collection, whose files this process keeps from now on.

        Raises SettingsError, NotFoundError if there is no such collection; with `must_exist`, also
        DatabaseUnavailableError if the database of a collection other than `main` is missing.
        """
        settings = self.settings(**overrides)
        if settings.collection == MAIN:
            return settings
        from contextlib import closing

        from shoal.collections.registry import Registry

        with closing(Registry(settings)) as registry:
            return registry.open_for_process(settings.collection, must_exist=must_exist)

    @contextmanager
    def engine(self, *, must_exist: bool = True) -> Iterator[Engine]:
        """Open an engine on the database of this run.

        With `must_exist`, raises NotFoundError if there is no database: creating one would make a misspelt
        path look like an empty library.
        """
        settings = self.library_settings()
        if must_exist and not settings.may_exist:
            raise NotFoundError(
                f"there is no database {settings.database_place}; `shoal ingest` creates one, `--db` names "
                "another"
            )
        from shoal.engine import Engine

        with Engine(settings=settings) as engine:
            opened.append(settings)
            yield engine


def database_url(path_or_url: str | None) -> str | None:
    """The database URL for the value of `--db`, a path or a URL; None for None. Raises typer.BadParameter."""
    if path_or_url is None:
        return None
    if path_or_url.startswith(POSTGRES):
        return path_or_url
    if "://" in path_or_url and not path_or_url.startswith(SQLITE):
        raise typer.BadParameter(
            "must be a path, sqlite:///PATH or postgresql://USER@HOST:PORT/DATABASE", param_hint="--db"
        )
    path = Path(path_or_url.removeprefix(SQLITE)).expanduser()
    if path_or_url.removeprefix(SQLITE) == "" or path.is_dir():
        raise typer.BadParameter(f"{path_or_url!r} is not the path of a file", param_hint="--db")
    return f"{SQLITE}{path}"


Shown = str | Callable[[Session, Any], None]
"""What prints an answer for people: a text with its members in braces, or a function."""


def printed_by(module: str, name: str) -> Callable[[Session, Any], None]:
    """Return what prints the JSON form of an answer by a function of a module that is imported only then."""

    def shown(session: Session, answer: Any) -> None:
        getattr(importlib.import_module(f"shoal.cli.{module}"), name)(session.out, json_form(answer))

    return shown


def command(
    app: typer.Typer,
    name: str,
    declared: Sequence[inspect.Parameter] = (),
    *,
    shown: Shown = "",
    **options: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that registers `function(session, ...)` as the command `name` with the shared options.

    The function takes the `declared` options in `**options`. What it returns, if anything, is its answer, and
    printed as JSON or as `shown`. The JSON of a page has its limit and offset.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        of_function = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        own = [p for p in of_function if p.kind is not inspect.Parameter.VAR_KEYWORD] + [*declared]
        shared = [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for key, (annotation, default) in _SHARED.items()
        ]
        context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + [context, *shared]

        @functools.wraps(function)
        def run(**arguments: Any) -> None:
            session = _merged(arguments.pop("context").obj, {key: arguments.pop(key) for key in _SHARED})
            try:
                answer = function(session, **arguments)
                if session.as_json and hasattr(answer, "total"):
                    answer = {**json_form(answer), **{name: arguments[name] for name in ("limit", "offset")}}
                if answer is not None:
                    session.show(answer, shown)
            except BrokenPipeError as error:  # Typer would report it as a failure
                raise ClosedPipeError from error

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        app.command(name, **options)(run)
        return function

    return register


def add_group(
    app: typer.Typer,
    name: str,
    about: str,
    *commands: tuple[str, Callable[..., Any], Shown],
    declared: Mapping[str, Sequence[inspect.Parameter]] = MappingProxyType({}),
) -> typer.Typer:
    """Add a group of commands, each with its name, its function and what prints its answer.

    `declared`: options of some of them, by name.
    """
    group = typer.Typer(no_args_is_help=True, help=about)
    for each, function, shown in commands:
        command(group, each, declared.get(each, ()), shown=shown)(function)
    app.add_typer(group, name=name)
    return group


def _merged(before: Session, after: Mapping[str, Any]) -> Session:
    return Session(
        db=after["db"] if after["db"] is not None else before.db,
        collection=after["collection"] if after["collection"] is not None else before.collection,
        as_json=before.as_json or after["as_json"],
        debug=before.debug or after["debug"],
    )


def is_url(path: str) -> bool:
    """Whether an argument is a URL of the web rather than a path."""
    return path.lower().startswith(("http://", "https://"))


def split_tags(text: str | None) -> tuple[str, ...]:
    """Split `a, b` to ("a", "b"), without empty parts."""
    return tuple(part for part in (piece.strip() for piece in (text or "").split(",")) if part)
