"""Kills, partitions and a failover by a seed."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable

from cluster_machines import Cluster, Plan, ShoalHost
from waiting import until

MOST_CUT = 2
"""Hosts that are cut off at the same time, at most."""

log = logging.getLogger("trial")


class Trouble:
    """Kills and partitions by a seed. Everything comes back by itself, later."""

    def __init__(self, cluster: Cluster, plan: Plan) -> None:
        self._cluster, self._plan = cluster, plan
        self._rng = random.Random(plan.seed)
        self._later: list[tuple[float, str, Callable[[], None]]] = []
        self.done: Counter[str] = Counter()
        self.cut_seconds: list[float] = []
        self.without_primary: list[float] = []
        self.ended_alone: list[str] = []
        self.kinds: dict[str, Callable[[], None]] = {
            "worker": lambda: self._kill_service(self._rng.choice(cluster.workers)),
            "process of a worker": lambda: self._rng.choice(cluster.workers).kill_child(self._rng),
            "API": lambda: self._kill_service(self._rng.choice(cluster.apis)),
            "broker": lambda: self._kill_broker(empty=False),
            "broker, emptied": lambda: self._kill_broker(empty=True),
        }
        if cluster.database is not None:
            self.kinds |= {
                "primary": lambda: self._kill_postgres("primary"),
                "standby": lambda: self._kill_postgres("standby"),
            }

    def run(self) -> None:
        """Cause it all. Returns when everything runs again."""
        events = [*self._chosen_kills(), *["partition"] * self._plan.partitions]
        self._rng.shuffle(events)
        if self._cluster.database is not None:
            events.insert(len(events) // 2, "failover")
        for event in events:
            self.wait(self._rng.uniform(*self._plan.pauses))
            log.info("%s", event)
            self.done[event] += 1
            if event == "partition":
                self._cut()
            elif event == "failover":
                self._fail_over()
            else:
                self.kinds[event]()
        self.settle()

    def _chosen_kills(self) -> list[str]:
        """Every kind once, as far as the number allows, then at random. The failover is one of them."""
        n = self._plan.kills - (self._cluster.database is not None)
        kinds = self._rng.sample(list(self.kinds), min(n, len(self.kinds)))
        return kinds + self._rng.choices(list(self.kinds), k=n - len(kinds))

    def wait(self, seconds: float) -> None:
        """Wait, do what is due, and restart services that ended by themselves."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            for due in [entry for entry in self._later if entry[0] <= now]:
                self._later.remove(due)
                due[2]()
            for service in self._cluster.services:
                restarts = f"start {service.host.name}"
                if service.end() is not None and all(what != restarts for _, what, _ in self._later):
                    self.ended_alone.append(
                        f"{service.host.name}: exit code {service.end()}: {service.last_words()}"
                    )
                    self._do_later(1, restarts, service.start)
            time.sleep(0.05)

    def settle(self) -> None:
        """Wait until everything that is to come back has done so."""
        while self._later:
            self.wait(0.2)
        for host in self._cluster.network.hosts.values():
            if host.is_cut:
                host.reconnect()

    def _do_later(self, seconds: float, what: str, action: Callable[[], None]) -> None:
        self._later.append((time.monotonic() + seconds, what, action))

    def _kill_service(self, service: ShoalHost) -> None:
        service.kill()
        self._do_later(self._rng.uniform(0.5, 4), f"start {service.host.name}", service.start)

    def _kill_broker(self, *, empty: bool) -> None:
        broker = self._cluster.broker
        broker.kill()
        if empty:
            broker.empty()
        if all(what != "start broker" for _, what, _ in self._later):
            self._do_later(self._rng.uniform(0.5, 6), "start broker", broker.start)

    def _kill_postgres(self, role: str) -> None:
        assert self._cluster.database is not None
        server = getattr(self._cluster.database, role)
        what = f"start {server.host.name}"
        server.kill()
        if all(other != what for _, other, _ in self._later):
            self._do_later(self._rng.uniform(0.5, 5), what, server.start)

    def _cut(self) -> None:
        hosts = [host for host in self._cluster.network.hosts.values() if host is not self._cluster.client]
        if sum(host.is_cut for host in hosts) >= MOST_CUT:
            self.wait_for_a_reconnection()
        host = self._rng.choice([host for host in hosts if not host.is_cut])
        seconds = self._rng.uniform(self._plan.shortest, self._plan.longest)
        log.info("cut %s off for %.0f s", host.name, seconds)
        host.cut()
        self.cut_seconds.append(round(seconds, 1))
        self._do_later(seconds, f"reconnect {host.name}", host.reconnect)

    def wait_for_a_reconnection(self) -> None:
        n = sum(what.startswith("reconnect") for _, what, _ in self._later)
        while sum(what.startswith("reconnect") for _, what, _ in self._later) >= n > 0:
            self.wait(0.2)

    def _fail_over(self) -> None:
        """An operator fails over only to a standby that runs and follows."""
        database = self._cluster.database
        assert database is not None
        self.settle()
        until(database.primary.has_standby)
        self.without_primary.append(round(database.fail_over(), 1))
