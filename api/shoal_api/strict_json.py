"""JSON as RFC 8259 has it, for input from strangers.

`json.loads` takes more than JSON (NaN, Infinity, duplicate keys with the last one winning, numbers that become
infinite) and fails in its own ways on deep nesting and huge integers. Here all of these are one error.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn

MAX_DEPTH = 64
"""Levels of nesting. Nobody's metadata needs more, and whatever walks the value later may recurse."""

REASONS = {
    "Invalid control character at": (
        "a string is not closed, or holds a line break, tab or other control character that is not escaped"
    ),
    "Unterminated string starting at": "a string that starts here is not closed",
}
"""For messages of the parser that send the reader looking for the wrong thing."""


SHOWN_CHARS = 80
"""Of a key in its message."""

_SCAN_STRING: Callable[[str, int, bool], tuple[str, int]] = json.decoder.scanstring  # type: ignore[attr-defined]
"""The parser's own: the string that begins at a position, behind its quote, and where it ends."""


class MalformedJSONError(ValueError):
    """The bytes are not JSON; the message says what is wrong, for the one who sent them."""


class LoneSurrogateError(ValueError):
    """A string holds half of a surrogate pair, which no encoding can store. `field` is the top-level key."""

    def __init__(self, field: str) -> None:
        self.field = field[:SHOWN_CHARS]
        self.message = "holds half of a surrogate pair, which is not a character"
        super().__init__(f"{self.field}: {self.message}")


class OversizedJSONError(MalformedJSONError):
    """The JSON holds too much beside its longest string."""


def parse_object(data: bytes, max_beside: int | None = None) -> dict[str, Any]:
    """The JSON object in `data`, see `parse`. Raises MalformedJSONError if it is anything else."""
    value = parse(data, max_beside)
    if not isinstance(value, dict):
        raise MalformedJSONError("must be a JSON object")
    return value


def parse(data: bytes, max_beside: int | None = None) -> Any:
    """The JSON value in `data` (UTF-8, a BOM is allowed).

    A value takes up to 40 times the memory of its JSON, a string that of its characters: where a body may be large for
    the sake of one string, `max_beside` bounds the characters of everything else.

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
    """Raise OversizedJSONError if a JSON text has more than `limit` characters beside its longest string."""
    longest = at = 0
    while at < len(text):
        start = text.find('"', at)
        if start < 0:
            start = at = len(text)
        else:
            _, at = _SCAN_STRING(text, start + 1, True)
        longest = max(longest, at - start)
        if at - longest > limit:
            raise OversizedJSONError(
                f"has over {limit:,} characters beside its longest text, which is the limit; send less metadata or "
                "fewer values in lists"
            )


def _reason(error: json.JSONDecodeError) -> str:
    """What the parser met and where; the line only where there are several."""
    reason = REASONS.get(error.msg, error.msg[:1].lower() + error.msg[1:])
    where = f"column {error.colno}"
    if "\n" in error.doc.strip():
        where = f"line {error.lineno} {where}"
    return f"{reason} ({where})"


def check_surrogates(value: dict[str, Any], *, exempt: frozenset[str] = frozenset()) -> None:
    """Raise LoneSurrogateError if a string under a key outside `exempt`, or a key, cannot be encoded."""
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
        twice = counts.most_common(1)[0][0]
        raise MalformedJSONError(f"is ambiguous: the key {json.dumps(twice[:SHOWN_CHARS])} comes twice")
    return value


def _constant(name: str) -> NoReturn:
    raise MalformedJSONError(f"is not JSON: {name} is not a value of JSON")


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
