"""Names of collections, and the databases that they mean."""

from __future__ import annotations

import re
import secrets

from shoal.errors import CollectionNameError

MAIN = "main"
"""The collection of `SHOAL_DATABASE_URL`, which always exists. It is both its name and its id."""

MAX_NAME_CHARS = 63
PATTERN = r"[a-z0-9][a-z0-9_-]{0,62}"
"""A name, as a regular expression: it is a part of a URL and an argument of a shell, and never a path."""
ID_PATTERN = r"[0-9a-f]{16}"
"""An id of a collection other than `main`: it names a file or a schema."""

_NAME = re.compile(PATTERN)
_ID = re.compile(ID_PATTERN)
_SHOWN_CHARS = 80


def is_name(text: str) -> bool:
    """Whether `text` is the name of a collection that may exist."""
    return _NAME.fullmatch(text) is not None


def check_name(name: object, field: str = "name") -> str:
    """Return `name` if it can be a name, else raise CollectionNameError for `field`."""
    if not isinstance(name, str) or not is_name(name):
        raise CollectionNameError(
            field,
            f"must be 1 to {MAX_NAME_CHARS} characters, a to z, 0 to 9, - and _, first a letter or digit",
        )
    return name


def check_new_name(name: object, field: str = "name") -> str:
    """Return `name` if a new collection can have it, else raise CollectionNameError for `field`."""
    checked = check_name(name, field)
    if checked == MAIN:
        raise CollectionNameError(field, f"{MAIN} is the library of SHOAL_DATABASE_URL; choose another name")
    if checked in RESERVED:
        raise CollectionNameError(field, f"{checked} is reserved; choose another name")
    return checked


RESERVED = frozenset({"swap"})
"""Names that stand for operations in URLs."""


def new_id() -> str:
    """Return an id that no collection has: 64 random bits."""
    return secrets.token_hex(8)


def is_id(text: str) -> bool:
    """Whether `text` has the form of an id of a collection other than `main`."""
    return _ID.fullmatch(text) is not None


def shown(name: str) -> str:
    """Return a name for a message, shortened if it is long."""
    return repr(name if len(name) <= _SHOWN_CHARS else f"{name[:_SHOWN_CHARS]}…")
