"""Ctrl-C prints one line about what was stored; running the command again does the rest."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_service import JOB, scripted
from waiting import DEADLINE_SECONDS, until

from shoal.jobs.stages.runner import WRITE_ITEMS

N_FILES = 4 * WRITE_ITEMS + 10
"""Files of five transactions: the test locks the database after the first, or on a busy machine some later."""
N_ONE_BY_ONE = 12
"""The same for `ingest`, which stores each file by itself."""
BIG = 32_000_000
"""Bytes; larger than any buffer of a connection."""
UPLOAD = [sys.executable, "-m", "shoal.cli", "upload"]
STORED = "SELECT COUNT(*) FROM documents"
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
    folder = tmp_path / "texts"
    folder.mkdir()
    for i in range(N_FILES):
        (folder / f"{i}.txt").write_text(f"The bees carry pollen home, for the {i}. time.")
    return folder


def start(program: list[str]) -> subprocess.Popen[str]:
    """Start a program that receives Ctrl-C, even if this process inherited an ignored SIGINT."""
    previous_handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, previous_handler)


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


@contextlib.contextmanager
def locked(database: Path) -> Iterator[None]:
    """Keep every other process from storing anything.

    SQLite itself would wait with growing pauses, in which a process that writes often stores everything.
    """
    with contextlib.closing(sqlite3.connect(database, timeout=0)) as connection:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not connection.in_transaction:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                assert time.monotonic() < deadline
                time.sleep(0.0005)
        yield


@pytest.mark.parametrize("command", ["ingest", "ingest-dir", "sync"])
def test_ctrl_c_reports_stored_files_and_a_second_run_stores_the_rest(
    folder: Path, tmp_path: Path, command: str
) -> None:
    database = tmp_path / "shoal.db"
    paths = sorted(folder.iterdir())[:N_ONE_BY_ONE] if command == "ingest" else [folder]
    n_files = N_ONE_BY_ONE if command == "ingest" else N_FILES
    program = [sys.executable, "-m", "shoal.cli", "--db", str(database), command, *map(str, paths)]
    process = start(program)
    until(lambda: n_stored(database) > 1)
    with locked(database):
        process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 130, errors
    (line,) = [line for line in errors.splitlines() if line.startswith("interrupted")]
    assert (match := re.search(rf"of {n_files} .*files? (\d+) (?:is|are) stored.*running it again", line))
    # `ingest` stores named files one by one: a file may be stored but not yet counted.
    assert 0 <= n_stored(database) - int(match[1]) <= (command == "ingest")
    assert 1 < n_stored(database) < n_files
    assert "Traceback" not in errors
    again = subprocess.run(program, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert again.returncode == 0
    assert n_stored(database) == n_files


def test_ctrl_c_while_waiting_for_a_job_says_that_it_continues(folder: Path) -> None:
    with scripted() as server:
        job = {**JOB, "status": "processing"}
        server.will_respond((202, {}, {"job": job}), (200, {}, job))
        program = [*UPLOAD, str(folder), "--wait", "--server", server.url]
        process = start(program)
        until(lambda: len(server.requests) > 1)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=DEADLINE_SECONDS)
    expected = (
        f"interrupted: job 7 continues: `shoal jobs 7 --server {server.url}` shows it, "
        f"`shoal jobs 7 --cancel --server {server.url}` cancels it\n"
    )
    assert (process.returncode, error) == (130, expected)


@pytest.mark.parametrize(
    ("last_line", "expected"),
    [
        (b"HTTP/1.1\r\n", "interrupted: nothing was accepted; run it again\n"),
        (
            b"--\r\n",
            "interrupted: everything was sent, but it is unknown whether it was accepted; `shoal jobs --server ",
        ),
    ],
    ids=["begun", "sent"],
)
def test_ctrl_c_during_an_upload_says_whether_it_may_be_accepted(
    tmp_path: Path, last_line: bytes, expected: str
) -> None:
    (tmp_path / "big.txt").write_bytes(b"A" * BIG)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        program = [*UPLOAD, str(tmp_path / "big.txt"), "--server", address]
        process = start(program)
        listener.settimeout(DEADLINE_SECONDS)
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as request:
            connection.settimeout(DEADLINE_SECONDS)
            while not request.readline().endswith(last_line):
                pass
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 130, expected
    assert error.startswith(expected)


def test_ctrl_c_while_the_program_starts_prints_no_traceback() -> None:
    process = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT_IMPORT],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
    )
    assert (process.returncode, process.stdout, process.stderr) == (130, "", "interrupted\n")
