"""Commands that run the service or its parts, and those about the program itself."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from shoal import __version__
from shoal.cli.session import Session, command
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.settings import Settings

API_MODULE = "shoal_api"
WORKER_MODULE = "shoal_worker"

Port = Annotated[
    int | None,
    typer.Option(
        "--port", min=0, max=65535, help="Port of the API; 0: any free one. Default: SHOAL_PORT, 8000."
    ),
]
Host = Annotated[
    str | None,
    typer.Option("--host", metavar="ADDRESS", help="Address to listen on. Default: SHOAL_HOST, 127.0.0.1."),
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Worker processes. Default: SHOAL_WORKERS, 1.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "up")(up)
    command(app, "serve")(serve)
    command(app, "worker")(worker)
    command(app, "migrate")(migrate)
    command(app, "settings")(show_settings)
    command(app, "new-key")(new_key)
    command(app, "version")(version)


def up(session: Session, port: Port = None, workers: Workers = None, host: Host = None) -> None:
    """Run the whole service on this machine.

    That is the API and the workers, until Ctrl-C. The database is brought up to date first. Messages travel through a folder beside the database unless
    SHOAL_BROKER_URL names a Redis. A process that dies is started again; Ctrl-C or SIGTERM ends everything,
    after what the workers have in hand. The logs of all processes go to stderr. Two of them may work on one library, from
    different ports; the second says so.

    \b
        shoal up --port 9000 --workers 2
        shoal up 2> shoal.log
    """
    from shoal.cli.supervisor import Supervisor, environment_of, reachable, reserve_port
    from shoal.service.listen_address import check_binding

    settings = session.settings(port=port, workers=workers, host=host)
    check_binding(settings, program="`shoal up`")
    chosen = reserve_port(settings.host, settings.port)
    settings = session.settings(port=chosen, workers=workers, host=host)
    _migrate(session, settings)
    _tell_of_others(session, settings)
    supervisor = Supervisor(
        {"api": _module(API_MODULE), "worker": _module(WORKER_MODULE)}, environment_of(settings), session.warn
    )
    with supervisor.running():
        if not supervisor.wait_until_ready(settings.host, chosen):
            return
        name = reachable(settings.host)
        url = f"http://{f'[{name}]' if ':' in name else name}:{chosen}"
        if session.as_json:
            session.emit({"url": url, "pid": os.getpid(), "database": settings.database_url})
        session.say(f"Shoal listens on {url} (documentation: {url}/docs). Ctrl-C ends it.")
        sys.stdout.flush()
        supervisor.watch()
        session.warn("ending; work in progress is finished first (Ctrl-C again ends at once)")
    session.warn("everything has ended")


def serve(session: Session, port: Port = None, host: Host = None) -> None:
    """Run the API alone.

    It brings the database up to date first, as `shoal migrate` does. What it accepts waits for a `shoal worker`.
    """
    _become(session, API_MODULE, port=port, host=host)


def worker(session: Session, workers: Workers = None) -> None:
    """Run workers alone.

    They take in what the API accepts. They need `shoal migrate` first.
    """
    _become(session, WORKER_MODULE, workers=workers)


def migrate(session: Session) -> None:
    """Bring the database up to date.

    Makes it where there is none. Does nothing where nothing is to be done.
    """
    settings = session.settings()
    changed = _migrate(session, settings)
    if session.as_json:
        session.emit({"database": settings.database_url, "changed": changed})
    session.say(f"{settings.database_path} {'is ready now' if changed else 'was ready already'}")


def show_settings(session: Session) -> None:
    """List every setting.

    With its value, default and meaning. Settings are environment variables. Keys and passwords are not shown.
    """
    from shoal.settings import describe, shown

    values = session.settings().environment()
    listed = [
        {
            "name": setting["name"],
            "value": shown(setting["name"], values.get(setting["name"], setting["default"])),
            "default": setting["default"],
            "type": setting["type"],
            "meaning": setting["meaning"],
        }
        for setting in describe()
    ]
    if session.as_json:
        session.emit(listed)
        return
    from shoal.cli.tables import print_settings

    print_settings(session.out, listed)


def new_key(
    session: Session,
    read: Annotated[bool, typer.Option("--read", help="A key that may read and search only.")] = False,
) -> None:
    """Make a key for the API.

    It is random and kept nowhere: give it to the service in SHOAL_API_KEYS, as it is or hashed, and to whoever
    may use the service, who sends it as `Authorization: Bearer KEY` (commands: SHOAL_API_KEY).

    \b
        shoal new-key --read
    """
    from shoal.support import api_keys

    key, scope = api_keys.new_key(), api_keys.Scope.read if read else api_keys.Scope.write
    if session.as_json:
        session.emit({"key": key, "scope": scope, "hashed": f"{scope}:{api_keys.hashed(key)}"})
    session.say(f"key:                {key}")
    session.say(f"in SHOAL_API_KEYS:  {scope}:{key}")
    session.say(f"or, hashed:         {scope}:{api_keys.hashed(key)}")


def version(session: Session) -> None:
    """Print the version of the program."""
    if session.as_json:
        session.emit({"shoal": __version__, "python": ".".join(map(str, sys.version_info[:3]))})
    session.say(f"shoal {__version__}")


def _migrate(session: Session, settings: Any) -> bool:
    from shoal.storage.database import Database
    from shoal.storage.migrate import upgrade

    database = Database(settings.database_url)
    try:
        return upgrade(database)
    finally:
        database.close()


def _tell_of_others(session: Session, settings: Settings) -> None:
    """Say that others work on the same library: it is allowed, but seldom what somebody wants who starts a service."""
    from shoal.jobs.queue.queries import workers_seen
    from shoal.storage.database import Database
    from shoal.storage.statistics import WORKER_SEEN_SECONDS

    database = Database(settings.database_url)
    try:
        seen = workers_seen(database, WORKER_SEEN_SECONDS)
    finally:
        database.close()
    alive = [one for one in seen if one.hostname != socket.gethostname() or _lives(one.pid)]
    if alive:
        named = ", ".join(f"process {one.pid} on {one.hostname}" for one in alive)
        session.warn(
            f"another service works on {settings.database_path} already ({named}); both will share its jobs. "
            "--db names another library"
        )


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _module(name: str) -> list[str]:
    """The command that runs a service's module. Raises ShoalError if it is not installed."""
    if importlib.util.find_spec(name) is None:
        raise ShoalError(f"the package {name} is not installed; `make install` installs all of Shoal")
    # -P: a file in the working directory must not pass for a module of ours.
    return [sys.executable, "-P", "-m", name]


def _become(session: Session, module: str, **overrides: Any) -> NoReturn:
    """Replace this process with a service's, so that signals reach it directly."""
    from shoal.cli.supervisor import environment_of

    environment = environment_of(session.settings(**overrides))
    arguments = _module(module)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(arguments[0], arguments, environment)  # noqa: S606 - a fixed argument list, without a shell
