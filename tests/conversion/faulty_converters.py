"""Converters that go wrong in every way; tests run them in a process of its own."""

from __future__ import annotations

import ctypes
import os
import re
import socket
import sys
import time
from pathlib import Path

from shoal.conversion.converted import ConversionError, Converted
from shoal.models.documents import DocFormat
from shoal.models.files import Locator, LocatorKind


def fine(data: bytes, name: str) -> Converted:
    print("libraries print")  # noqa: T201
    text = data.decode()
    locators = (Locator(0, len(text), LocatorKind.page, name, 1, 1),) if text else ()
    return Converted(text, DocFormat.plaintext, name, locators, (), ("a warning",))


def with_options(data: bytes, name: str, *, ocr: bool = False, language: str = "") -> Converted:
    return Converted(f"{data.decode()} {ocr} {language}", DocFormat.plaintext)


def reports(data: bytes, name: str) -> Converted:
    """Report the numbers in the file, as shares of 4."""
    from shoal.conversion import converted

    converted.SECONDS_BETWEEN_REPORTS = -1.0
    converted.report_to(converted._reports.send)
    for number in data.split():
        converted.report(float(number), 4)
    return Converted(data.decode(), DocFormat.plaintext)


def exits(data: bytes, name: str) -> Converted:
    os._exit(0)


def segfaults(data: bytes, name: str) -> Converted:
    ctypes.string_at(0)
    raise AssertionError


def loops(data: bytes, name: str) -> Converted:
    while True:
        pass


def loops_in_c(data: bytes, name: str) -> Converted:
    """Hold the interpreter's lock for minutes, as a bad pattern does."""
    re.match(r"(a+)+$", "a" * 40 + "b")
    raise AssertionError


def sleeps(data: bytes, name: str) -> Converted:
    time.sleep(1000)
    raise AssertionError


def eats_memory(data: bytes, name: str) -> Converted:
    pieces = []
    while True:
        pieces.append(bytearray(32 * 1024**2))


def writes_much(data: bytes, name: str) -> Converted:
    return Converted("x" * 3_000_000, DocFormat.plaintext)


def writes_unasked(data: bytes, name: str) -> Converted:
    """Write an endless answer into every pipe, as code that took over the process could."""
    for descriptor in range(3, 32):
        try:
            os.write(descriptor, b"\xff" * 8)
        except OSError:
            continue
    while True:
        for descriptor in range(3, 32):
            try:
                os.write(descriptor, b"x" * 4096)
            except OSError:
                continue


def lies(data: bytes, name: str) -> Converted:
    return Converted("abc", DocFormat.plaintext, "", (Locator(2, 99, LocatorKind.page, "", 1, 1),))


def returns_nothing(data: bytes, name: str) -> Converted:
    return None  # type: ignore[return-value]


def fails(data: bytes, name: str) -> Converted:
    raise KeyError("secret/path")


def nests(data: bytes, name: str) -> Converted:
    return nests(data, name)


def refuses(data: bytes, name: str) -> Converted:
    raise ConversionError("encrypted", "it has a password")


def imports_missing(data: bytes, name: str) -> Converted:
    import no_such_library_of_any_name

    return no_such_library_of_any_name.convert(data)


def connects(data: bytes, name: str) -> Converted:
    with socket.socket() as connection:
        connection.settimeout(2)
        connection.connect(("127.0.0.1", int(data)))
    return Converted("connected", DocFormat.plaintext)


def shows_itself(data: bytes, name: str) -> Converted:
    """Tell what a converter sees: its process id, variables, descriptors and limits."""
    import json
    import resource

    limits = [
        resource.getrlimit(limit)[0]
        for limit in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)
    ]
    seen = {"pid": os.getpid(), "environment": dict(os.environ), "folder": str(Path.cwd()), "limits": limits}
    seen["modules"] = [module for module in ("numpy", "numba", "sqlite3") if module in sys.modules]
    return Converted(json.dumps(seen), DocFormat.plaintext)
