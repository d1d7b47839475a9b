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
    """Memory that only this process maps (USS), megabytes."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    fields = (line.split() for line in lines)
    return sum(int(row[1]) for row in fields if row[0] in {"Private_Clean:", "Private_Dirty:"}) * 1024 / 1e6


def _own_seconds(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    # The name in parentheses may hold spaces: the fields after it begin with the state.
    fields = text.rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS
