"""PostgreSQL with a standby, RabbitMQ and Redis on hosts of the trial, each with its own data in a folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from cluster_network import SUBNET, Host
from waiting import until

POSTGRES_BIN = Path("/usr/lib/postgresql/15/bin")
RABBITMQ_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
WRITE_ADDRESS, READ_ADDRESS = f"{SUBNET}.200", f"{SUBNET}.201"
"""They move: the first to the host with the primary, the second to that with the standby."""

# Commits wait for the standby, so a failover loses none that was confirmed.
PRIMARY_CONF = """
listen_addresses = '*'
unix_socket_directories = ''
max_connections = 150
wal_level = replica
max_wal_senders = 10
wal_keep_size = '512MB'
wal_sender_timeout = '10s'
wal_receiver_timeout = '10s'
wal_receiver_status_interval = '2s'
wal_retrieve_retry_interval = '1s'
tcp_keepalives_idle = 10
tcp_keepalives_interval = 5
tcp_keepalives_count = 3
tcp_user_timeout = '20s'
hot_standby = on
log_min_duration_statement = '5s'
"""
TRUST = f"""
host all all 127.0.0.1/32 trust
host all all {SUBNET}.0/24 trust
host replication all {SUBNET}.0/24 trust
"""


def accepts(address: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=2):
        return True
    return False


class Server:
    """A server on a host, which writes a log into `folder`."""

    def __init__(self, host: Host, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.host, self.folder = host, folder
        self._process: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        """Kill all its processes at once, as if the machine had lost its power."""
        self.host.kill_all()
        if self._process is not None:
            self._process.wait(30)

    def _start(self, command: list[str], **options: object) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = self.host.start(command, log, **options)  # type: ignore[arg-type]


class RabbitMQ(Server):
    def start(self) -> None:
        (self.folder / "rabbitmq.conf").write_text("listeners.tcp.1 = 0.0.0.0:5672\nloopback_users = none\n")
        environment = {
            "HOME": str(self.folder),
            "RABBITMQ_NODENAME": "rabbit@localhost",
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "logs"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        self._start([str(RABBITMQ_SERVER)], environment=environment)

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{self.host.address}:5672//"

    def empty(self) -> None:
        shutil.rmtree(self.folder / "data", ignore_errors=True)

    def is_up(self) -> bool:
        return accepts(self.host.address, 5672)


class Redis(Server):
    def start(self) -> None:
        options = ["--bind", "0.0.0.0", "--protected-mode", "no", "--save", "", "--dir", str(self.folder)]
        self._start(["redis-server", *options])

    @property
    def url(self) -> str:
        return f"redis://{self.host.address}:6379/0"

    def empty(self) -> None:
        """It keeps nothing."""

    def is_up(self) -> bool:
        return accepts(self.host.address, 6379)


class Postgres(Server):
    """One PostgreSQL. `folder` belongs to the user postgres, who may pass through its parents."""

    def __init__(self, host: Host, folder: Path) -> None:
        super().__init__(host, folder)
        shutil.chown(folder, "postgres", "postgres")
        self.data = folder / "data"

    def make_primary(self) -> None:
        initdb = ["initdb", "-D", str(self.data), "-A", "trust", "-U", "shoal", "-E", "UTF8", "--locale=C"]
        self._program(*initdb)
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write(PRIMARY_CONF)
        with (self.data / "pg_hba.conf").open("a") as rules:
            rules.write(TRUST)

    def make_standby(self, of: Postgres) -> None:
        """Copy the primary anew. What this server had is discarded."""
        shutil.rmtree(self.data, ignore_errors=True)
        source = f"host={of.host.address} user=shoal application_name={self.host.name} connect_timeout=5"
        self._program(
            "pg_basebackup", "-d", source, "-D", str(self.data), "-R", "-X", "stream", "-c", "fast",
            timeout=600,
        )  # fmt: skip

    def start(self) -> None:
        with contextlib.suppress(OSError):
            (self.data / "postmaster.pid").unlink()
        self._start([str(POSTGRES_BIN / "postgres"), "-D", str(self.data)], user="postgres")

    def is_up(self) -> bool:
        # Not through the network, which may be cut.
        ready = [str(POSTGRES_BIN / "pg_isready"), "-q", "-h", "127.0.0.1", "-t", "3"]
        try:
            self.host.run(ready, user="postgres")
        except RuntimeError:
            return False
        return True

    def sql(self, statement: str, database: str = "postgres") -> str:
        psql = ["psql", "-h", "127.0.0.1", "-U", "shoal", "-d", database, "-XAt", "-v", "ON_ERROR_STOP=1"]
        return self.host.run([*psql, "-c", statement], user="postgres", timeout=30).strip()

    def promote(self) -> None:
        self._program("pg_ctl", "promote", "-D", str(self.data), "-w", "-t", "60")

    def wait_for_standby(self, required: bool) -> None:
        """Let commits wait for the standby or not."""
        names = "*" if required else ""
        self.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        self.sql("SELECT pg_reload_conf()")

    def has_standby(self) -> bool:
        with contextlib.suppress(RuntimeError):
            state = "SELECT COUNT(*) FROM pg_stat_replication WHERE state = 'streaming'"
            return int(self.sql(state)) > 0
        return False

    def _program(self, name: str, *arguments: str, timeout: float = 120) -> None:
        self.host.run([str(POSTGRES_BIN / name), *arguments], user="postgres", timeout=timeout)


class PostgresPair:
    """A primary and a standby, with an address for writing and one for reading that move with the roles."""

    def __init__(self, first: Host, second: Host, folder: Path) -> None:
        self.primary = Postgres(first, folder / first.name)
        self.standby = Postgres(second, folder / second.name)

    @property
    def url(self) -> str:
        return f"postgresql://shoal@{WRITE_ADDRESS}:5432/shoal"

    @property
    def read_url(self) -> str:
        return f"postgresql://shoal@{READ_ADDRESS}:5432/shoal"

    def start(self) -> None:
        self.primary.make_primary()
        self.primary.start()
        until(self.primary.is_up)
        self.primary.sql("CREATE DATABASE shoal TEMPLATE template0 ENCODING 'UTF8'")
        self.primary.host.add_address(WRITE_ADDRESS)
        self._add_standby()
        self.standby.host.add_address(READ_ADDRESS)

    def _add_standby(self) -> None:
        self.standby.make_standby(self.primary)
        self.standby.start()
        until(self.standby.is_up)
        until(self.primary.has_standby)
        self.primary.wait_for_standby(True)

    def fail_over(self) -> float:
        """Kill the primary for good, promote the standby and build a new standby in the old one's place.

        Return the seconds without a primary. They include a pause, the time an operator needs to notice.
        """
        self.primary.kill()
        gone = time.monotonic()
        self.primary.host.remove_address(WRITE_ADDRESS)
        self.standby.host.remove_address(READ_ADDRESS)
        time.sleep(2)
        self.primary, self.standby = self.standby, self.primary
        self.primary.promote()
        self.primary.wait_for_standby(False)
        self.primary.host.add_address(WRITE_ADDRESS)
        seconds = time.monotonic() - gone
        self._add_standby()
        self.standby.host.add_address(READ_ADDRESS)
        return seconds


def why_no_postgres() -> str:
    return "" if (POSTGRES_BIN / "postgres").exists() else f"there is no PostgreSQL in {POSTGRES_BIN}"


def why_no_broker(name: str) -> str:
    found = RABBITMQ_SERVER.exists() if name == "rabbitmq" else shutil.which("redis-server")
    return "" if found else f"there is no server of {name}"


def private_folder(owner: int | None = None) -> Path:
    """A folder for one trial, which the user postgres may pass through."""
    folder = Path(f"/tmp/shoal-trial-{owner or os.getpid()}")
    folder.mkdir(mode=0o755, exist_ok=True)
    return folder
