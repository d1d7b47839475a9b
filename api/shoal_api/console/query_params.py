"""What the address of a page asks for. Whatever cannot be asked is a QueryError that names the argument."""

from __future__ import annotations

import enum
from typing import TypeVar

import flask

from shoal.errors import QueryError

MAX_PAGES = 1_000_000
"""Far behind the last page of any list; a search ends sooner."""
LIST_SEPARATOR = ","
MAX_VALUES = 100
"""In one argument. The page draws a link for each, that leads to the page without it."""
MAX_DIGITS = 18
"""Of a whole number; SQLite's largest has 19."""
SHOWN_CHARS = 40
"""Of a wrong value in its message."""

Choice = TypeVar("Choice", bound=enum.StrEnum)


def page_number() -> int:
    """Which page of a list, from 1."""
    number = whole("page", 1)
    if not 1 <= number <= MAX_PAGES:
        raise QueryError("page", f"must be between 1 and {MAX_PAGES:,}")
    return number


def whole(name: str, default: int) -> int:
    """A whole number, not negative."""
    given = flask.request.args.get(name)
    return _whole(name, given) if given else default


def wholes(name: str) -> list[int]:
    """Whole numbers with commas between them."""
    return [_whole(name, each) for each in texts(name)]


def texts(name: str) -> list[str]:
    """Texts with commas between them, each once."""
    given = flask.request.args.get(name, "").split(LIST_SEPARATOR)
    if len(given) > MAX_VALUES:
        raise QueryError(name, f"has more than {MAX_VALUES} values, which is the limit")
    return list(dict.fromkeys(each.strip() for each in given if each.strip()))


def number(name: str) -> float | None:
    """Any number."""
    given = flask.request.args.get(name)
    if not given:
        return None
    try:
        return float(given)
    except ValueError:
        raise QueryError(name, "must be a number") from None


def choice(name: str, choices: type[Choice], what: str) -> Choice | None:
    """One of the members of an enumeration; `what` says what it is no such one of."""
    given = flask.request.args.get(name)
    if not given:
        return None
    try:
        return choices(given)
    except ValueError:
        raise QueryError(name, f"{given[:SHOWN_CHARS]!r} is no {what}") from None


def _whole(name: str, given: str) -> int:
    if not given.isascii() or not given.isdigit() or len(given) > MAX_DIGITS:
        raise QueryError(name, "must be a whole number")
    return int(given)
