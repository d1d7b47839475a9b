"""The machines of the trial: APIs, workers, broker and PostgreSQL on hosts of one network."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import httpx
from cluster_network import Host, Network, why_not, wrong_clock
from cluster_servers import PostgresPair, RabbitMQ, Redis, why_no_broker, why_no_postgres
from waiting import until

ROOT = Path(__file__).resolve().parents[2]
PYTHONPATH = [str(ROOT), str(ROOT / "api"), str(ROOT / "worker")]
SHOAL = [sys.executable, "-m", "shoal.cli"]
N_APIS, N_WORKERS = 2, 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What the trial does. `longest`: of a partition, seconds. `pauses`: between two events, seconds."""

    store: str = "postgresql"
    broker: str = "rabbitmq"
    kills: int = 20
    partitions: int = 10
    shortest: float = 5.0
    longest: float = 60.0
    pauses: tuple[float, float] = (3.0, 9.0)
    texts: Path | None = None
    seed: int = 7
    wave_bytes: int = 4 * 1024 * 1024

    def why_not(self) -> str:
        """Return why this machine cannot do it, or nothing."""
        return (
            why_not()
            or why_no_broker(self.broker)
            or (why_no_postgres() if self.store == "postgresql" else "")
        )

    def settings(self) -> dict[str, str]:
        """Settings of all services, in the cluster and without trouble."""
        return {
            "PYTHONPATH": ":".join(PYTHONPATH),
            "SHOAL_ALLOW_ANONYMOUS": "1",
            "SHOAL_HOST": "0.0.0.0",
            "SHOAL_RECONCILE_SECONDS": "0.5",
            "SHOAL_LEASE_SECONDS": "20",
            # A text may be processed alone during several kills, which must not exhaust its attempts.
            "SHOAL_MAX_ATTEMPTS": str(self.kills + self.partitions + 1),
            "SHOAL_WAVE_BYTES": str(self.wave_bytes),
        }


class ShoalHost:
    """An API or a worker on its host, restarted by hand as a service manager would."""

    def __init__(self, host: Host, folder: Path, command: str, environment: dict[str, str]) -> None:
        self.host, self.command, self._environment = host, command, environment
        self._folder = folder / host.name
        self._folder.mkdir()
        self.clock_hours = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{self.host.address}:8000"

    def start(self) -> None:
        environment = {**self._environment, "SHOAL_DATA_DIR": str(self._folder / "data")}
        if self.clock_hours:
            environment |= wrong_clock(self._folder.parent, self.clock_hours)
        with (self._folder / "log").open("ab") as file:
            self._process = self.host.start(
                [*SHOAL, self.command], file, environment=environment, folder=self._folder
            )

    def end(self) -> int | None:
        """The exit code if it has ended."""
        return self._process.poll() if self._process is not None else None

    def kill(self) -> None:
        self.host.kill_all()
        if self._process is not None:
            self._process.wait(30)

    def kill_child(self, rng: random.Random) -> None:
        children = [pid for pid in self.host.processes() if self._process and pid != self._process.pid]
        if children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(children), signal.SIGKILL)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(90)

    def last_words(self) -> str:
        """The last line of the log."""
        path = self._folder / "log"
        lines = path.read_text(errors="replace").split("\n") if path.exists() else []
        return next((line[-300:] for line in reversed(lines) if line.strip()), "")

    def tracebacks(self) -> list[str]:
        """The last line of every traceback in the log: the errors that nobody expected."""
        path = self._folder / "log"
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        inside, found = False, []
        for line in lines:
            if line.startswith("Traceback"):
                inside = True
            elif inside and line and not line.startswith(" "):
                found.append(line[:200])
                inside = False
        # Lines of the log hold a traceback as one string.
        return found + [
            line[:400] for line in lines if "Traceback" in line and not line.startswith("Traceback")
        ]


class Cluster:
    """All machines of the trial."""

    def __init__(self, plan: Plan, network: Network, folder: Path) -> None:
        self.plan, self.network, self.folder = plan, network, folder
        self.client = network.add("client")
        broker = network.add("broker")
        self.broker = (RabbitMQ if plan.broker == "rabbitmq" else Redis)(broker, folder / "broker")
        self.database: PostgresPair | None = None
        environment = {**plan.settings(), "SHOAL_BROKER_URL": self.broker.url}
        if plan.store == "postgresql":
            self.database = PostgresPair(network.add("db1"), network.add("db2"), folder)
            environment["SHOAL_DATABASE_URL"] = self.database.url
            read = {"SHOAL_READ_DATABASE_URL": self.database.read_url}
        else:
            environment["SHOAL_DATABASE_URL"] = f"sqlite:///{folder / 'shoal.db'}"
            read = {}
        self.environment = environment
        self.apis = [
            ShoalHost(network.add(f"api{i + 1}"), folder, "serve", {**environment, **read})
            for i in range(N_APIS)
        ]
        self.workers = [
            ShoalHost(network.add(f"worker{i + 1}"), folder, "worker", environment) for i in range(N_WORKERS)
        ]
        # SQLite is for one machine, which has one clock.
        if plan.store == "postgresql" and wrong_clock(folder, 1):
            self.workers[0].clock_hours, self.workers[1].clock_hours = 1, -1

    @property
    def services(self) -> list[ShoalHost]:
        return [*self.apis, *self.workers]

    def start(self) -> None:
        self.broker.start()
        if self.database is not None:
            self.database.start()
        self.shoal("migrate")
        until(self.broker.is_up)
        for service in self.services:
            service.start()
        for api in self.apis:
            until(lambda api=api: is_ready(api.url))

    def shoal(self, *arguments: str) -> str:
        """Run a command on the host of the clients."""
        environment = [f"{name}={value}" for name, value in self.environment.items()]
        environment += [f"SHOAL_DATA_DIR={self.folder / 'client'}"]
        return self.client.run(["env", *environment, *SHOAL, *arguments], timeout=1800)

    def stop(self) -> None:
        for service in self.services:
            service.stop()


def is_ready(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{url}/ready", timeout=5).status_code == 200
    return False
