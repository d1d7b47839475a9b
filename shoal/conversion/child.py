"""The process that runs converters: the other end of `shoal.conversion.process`.

It gives up what a converter does not need before it reads the first file. Each file is one request. The
answer has the text of the file and its account (`shoal.conversion.accounts`).
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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from shoal.conversion import converted
from shoal.conversion.accounts.markup import FilePart, missing_words, shortage, words_of
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
from shoal.models.files import FileAccount, MissingPart, Removed

_MAX_FILE_BYTES = 512 * 1024**2  # of a temporary file, such as a page for OCR
_MEMORY_REPORT = Path("/proc/self/statm")
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIGIO_ON_CLOSE = getattr(os, "O_ASYNC", 0)
# Enough for the text of a file nested 1,000 deep, and small enough for the default stack of 8 MiB.
_RECURSION_LIMIT = 1000
_ACCOUNT_SHARE = 0.9
"""Of the time limit, after which no account is made."""
_REFUSED_EVENTS = frozenset({"socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname"})
_HERE = "shoal.conversion.accounts."
COUNTERS = MappingProxyType(
    {
        "docx": _HERE + "archives:docx_parts",
        "pptx": _HERE + "archives:pptx_parts",
        "xlsx": _HERE + "archives:xlsx_parts",
        "opendocument": _HERE + "archives:opendocument_parts",
        "epub": _HERE + "archives:epub_parts",
        "html": _HERE + "mail:html_parts",
        "mhtml": _HERE + "mail:mhtml_parts",
        "eml": _HERE + "mail:eml_parts",
        "mbox": _HERE + "mail:mbox_parts",
        "rtf": _HERE + "rich_text:rtf_parts",
        "pdf": _HERE + "pdf:pdf_parts",
    }
)
"""The function that yields the parts of a file, by kind. Files of other kinds have no account."""
MAX_PARTS = 50
"""Of an account; the words of further parts are in one."""
_SAMPLE_WORDS = 12
_SAMPLE_CHARS = 80


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


def file_account(
    kind: str,
    data: bytes,
    content: str,
    removed: Sequence[Removed],
    *,
    title: str = "",
    counter: object = None,
    deadline: float = float("inf"),
) -> FileAccount | None:
    """Return what of a file is in its document; None if it cannot be counted, or not before the deadline.

    `removed`: texts that the converter left out on purpose, in full. `counter`: as of
    `Converted`. `deadline`: of `time.monotonic`.
    """
    if kind not in COUNTERS:
        return None
    parts: list[FilePart] = []
    for part in parts_of(kind, data, counter):
        parts.append(part)
        if time.monotonic() > deadline:
            return None
    return compared(parts, f"{title}\n{content}", removed)


def parts_of(kind: str, data: bytes, counter: object = None) -> Iterator[FilePart]:
    """Yield the parts of a file with visible words. Raises errors of many kinds for a damaged one."""
    module, _, function = COUNTERS[kind].partition(":")
    count: Callable[..., Iterator[FilePart]] = getattr(importlib.import_module(module), function)
    yield from count(data) if counter is None else count(data, counter)


def compared(parts: Sequence[FilePart], content: str, removed: Sequence[Removed]) -> FileAccount:
    """Return the account of the parts of a file against its content."""
    present = Counter(words_of(content))
    reasons: dict[str, Counter[str]] = {}
    for entry in removed:
        counts = reasons.setdefault(entry.reason, Counter())
        for word in words_of(entry.text):
            counts[word] += entry.times
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part.words)
        total.update(part.counts)
    explained = sum(reasons.values(), Counter(present)) if reasons else present
    unexplained = missing_words(parts, total, explained)
    absent = shortage(total, present) - unexplained
    missing = [*_by_reason(reasons, removed, absent), *_by_part(parts, unexplained)]
    missing += _numbers(parts, total, present)
    missing += (MissingPart(part.kind, part.place, 0, part.n_bytes) for part in parts if not part.n_words)
    n_words = sum(part.n_words for part in parts)
    return FileAccount(n_words, n_words - sum(part.n_words for part in missing), _listed(missing))


def _by_reason(
    reasons: dict[str, Counter[str]], removed: Iterable[Removed], absent: Counter[str]
) -> Iterator[MissingPart]:
    """Yield what the converter left out on purpose, as far as its words are absent."""
    samples = {entry.reason: entry.text for entry in reversed(list(removed))}
    rest = Counter(absent)
    for reason, counts in reasons.items():
        taken = counts & rest
        rest -= taken
        if taken:
            text = " ".join(samples[reason][: 4 * _SAMPLE_CHARS].split())[:_SAMPLE_CHARS]
            yield MissingPart(reason, "", taken.total(), 0, True, text)


def _by_part(parts: Sequence[FilePart], missing: Counter[str]) -> Iterator[MissingPart]:
    """Yield the parts that lack words, those with the largest missing share first."""
    if not missing:
        return
    shares = []
    for at, part in enumerate(parts):
        if not missing.keys().isdisjoint(part.words) or not missing.keys().isdisjoint(part.counts):
            shares.append((-(part.counted() & missing).total() / part.n_words, at))
    rest = Counter(missing)
    for _, at in sorted(shares):
        part = parts[at]
        taken = part.counted() & rest
        if taken:
            rest -= taken
            yield MissingPart(part.kind, part.place, taken.total(), 0, False, _sample(part, taken))


def _sample(part: FilePart, taken: Counter[str]) -> str:
    """Return the beginning of the longest run of missing words."""
    best = (0, 0)
    start = at = 0
    for at, word in enumerate([*part.words, ""]):
        if word not in taken:
            if at - start > best[1] - best[0]:
                best = start, at
            start = at + 1
    sample = part.words[best[0] : best[1]][:_SAMPLE_WORDS] or list(taken)[:_SAMPLE_WORDS]
    return " ".join(sample)[:_SAMPLE_CHARS]


def _numbers(parts: Sequence[FilePart], words: Counter[str], present: Counter[str]) -> Iterator[MissingPart]:
    """Yield the numbers that the document lacks, as those of the last parts that have numbers."""
    total = sum(part.n_numbers for part in parts)
    if not total:
        return
    n_present = sum(n for word, n in shortage(present, words).items() if not word.isalpha())
    lost = total - n_present
    for part in reversed(parts):
        if lost > 0 and part.n_numbers:
            n = min(lost, part.n_numbers)
            lost -= n
            yield MissingPart(part.kind, part.place, n, 0, False, "numbers")


def _listed(missing: Sequence[MissingPart]) -> tuple[MissingPart, ...]:
    """Return the largest parts, those of one kind and place as one, and the rest as one of each sort."""
    ranked = sorted(missing, key=lambda part: (part.is_intended, -part.n_words, -part.n_bytes))
    rest = ranked[MAX_PARTS:]
    for is_intended in (False, True):
        others = [part for part in rest if part.is_intended == is_intended]
        if others:
            n_words, n_bytes = sum(p.n_words for p in others), sum(p.n_bytes for p in others)
            place = f"{len(others):,} more parts"
            ranked = [*ranked[:MAX_PARTS], MissingPart("other", place, n_words, n_bytes, is_intended)]
    return tuple(ranked[: MAX_PARTS + 2])
