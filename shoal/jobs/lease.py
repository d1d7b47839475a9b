"""Who holds a claim, and whether that process still lives.

An owner is `HOST:PID:START-UUID`. HOST holds the name of the machine and its process namespace, so that a pid is
only ever looked up where it means something; START is when the process began (clock ticks since boot), so that a
later process with the same pid is not taken for it; UUID makes every claim its own, so that a claim that was
lost cannot be confused with the next one of the same process.
"""

from __future__ import annotations

import os
import socket
import uuid
from pathlib import Path

DEAD_STATES = "ZXx"
"""State letters of /proc/PID/stat for a process that has ended, reaped or not."""


def new_owner() -> str:
    """An owner for one claim of this process."""
    pid = os.getpid()
    return f"{_host()}:{pid}:{_start(pid) or 0}-{uuid.uuid4().hex}"


def is_local(owner: str) -> bool:
    """Whether the owner is a process of this machine and process namespace."""
    return owner.rsplit(":", 2)[0] == _host()


def is_dead(owner: str) -> bool:
    """Whether the owner certainly lives no more. False for any owner elsewhere: only its lease can tell."""
    parts = owner.rsplit(":", 2)
    if len(parts) != 3 or parts[0] != _host():
        return False
    pid, start = int(parts[1]), int(parts[2].partition("-")[0])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    fields = _stat(pid)
    if fields is None:
        return False
    return fields[0] in DEAD_STATES or (start > 0 and int(fields[19]) != start)


def _host() -> str:
    try:
        namespace = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        namespace = ""
    # Neither part may hold the separator.
    return f"{socket.gethostname()}/{namespace}".replace(":", "_")


def _start(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third (state) on; the 20th of them is the start. None without /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The second field is the program's name in brackets and may hold anything.
    return text.rpartition(")")[2].split()
