"""Strict JSON parser (RFC 8259) for untrusted input.

`json.loads` accepts more than JSON: NaN, Infinity, duplicate keys (the last one wins) and numbers that
overflow to infinity. It raises various errors for deep nesting and huge integers. This module raises one
error for all of these. Arrays of documents are read element by element.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, NoReturn

from shoal.conversion.inflating import READ_BYTES

MAX_DEPTH = 64
"""Most levels of nesting. No real metadata needs more, and later code may recurse into the value."""

REASONS = {
    "Invalid control character at": (
        "a string is not closed, or holds a line break, tab or other control character that is not escaped"
    ),
    "Unterminated string starting at": "a string that starts here is not closed",
}
"""Replacements for misleading messages of the parser."""


SHOWN_CHARS = 80
"""Most characters of a key in a message."""

_SCAN_STRING: Callable[[str, int, bool], tuple[str, int]] = json.decoder.scanstring  # type: ignore[attr-defined]
"""Scanner of the standard parser: returns the string that starts after a quote, and its end."""


LONG_CHARS = 200
"""A string of this many characters takes hardly more memory than its JSON."""


class MalformedJSONError(ValueError):
    """The bytes are not JSON. The message says why, for the caller."""


class LoneSurrogateError(ValueError):
    """A string holds a lone surrogate, which UTF-8 cannot encode. `field` is the top-level key."""

    def __init__(self, field: str) -> None:
        self.field = field[:SHOWN_CHARS]
        self.message = "holds half of a surrogate pair, which is not a character"
        super().__init__(f"{self.field}: {self.message}")


class OversizedJSONError(MalformedJSONError):
    """The JSON is too large without its long strings."""


def parse_object(data: bytes, max_beside: int | None = None) -> dict[str, Any]:
    """Parse `data` as a JSON object, see `parse`. Raises MalformedJSONError for any other value."""
    value = parse(data, max_beside)
    if not isinstance(value, dict):
        raise MalformedJSONError("must be a JSON object")
    return value


def parse(data: bytes, max_beside: int | None = None) -> Any:
    """Parse `data` (UTF-8, optionally with a BOM) as a JSON value.

    A parsed value takes up to 40 times the memory of its JSON, but a string only that of its characters.
    `max_beside` limits the characters outside strings of LONG_CHARS or more, for bodies that are large
    because of their texts.

    Raises MalformedJSONError.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedJSONError(f"is not UTF-8 (byte {error.start})") from None
    if not text.strip():
        raise MalformedJSONError("is empty")
    try:
        if max_beside is not None and len(text) > max_beside:
            _check_beside(text, max_beside)
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_int
        )
    except json.JSONDecodeError as error:
        raise MalformedJSONError(f"is not JSON: {_reason(error)}") from None
    except RecursionError:
        raise MalformedJSONError(f"is nested deeper than {MAX_DEPTH} levels") from None
    _check_depth(value)
    return value


def _check_beside(text: str, limit: int) -> None:
    """Raise OversizedJSONError if a JSON text has more than `limit` characters outside its long strings."""
    in_texts = at = 0
    while at < len(text):
        start = text.find('"', at)
        if start < 0:
            start = at = len(text)
        else:
            _, at = _SCAN_STRING(text, start + 1, True)
        if at - start >= LONG_CHARS:
            in_texts += at - start
        if at - in_texts > limit:
            raise OversizedJSONError(
                f"has more than {limit:,} characters besides its long texts, which is the limit; send less "
                "metadata or fewer values in lists"
            )


def _reason(error: json.JSONDecodeError) -> str:
    """Return the error and its position, with the line number if the text has several lines."""
    reason = REASONS.get(error.msg, error.msg[:1].lower() + error.msg[1:])
    where = f"column {error.colno}"
    if "\n" in error.doc.strip():
        where = f"line {error.lineno} {where}"
    return f"{reason} ({where})"


def check_surrogates(value: dict[str, Any], *, exempt: frozenset[str] = frozenset()) -> None:
    """Raise LoneSurrogateError if a key, or a string under a key outside `exempt`, cannot be encoded as
    UTF-8."""
    for name, member in value.items():
        stack: list[Any] = [name] if name in exempt else [name, member]
        while stack:
            inner = stack.pop()
            if isinstance(inner, str):
                try:
                    inner.encode()
                except UnicodeEncodeError:
                    raise LoneSurrogateError(name.encode("utf-8", "replace").decode()) from None
            elif isinstance(inner, dict):
                stack += [*inner.keys(), *inner.values()]
            elif isinstance(inner, list):
                stack += inner


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        duplicate = counts.most_common(1)[0][0]
        raise MalformedJSONError(f"is ambiguous: the key {json.dumps(duplicate[:SHOWN_CHARS])} occurs twice")
    return value


def _constant(name: str) -> NoReturn:
    raise MalformedJSONError(f"is not JSON: {name} is not a JSON value")


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise MalformedJSONError("holds a number that is too large")
    return value


def _int(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise MalformedJSONError("holds a number with too many digits") from None


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    if any(isinstance(inner, dict | list) for inner in level):
        raise MalformedJSONError(f"is nested deeper than {MAX_DEPTH} levels")


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
