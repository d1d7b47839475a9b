"""The elements of a JSON array, cut apart while it is read, so that memory holds one element at a time.

Only brackets, commas and strings are read here; `strict_json` parses each element.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from shoal.conversion.inflating import READ_BYTES
from shoal_api.strict_json import MAX_DEPTH

BOM = b"\xef\xbb\xbf"
WHITE_SPACE = b" \t\r\n"

_LEVELS = 16
"""Nested values up to this depth are skipped by one pattern; the others cost a step for each bracket."""
_CHARS = rb'(?:[^"\\]++|\\.)*+'


def _skipped(others: bytes, levels: int) -> bytes:
    """Return a pattern of what may be skipped: bytes other than `others`, strings, and values in brackets."""
    nested = rb"|[\[{]" + _skipped(b"", levels - 1) + rb"[\]}]" if levels else b""
    return rb'(?:[^"\[\]{}' + others + rb']++|"' + _CHARS + rb'"' + nested + rb")*+"


_IN_STRING = re.compile(_CHARS, re.DOTALL)
_BETWEEN_COMMAS = re.compile(_skipped(b",", _LEVELS), re.DOTALL)
_BETWEEN_BRACKETS = re.compile(_skipped(b"", _LEVELS), re.DOTALL)
"""What leads up to the next byte that counts: in a string that began before, in the array, in an element."""


class MalformedArrayError(ValueError):
    """The bytes are not a JSON array, or it is cut off. The message says why, for the caller."""


class NotAnArrayError(MalformedArrayError):
    """The bytes begin with something other than an array."""


@dataclass(frozen=True, slots=True)
class Element:
    """The JSON of an element; None if it is longer than the limit. `n_bytes` is its length in any case."""

    data: bytes | None
    n_bytes: int


class _Collector:
    """The bytes of the present element, as far as they are kept."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self._n_bytes = 0
        self.n_elements = 0

    def add(self, data: bytes) -> None:
        if not self._n_bytes:
            data = data.lstrip(WHITE_SPACE)
        self._n_bytes += len(data)
        if self._n_bytes <= self._limit:
            self._data += data
        else:
            self._data.clear()

    @property
    def is_empty(self) -> bool:
        return not self._n_bytes

    def take(self) -> Element:
        """Return the element and begin the next one. Raises MalformedArrayError if there is none."""
        self.n_elements += 1
        if self.is_empty:
            raise MalformedArrayError(f"has no value in place of element {self.n_elements:,}")
        data = bytes(self._data.rstrip(WHITE_SPACE)) if self._n_bytes <= self._limit else None
        element = Element(data, self._n_bytes if data is None else len(data))
        self._data.clear()
        self._n_bytes = 0
        return element


def elements(file: IO[bytes], limit: int) -> Iterator[Element]:
    """Yield the elements of the array in a file, from its position to its end.

    `limit`: most bytes of an element that are kept. Raises MalformedArrayError.
    """
    text = _start(file)
    collector = _Collector(limit)
    at, depth, is_string = 1, 0, False
    while True:
        if is_string:
            match = _IN_STRING.match(text, at)
        elif depth:
            match = _BETWEEN_BRACKETS.match(text, at)
        else:
            match = _BETWEEN_COMMAS.match(text, at)
        assert match is not None, "each pattern matches nothing, too"
        collector.add(text[at : match.end()])
        mark = text[match.end() : match.end() + 1]
        if mark in (b"", b"\\"):
            # A backslash at the end belongs to the byte that follows.
            text, at = mark + _more(file, collector), 0
            continue
        at = match.end() + 1
        if depth == 0 and not is_string and mark in (b",", b"]", b"}"):
            if mark == b"," or not collector.is_empty or collector.n_elements:
                yield collector.take()
            if mark == b"]":
                break
            if mark == b"}":
                raise MalformedArrayError("has a `}` where the array should go on or end")
            continue
        collector.add(mark)
        if mark == b'"':
            is_string = not is_string
        else:
            depth += 1 if mark in (b"[", b"{") else -1
        if depth > MAX_DEPTH:
            raise MalformedArrayError(f"is nested deeper than {MAX_DEPTH} levels")
    _check_end(text[at:], file)


def _start(file: IO[bytes]) -> bytes:
    data = file.read(READ_BYTES)
    text = data.removeprefix(BOM).lstrip(WHITE_SPACE)
    while data and not text:
        data = file.read(READ_BYTES)
        text = data.lstrip(WHITE_SPACE)
    if not text.startswith(b"["):
        raise NotAnArrayError("must be a JSON array" if text else "is empty")
    return text


def _more(file: IO[bytes], collector: _Collector) -> bytes:
    text = file.read(READ_BYTES)
    if not text:
        raise MalformedArrayError(f"ends within element {collector.n_elements + 1:,}; it was cut off")
    return text


def _check_end(text: bytes, file: IO[bytes]) -> None:
    while text:
        if text.strip(WHITE_SPACE):
            raise MalformedArrayError("goes on after the end of the array")
        text = file.read(READ_BYTES)
