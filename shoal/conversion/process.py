"""Conversion in a process of its own, so that no file can harm the process that asked for its text.

A child runs converters one file at a time (shoal/conversion/child.py) under limits of time, memory, output,
open files and file size, without network where the system allows that. It gets requests and gives answers
through pipes: lengths, JSON and the bytes of the file. Nothing that it writes is trusted.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from shoal.conversion.converted import (
    ANSWER_HEAD,
    MAX_ATTACHMENT_BYTES,
    MAX_ATTACHMENTS,
    OUT_OF_MEMORY_STATUS,
    REQUEST_HEAD,
    Attachment,
    ConversionError,
    Converted,
)
from shoal.conversion.file_kinds import FileKind
from shoal.conversion.recognition import recognise
from shoal.errors import CONVERSION_CODES
from shoal.models.documents import DocFormat
from shoal.models.files import FileAccount, Locator, LocatorKind, Removed

MAX_FILES_PER_CHILD = 200
"""A new child is started after so many files, so that what libraries leak does not add up."""

START_SECONDS = 30.0
"""Added to the time limit of a child's first file, for the start of Python on a busy machine."""

FULL_TIME_BYTES = 16 * 1024**2
"""A larger file may take proportionally more time."""

_GRACE_SECONDS = 0.5
_PIECE_BYTES = 1024 * 1024
_PASSED_ON = ("PATH", "TMPDIR", "TESSDATA_PREFIX")
"""Variables of the environment that converters may read. Keys and passwords are not among them."""

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from shoal.conversion.child import main; main(json.loads(sys.argv[2]))"
)

