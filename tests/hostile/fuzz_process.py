"""Runs inputs in a separate process, which is killed if an input hangs, and measures their time and
memory."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import multiprocessing
import os
import re
import resource
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

MIB = 1 << 20
ROOT = Path(__file__).resolve().parents[2]
PRODUCT = re.compile(rf"{re.escape(str(ROOT))}/((?:lagoon|shoal|api|worker)/[^\"]+\.py)")

DEADLINE_S = 1.0
DEADLINE_S_PER_MIB = 15.0
DEADLINE_S_PER_CHUNK = 3e-4
"""Limits of processor time: per input, per MiB of it, and per chunk of the resulting document. A chunk takes
0.1 ms on an idle machine."""
HARD_LIMIT_S = 20.0
"""Processor time after which the process is killed."""
WALL_LIMIT_S = 180.0
"""Wall time after which the process is killed."""
PEAK_BYTES = 64 * MIB
PEAK_RATIO = 60
PEAK_BYTES_PER_CHUNK = 14 * 1024
"""Limits of memory: per input, per byte of it, and per chunk of the resulting document."""
MOST_MEMORY = 6 << 30
"""Address space of the process, so that an input cannot exhaust the machine's memory."""
UNPACKED_SHARE = 0.05
"""Weight of an unpacked byte of an archive, relative to a byte of the archive."""
START_S = 300.0
POLL_S = 0.05
LINE_OF_A_TRACE = re.compile(r'File "([^"]+)", line (\d+) in (\S+)')


class BrokenPromiseError(Exception):
    """An invariant does not hold for this input."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of an input.

    kind    distinguishes inputs that took different paths
    work    unpacked bytes of an archive
    chunks  number of chunks of the document
    check   verifies invariants; its time does not count
    """

    kind: str
    work: int = 0
    chunks: int = 0
    check: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Result:
    """The result of an input.

    `failure` is empty if the input passed; `place` is the innermost function of the product that was running
    or that raised.
    """

    kind: str = ""
    failure: str = ""
    place: str = ""
    detail: str = ""
    seconds: float = 0.0
    peak: int = 0
    memory: int = 0

    @property
    def key(self) -> str:
        return f"{self.failure} at {self.place or '(outside)'}"


def deadline(n_bytes: float, n_chunks: int = 0) -> float:
    """Return the most processor time for an input of `n_bytes` that became `n_chunks`."""
    return DEADLINE_S + DEADLINE_S_PER_MIB * n_bytes / MIB + DEADLINE_S_PER_CHUNK * n_chunks


def peak_limit(n_bytes: float, n_chunks: int) -> float:
    """Return the most memory for an input of `n_bytes` that became `n_chunks`."""
    return PEAK_BYTES + PEAK_RATIO * n_bytes + PEAK_BYTES_PER_CHUNK * n_chunks


class Subject:
    """The process that runs inputs. It is started on demand, and again after it was killed."""

    def __init__(self, folder: Path, targets: str = "fuzz_targets:open_targets") -> None:
        """`targets` names a function that returns the targets and the routes of the service.

        It is called in the process with two folders: a private one, and one that outlives the process.
        """
        self._folder = folder
        self._targets = targets
        self._process: Any = None
        self._connection: Connection | None = None
        self.routes: list[tuple[str, list[str]]] = []
        self.starts = 0

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=serve, args=(theirs, str(self._folder), self._targets), daemon=True
        )
        self._process.start()
        theirs.close()
        self.starts += 1
        if not self._connection.poll(START_S):
            raise RuntimeError("the process for inputs does not start")
        self.routes = self._connection.recv()

    def run(
        self,
        target: str,
        data: bytes,
        hard_limit: float = HARD_LIMIT_S,
        wall_limit: float = WALL_LIMIT_S,
    ) -> Result:
        """Run one input; kill the process after `hard_limit` of processor time or `wall_limit` of wall
        time."""
        if self._process is None:
            self.start()
        assert self._connection is not None
        used = processor_seconds(self._process.pid)
        began = time.monotonic()
        try:
            self._connection.send((target, data))
            is_traced = False
            while not self._connection.poll(POLL_S):
                seconds = processor_seconds(self._process.pid) - used
                waited = time.monotonic() - began
                if not is_traced and (seconds > deadline(len(data)) or waited > wall_limit):
                    os.kill(self._process.pid, signal.SIGUSR1)
                    is_traced = True
                    continue
                if seconds > hard_limit or waited > wall_limit:
                    self.stop()
                    place, trace = self._trace()
                    what = "slow" if seconds > hard_limit else "waits"
                    return Result("killed", what, place, trace, seconds)
            result = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            self.stop()
            return Result("died", f"died with code {code}", self._trace()[0])
        assert isinstance(result, Result)
        return result

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            assert self._connection is not None
            self._connection.close()
            self._process = None

    def _trace(self) -> tuple[str, str]:
        return innermost((self._folder / "trace").read_text("utf-8", "replace"))


