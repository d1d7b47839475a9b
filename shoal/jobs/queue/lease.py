"""Who holds a claim, and whether that process still lives.

An owner is `HOST:PID:START:PARENT:PARENTSTART-UUID`. HOST holds the name of the machine and its process namespace, so
that a pid is only ever looked up where it means something; START is when the process began (clock ticks since boot),
so that a later process with the same pid is not taken for it; PARENT and PARENTSTART are those of the process that
started it, because a worker's child that died while the worker lives died of itself, and one that died with its
worker was ended from outside; UUID makes every claim its own, so that a claim that was lost cannot be confused with
the next one of the same process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import uuid
from pathlib import Path
from typing import NamedTuple

DEAD_STATES = "ZXx"
"""State letters of /proc/PID/stat for a process that has ended, reaped or not."""


class _Process(NamedTuple):
    """A process of some moment; `start` is 0 where it is not known."""

    pid: int
    start: int

    @classmethod
    def now(cls, pid: int) -> _Process:
        fields = _stat(pid)
        return cls(pid, int(fields[19]) if fields else 0)

    @property
    def is_dead(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        fields = _stat(self.pid)
        if fields is None:
            return False
        return fields[0] in DEAD_STATES or (self.start > 0 and int(fields[19]) != self.start)


def new_owner() -> str:
    """An owner for one claim of this process."""
    me, parent = _Process.now(os.getpid()), _Process.now(os.getppid())
    return f"{_host()}:{me.pid}:{me.start}:{parent.pid}:{parent.start}-{uuid.uuid4().hex}"


def is_local(owner: str) -> bool:
    """Whether the owner is a process of this machine and process namespace."""
    return _local(owner) is not None


def is_dead(owner: str) -> bool:
    """Whether the owner certainly lives no more. False for any owner elsewhere: only its lease can tell."""
    found = _local(owner)
    return found is not None and found[0].is_dead


def has_parent(owner: str) -> bool:
    """Whether the process that started the owner lives. False for any owner elsewhere."""
    found = _local(owner)
    return found is not None and not found[1].is_dead


def kill(owner: str) -> None:
    """End the owner's process at once, if it is of this machine and lives."""
    found = _local(owner)
    if found is not None and not found[0].is_dead:
        with contextlib.suppress(ProcessLookupError):
            os.kill(found[0].pid, signal.SIGKILL)


def _local(owner: str) -> tuple[_Process, _Process] | None:
    """The owner's process and its parent, where they are of this machine."""
    parts = owner.rsplit(":", 4)
    if len(parts) != 5 or parts[0] != _host():
        return None
    pid, start, parent, parent_start = (int(part.partition("-")[0]) for part in parts[1:])
    return _Process(pid, start), _Process(parent, parent_start)


def _host() -> str:
    try:
        namespace = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        namespace = ""
    # Neither part may hold the separator.
    return f"{socket.gethostname()}/{namespace}".replace(":", "_")


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third (state) on; the 20th of them is the start. None without /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The second field is the program's name in brackets and may hold anything.
    return text.rpartition(")")[2].split()
