"""Real workers as child processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shoal.jobs import jobs
from shoal.jobs.jobs import Job
from shoal.jobs.upload import Upload
from shoal.parse.draft import make_draft
from shoal.settings import Settings
from shoal.storage.database import Database

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
REDIS_URL = os.environ.get("SHOAL_TEST_REDIS_URL", "redis://127.0.0.1:6379/15")


class Worker:
    """A worker in a session of its own, with its log."""

    def __init__(self, settings: Settings, log: Path, command: list[str]) -> None:
        self.log = log
        paths = [str(ROOT), str(ROOT / "worker"), str(ROOT / "tests")]
        environment = os.environ | settings.environment() | {"PYTHONPATH": os.pathsep.join(paths)}
        with log.open("wb") as file:
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

    def events(self, event: str | None = None) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [one for one in found if event is None or one["event"] == event]

    def children(self) -> list[int]:
        return [one["pid"] for one in self.wait_for("worker process ready")]

    def wait_for(self, event: str, seconds: float = 60) -> list[dict[str, Any]]:
        deadline = time.monotonic() + seconds
        while not (found := self.events(event)):
            assert time.monotonic() < deadline, self.log.read_text()
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        return found

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def pause_all(self) -> None:
        """Stop the parent and its children where they are; a kill still ends them."""
        os.killpg(self.pid, signal.SIGSTOP)

    def resume_all(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def kill_all(self) -> None:
        """SIGKILL for the parent and its children at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(30)


def upload(database: Database, settings: Settings, contents: list[str]) -> int:
    opened = Upload(database, settings).begin()
    for i, content in enumerate(contents):
        opened.add(make_draft(title=f"document {i}", content=content, format="markdown", settings=settings))
    return opened.finish()


def ended(database: Database, job_id: int, seconds: float = 90) -> Job:
    job = jobs.wait_for_end(database, job_id, seconds)
    assert job.ended, job
    return job


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def count(database: Database, sql: str) -> int:
    with database.read() as connection:
        return int(connection.exec_driver_sql(sql).scalar_one())