def serve(connection: Connection, folder: str, targets: str) -> None:
    """Run inputs in the process until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    module, _, function = targets.partition(":")
    with tempfile.TemporaryDirectory(dir=folder) as own, (Path(folder) / "trace").open("w+") as trace:
        known, routes = getattr(importlib.import_module(module), function)(Path(own), Path(folder))
        connection.send(routes)
        gc.collect()
        gc.freeze()
        faulthandler.enable(trace)
        # Works within C code such as `re`; in this thread, because another thread would read changing frames.
        faulthandler.register(signal.SIGUSR1, trace, all_threads=False)
        while True:
            try:
                name, data = connection.recv()
            except EOFError:
                return
            # A fallback in case the parent process, which would kill this one, has died.
            signal.setitimer(signal.ITIMER_PROF, 2 * HARD_LIMIT_S)
            connection.send(_measured(known[name], data, trace))


def _measured(target: Any, data: bytes, trace: Any) -> Result:
    """Run one input and measure it. If it exceeds its deadline, `trace` holds the stack at that time."""
    trace.seek(0)
    trace.truncate()
    before = reset_peak()
    began = time.process_time()
    work = chunks = 0
    kind = failure = place = detail = ""
    try:
        outcome = target(data)
    except Exception as error:
        seconds = time.process_time() - began
        failure, place, detail = describe(error)
    else:
        seconds = time.process_time() - began
        kind, work, chunks = outcome.kind, outcome.work, outcome.chunks
    peak = memory("VmHWM") - before if before else 0
    if not failure:
        try:
            outcome.check()
        except Exception as error:
            failure, place, detail = describe(error)
    size = len(data) + UNPACKED_SHARE * work
    if not failure and seconds > deadline(size, chunks):
        failure = "slow"
        trace.seek(0)
        place, detail = innermost(trace.read())
    if not failure and peak > peak_limit(size, chunks):
        failure, detail = "memory", f"{peak / MIB:,.0f} MiB for {len(data):,} bytes"
    return Result(kind, failure, place, detail, seconds, peak, memory("VmRSS"))


def hold(condition: bool, promise: str) -> None:
    if not condition:
        raise BrokenPromiseError(promise)


def describe(error: BaseException) -> tuple[str, str, str]:
    """Return the type of an error or of its cause, the function of the product that raised it, and its
    traceback."""
    cause = error.__cause__ or error
    frames = [
        f"{found.group(1)}:{frame.name}"
        for frame in traceback.extract_tb(cause.__traceback__)
        if (found := PRODUCT.match(frame.filename))
    ]
    name = str(cause) if isinstance(cause, BrokenPromiseError) else type(cause).__name__
    text = "".join(traceback.format_exception(error))
    return (
        name,
        frames[-1] if frames else "",
        text if len(text) < 6000 else f"{text[:2500]}\n…\n{text[-3000:]}",
    )


def innermost(trace: str) -> tuple[str, str]:
    """Find the innermost function of the product in a trace of faulthandler; also return the lines around
    it."""
    lines = [match.groups() for match in LINE_OF_A_TRACE.finditer(trace)]
    for i, (file, _, function) in enumerate(lines):
        if found := PRODUCT.match(file):
            return f"{found.group(1)}:{function}", "\n".join(
                f"{a}:{b} {c}" for a, b, c in lines[max(0, i - 2) : i + 6]
            )
    return "", trace[:2000]


def memory(name: str) -> int:
    """Read a value of /proc/self/status in bytes; 0 if it is missing."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0


def reset_peak() -> int:
    """Reset the memory peak and return the current memory, or 0 if it cannot be measured."""
    # Memory freed by an earlier input would hide the use of this one.
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return 0
    return memory("VmRSS")


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process so far, or the wall time if it cannot be read."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return time.monotonic()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
