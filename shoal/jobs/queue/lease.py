"""Owners of leases, and whether their processes are alive.

An owner is `HOST:PID:START:PARENT:PARENTSTART-UUID`:

HOST                  the boot of a machine and the process namespace in which the pids are valid: names of
                      machines may repeat, and every machine numbers its first namespace alike
PID, START            the process and its start (clock ticks since boot), to detect a reused pid
PARENT, PARENTSTART   the same of its parent; if the parent is alive, only this process crashed, else the
                      whole worker ended
UUID                  unique for each claim, so a lost claim is not confused with a later one of the process
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import uuid
from pathlib import Path
from typing import NamedTuple

DEAD_STATES = "ZXx"
"""State letters in /proc/PID/stat of a process that has ended, reaped or not."""

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Random for each boot of a kernel, and the same in all of its containers."""


class _Process(NamedTuple):
    """A process; `start` (clock ticks since boot) is 0 if unknown."""

    pid: int
    start: int

    @classmethod
    def from_pid(cls, pid: int) -> _Process:
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
    """Return an owner for one claim of this process."""
    process, parent = _Process.from_pid(os.getpid()), _Process.from_pid(os.getppid())
    return f"{host()}:{process.pid}:{process.start}:{parent.pid}:{parent.start}-{uuid.uuid4().hex}"


def is_local(owner: str) -> bool:
    """Whether the owner is a process of this machine and process namespace."""
    return _parse_local(owner) is not None


def is_dead(owner: str) -> bool:
    """Whether the owner has certainly died. False on another machine, where only the lease can tell."""
    processes = _parse_local(owner)
    return processes is not None and processes[0].is_dead


def has_parent(owner: str) -> bool:
    """Whether the parent process of the owner is alive. False for every owner on another machine."""
    processes = _parse_local(owner)
    return processes is not None and not processes[1].is_dead


def kill(owner: str) -> None:
    """Kill the owner's process if it is alive and on this machine."""
    processes = _parse_local(owner)
    if processes is not None and not processes[0].is_dead:
        with contextlib.suppress(ProcessLookupError):
            os.kill(processes[0].pid, signal.SIGKILL)


def _parse_local(owner: str) -> tuple[_Process, _Process] | None:
    """Return the owner's process and its parent if they are on this machine, else None."""
    parts = owner.rsplit(":", 4)
    if len(parts) != 5 or parts[0] != host():
        return None
    pid, start, parent, parent_start = (int(part.partition("-")[0]) for part in parts[1:])
    return _Process(pid, start), _Process(parent, parent_start)


def host() -> str:
    """Return the identity of the process table of this process: equal for two processes if and only if one
    can see whether the other is alive.

    A machine that was restarted is another one: its former processes are reclaimed when their leases end.
    """
    try:
        namespace = Path("/proc/self/ns/pid").readlink().name
    except OSError:
        namespace = ""
    # The parts must not contain the separator.
    return f"{_boot()}/{namespace}".replace(":", "_")


@functools.cache
def _boot() -> str:
    try:
        boot = BOOT_ID.read_text().strip()
    except OSError:
        boot = ""
    # Without /proc, the address of a network card tells machines of one name apart.
    return boot or f"{socket.gethostname()}-{uuid.getnode():012x}"


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the state on (index 19: start), None without /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The second field is the program name in brackets and may contain anything.
    return text.rpartition(")")[2].split()
