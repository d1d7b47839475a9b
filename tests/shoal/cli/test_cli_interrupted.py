"""Ctrl-C: one line on what was stored and what was not, and the same command again does the rest."""

from __future__ import annotations

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from scripted_service import JOB, scripted
from waiting import DEADLINE_SECONDS, until

N_FILES = 120
"""So many that there is time to interrupt, however busy the machine is."""
BIG = 32_000_000
"""Bytes of a file that no buffer of a connection holds."""
UPLOAD = [sys.executable, "-m", "shoal.cli", "upload"]
STORED = "SELECT COUNT(*) FROM documents"
# Small steps, so that there is a moment between the first document and the last.
STEPS = {"SHOAL_WAVE_BYTES": "1", "SHOAL_BATCH_ITEMS": "1"}
INTERRUPTED_AT_IMPORT = """
import sys
class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, CtrlC())
from shoal.cli import main
main(["status"])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "texts"
    made.mkdir()
    for i in range(N_FILES):
        (made / f"{i}.txt").write_text(f"The bees carry pollen home, for the {i}. time. " * 20)
    return made


def begun(program: list[str], **environment: str) -> subprocess.Popen[str]:
    """A program that hears Ctrl-C, also where this one was started in the background, which passes on that it doesn't."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            program,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)


def n_stored(database: Path) -> int:
    if not database.exists():
        return 0
    connection = sqlite3.connect(database)
    try:
        return int(connection.execute(STORED).fetchone()[0])
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()


@pytest.mark.parametrize("command", ["ingest", "ingest-dir", "sync"])
def test_ctrl_c_tells_what_is_stored_and_running_it_again_goes_on(
    folder: Path, tmp_path: Path, command: str
) -> None:
    database = tmp_path / "shoal.db"
    paths = sorted(folder.iterdir()) if command == "ingest" else [folder]
    program = [sys.executable, "-m", "shoal.cli", "--db", str(database), command, *map(str, paths)]
    running = begun(program, **STEPS)
    until(lambda: n_stored(database) > 1)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=60)
    assert running.returncode == 130, told
    (line,) = [line for line in told.splitlines() if line.startswith("interrupted")]
    assert (found := re.search(rf"of {N_FILES} .*files? (\d+) (?:is|are) stored.*running it again", line))
    # Files that are named are stored one by one, and one may be just stored and not yet counted.
    assert 0 <= n_stored(database) - int(found[1]) <= (command == "ingest")
    assert 1 < n_stored(database) < N_FILES
    assert "Traceback" not in told
    again = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert again.returncode == 0
    assert n_stored(database) == N_FILES


def test_ctrl_c_while_a_job_is_followed_tells_that_it_goes_on(folder: Path) -> None:
    with scripted() as server:
        job = {**JOB, "status": "processing"}
        server.will_answer((202, {}, {"job": job}), (200, {}, job))
        program = [*UPLOAD, str(folder), "--wait", "--server", server.url]
        running = begun(program)
        until(lambda: len(server.asked) > 1)
        running.send_signal(signal.SIGINT)
        _, error = running.communicate(timeout=60)
    told = (
        f"interrupted: job 7 goes on: `shoal jobs 7 --server {server.url}` shows it, "
        f"`shoal jobs 7 --cancel --server {server.url}` ends it\n"
    )
    assert (running.returncode, error) == (130, told)


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (b"HTTP/1.1\r\n", "interrupted: nothing was accepted; run it again\n"),
        (
            b"--\r\n",
            "interrupted: all was sent, and whether it was accepted is not known; `shoal jobs --server ",
        ),
    ],
    ids=["begun", "sent"],
)
def test_ctrl_c_while_files_are_sent_tells_whether_they_are_accepted(
    tmp_path: Path, last: bytes, told: str
) -> None:
    (tmp_path / "big.txt").write_bytes(b"A" * BIG)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        program = [*UPLOAD, str(tmp_path / "big.txt"), "--server", address]
        running = begun(program)
        listening.settimeout(DEADLINE_SECONDS)
        connection, _ = listening.accept()
        with connection, connection.makefile("rb") as arriving:
            connection.settimeout(DEADLINE_SECONDS)
            while not arriving.readline().endswith(last):
                pass
            running.send_signal(signal.SIGINT)
            _, error = running.communicate(timeout=60)
    assert running.returncode == 130, told
    assert error.startswith(told)


def test_ctrl_c_while_the_program_starts_is_no_traceback() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT_IMPORT], capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "interrupted\n")
