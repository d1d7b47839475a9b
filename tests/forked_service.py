"""The API and the worker as processes that start in a fraction of a second, for tests of a running service."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forks import ROOT, ForkServer
from waiting import until

from shoal.cli.supervisor import is_ready, reserve_port
from shoal.storage import migrate
from shoal.storage.opening import open_database

HOST = "127.0.0.1"
API = ROOT / "api" / "shoal_api" / "__main__.py"
WORKER = ROOT / "worker" / "shoal_worker" / "__main__.py"


def make_library(path: Path) -> None:
    """Make an empty library, which takes a service a second."""
    database = open_database(f"sqlite:///{path}")
    migrate.upgrade(database)
    database.close()


@contextmanager
def forked_service(
    forks: ForkServer, folder: Path, *, has_worker: bool = True, **environment: str
) -> Iterator[str]:
    """Run a service, with its library and its log in `folder`, and yield its URL.

    It differs from `shoal up` in that nothing restarts a process, and that it is killed in the end.
    `environment` has settings.
    """
    make_library(folder / "shoal.db")
    port = reserve_port(HOST, 0)
    address = {"SHOAL_DATABASE_URL": f"sqlite:///{folder / 'shoal.db'}", "SHOAL_PORT": str(port)}
    programs = [API, WORKER] if has_worker else [API]
    path = folder / "service.log"
    with path.open("ab") as log:
        everything = os.environ | address | environment
        processes = [forks.start([str(each)], folder, everything, log.fileno()) for each in programs]
    try:
        until(lambda: is_ready(HOST, port) or any(process.poll() is not None for process in processes))
        assert all(process.poll() is None for process in processes), path.read_text()
        yield f"http://{HOST}:{port}"
    finally:
        for process in processes:
            process.kill_session()
