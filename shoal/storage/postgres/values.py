"""Values as PostgreSQL and Python exchange them, so that both stores give the same.

Truth values are 0 and 1, sums are `int` or `float`, and bytes are `bytes`. PostgreSQL's text cannot hold
the character NUL, which documents may contain: it is stored as `ESCAPE` and "0", and `ESCAPE` itself as
`ESCAPE` and "1". So every text comes back as it was; inside the database, it is longer by a character.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from psycopg import Connection
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.types.bool import BoolDumper
from psycopg.types.string import StrDumperUnknown, TextLoader

ESCAPE = "\U0010fffe"
"""A code point that Unicode reserves for the internal use of programs; text seldom has it."""


def escaped(text: str) -> str:
    """Return a text as PostgreSQL can hold it."""
    if "\0" in text or ESCAPE in text:
        return text.replace(ESCAPE, f"{ESCAPE}1").replace("\0", f"{ESCAPE}0")
    return text


def unescaped(text: str) -> str:
    """Return the text that `escaped` was given."""
    if ESCAPE in text:
        return text.replace(f"{ESCAPE}0", "\0").replace(f"{ESCAPE}1", ESCAPE)
    return text


class _StrDumper(StrDumperUnknown):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(escaped(obj))


class _TextLoader(TextLoader):
    def load(self, data: Buffer) -> bytes | str:
        text = super().load(data)
        return unescaped(text) if isinstance(text, str) else text


class _BoolDumper(BoolDumper):
    oid = 20  # bigint

    def dump(self, obj: bool) -> Buffer | None:
        return b"1" if obj else b"0"

    def quote(self, obj: bool) -> Buffer:
        return b"1" if obj else b"0"


class _BoolLoader(Loader):
    def load(self, data: Buffer) -> int:
        return int(bytes(data) == b"t")


class _NumberLoader(Loader):
    """Loads a NUMERIC, the type of sums of BIGINT."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data)
        return int(text) if text.lstrip(b"-").isdigit() else float(text)


def adapt(connection: Connection[Any]) -> None:
    """Let a connection exchange values like this."""
    adapters = connection.adapters
    adapters.register_dumper(str, _StrDumper)
    adapters.register_dumper(bool, _BoolDumper)
    adapters.register_loader("text", _TextLoader)
    adapters.register_loader("bool", _BoolLoader)
    adapters.register_loader("numeric", _NumberLoader)


class NamedRow(tuple[Any, ...]):
    """A row of a result; its columns are accessible by position and by name."""

    __slots__ = ()
    _places: dict[str, int]

    def __getitem__(self, key: Any) -> Any:
        return tuple.__getitem__(self, self._places[key] if isinstance(key, str) else key)

    def keys(self) -> Sequence[str]:
        """The names of the columns."""
        return list(self._places)


@functools.lru_cache(maxsize=2_000)
def row_class(names: tuple[str, ...]) -> Callable[[Sequence[Any]], NamedRow]:
    """Return the class of rows with these columns."""
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        places.setdefault(name, place)
    return type("NamedRow", (NamedRow,), {"__slots__": (), "_places": places})