_CODES = frozenset(code.removeprefix("file_") for code in CONVERSION_CODES)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the conversion of one file may take.

    `seconds` of real time, for a file of up to FULL_TIME_BYTES; `memory_bytes` of address space, libraries
    included; `output_bytes` of the answer, without the attachments of the file.
    """

    seconds: float = 120.0
    memory_bytes: int = 2 * 1024**3
    output_bytes: int = 128 * 1024**2
    open_files: int = 64


class ConversionProcess:
    """Converts files in a child process, which is started when it is needed and again after its death.

    Can be used by several threads; one file is converted at a time. Close it, or use it in `with`.
    """

    def __init__(self, limits: Limits | None = None, *, files_per_child: int = MAX_FILES_PER_CHILD) -> None:
        self.limits = limits or Limits()
        self._files_per_child = files_per_child
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._owner = os.getpid()

    def __enter__(self) -> ConversionProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def convert(
        self,
        data: bytes,
        name: str,
        kind: FileKind | None = None,
        options: Mapping[str, str | bool] | None = None,
        watch: Callable[[float], None] = lambda _share: None,
    ) -> Converted:
        """Convert a file; `kind` is recognised unless given. Raises ConversionError.

        `options`: keyword arguments of this kind's converter, such as `ocr` of that of PDF. `watch` is called
        now and then with the share of the file that is read, 0 to 1.
        """
        kind = kind or recognise(data, name)
        if kind.refusal:
            raise ConversionError(kind.refusal_code, kind.refusal)
        if kind.converter is None:
            raise ConversionError("unsupported", f"{kind.name} needs no conversion", "ingest it as it is")
        with self._lock:
            child = self._take_child() or _Child(self.limits)
            try:
                answer = child.ask(kind, data, name, options or {}, self.limits, watch)
            except BaseException:
                child.kill()
                raise
            if child.n_files < self._files_per_child and not answer.get("retire"):
                self._child = child
            else:
                child.kill()
        return _checked(answer)

    def close(self) -> None:
        """End the child, if there is one."""
        with self._lock:
            child = self._take_child()
            if child is not None:
                child.kill()

    def _take_child(self) -> _Child | None:
        """Return the waiting child. A process forked from the owner has none: a pipe has one user."""
        child, self._child = self._child, None
        if self._owner != os.getpid():
            self._owner, child = os.getpid(), None
        return child

    @property
    def child_pid(self) -> int | None:
        """The process id of the waiting child, if there is one."""
        child = self._child
        return child.process.pid if child else None


class _Child:
    """One process of converters."""

    def __init__(self, limits: Limits) -> None:
        self.n_files = 0
        # The child reads nothing from this pipe. When its other end closes, this process is dead.
        lifeline, self._lifeline = os.pipe()
        settings = {
            "lifeline": lifeline,
            "memory_bytes": limits.memory_bytes,
            "output_bytes": limits.output_bytes,
            "open_files": limits.open_files,
        }
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, json.dumps(_import_path()), json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
                env=_environment(os.environ),
                pass_fds=(lifeline,),
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._lifeline)
            raise ConversionError(
                "crashed", f"no process for the conversion could be started: {error}"
            ) from None
        finally:
            os.close(lifeline)
        assert self.process.stdin is not None, "it is a pipe"
        assert self.process.stdout is not None, "it is a pipe"
        self._requests, self._answers = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(self._requests, False)
        os.set_blocking(self._answers, False)

    def ask(
        self,
        kind: FileKind,
        data: bytes,
        name: str,
        options: Mapping[str, str | bool],
        limits: Limits,
        watch: Callable[[float], None],
    ) -> dict[str, Any]:
        """Send a file and return the answer as the child wrote it. Raises ConversionError; kill it then."""
        seconds = seconds_for(len(data), limits.seconds)
        deadline = time.monotonic() + seconds + (0.0 if self.n_files else START_SECONDS)
        self.n_files += 1
        fields = {
            "id": kind.id,
            "converter": kind.converter,
            "kind": kind.name,
            "extra": kind.extra,
            "name": name,
        }
        request = json.dumps({**fields, "options": dict(options), "seconds": seconds}).encode()
        try:
            self._write(REQUEST_HEAD.pack(len(request), len(data)) + request, deadline)
            self._write(data, deadline)
            answer = self._read_message(limits, deadline)
            while isinstance(answer, dict) and answer.keys() == {"share"}:
                watch(min(max(float(answer["share"]), 0.0), 1.0))
                answer = self._read_message(limits, deadline)
            if isinstance(answer, dict) and "attachments" in answer:
                answer["attachments"] = self._read_attachments(answer["attachments"], deadline)
        except TimeoutError:
            raise _too_slow(seconds) from None
        except (EOFError, BrokenPipeError):
            raise self._death(limits, seconds) from None
        except (ValueError, TypeError, RecursionError):
            raise _crashed("its answer could not be read") from None
        if not isinstance(answer, dict):
            raise _crashed("its answer could not be read")
        return answer

    def _read_message(self, limits: Limits, deadline: float) -> Any:
        """Return the next report or the answer. Raises ConversionError and what `_read` raises."""
        (length,) = ANSWER_HEAD.unpack(self._read(ANSWER_HEAD.size, deadline))
        if length > limits.output_bytes:
            raise _too_much_output(limits)
        return json.loads(self._read(length, deadline))

    def _read_attachments(self, heads: Sequence[tuple[str, int]], deadline: float) -> tuple[Attachment, ...]:
        sizes = [int(size) for _, size in heads]
        if min(sizes, default=0) < 0 or sum(sizes) > MAX_ATTACHMENT_BYTES or len(sizes) > MAX_ATTACHMENTS:
            raise _crashed("its attachments are too large")
        return tuple(
            Attachment(str(name), self._read(size, deadline))
            for (name, _), size in zip(heads, sizes, strict=True)
        )

    def kill(self) -> None:
        """End the process and all that it started, and free its pipes."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def _write(self, data: bytes, deadline: float) -> None:
        rest = memoryview(data)
        while rest:
            _wait(self._requests, select.POLLOUT, deadline)
            try:
                rest = rest[os.write(self._requests, rest[:_PIECE_BYTES]) :]
            except BlockingIOError:
                continue

    def _read(self, length: int, deadline: float) -> bytes:
        pieces: list[bytes] = []
        while length:
            _wait(self._answers, select.POLLIN, deadline)
            try:
                piece = os.read(self._answers, min(length, _PIECE_BYTES))
            except BlockingIOError:
                continue
            if not piece:
                raise EOFError
            pieces.append(piece)
            length -= len(piece)
        return b"".join(pieces)

    def _death(self, limits: Limits, seconds: float) -> ConversionError:
        """Return the error for a child that closed its pipes."""
        try:
            status = self.process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            return _crashed("it closed its output")
        if status == OUT_OF_MEMORY_STATUS:
            return ConversionError(
                "memory_limit",
                f"the conversion needs more than {limits.memory_bytes // 1024**2:,} MiB of memory",
            )
        if status == -signal.SIGALRM:
            return _too_slow(seconds)
        ending = f"signal {-status}" if status < 0 else f"exit status {status}"
        return _crashed(ending)


