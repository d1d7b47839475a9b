"""Limit on the requests that wait for a job at the same time.

A waiting request holds one of the service's threads. Without a limit, a few users watching their uploads
could block all searches.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator

from shoal.jobs.queue.queries import Job

SLICE_SECONDS = 0.5
"""How long a stopping service waits at most for a waiting request to notice."""

_PREFERENCE = re.compile(r"""(?:^|[,;])\s*wait\s*=\s*"?(\d{1,9})"?\s*(?=$|[,;])""", re.IGNORECASE)


def preferred_wait(header: str | None) -> int | None:
    """Return the seconds of `Prefer: wait=N`; None if absent or invalid, as RFC 7240 specifies."""
    match = _PREFERENCE.search(header or "")
    return int(match.group(1)) if match else None


class WaitLimiter:
    """Lets half of the threads wait. Further requests get their response at once."""

    def __init__(self, threads: int, max_seconds: float) -> None:
        self._slots = threading.BoundedSemaphore(max(1, threads // 2))
        self._max_seconds = max_seconds
        self._closed = False

    def wait(self, seconds: float, look: Callable[[float], Job], enough: Callable[[Job], bool]) -> Job:
        """Return a job once `enough` accepts it, or its state after `seconds` (at most the setting).

        `look` returns the job after waiting up to the given seconds for a change.
        """
        with self._slot(seconds) as allowed:
            deadline = time.monotonic() + allowed
            while True:
                left = max(0.0, deadline - time.monotonic())
                job = look(min(left, SLICE_SECONDS))
                if enough(job) or left <= SLICE_SECONDS or self._closed:
                    return job

    def close(self) -> None:
        """End all waits soon, because the service is stopping."""
        self._closed = True

    @contextlib.contextmanager
    def _slot(self, seconds: float) -> Iterator[float]:
        """Yield the seconds the caller may wait; 0 if no slot is free."""
        if seconds <= 0 or self._closed or not self._slots.acquire(blocking=False):
            yield 0.0
            return
        try:
            yield min(seconds, self._max_seconds)
        finally:
            self._slots.release()
