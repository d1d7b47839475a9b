"""When keys were last used: noted by requests in memory, written to the catalog by a thread of its own.

A request never waits for the catalog. Of each key a use is written soon, and the next one a minute later.
What a process has noted and not written is lost if it is killed: at most a minute.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from shoal.errors import ShoalError

EVERY_SECONDS = 60.0
"""Shortest time between two writes of the same key."""
COLLECT_SECONDS = 0.5
"""How long uses are collected before they are written together."""
RETRY_SECONDS = 10.0
"""Pause after a failed write."""
CLOSE_SECONDS = 2.0

log = logging.getLogger(__name__)

Write = Callable[[Mapping[str, float]], None]


class LastUse:
    """Takes uses from any thread; `write` stores moments by id of the key."""

    def __init__(
        self, write: Write, *, every: float = EVERY_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write = write
        self._every = every
        self._clock = clock
        self._noted: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def note(self, key_id: str, at: float) -> None:
        """Note that a key was used at a moment. Never waits for the catalog, and never fails."""
        with self._changed:
            is_new = key_id not in self._noted
            self._noted[key_id] = at
            if is_new and not self._is_closed:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="last use of keys", daemon=True)
                    self._thread.start()
                self._changed.notify_all()

    def close(self) -> None:
        """Write what is noted, and end the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        is_last = False
        while not is_last:
            with self._changed:
                while not self._is_closed and not self._due_keys():
                    self._changed.wait(self._seconds_to_next())
                if not self._is_closed:
                    # Collects what comes soon. `close` ends it.
                    self._changed.wait_for(lambda: self._is_closed, COLLECT_SECONDS)
                is_last = self._is_closed
                uses = {
                    key_id: self._noted.pop(key_id)
                    for key_id in (list(self._noted) if is_last else self._due_keys())
                }
                next_due = self._clock() + self._every
                self._due.update(dict.fromkeys(uses, next_due))
            if uses:
                self._store(uses)

    def _due_keys(self) -> list[str]:
        now = self._clock()
        return [key_id for key_id in self._noted if self._due.get(key_id, 0.0) <= now]

    def _seconds_to_next(self) -> float | None:
        """Seconds until a noted key is due; None if none is noted."""
        if not self._noted:
            return None
        return max(0.0, min(self._due.get(key_id, 0.0) for key_id in self._noted) - self._clock())

    def _store(self, uses: Mapping[str, float]) -> None:
        try:
            self._write(uses)
        except ShoalError as error:
            log.warning("last use of %d keys not written: %s", len(uses), error)
        except Exception:
            # The thread has to go on for later uses.
            log.exception("last use of %d keys not written", len(uses))
        else:
            return
        with self._changed:
            for key_id, at in uses.items():
                self._noted.setdefault(key_id, at)
                self._due[key_id] = self._clock() + RETRY_SECONDS
