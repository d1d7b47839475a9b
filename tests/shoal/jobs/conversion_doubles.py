"""A converter for tests: pages are separated by form feeds, and some first words make it fail."""

from __future__ import annotations

import os
import time

from shoal.conversion import converted
from shoal.conversion.converted import ConversionError, Converted
from shoal.conversion.file_kinds import FileKind
from shoal.models.documents import DocFormat
from shoal.models.files import Locator, LocatorKind, Removed

KIND = FileKind("double", "a double", (".double",), (), "conversion_doubles:convert")


def convert(data: bytes, name: str) -> Converted:
    """Convert the file of a test."""
    text = data.decode()
    if text.startswith("encrypted"):
        raise ConversionError("encrypted", f"{name} has a password; save it without one")
    if text.startswith("crash"):
        os._exit(3)
    if text.startswith("halfway"):
        converted.SECONDS_BETWEEN_REPORTS = -1.0
        converted.report_to(converted._reports.send)
        converted.report(1, 2)
    if text.startswith("slow"):
        time.sleep(60)
    locators, at = [], 0
    for number, page in enumerate(text.split("\f"), 1):
        locators.append(Locator(at, at + len(page), LocatorKind.page, "", number, number))
        at += len(page) + 1
    return Converted(
        content=text,
        format=DocFormat.plaintext,
        title="A Declared Title",
        locators=tuple(locators),
        removed=(Removed("page number", "1", len(locators)),),
        warnings=("a picture was left out",),
        metadata={"author": ["Ann"], "language": "en", "page_count": 2} if text.startswith("By Ann.") else {},
    )
