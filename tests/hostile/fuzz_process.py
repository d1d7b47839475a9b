"""Runs inputs in a process of its own, which is killed where one does not end, and measures what each takes."""

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
"""Processor time that an input may take, so much more for each MiB of it, and for each chunk that it becomes: one takes
0.1 ms on an idle machine."""
HARD_LIMIT_S = 20.0
"""Processor time after which a process is killed with its input."""
WALL_LIMIT_S = 180.0
"""The same, for one that waits for something."""
PEAK_BYTES = 64 * MIB
PEAK_RATIO = 60
PEAK_BYTES_PER_CHUNK = 14 * 1024
"""Memory that an input may take while it is processed, so many times its size more, and so much for each chunk that it
becomes."""
MOST_MEMORY = 6 << 30
"""Address space of the process: an input must not take the machine's memory."""
UNPACKED_SHARE = 0.05
"""How much a byte that an archive unpacked to counts beside one of its own."""
START_S = 300.0
POLL_S = 0.05
LINE_OF_A_TRACE = re.compile(r'File "([^"]+)", line (\d+) in (\S+)')


class BrokenPromiseError(Exception):
    """Something that holds for every input does not hold for this one."""


@dataclass(frozen=True)
class Outcome:
    """`kind` tells inputs apart that took different ways; `work` is the bytes that an archive unpacked to, `chunks` how many
    a document became. What `check` verifies takes none of the input's time."""

    kind: str
    work: int = 0
    chunks: int = 0
    check: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Result:
    """What became of an input. `failure` is empty where nothing is wrong; `place` is the innermost line of the product
    that was at work, or that raised."""

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
    """Processor time that an input of so many bytes, which became so many chunks, may take."""
    return DEADLINE_S + DEADLINE_S_PER_MIB * n_bytes / MIB + DEADLINE_S_PER_CHUNK * n_chunks


def peak_limit(n_bytes: float, n_chunks: int) -> float:
    """Memory that an input of so many bytes, which became so many chunks, may take at most."""
    return PEAK_BYTES + PEAK_RATIO * n_bytes + PEAK_BYTES_PER_CHUNK * n_chunks


class Subject:
    """The process that inputs are run in; it is started when it is needed, and again after it was killed."""

    def __init__(self, folder: Path, targets: str = "fuzz_targets:open_targets") -> None:
        """`targets` names a function that is called in the process with a folder of its own and one that outlives it, and
        returns the targets and the routes of the service."""
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
        """The result of one input; without one after `hard_limit` of processor time, or `wall_limit` of any."""
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
    """The body of the process: runs what arrives until the other end is closed."""
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
        # Within C code too, as that of `re`; in this thread, because another one would look at frames that change.
        faulthandler.register(signal.SIGUSR1, trace, all_threads=False)
        while True:
            try:
                name, data = connection.recv()
            except EOFError:
                return
            # The process that would kill this one may be gone.
            signal.setitimer(signal.ITIMER_PROF, 2 * HARD_LIMIT_S)
            connection.send(_measured(known[name], data, trace))


def _measured(target: Any, data: bytes, trace: Any) -> Result:
    """The result of one input. Where it is over its deadline the lines at work then are in `trace`."""
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


def hold(true: bool, promise: str) -> None:
    if not true:
        raise BrokenPromiseError(promise)


def describe(error: BaseException) -> tuple[str, str, str]:
    """The type of an error or, where it has one, of its cause; where in the product it was raised; and the whole of it."""
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
    """The innermost line of the product in a trace of faulthandler, and the lines from there outwards."""
    lines = [match.groups() for match in LINE_OF_A_TRACE.finditer(trace)]
    for i, (file, _, function) in enumerate(lines):
        if found := PRODUCT.match(file):
            return f"{found.group(1)}:{function}", "\n".join(
                f"{a}:{b} {c}" for a, b, c in lines[max(0, i - 2) : i + 6]
            )
    return "", trace[:2000]


def memory(name: str) -> int:
    """A figure of /proc/self/status in bytes; 0 where there is none."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0


def reset_peak() -> int:
    """Begin to measure the peak of memory anew; the memory now, or 0 where it cannot be measured."""
    # What an earlier input freed would hide what this one takes.
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return 0
    return memory("VmRSS")


def processor_seconds(pid: int) -> float:
    """Processor time of a process so far; the wall's where it cannot be read."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return time.monotonic()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
