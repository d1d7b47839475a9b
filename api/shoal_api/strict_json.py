"""Strict JSON parser (RFC 8259) for untrusted input.

`json.loads` accepts more than JSON: NaN, Infinity, duplicate keys (the last one wins) and numbers that
overflow to infinity. It raises various errors for deep nesting and huge integers. This module raises one
error for all of these.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn

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
