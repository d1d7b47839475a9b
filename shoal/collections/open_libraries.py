"""Libraries that a process keeps open: a bounded number, least recently used first out, never one in use."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class _Entry(Generic[T]):
    """An open library: `users` are the leases on it."""

    def __init__(self) -> None:
        self.users = 1
        self.opening = threading.Lock()
        self.values: list[T] = []


class Lease(Generic[T]):
    """The use of an open library. It stays open until `release`, which may be called again."""

    def __init__(self, value: T, release: Callable[[], None]) -> None:
        self.value = value
        self._release: Callable[[], None] | None = release
        self._lock = threading.Lock()

    def release(self) -> None:
        with self._lock:
            release, self._release = self._release, None
        if release is not None:
            release()


class OpenLibraries(Generic[T]):
    """Opens libraries by the id of their collection. Safe to share between threads, not across a fork.

    More than `limit` are open only while more are in use at the same moment.
    """

    def __init__(self, limit: int, open_library: Callable[[str], T], close: Callable[[T], None]) -> None:
        """`open_library` and `close` are called without a lock, for one library by one thread at a time."""
        self._limit = limit
        self._open = open_library
        self._close = close
        # Least recently used first.
        self._entries: OrderedDict[str, _Entry[T]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def acquire(self, collection_id: str) -> Lease[T]:
        """Open a library, or use the open one. Raises what `open_library` raises."""
        with self._lock:
            entry = self._entries.get(collection_id)
            if entry is None:
                entry = self._entries[collection_id] = _Entry()
            else:
                entry.users += 1
            self._entries.move_to_end(collection_id)
            surplus = self._take_surplus()
        self._close_all(surplus)
        try:
            with entry.opening:
                if not entry.values:
                    entry.values.append(self._open(collection_id))
        except BaseException:
            self._leave(collection_id, entry)
            raise
        return Lease(entry.values[0], lambda: self._leave(collection_id, entry))

    @contextmanager
    def lent(self, collection_id: str) -> Iterator[T]:
        """Use a library within the block."""
        lease = self.acquire(collection_id)
        try:
            yield lease.value
        finally:
            lease.release()

    def ids(self) -> list[str]:
        """List the collections that are open."""
        with self._lock:
            return list(self._entries)

    def values(self) -> dict[str, T]:
        """Return the libraries that are open, by the id of their collection, without keeping them open."""
        with self._lock:
            return {id_: entry.values[0] for id_, entry in self._entries.items() if entry.values}

    def discard(self, collection_id: str) -> None:
        """Close a library now, or when its last user leaves it. A later `acquire` opens it again."""
        with self._lock:
            entry = self._entries.pop(collection_id, None)
            closed = entry is not None and entry.users == 0
        if entry is not None and closed:
            self._close_all([entry])

    def close(self) -> None:
        """Close all libraries that nobody uses, and the others when their last user leaves them."""
        for collection_id in self.ids():
            self.discard(collection_id)

    def _leave(self, collection_id: str, entry: _Entry[T]) -> None:
        with self._lock:
            entry.users -= 1
            is_kept = self._entries.get(collection_id) is entry
            if is_kept and not entry.users and not entry.values:
                # It could not be opened.
                del self._entries[collection_id]
            surplus = self._take_surplus()
            if not is_kept and entry.users == 0:
                surplus.append(entry)
        self._close_all(surplus)

    def _take_surplus(self) -> list[_Entry[T]]:
        """Remove what is open above the limit and unused."""
        taken: list[_Entry[T]] = []
        if len(self._entries) <= self._limit:
            return taken
        for collection_id in list(self._entries):
            if len(self._entries) <= self._limit:
                break
            if self._entries[collection_id].users == 0:
                taken.append(self._entries.pop(collection_id))
        return taken

    def _close_all(self, entries: list[_Entry[T]]) -> None:
        for entry in entries:
            while entry.values:
                self._close(entry.values.pop())
