"""Kills parts of a running service, or all of it."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path

from running_service import RedisServer, Service, descendants, kill
from waiting import until

WORKER, API = "shoal_worker", "shoal_api"


class Havoc:
    """A service and its broker, with methods that kill their processes.

    The supervisor restarts its own child processes; this class restarts the others.
    """

    def __init__(self, start: Callable[[], Service], broker: RedisServer | None, messages: Path) -> None:
        """`messages` is the folder of the embedded broker, which is used without `broker`."""
        self._start = start
        self._broker = broker
        self._messages = messages
        self.service = start()
        self.kills: dict[str, Callable[[random.Random], None]] = {
            "a process of the worker": self._kill_worker_child,
            "the worker": lambda _rng: kill(self._leader(WORKER)),
            "the API": lambda _rng: kill(self._leader(API)),
            "the broker": lambda _rng: self._empty_broker(),
            "everything": lambda _rng: self._kill_everything(),
        }

    def _leader(self, module: str) -> int:
        pid: int = until(lambda: self.service.child(module))
        return pid

    def _kill_worker_child(self, rng: random.Random) -> None:
        kill(rng.choice(sorted(until(lambda: descendants(self._leader(WORKER), direct=True)))))

    def _empty_broker(self) -> None:
        if self._broker is not None:
            self._broker.restart()
            return
        for message in self._messages.glob("*.msg"):
            with contextlib.suppress(FileNotFoundError):
                message.unlink()

    def _kill_everything(self) -> None:
        self.service.kill_all()
        self._empty_broker()
        self.service = self._start()
