"""Server-sent events: streams every state change of a job, for pages that show it live.

Each listener holds a thread, which sleeps nearly all the time. Listeners have their own thread pool (see
`server.py`), so they do not delay other requests.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from shoal.errors import NotFoundError, StorageError
from shoal.jobs.jobs import Jobs
from shoal.jobs.queue.queries import Job
from shoal.settings import Settings
from shoal_api.problems import ProblemError

CONTENT_TYPE = "text/event-stream; charset=utf-8"

POLL_SECONDS = 0.2
"""Interval in which a listener's thread polls its job; changes within it become one event. A person sees no
delay, and 32 listeners cost one or two per cent of a core."""

SLICE_SECONDS = 0.5
"""How long a stopping service waits at most for a listener's thread to notice."""

RECONNECT_MILLISECONDS = 2000
"""Delay before a browser reconnects after the stream broke off."""

BUSY_RETRY_SECONDS = 10

Dump = Callable[[Job], Mapping[str, Any]]


class Listeners:
    """Counts the open event streams and limits their number."""

    def __init__(self, settings: Settings) -> None:
        self._max_streams = settings.max_event_streams
        self._heartbeat = settings.event_heartbeat_seconds
        self._max_seconds = settings.event_stream_seconds
        self._count = 0
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def close(self) -> None:
        """End every stream soon, because the service is stopping."""
        self._closed.set()

    def acquire(self) -> Callable[[], None]:
        """Take a slot and return the function that releases it; calling that again has no effect.

        Raises a 503 problem if no slot is free.
        """
        with self._lock:
            if self._count >= self._max_streams or self._closed.is_set():
                raise ProblemError(
                    503,
                    f"all {self._max_streams} event streams are in use; use `GET /jobs/ID?wait=N` instead",
                    headers={"Retry-After": str(BUSY_RETRY_SECONDS)},
                )
            self._count += 1
        is_released = threading.Event()

        def release() -> None:
            with self._lock:
                if not is_released.is_set():
                    is_released.set()
                    self._count -= 1

        return release

    def stream(
        self, jobs: Jobs, job: Job, seen: int | None, dump: Dump, is_deleted: Callable[[], bool]
    ) -> Iterator[bytes]:
        """Yield the events of a job until it ends. `seen` is the revision that the listener already has.

        `is_deleted`: whether the collection of the job was deleted, which ends the stream.
        """
        until = time.monotonic() + self._max_seconds
        yield f"retry: {RECONNECT_MILLISECONDS}\n\n".encode()
        silent_since = time.monotonic()
        while True:
            if job.revision != seen:
                yield _event("job", dump(job), event_id=job.revision)
                seen, silent_since = job.revision, time.monotonic()
            if job.ended:
                yield _event("end", {"status": job.status.value})
                return
            now = time.monotonic()
            if now >= until or self._closed.is_set():
                return
            if now - silent_since >= self._heartbeat:
                # A comment line. Sending it also detects a client that has gone.
                yield b": still here\n\n"
                silent_since = now
            if is_deleted():
                yield _event("end", {"status": None})
                return
            timeout = min(SLICE_SECONDS, self._heartbeat, until - now)
            try:
                job = jobs.wait_for_change(job.id, seen, timeout, poll=POLL_SECONDS)
            except NotFoundError:
                yield _event("end", {"status": None})
                return
            except StorageError:
                # The database may be back soon; meanwhile the stream stays open and silent.
                self._closed.wait(timeout)


def seen_revision(header: str | None) -> int | None:
    """Return the revision in `Last-Event-ID`; None for anything that is not an event id."""
    if header is None or not header.isascii() or not header.isdigit() or len(header) > 18:
        return None
    return int(header)


def _event(name: str, data: Mapping[str, Any], event_id: int | None = None) -> bytes:
    """Format one event. JSON without indentation has no line break, so the data is one line."""
    lines = [] if event_id is None else [f"id: {event_id}"]
    lines += [f"event: {name}", f"data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}"]
    return ("\n".join(lines) + "\n\n").encode("utf-8", "replace")
