"""The service as a person runs it, for tests: `shoal up`, what it started, and a Redis of one's own."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import redis
from waiting import DEADLINE_SECONDS, until

SHOAL = [sys.executable, "-m", "shoal.cli"]
REDIS_SERVER = shutil.which("redis-server")
LOWEST_PORT, HIGHEST_PORT = 20_000, 32_000
"""Below the ports that systems give to outgoing connections: nobody else takes one of these while a Redis is down, not
even a client that is trying to reach it."""


def shoal(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    options = {"timeout": DEADLINE_SECONDS, **options}
    return subprocess.run([*SHOAL, *map(str, arguments)], capture_output=True, text=True, **options)


def descendants(pid: int, *, direct: bool = False) -> dict[int, str]:
    """Everything that a process started, itself or (unless `direct`) through others: command line by process id.

    Zombies are left out.
    """
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if fields[0] != "Z":
                    parents[int(entry.name)] = int(fields[1])
    found: dict[int, str] = {}
    queue = [pid]
    while queue:
        above = queue.pop()
        for child in (child for child, parent in parents.items() if parent == above):
            with contextlib.suppress(OSError):
                found[child] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
                queue += [] if direct else [child]
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def kill(*pids: int) -> None:
    """SIGKILL, for those that still live."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Service:
    """A running `shoal up`, with its database and its log in a folder."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.db = folder / "shoal.db"
        self.log = folder / "up.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*SHOAL, "--db", str(self.db), "--json", "up", "--port", "0"],
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **environment},
            )
        assert self.process.stdout is not None
        printed = b""
        for line in self.process.stdout:
            printed += line
            if line.rstrip() == b"}":
                break
        assert printed, f"the service did not start:\n{self.log.read_text()}"
        self.url: str = json.loads(printed)["url"]

    def child(self, module: str) -> int | None:
        """The process that leads a part of the service; None while that is away."""
        running = descendants(self.process.pid, direct=True)
        return next((pid for pid, line in running.items() if module in line), None)

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/ready", timeout=DEADLINE_SECONDS) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(DEADLINE_SECONDS)
        self._close()
        return code

    def kill_all(self) -> None:
        """SIGKILL for all of it at once."""
        kill(self.process.pid, *descendants(self.process.pid))
        self.process.wait(DEADLINE_SECONDS)
        self._close()

    def _close(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()


class RedisServer:
    """A redis-server of the test's own, that keeps nothing when it ends and its port when it comes again."""

    def __init__(self, folder: Path) -> None:
        assert REDIS_SERVER is not None
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        while self._process is None:
            self.port = random.SystemRandom().randrange(LOWEST_PORT, HIGHEST_PORT)
            self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, unless the port is somebody else's."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", ""]
        started = subprocess.Popen([str(REDIS_SERVER), *options], stdout=subprocess.DEVNULL)
        until(lambda: started.poll() is not None or self._is(started.pid))
        self._process = started if started.poll() is None else None

    def restart(self) -> None:
        """Kill it and start it again, empty."""
        self.kill()
        until(lambda: self.start() or self._process)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _is(self, pid: int) -> bool:
        """Whether the server that answers at the port is this process."""
        with contextlib.suppress(redis.RedisError), redis.Redis(port=self.port, socket_timeout=5) as client:
            return bool(client.info("server")["process_id"] == pid)
        return False
