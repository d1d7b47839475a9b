"""Processor time and memory of a process and its descendants, from /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> Iterator[int]:
    """The process and all processes below it that are running."""
    yield pid
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from descendants(int(child))


def processor_seconds(pid: int) -> float:
    """User and system time of a process, its descendants, and their ended children that were waited for."""
    return sum(_own_seconds(each) for each in descendants(pid))


def child_running(pid: int, module: str) -> int:
    """The child process whose command line names a module. Raises LookupError if there is none."""
    for child in descendants(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if module.encode() in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"):
                return child
    raise LookupError(f"no process below {pid} runs {module}")


def private_mb(pid: int) -> float:
    """Memory of a process that no other can share, megabytes: without the pages of files that it maps, which
    the system shares between processes and takes back when it needs memory."""
    return _rollup_mb(pid, "Anonymous:")


def mapped_mb(pid: int) -> float:
    """Resident pages of files that a process maps, megabytes."""
    return _rollup_mb(pid, "Rss:") - private_mb(pid)


def _rollup_mb(pid: int, field: str) -> float:
    rows = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines())
    return sum(int(row[1]) for row in rows if row[0] == field) * 1024 / 1e6


def _own_seconds(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    # The name in parentheses may hold spaces: the fields after it begin with the state.
    fields = text.rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS
