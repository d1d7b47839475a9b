"""Helpers for tests of the running service: `shoal up`, its processes, and a private Redis."""

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
from forked_service import make_library
from waiting import DEADLINE_SECONDS, until

SHOAL = [sys.executable, "-m", "shoal.cli"]
REDIS_SERVER = shutil.which("redis-server")
LOWEST_PORT, HIGHEST_PORT = 20_000, 32_000
"""Below the ephemeral ports: no other program takes one of these while a Redis is down, not even a client
that tries to connect to it."""


def shoal(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    options = {"timeout": DEADLINE_SECONDS, **options}
    return subprocess.run([*SHOAL, *map(str, arguments)], capture_output=True, text=True, **options)


def descendants(pid: int, *, direct: bool = False) -> dict[int, str]:
    """Return the command lines of the children of a process, and of their descendants unless `direct`, by
    process id.

    Zombies are left out.
    """
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if fields[0] != "Z":
                    parents[int(entry.name)] = int(fields[1])
    command_lines: dict[int, str] = {}
    queue = [pid]
    while queue:
        above = queue.pop()
        for child in (child for child, parent in parents.items() if parent == above):
            with contextlib.suppress(OSError):
                command_lines[child] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
                queue += [] if direct else [child]
    return command_lines


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def kill(*pids: int) -> None:
    """Send SIGKILL to those processes that are still alive."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Service:
    """A running `shoal up`, with its database and its log in a folder."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.db = folder / "shoal.db"
        self.log = folder / "up.log"
        if not self.db.exists():
            make_library(self.db)
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
        """Return the main process of a part of the service; None while it is not running."""
        running = descendants(self.process.pid, direct=True)
        return next((pid for pid, line in running.items() if module in line), None)

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/ready", timeout=DEADLINE_SECONDS) as response:
                return bool(response.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(DEADLINE_SECONDS)
        self._close()
        return code

    def kill_all(self) -> None:
        """Send SIGKILL to all processes of the service at once."""
        kill(self.process.pid, *descendants(self.process.pid))
        self.process.wait(DEADLINE_SECONDS)
        self._close()

    def _close(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()


class RedisServer:
    """A private redis-server that loses its data when it stops and keeps its port when it restarts."""

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
        """Start it, unless another program uses the port."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", ""]
        started = subprocess.Popen([str(REDIS_SERVER), *options], stdout=subprocess.DEVNULL)
        until(lambda: started.poll() is not None or self._is(started.pid))
        self._process = started if started.poll() is None else None

    def restart(self) -> None:
        """Kill it and start it again without data."""
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
