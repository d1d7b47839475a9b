"""Real workers as child processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from forks import Fork, ForkServer
from waiting import DEADLINE_SECONDS, until

from shoal.formats.drafts import make_draft
from shoal.jobs.queue import queries
from shoal.jobs.queue.queries import Job
from shoal.jobs.queue.submission import Upload
from shoal.settings import Settings
from shoal.storage.database import Database

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
REDIS_URL = os.environ.get("SHOAL_TEST_REDIS_URL", "redis://127.0.0.1:6379/15")


class Worker:
    """A worker in its own session, with its log."""

    def __init__(self, settings: Settings, log: Path, command: list[str], forks: ForkServer) -> None:
        """`command` has the arguments of Python. A file is run as a fork of `forks`."""
        self.log = log
        self._release = log.with_name("release")
        paths = [str(ROOT), str(ROOT / "worker"), str(ROOT / "tests")]
        environment = os.environ | settings.environment() | {"PYTHONPATH": os.pathsep.join(paths)}
        environment |= {"SHOAL_TEST_RELEASE": str(self._release)}
        self.process: Fork | subprocess.Popen[bytes]
        with log.open("wb") as file:
            if command[0].endswith(".py"):
                self.process = forks.start(command, log.parent, environment, file.fileno())
                return
            self.process = subprocess.Popen(
                [sys.executable, *command],
                env=environment,
                stderr=file,
                stdout=file,
                cwd=log.parent,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def release(self) -> None:
        """Release blocked documents in all workers of the test."""
        self._release.touch()

    def events(self, event: str | None = None) -> list[dict[str, Any]]:
        """Return the log events. Partial lines of running or killed processes are skipped."""
        events = []
        for line in self.log.read_text(errors="replace").splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                events.append(json.loads(line))
        return [entry for entry in events if isinstance(entry, dict) and event in (None, entry.get("event"))]

    def children(self, n: int = 1) -> list[int]:
        """Return the pids of the first `n` processes once they have started."""
        until(lambda: len(self.events("worker process ready")) >= n)
        return [entry["pid"] for entry in self.events("worker process ready")][:n]

    def wait_for(self, event: str) -> list[dict[str, Any]]:
        until(lambda: self.events(event) or self.process.poll() is not None)
        assert self.process.poll() is None, self.log.read_text()
        return self.events(event)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE_SECONDS)

    def kill_all(self) -> None:
        """Kill the parent and its children at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(DEADLINE_SECONDS)


def upload(database: Database, settings: Settings, contents: list[str]) -> int:
    opened = Upload(database, settings).begin()
    for i, content in enumerate(contents):
        opened.add(make_draft(title=f"document {i}", content=content, format="markdown", settings=settings))
    return opened.finish()


def wait_for_job(database: Database, job_id: int) -> Job:
    job = queries.wait_for_end(database, job_id, DEADLINE_SECONDS)
    assert job.ended, job
    return job


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def count(database: Database, sql: str) -> int:
    with database.snapshot() as snapshot:
        return int(snapshot.value(sql))
