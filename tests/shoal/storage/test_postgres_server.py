"""A PostgreSQL of its own that crashes during commits, and that has no free connection."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from waiting import until

from shoal.errors import CommitUnknownError, DatabaseUnavailableError
from shoal.storage import migrate
from shoal.storage.opening import open_database
from shoal.storage.postgres.database import PostgresDatabase

FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
MAX_CONNECTIONS = 12
INSERT = "INSERT INTO workers VALUES (:name, 'host', 1, 1, '1', 'then', 0)"
BACKENDS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'shoal' AND pid <> pg_backend_pid()"
CRASHES = 3

pytestmark = [
    pytest.mark.skipif(not os.environ.get("SHOAL_TEST_LONG"), reason="starts a server: SHOAL_TEST_LONG=1"),
    pytest.mark.skipif(not FOLDERS, reason="there is no PostgreSQL in /usr/lib/postgresql"),
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of a migrated library in a server of its own, which does not run as root."""
    folder = Path(tempfile.mkdtemp(prefix="shoal-postgres-"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    user = "postgres" if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(folder, user)
    programs, data = FOLDERS[-1].parent, folder / "data"
    made = [programs / "initdb", "-D", data, "-A", "trust", "-U", "shoal", "-E", "UTF8", "--locale=C", "-N"]
    subprocess.run(made, check=True, capture_output=True, user=user, cwd="/")
    options = {
        "port": port,
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "max_connections": MAX_CONNECTIONS,
        "max_wal_senders": 0,
    }
    arguments = [each for name, value in options.items() for each in ("-c", f"{name}={value}")]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, *arguments], stdout=log, stderr=log, user=user, cwd="/"
        )
    address = f"postgresql://shoal@127.0.0.1:{port}/postgres"
    try:
        until(lambda: _answers(address))
        with closing(open_database(address)) as database:
            migrate.upgrade(database)
        yield address
    finally:
        server.send_signal(signal.SIGQUIT)
        server.wait(60)
        shutil.rmtree(folder)


def _answers(address: str) -> bool:
    try:
        psycopg.connect(address).close()
    except psycopg.OperationalError:
        return False
    return True


def test_each_change_that_was_confirmed_is_there_once_after_crashes(url: str) -> None:
    confirmed, refused, unknown = set[str](), set[str](), set[str]()
    stopping = threading.Event()

    def write(writer: int, database: PostgresDatabase) -> None:
        number = 0
        while not stopping.is_set():
            number += 1
            name = f"{writer}-{number}"
            try:
                with database.write() as transaction:
                    transaction.execute(INSERT, {"name": name})
            except CommitUnknownError:
                unknown.add(name)
            except DatabaseUnavailableError:
                refused.add(name)
                stopping.wait(0.01)
            else:
                confirmed.add(name)

    with closing(open_database(url)) as database:
        assert isinstance(database, PostgresDatabase)
        threads = [threading.Thread(target=write, args=(n, database)) for n in range(2)]
        for thread in threads:
            thread.start()
        for crash in range(1, CRASHES + 1):
            until(lambda n=crash * 50: len(confirmed) >= n)  # type: ignore[misc]
            with psycopg.connect(url) as connection:
                (pid,) = connection.execute(BACKENDS).fetchone() or (0,)
            # The server ends all other connections, and recovers.
            os.kill(pid, signal.SIGKILL)
        until(lambda: len(confirmed) >= (CRASHES + 1) * 50)
        stopping.set()
        for thread in threads:
            thread.join(60)
        with database.snapshot() as snapshot:
            names = {name for (name,) in snapshot.tuples("SELECT name FROM workers")}
    assert confirmed <= names
    assert not refused & names
    assert names <= confirmed | unknown
    assert refused


def test_a_server_without_a_free_connection_is_used_when_one_is_free(url: str) -> None:
    taken = []
    with contextlib.suppress(psycopg.OperationalError):
        while True:
            taken.append(psycopg.connect(url))
    with closing(open_database(url)) as database:
        with pytest.raises(DatabaseUnavailableError, match="max_connections"):
            database.now()
        waiting = threading.Timer(0.2, taken.pop().close)
        waiting.start()
        assert database.now() > 0
        waiting.join()
    for connection in taken:
        connection.close()
