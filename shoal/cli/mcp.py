"""The command `shoal mcp`: a server for agents."""

from __future__ import annotations

import importlib.util
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.session import MAIN, Key, Owner, Session, command
from shoal.errors import SettingsError, ShoalError

if TYPE_CHECKING:
    from shoal.mcp.backend import Backend
    from shoal.mcp.client_configuration import ClientConfiguration
    from shoal.notes.environment import Environment
    from shoal.settings import Settings

LOOPBACK = "127.0.0.1"
MAX_PORT = 65_535
PREFIX_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")

Http = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="HOST:PORT",
        help="Serve over HTTP at this address instead of stdio; a port alone means 127.0.0.1.",
    ),
]
OtherServer = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help="Use a running service instead of the database."),
]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Only tools that change nothing.")]
Prefix = Annotated[
    str,
    typer.Option(
        "--prefix",
        metavar="NAME",
        help="Begins the names of the tools for notes; `engrammar` gives those of that system.",
    ),
]
AllTools = Annotated[
    bool,
    typer.Option(
        "--all-tools",
        help="Also the tools that few agents need. With `--prefix engrammar`, they are there without it.",
    ),
]
PrintConfig = Annotated[
    bool, typer.Option("--print-config", help="Print the configuration for common clients and exit.")
]


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, "mcp")(mcp)


def mcp(
    session: Session,
    http: Http = None,
    server: OtherServer = None,
    key: Key = None,
    read_only: ReadOnly = False,
    prefix: Prefix = "note",
    owner: Owner = None,
    all_tools: AllTools = False,
    print_config: PrintConfig = False,
) -> None:
    """Serve the library to agents, over the Model Context Protocol.

    Agents start this command themselves and speak to it over stdin and stdout; --print-config prints what
    to put into their configuration. With --http, agents connect to an address: it needs the keys of
    SHOAL_API_KEYS if it has any, and without keys serves this machine only.

    \b
        shoal mcp --print-config            how to tell an agent
        shoal --db notes.db mcp --http 8010
        shoal mcp --server http://127.0.0.1:8000
    """
    settings = session.settings(note_owner=owner)
    if not PREFIX_NAME.fullmatch(prefix):
        raise typer.BadParameter("must be a lower-case word of letters, digits and _", param_hint="--prefix")
    address = None if http is None else _address(http)
    if print_config:
        flags = ["--read-only"] * read_only + (["--prefix", prefix] if prefix != "note" else [])
        flags += ["--owner", owner] if owner else []
        flags += ["--all-tools"] * all_tools
        flags += ["--collection", settings.collection] if settings.collection != MAIN else []
        _print_configurations(session, settings, address, [*(["--server", server] if server else []), *flags])
        return
    if importlib.util.find_spec("mcp") is None:
        raise ShoalError("the MCP server needs the package mcp: `pip install 'shoal[mcp]'`")
    if address is not None:
        _check_address(settings, address[0])
    from shoal.service import process_setup

    process_setup.configure(settings, service="mcp")
    with _backend(session, server, key) as backend:
        from shoal.mcp.note_tools import OTHER_ID
        from shoal.mcp.server import ServerOptions, make_server

        # A client over HTTP works elsewhere.
        here = _environment_here(settings) if address is None else None
        is_whole = all_tools or prefix in OTHER_ID
        options = ServerOptions(read_only, prefix, settings.note_owner, here, is_whole)
        shoal_server = make_server(backend, options)
        # The first request need not wait for what takes a second to load.
        threading.Thread(target=backend.start, daemon=True).start()
        if address is None:
            shoal_server.run("stdio")
            return
        from shoal.mcp.http_service import serve

        serve(shoal_server, settings, *address, listens=lambda url: session.warn(f"MCP server on {url}"))


@contextmanager
def _backend(session: Session, server: str | None, key: str | None) -> Iterator[Backend]:
    if server is None:
        from shoal.mcp.backend import EngineBackend

        with session.engine() as engine:
            engine.limit_reads(engine.settings.search_timeout)
            yield EngineBackend(engine)
        return
    from shoal.client import Client
    from shoal.mcp.backend import ClientBackend

    with Client(server, key=key, collection=session.settings().collection) as client:
        yield ClientBackend(client)


def _address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, `[::1]:PORT` or `PORT`. Raises typer.BadParameter."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= MAX_PORT):
        raise typer.BadParameter(f"{text!r} is not HOST:PORT, such as 127.0.0.1:8010", param_hint="--http")
    return host.strip("[]") or LOOPBACK, int(port)


def _check_address(settings: Settings, host: str) -> None:
    """Raise SettingsError for an address that other machines can reach, without keys."""
    import dataclasses

    from shoal.access.key_store import has_keys
    from shoal.service.addresses import check_listen_address

    check_listen_address(
        dataclasses.replace(settings, host=host), program="`shoal mcp --http`", has_keys=has_keys(settings)
    )


def _environment_here(settings: Settings) -> Environment:
    """Return the environment of the folder in which an agent started this command."""
    from shoal.notes.environment import detect
    from shoal.support.patterns import parse_path_tags

    return detect(Path.cwd(), path_tags=parse_path_tags(settings.note_path_tags))


def _print_configurations(
    session: Session, settings: Settings, address: tuple[str, int] | None, options: Sequence[str]
) -> None:
    """Print the configurations of the server that the other options describe."""
    configurations = _configurations(session, settings, address, options)
    session.emit(configurations)
    for configuration in configurations:
        session.say(f"# {configuration.clients} ({configuration.place})\n{configuration.text}")


def _configurations(
    session: Session, settings: Settings, address: tuple[str, int] | None, options: Sequence[str]
) -> list[ClientConfiguration]:
    from shoal.access.key_store import has_keys
    from shoal.mcp.client_configuration import for_address, for_command

    if address is not None:
        if address[1] == 0:
            raise SettingsError("--print-config needs a port other than 0")
        host = f"[{address[0]}]" if ":" in address[0] else address[0]
        needs_key = bool(settings.api_keys) or has_keys(settings)
        return for_address(f"http://{host}:{address[1]}/mcp", needs_key=needs_key)
    if "--server" not in options and settings.shown_database_url == settings.database_url:
        options = [
            "--db",
            str(settings.database_path) if settings.is_sqlite else settings.database_url,
            *options,
        ]
    elif "--server" not in options:
        session.warn("the URL of the database has a password: set SHOAL_DATABASE_URL where the agent runs")
    program = Path(sys.executable).with_name("shoal")
    # Agents start the command in any folder, with another PATH.
    start = [str(program)] if program.exists() else [sys.executable, "-P", "-m", "shoal.cli"]
    return for_command([*start, "mcp", *options])
