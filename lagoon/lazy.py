"""Sequences that create their items on access: a novel has 30,000 sentences, and most callers read few of
them."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, overload

T_co = TypeVar("T_co", covariant=True)


class LazySequence(Sequence[T_co], Generic[T_co]):
    """A sequence of `length` items; every access to item i calls `make(i)`."""

    def __init__(self, length: int, make: Callable[[int], T_co]) -> None:
        self._length = length
        self._make = make

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[T_co]: ...
    def __getitem__(self, index: int | slice) -> T_co | list[T_co]:
        if isinstance(index, slice):
            return [self._make(i) for i in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._make(index % self._length)

    def window(self, first: int, last: int) -> "LazySequence[T_co]":
        """Items first..last-1 as a lazy sequence."""
        return LazySequence(last - first, lambda index: self._make(first + index))

    def __repr__(self) -> str:
        return f"<{self._length} items>"
