"""Values in memory up to a number of bytes; beyond, the least recently used are dropped."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

ENTRY_BYTES = 400
"""Memory of an entry beside its key and value, about: its place in the dictionary, tuples and headers."""


class RecentlyUsed(Generic[KeyT, ValueT]):
    """A cache whose costs do not depend on how many entries it has. Thread-safe.

    n_bytes  memory of all entries, keys included, as the callers gave it
    """

    def __init__(self, max_bytes: int, max_entries: int | None = None) -> None:
        """The last entry stays, however large it is."""
        self._max_bytes, self._max_entries = max_bytes, max_entries
        self._entries: OrderedDict[KeyT, tuple[ValueT, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.n_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: KeyT) -> ValueT | None:
        """Return a value, which is then the most recently used, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: KeyT, value: ValueT, n_bytes: int) -> None:
        """Keep a value. `n_bytes`: memory of the key and the value, without that of the entry."""
        with self._lock:
            former = self._entries.pop(key, None)
            if former is not None:
                self.n_bytes -= former[1]
            n_bytes += ENTRY_BYTES
            self._entries[key] = value, n_bytes
            self.n_bytes += n_bytes
            while len(self._entries) > 1 and self._is_full():
                _, (_, dropped) = self._entries.popitem(last=False)
                self.n_bytes -= dropped

    def _is_full(self) -> bool:
        has_too_many = self._max_entries is not None and len(self._entries) > self._max_entries
        return has_too_many or self.n_bytes > self._max_bytes

    def items(self) -> list[tuple[KeyT, ValueT]]:
        """Return the entries, the least recently used first."""
        with self._lock:
            return [(key, value) for key, (value, _) in self._entries.items()]
