"""Killing parts of a running service, and all of it."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path

from running_service import RedisServer, Service, descendants, kill
from waiting import until

WORKER, API = "shoal_worker", "shoal_api"


class Havoc:
    """A service, its broker, and the ways to end what belongs to them. What a supervisor watches comes again by
    itself; what it does not is started again here."""

    def __init__(self, start: Callable[[], Service], broker: RedisServer | None, messages: Path) -> None:
        """`messages` is the folder of the embedded broker, for where there is no other."""
        self._start = start
        self._broker = broker
        self._messages = messages
        self.service = start()
        self.kinds: dict[str, Callable[[random.Random], None]] = {
            "a process of the worker": self._worker_child,
            "the worker": lambda _chance: kill(self._leader(WORKER)),
            "the API": lambda _chance: kill(self._leader(API)),
            "the broker": lambda _chance: self._empty_broker(),
            "everything": lambda _chance: self._everything(),
        }

    def _leader(self, module: str) -> int:
        pid: int = until(lambda: self.service.child(module))
        return pid

    def _worker_child(self, chance: random.Random) -> None:
        kill(chance.choice(sorted(until(lambda: descendants(self._leader(WORKER), direct=True)))))

    def _empty_broker(self) -> None:
        if self._broker is not None:
            self._broker.restart()
            return
        for message in self._messages.glob("*.msg"):
            with contextlib.suppress(FileNotFoundError):
                message.unlink()

    def _everything(self) -> None:
        self.service.kill_all()
        self._empty_broker()
        self.service = self._start()
