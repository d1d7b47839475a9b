"""How many requests may wait for a job at the same time.

A waiting request holds one of the service's threads. Were all of them allowed to wait, a few people watching
their uploads would keep everybody from searching.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator

from shoal.jobs.queue.queries import Job

SLICE_SECONDS = 0.5
"""How long a service that ends waits for those who wait."""

_PREFERENCE = re.compile(r"""(?:^|[,;])\s*wait\s*=\s*"?(\d{1,9})"?\s*(?=$|[,;])""", re.IGNORECASE)


def preferred_wait(header: str | None) -> int | None:
    """Seconds of `Prefer: wait=N` (RFC 7240). None where it is absent or makes no sense, as the RFC has it."""
    found = _PREFERENCE.search(header or "")
    return int(found.group(1)) if found else None


class WaitLimiter:
    """Half of the threads may wait; one more does not wait and gets its answer at once."""

    def __init__(self, threads: int, max_seconds: float) -> None:
        self._seats = threading.BoundedSemaphore(max(1, threads // 2))
        self._max_seconds = max_seconds
        self._closed = False

    def wait(self, seconds: float, look: Callable[[float], Job], enough: Callable[[Job], bool]) -> Job:
        """A job once it is `enough`, or as it is after `seconds` (at most the setting).

        `look` answers the job, having waited up to the seconds it is given for something to happen.
        """
        with self._slot(seconds) as allowed:
            deadline = time.monotonic() + allowed
            while True:
                left = max(0.0, deadline - time.monotonic())
                job = look(min(left, SLICE_SECONDS))
                if enough(job) or left <= SLICE_SECONDS or self._closed:
                    return job

    def close(self) -> None:
        """Let everybody who waits go soon: the service is about to end."""
        self._closed = True

    @contextlib.contextmanager
    def _slot(self, seconds: float) -> Iterator[float]:
        """Seconds the caller may really wait, 0 where every seat is taken."""
        if seconds <= 0 or self._closed or not self._seats.acquire(blocking=False):
            yield 0.0
            return
        try:
            yield min(seconds, self._max_seconds)
        finally:
            self._seats.release()
