"""Server-sent events: a job tells every change of its state by itself, for pages that show it live.

Every listener holds a thread, which sleeps nearly all the time. The threads of listeners are a pool of their own (see
`server.py`), so other requests are answered however many listeners there are.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from shoal.errors import NotFoundError, StorageError
from shoal.jobs.queue import queries
from shoal.jobs.queue.queries import Job
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal_api.problems import ProblemError

CONTENT_TYPE = "text/event-stream; charset=utf-8"

POLL_SECONDS = 0.2
"""How often a listener's thread looks at its job: changes within that time are told as one. A person sees no delay,
and a full house of 32 listeners costs one or two per cent of a core."""

SLICE_SECONDS = 0.5
"""How long a service that ends waits for listeners to go."""

RECONNECT_MILLISECONDS = 2000
"""When a browser connects again after the stream broke off."""

BUSY_RETRY_SECONDS = 10

Dump = Callable[[Job], Mapping[str, Any]]


class Listeners:
    """The places for those who listen."""

    def __init__(self, settings: Settings) -> None:
        self._most = settings.max_event_streams
        self._heartbeat = settings.event_heartbeat_seconds
        self._longest = settings.event_stream_seconds
        self._count = 0
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def close(self) -> None:
        """End every stream soon: the service is about to end."""
        self._closed.set()

    def acquire(self) -> Callable[[], None]:
        """Take a place; what gives it back, once however often it is called. Raises a 503 problem if there is none."""
        with self._lock:
            if self._count >= self._most or self._closed.is_set():
                raise ProblemError(
                    503,
                    f"all {self._most} places for event streams are taken; ask `GET /jobs/ID?wait=N` for changes instead",
                    headers={"Retry-After": str(BUSY_RETRY_SECONDS)},
                )
            self._count += 1
        is_free = threading.Event()

        def stand_up() -> None:
            with self._lock:
                if not is_free.is_set():
                    is_free.set()
                    self._count -= 1

        return stand_up

    def stream(self, database: Database, job: Job, told: int | None, dump: Dump) -> Iterator[bytes]:
        """The events of a job from now on until it ends. `told` is the revision that the listener has seen."""
        until = time.monotonic() + self._longest
        yield f"retry: {RECONNECT_MILLISECONDS}\n\n".encode()
        silent_since = time.monotonic()
        while True:
            if job.revision != told:
                yield _event("job", dump(job), event_id=job.revision)
                told, silent_since = job.revision, time.monotonic()
            if job.ended:
                yield _event("end", {"status": job.status.value})
                return
            now = time.monotonic()
            if now >= until or self._closed.is_set():
                return
            if now - silent_since >= self._heartbeat:
                # A comment. It also finds out whether anybody is still there.
                yield b": still here\n\n"
                silent_since = now
            patience = min(SLICE_SECONDS, self._heartbeat, until - now)
            try:
                job = queries.wait_for_change(database, job.id, told, patience, poll=POLL_SECONDS)
            except NotFoundError:
                yield _event("end", {"status": None})
                return
            except StorageError:
                # It may be back soon; the listener is told by its silence, and by the end of the stream.
                self._closed.wait(patience)


def seen_revision(header: str | None) -> int | None:
    """What `Last-Event-ID` says was seen; None for anything that is no id of ours."""
    if header is None or not header.isascii() or not header.isdigit() or len(header) > 18:
        return None
    return int(header)


def _event(name: str, data: Mapping[str, Any], event_id: int | None = None) -> bytes:
    """One event; JSON holds no line break, so the data is one line."""
    lines = [] if event_id is None else [f"id: {event_id}"]
    lines += [f"event: {name}", f"data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}"]
    return ("\n".join(lines) + "\n\n").encode("utf-8", "replace")
