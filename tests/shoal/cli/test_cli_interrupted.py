"""Ctrl-C: one line on what was stored and what was not, and the same command again does the rest."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import until

N_FILES = 40
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
    running = subprocess.Popen(
        program, env={**os.environ, **STEPS}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until(lambda: n_stored(database) > 1)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=60)
    assert running.returncode == 130
    (line,) = [line for line in told.splitlines() if line.startswith("interrupted")]
    assert (found := re.search(rf"of {N_FILES} .*files? (\d+) (?:is|are) stored.*running it again", line))
    # Files that are named are stored one by one, and one may be just stored and not yet counted.
    assert 0 <= n_stored(database) - int(found[1]) <= (command == "ingest")
    assert 1 < n_stored(database) < N_FILES
    assert "Traceback" not in told
    again = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert again.returncode == 0
    assert n_stored(database) == N_FILES


def test_ctrl_c_while_the_program_starts_is_no_traceback() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT_IMPORT], capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "interrupted\n")
