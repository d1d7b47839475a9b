"""The process that runs converters: the other end of `shoal.conversion.process`.

It gives up what a converter does not need before it reads the first file. Each file is one request.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.conversion import converted
from shoal.conversion.accounts.account import file_account
from shoal.conversion.converted import (
    ANSWER_HEAD,
    OUT_OF_MEMORY_STATUS,
    REQUEST_HEAD,
    Attachment,
    ConversionError,
    Converted,
    broken,
)
from shoal.errors import DocumentTooLargeError, UndecodableDocumentError
from shoal.models.files import FileAccount

_MAX_FILE_BYTES = 512 * 1024**2  # of a temporary file, such as a page for OCR
_MEMORY_REPORT = Path("/proc/self/statm")
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIGIO_ON_CLOSE = getattr(os, "O_ASYNC", 0)
# Enough for the text of a file nested 1,000 deep, and small enough for the default stack of 8 MiB.
_RECURSION_LIMIT = 1000
_ACCOUNT_SHARE = 0.9
"""Of the time limit, after which no account is made."""
_REFUSED_EVENTS = frozenset({"socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname"})


def main(settings: Mapping[str, int]) -> None:
    """Convert files until the parent closes the pipe."""
    requests, answers = os.dup(0), os.dup(1)
    # A library that prints must not write into the answers.
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    _end_with_parent(settings["lifeline"])
    _limit_resources(settings["memory_bytes"], settings["open_files"])
    _leave_network()
    sys.setrecursionlimit(_RECURSION_LIMIT)
    try:
        while head := _read(requests, REQUEST_HEAD.size):
            n_request, n_data = REQUEST_HEAD.unpack(head)
            request = json.loads(_read(requests, n_request))
            data = _read(requests, n_data)
            converted.report_to(lambda share: _send(answers, json.dumps({"share": share}).encode()))
            answer, attachments = _answer(request, data, settings)
            converted.report_to(None)
            _send(answers, answer)
            for attachment in attachments:
                _write(answers, attachment.data)
    except MemoryError:
        os._exit(OUT_OF_MEMORY_STATUS)
    os._exit(0)


def _answer(
    request: Mapping[str, Any], data: bytes, settings: Mapping[str, int]
) -> tuple[bytes, tuple[Attachment, ...]]:
    """Return the JSON of an answer, and the attachments whose bytes follow it."""
    # The system ends this process at the limit even if a library never returns and the parent is gone.
    signal.setitimer(signal.ITIMER_REAL, request["seconds"] + 1.0)
    attachments: tuple[Attachment, ...] = ()
    begun = time.monotonic()
    try:
        result = convert(request, data)
        account = counted(request["id"], data, result, begun + _ACCOUNT_SHARE * request["seconds"])
        fields, attachments = _converted_fields(result, account), result.attachments
    except ConversionError as error:
        fields = {"error": {"code": error.code, "message": str(error)}}
    answer = _encoded(fields, settings)
    if len(answer) > settings["output_bytes"]:
        text = f"the text of the file has more than {settings['output_bytes'] // 1024**2:,} MiB"
        answer, attachments = _encoded({"error": {"code": "too_large", "message": text}}, settings), ()
    signal.setitimer(signal.ITIMER_REAL, 0)
    return answer, attachments


def convert(request: Mapping[str, Any], data: bytes) -> Converted:
    """Run the converter that a request names. Every error but MemoryError becomes a ConversionError."""
    module, _, function = request["converter"].partition(":")
    kind, name = request["kind"], request["name"]
    try:
        converter = getattr(importlib.import_module(module), function)
        converted = converter(data, name, **request["options"])
        if not isinstance(converted, Converted):
            raise TypeError
        return converted
    except (ConversionError, MemoryError):
        raise
    except ImportError as error:
        raise _missing_extra(kind, request["extra"], error.name or str(error)) from None
    except DocumentTooLargeError as error:
        raise ConversionError("too_large", str(error)) from None
    except UndecodableDocumentError as error:
        raise ConversionError("broken", str(error)) from None
    except RecursionError:
        raise broken("it is nested too deep to be read") from None
    except Exception as error:
        raise broken(f"it cannot be read as {kind} ({type(error).__name__})") from None


def counted(kind: str, data: bytes, result: Converted, deadline: float) -> FileAccount | None:
    """Return the account of a file; None if its words cannot be counted. It is never a reason to fail."""
    try:
        return file_account(
            kind,
            data,
            result.content,
            result.removed,
            title=result.title,
            counter=result.counter,
            deadline=deadline,
        )
    except (Exception, MemoryError):
        return None


def _missing_extra(kind: str, extra: str | None, module: str) -> ConversionError:
    """Return the error that says how to install what a format needs."""
    if extra is None:
        return ConversionError("missing_extra", f"{kind} needs the module {module}, which is not installed")
    return ConversionError(
        "missing_extra", f"{kind} needs libraries that are not installed", f"pip install 'shoal[{extra}]'"
    )


def _converted_fields(result: Converted, account: FileAccount | None) -> dict[str, Any]:
    return {
        "content": result.content,
        "format": result.format.value,
        "title": converted.meaningful_title(result.title),
        "locators": result.locators,
        "removed": converted.shortened(result.removed),
        "warnings": result.warnings,
        "metadata": result.metadata,
        "attachments": [(each.name, len(each.data)) for each in result.attachments],
        "account": account and account.fields,
    }


def _encoded(fields: dict[str, Any], settings: Mapping[str, int]) -> bytes:
    fields["retire"] = _resident_bytes() > settings["memory_bytes"] // 4
    # A lone surrogate becomes one other character, so that offsets stay valid.
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")


def _resident_bytes() -> int:
    """Return the memory of this process; 0 where the system does not say. The peak is that of the parent."""
    with contextlib.suppress(OSError, ValueError, IndexError), _MEMORY_REPORT.open("rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
    return 0


def _read(descriptor: int, length: int) -> bytes:
    """Return exactly `length` bytes. At the end of the pipe the process ends: nobody waits for an answer."""
    data = bytearray()
    while len(data) < length:
        piece = os.read(descriptor, min(length - len(data), 1024 * 1024))
        if not piece:
            os._exit(0)
        data += piece
    return bytes(data)


def _send(descriptor: int, message: bytes) -> None:
    _write(descriptor, ANSWER_HEAD.pack(len(message)))
    _write(descriptor, message)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except OSError:
            os._exit(0)


def _end_with_parent(lifeline: int) -> None:
    """Let the system end this process when the parent's end of the pipe closes, whatever code runs then."""
    import fcntl

    for number in (signal.SIGIO, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    with contextlib.suppress(OSError):
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | _SIGIO_ON_CLOSE | os.O_NONBLOCK)
    # The parent may have died before.
    if select.select([lifeline], [], [], 0)[0]:
        os._exit(0)


def _limit_resources(memory_bytes: int, open_files: int) -> None:
    for limit, value in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_NOFILE, open_files),
        (resource.RLIMIT_FSIZE, _MAX_FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(limit)
        lowest = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # A system may refuse a limit: that of macOS knows none for the address space.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(limit, (lowest, lowest))


def _leave_network() -> None:
    """Move to an empty network where the system allows it, and refuse connections in Python anyway."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).unshare(_CLONE_NEWUSER | _CLONE_NEWNET)

    def refuse(event: str, _arguments: tuple[Any, ...]) -> None:
        if event in _REFUSED_EVENTS:
            raise PermissionError("a converter may not use the network")

    sys.addaudithook(refuse)
