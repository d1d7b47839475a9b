"""Commands that run the service or its parts, and commands about the program itself."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import sys
import tempfile
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from shoal import __version__
from shoal.cli.session import Session, command
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.cli.supervisor import Supervisor
    from shoal.settings import Settings

API_MODULE = "shoal_api"
WORKER_MODULE = "shoal_worker"

Port = Annotated[
    int | None,
    typer.Option(
        "--port", min=0, max=65535, help="Port of the API; 0: any free port. Default: SHOAL_PORT, 8000."
    ),
]
Host = Annotated[
    str | None,
    typer.Option("--host", metavar="ADDRESS", help="Address to listen on. Default: SHOAL_HOST, 127.0.0.1."),
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Worker processes. Default: SHOAL_WORKERS, 1.")
]
ApiProcesses = Annotated[
    int | None,
    typer.Option("--api-processes", min=1, help="Processes of the API. Default: SHOAL_API_PROCESSES, 1."),
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


def up(
    session: Session,
    port: Port = None,
    workers: Workers = None,
    host: Host = None,
    api_processes: ApiProcesses = None,
) -> None:
    """Run the whole service on this machine.

    Runs the API and the workers until Ctrl-C, and migrates the database first. Messages go through a folder
    beside the database unless SHOAL_BROKER_URL names Redis or RabbitMQ. A process that dies is started again.
    Ctrl-C or SIGTERM stops everything after the workers have finished their current work. The logs of all
    processes go to stderr. Two services may share one library on different ports; the second prints a
    warning.

    \b
        shoal up --port 9000 --workers 2
        shoal up 2> shoal.log
    """
    from shoal.access.key_store import has_keys
    from shoal.cli.supervisor import Supervisor, environment_of, reserve_port
    from shoal.service.addresses import check_listen_address

    overrides = {"workers": workers, "host": host, "api_processes": api_processes}
    settings = session.settings(port=port, **overrides)
    check_listen_address(settings, program="`shoal up`", has_keys=has_keys(settings))
    free_port = reserve_port(settings.host, settings.port)
    settings = session.settings(port=free_port, **overrides)
    _migrate(settings)
    _warn_of_other_services(session, settings)
    environment = environment_of(settings)
    n_apis = settings.api_processes
    names = ["api"] if n_apis == 1 else [f"api {n}" for n in range(1, n_apis + 1)]
    children = {**dict.fromkeys(names, _module(API_MODULE)), "worker": _module(WORKER_MODULE)}
    with tempfile.TemporaryDirectory(prefix="shoal-metrics-") as metrics_folder:
        if n_apis > 1:
            environment["PROMETHEUS_MULTIPROC_DIR"] = metrics_folder
        _run(session, Supervisor(children, environment, session.warn), settings)
    session.warn("all processes have stopped")


def _run(session: Session, supervisor: Supervisor, settings: Settings) -> None:
    """Run the service until it is stopped, and say where it listens."""
    from shoal.cli.supervisor import reachable
    from shoal.service.addresses import announced

    free_port = settings.port
    with supervisor.running():
        if not supervisor.wait_until_ready(settings.host, free_port):
            return
        name = reachable(settings.host)
        url = f"http://{f'[{name}]' if ':' in name else name}:{free_port}"
        session.emit({"url": url, "pid": os.getpid(), "database": settings.shown_database_url})
        session.say(f"Shoal listens on {url} (documentation: {url}/docs). Ctrl-C ends it.")
        sys.stdout.flush()
        with announced(settings.database_path, url) if settings.is_sqlite else contextlib.nullcontext():
            supervisor.watch()
        session.warn("stopping; work in progress is finished first (Ctrl-C again stops at once)")


def serve(session: Session, port: Port = None, host: Host = None) -> None:
    """Run the API alone.

    Migrates the database first, as `shoal migrate` does. Accepted jobs wait for a `shoal worker`.
    """
    _exec_module(session, API_MODULE, port=port, host=host)


def worker(session: Session, workers: Workers = None) -> None:
    """Run workers alone.

    They process the jobs that the API accepts. Run `shoal migrate` first.
    """
    _exec_module(session, WORKER_MODULE, workers=workers)


def migrate(session: Session) -> None:
    """Migrate the database to the current schema.

    Creates the database if there is none. Does nothing if it is already up to date.
    """
    settings = session.library_settings()
    changed = _migrate(settings)
    session.emit({"database": settings.shown_database_url, "changed": changed})
    session.say(f"{settings.database_place} {'is now up to date' if changed else 'was already up to date'}")


def show_settings(session: Session) -> None:
    """List every setting.

    Shows value, default and meaning. Settings are environment variables. Keys and passwords are hidden.
    """
    from shoal.settings import describe, shown

    values = session.settings().environment()
    rows = [
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
        session.emit(rows)
        return
    from shoal.cli.tables import print_settings

    print_settings(session.out, rows)


def new_key(
    session: Session,
    read: Annotated[bool, typer.Option("--read", help="A key that can only read and search.")] = False,
    admin: Annotated[bool, typer.Option("--admin", help="A key that can also manage keys.")] = False,
) -> None:
    """Make a key for SHOAL_API_KEYS.

    The key is random and not stored. Set it in SHOAL_API_KEYS of the service, as it is or hashed, and give it
    to the clients. Clients send it as `Authorization: Bearer KEY`; commands take it from SHOAL_API_KEY. Keys
    of `shoal key create` need no restart, and may be for some collections only.

    \b
        shoal new-key --read
    """
    from shoal.support import api_keys

    if read and admin:
        raise typer.BadParameter("cannot be used with --admin", param_hint="--read")
    scope = api_keys.Scope.admin if admin else api_keys.Scope.read if read else api_keys.Scope.write
    key = api_keys.new_key()
    session.emit({"key": key, "scope": scope, "hashed": f"{scope}:{api_keys.hash_key(key)}"})
    session.say(f"key:                {key}")
    session.say(f"in SHOAL_API_KEYS:  {scope}:{key}")
    session.say(f"or, hashed:         {scope}:{api_keys.hash_key(key)}")


def version(session: Session) -> None:
    """Print the version of the program."""
    session.emit({"shoal": __version__, "python": ".".join(map(str, sys.version_info[:3]))})
    session.say(f"shoal {__version__}")


def _migrate(settings: Settings) -> bool:
    from shoal.storage.migrate import upgrade
    from shoal.storage.opening import open_database

    with contextlib.closing(open_database(settings.database_url, settings.data_path)) as database:
        return upgrade(database)


def _warn_of_other_services(session: Session, settings: Settings) -> None:
    """Warn if other workers use the same library, which is allowed but rarely intended."""
    from shoal.jobs.queue.queries import live_workers
    from shoal.storage.opening import open_database
    from shoal.storage.statistics import WORKER_SEEN_SECONDS

    with contextlib.closing(open_database(settings.database_url, settings.data_path)) as database:
        workers = live_workers(database, WORKER_SEEN_SECONDS)
    hostname = socket.gethostname()
    alive = [worker for worker in workers if worker.hostname != hostname or _is_alive(worker.pid)]
    if alive:
        processes = ", ".join(f"process {worker.pid} on {worker.hostname}" for worker in alive)
        session.warn(
            f"another service already uses {settings.database_place} ({processes}); both will share its "
            "jobs. --db names another library"
        )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _module(name: str) -> list[str]:
    """The command that runs a module of the service. Raises ShoalError if it is not installed."""
    if importlib.util.find_spec(name) is None:
        raise ShoalError(f"the package {name} is not installed; `make install` installs all of Shoal")
    # -P: a file in the working directory must not shadow a module of Shoal.
    return [sys.executable, "-P", "-m", name]


def _exec_module(session: Session, module: str, **overrides: Any) -> NoReturn:
    """Replace this process with a module of the service, so that signals reach it directly."""
    from shoal.cli.supervisor import environment_of

    environment = environment_of(session.settings(**overrides))
    arguments = _module(module)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(arguments[0], arguments, environment)  # noqa: S606 - a fixed argument list, without a shell
