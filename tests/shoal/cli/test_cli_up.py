"""What `shoal up` says of a library that others work on."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shoal.cli.service import _tell_of_others
from shoal.cli.session import Session
from shoal.engine import Engine
from shoal.jobs.queue import statements
from shoal.settings import Settings


def ended_process() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


@pytest.mark.parametrize(
    ("pid", "hostname", "is_told"),
    [
        (os.getpid(), socket.gethostname(), True),
        (None, socket.gethostname(), False),
        (None, "another-host", True),
    ],
    ids=["this process", "an ended process", "another host"],
)
def test_a_second_service_on_a_library_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pid: int | None, hostname: str, is_told: bool
) -> None:
    number = ended_process() if pid is None else pid
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'shoal.db'}")
    with Engine(settings=settings) as engine, engine.database.write() as connection:
        sign = {"name": "w", "hostname": hostname, "pid": number, "processes": 1, "version": "1"}
        moments = {"started_at": "2026-01-31T00:00:00.000Z", "seen_at": time.time()}
        connection.execute(statements.SIGN_OF_LIFE, {**sign, **moments})
    _tell_of_others(Session(), settings)
    told = capsys.readouterr().err
    assert (f"another service works on {tmp_path / 'shoal.db'} already" in told) == is_told
    assert (f"process {number} on {hostname}" in told) == is_told