def _wait(descriptor: int, event: int, deadline: float) -> None:
    """Wait until a pipe is ready or closed. Raises TimeoutError."""
    poll = select.poll()
    poll.register(descriptor, event)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise TimeoutError


def _import_path() -> list[str]:
    """Return the places of modules of this process, without those relative to its folder."""
    here = str(Path(__file__).resolve().parents[2])
    return [here, *(path for path in sys.path if Path(path).is_absolute() and path != here)]


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    passed_on = {name: environment[name] for name in _PASSED_ON if name in environment}
    # One thread: libraries for arrays otherwise reserve memory for each processor.
    return passed_on | {"LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def seconds_for(n_bytes: int, seconds: float) -> float:
    """Return how long the conversion of a file may take, if one of FULL_TIME_BYTES may take `seconds`."""
    return seconds * max(1.0, n_bytes / FULL_TIME_BYTES)


def _too_slow(seconds: float) -> ConversionError:
    return ConversionError("time_limit", f"the conversion took more than {seconds:.4g} seconds")


def _too_much_output(limits: Limits) -> ConversionError:
    return ConversionError(
        "too_large",
        f"the text of the file has more than {limits.output_bytes // 1024**2:,} MiB",
    )


def _crashed(ending: str) -> ConversionError:
    return ConversionError(
        "crashed",
        f"the conversion ended with an error of its program ({ending}), probably because the file is damaged",
    )


def _checked(answer: Mapping[str, Any]) -> Converted:
    """Return what an answer says. Raises the ConversionError that it names, and `crashed` if it is wrong."""
    error = answer.get("error")
    if isinstance(error, Mapping):
        code, message = error.get("code"), error.get("message")
        if code in _CODES and isinstance(message, str):
            raise ConversionError(code, message[:2000], advice="")
        raise _crashed("its answer could not be read")
    try:
        content, title = answer["content"], answer["title"]
        if not (isinstance(content, str) and isinstance(title, str)):
            raise TypeError
        return Converted(
            content=content,
            format=DocFormat(answer["format"]),
            title=title,
            locators=_checked_locators(answer["locators"], len(content)),
            removed=tuple(
                Removed(str(reason), str(text), int(times)) for reason, text, times in answer["removed"]
            ),
            warnings=tuple(str(warning) for warning in answer["warnings"]),
            metadata={str(name): _checked_value(value) for name, value in answer["metadata"].items()},
            attachments=answer["attachments"],
            account=FileAccount.of_fields(answer["account"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        raise _crashed("its answer is not a converted file") from None


def _checked_value(value: object) -> str | int | list[str]:
    if isinstance(value, list):
        return list(map(str, value))
    return value if isinstance(value, int) else str(value)


def _checked_locators(rows: Sequence[Sequence[Any]], length: int) -> tuple[Locator, ...]:
    locators: list[Locator] = []
    at = 0
    for start, end, kind, name, first, last in rows:
        if not (type(start) is int and type(end) is int and at <= start <= end <= length):
            raise ValueError
        if not (isinstance(name, str) and math.isfinite(first) and math.isfinite(last)):
            raise ValueError
        locators.append(Locator(start, end, LocatorKind(kind), name, first, last))
        at = end
    return tuple(locators)
