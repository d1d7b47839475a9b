"""Starts the service of a library in the background, for the hook at the start of a session.

The process that is started holds a lock on a file beside the database for as long as it lives, so no second
one is started meanwhile, and a file that a dead one has left prevents nothing.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
import sys
from pathlib import Path

SHOAL = "shoal"
"""The program that a command may begin with; the one of this installation is meant, whatever PATH says."""


def start_service(database: Path, command: str, log: Path) -> int | None:
    """Run a command that serves a database, without waiting for it, and return the number of its process.

    None if one that was started before still runs. `command`: a command line, which no shell reads; `log`: a
    file that takes what it prints. Raises OSError, and ValueError for a command line that is none.
    """
    arguments = shlex.split(command)
    if not arguments:
        raise ValueError("the command is empty")
    if arguments[0] == SHOAL:
        arguments[:1] = [sys.executable, "-P", "-m", "shoal.cli"]
    lock = _opened(database.with_name(f"{database.name}.starting"))
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        log.parent.mkdir(mode=0o700, exist_ok=True)
        output = _opened(log)
        try:
            # The lock belongs to whatever has the file open: after this function, to the new process alone.
            # It runs in the folder of the database, because that of the session may be a foreign project.
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=database.parent,
                env={**os.environ, "SHOAL_DATABASE_URL": f"sqlite:///{database}"},
                start_new_session=True,
                pass_fds=(lock,),
            )
        finally:
            os.close(output)
    finally:
        os.close(lock)
    # It shall outlive this process, which therefore does not wait for it.
    process.returncode = 0
    return process.pid


def _opened(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
