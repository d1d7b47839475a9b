"""The warning of `shoal up` about other services on the same library."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shoal.cli.service import _warn_of_other_services
from shoal.cli.session import Session
from shoal.engine import Engine
from shoal.jobs.queue import statements
from shoal.settings import Settings


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize(
    ("pid", "hostname", "is_warned"),
    [
        (os.getpid(), socket.gethostname(), True),
        (None, socket.gethostname(), False),
        (None, "another-host", True),
    ],
    ids=["this process", "an ended process", "another host"],
)
def test_second_service_on_a_library_prints_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pid: int | None, hostname: str, is_warned: bool
) -> None:
    worker_pid = ended_process() if pid is None else pid
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'shoal.db'}")
    with Engine(settings=settings) as engine, engine.database.write() as transaction:
        worker = {"name": "w", "hostname": hostname, "pid": worker_pid, "processes": 1, "version": "1"}
        times = {"started_at": "2026-01-31T00:00:00.000Z", "seen_at": time.time()}
        transaction.execute(statements.UPSERT_WORKER, {**worker, **times})
    _warn_of_other_services(Session(), settings)
    warnings = capsys.readouterr().err
    assert (f"another service already uses {tmp_path / 'shoal.db'}" in warnings) == is_warned
    assert (f"process {worker_pid} on {hostname}" in warnings) == is_warned
