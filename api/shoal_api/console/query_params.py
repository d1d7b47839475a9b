"""Query parameters of the console's pages. Invalid values raise a QueryError that names the parameter."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TypeVar

import flask

from shoal.errors import QueryError
from shoal_api.schemas.unknown import parameter_hint

MAX_PAGES = 1_000_000
"""Far beyond the last page of any list; a search has a lower limit."""
LIST_SEPARATOR = ","
MAX_VALUES = 100
"""Most values of a parameter. The page shows a link for each, to remove it."""
MAX_DIGITS = 18
"""Most digits of an integer; SQLite's largest has 19."""
SHOWN_CHARS = 40
"""Most characters of an invalid value in a message."""

Choice = TypeVar("Choice", bound=enum.StrEnum)


def check_known(names: Sequence[str]) -> None:
    """Raise a QueryError for a query parameter with another name, which the page would ignore."""
    for name in flask.request.args:
        if name not in names:
            raise QueryError(name[:SHOWN_CHARS], parameter_hint(name, names))


def page_number() -> int:
    """Return the number of the page of a list, from 1."""
    number = whole("page", 1)
    if not 1 <= number <= MAX_PAGES:
        raise QueryError("page", f"must be between 1 and {MAX_PAGES:,}")
    return number


def whole(name: str, default: int) -> int:
    """Return a non-negative integer."""
    given = flask.request.args.get(name)
    return _whole(name, given) if given else default


def wholes(name: str) -> list[int]:
    """Return comma-separated integers."""
    return [_whole(name, text) for text in texts(name)]


def texts(name: str) -> list[str]:
    """Return comma-separated texts without duplicates."""
    given = flask.request.args.get(name, "").split(LIST_SEPARATOR)
    if len(given) > MAX_VALUES:
        raise QueryError(name, f"has more than {MAX_VALUES} values, which is the limit")
    return list(dict.fromkeys(text.strip() for text in given if text.strip()))


def number(name: str) -> float | None:
    """Return a number, None if absent."""
    given = flask.request.args.get(name)
    if not given:
        return None
    try:
        return float(given)
    except ValueError:
        raise QueryError(name, "must be a number") from None


def choice(name: str, choices: type[Choice], what: str) -> Choice | None:
    """Return a member of an enumeration, None if absent; `what` names the enumeration in the message."""
    given = flask.request.args.get(name)
    if not given:
        return None
    try:
        return choices(given)
    except ValueError:
        raise QueryError(name, f"{given[:SHOWN_CHARS]!r} is not a {what}") from None


def _whole(name: str, given: str) -> int:
    if not given.isascii() or not given.isdigit() or len(given) > MAX_DIGITS:
        raise QueryError(name, "must be a whole number")
    return int(given)
