"""Rows stored as one list per field; row objects are created on access."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar, overload

Row = TypeVar("Row", bound=NamedTuple)


class Columns(Sequence[Row]):
    """A sequence of named tuples, stored in columns.

    A book has a million reefs of chunks, which go to the database without ever becoming row objects.
    """

    __slots__ = ("_kind", "fields")

    def __init__(self, kind: type[Row], fields: Sequence[Sequence[Any]]) -> None:
        """`fields`: the values of each field of `kind`, all of the same length."""
        self._kind = kind
        self.fields = fields

    @classmethod
    def of(cls, kind: type[Row], rows: Iterable[Row]) -> Columns[Row]:
        """Convert rows to columns."""
        return cls(kind, list(zip(*rows, strict=True)) or [()] * len(kind._fields))

    def __len__(self) -> int:
        return len(self.fields[0])

    def __iter__(self) -> Iterator[Row]:
        make: Callable[..., Row] = self._kind
        return map(make, *self.fields)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Row, ...]: ...
    def __getitem__(self, index: int | slice) -> Row | tuple[Row, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        return self._kind(*(values[index] for values in self.fields))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Columns({list(self)!r})"
