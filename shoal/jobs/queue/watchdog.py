"""Renew the leases of working processes and kill a process that exceeds its time limit.

A process cannot watch itself: a single call into C, such as a regular expression match, may hold the
interpreter and block every thread of the process. So a separate process watches, which never touches a
document.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from shoal.conversion.process import START_SECONDS, seconds_for
from shoal.errors import StorageError
from shoal.jobs.queue import lease
from shoal.jobs.queue.claims import Lease, leases, renew
from shoal.models.jobs import Stage
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.support.byte_units import MIB

ROUND_SECONDS = 1.0
"""Longest time between two rounds; short leases shorten it."""

RENEW_BELOW = 2 / 3
"""A lease is renewed when less than this share of it is left, so two failed renewals do no harm."""

FULL_TIME_BYTES = 32 * MIB
"""Document size that gets the full `item_time_limit`. Larger documents get proportionally more."""
MIN_TIME_SHARE = 0.2
"""Share of `item_time_limit` for small documents: time to wait for a locked disk (`STORE_RETRY_SECONDS`)."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _WatchedLease:
    """The lease of an owner in the last round, and how long it has not changed."""

    lease: Lease | None
    unchanged_seconds: float = 0.0


class Watchdog:
    """Watches the processes of this machine through their leases."""

    def __init__(
        self, database: Database, settings: Settings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock
        self._last_round: float | None = None
        self._watched: dict[str, _WatchedLease] = {}

    def watch(self, owners: Iterable[str]) -> list[str]:
        """Run one round over the working owners: renew their leases, kill those over their time limit.

        Returns the killed owners. Every item that ends restarts the time, so a batch may run as long as it
        makes progress. Raises StorageError.
        """
        # `reconcile` handles processes that have died.
        alive = [owner for owner in owners if lease.is_local(owner) and not lease.is_dead(owner)]
        elapsed = self._elapsed()
        held = {held_lease.owner: held_lease for held_lease in leases(self._database)} if alive else {}
        watched: dict[str, _WatchedLease] = {}
        for owner in alive:
            before, now = self._watched.get(owner), held.get(owner)
            same = before is not None and _is_same(before.lease, now)
            watched[owner] = _WatchedLease(
                now, before.unchanged_seconds + elapsed if before and same else 0.0
            )
        self._watched = watched
        killed = [
            owner
            for owner, state in watched.items()
            if state.unchanged_seconds > time_limit(state.lease, self._settings)
        ]
        for owner in killed:
            log.error(
                "killing a process that made no progress for %.0f s",
                watched[owner].unchanged_seconds,
                extra={"owner": owner},
            )
            lease.kill(owner)
        soon = self._database.now() + RENEW_BELOW * self._settings.lease_seconds
        for owner in alive:
            renewable = held.get(owner)
            if renewable is not None and owner not in killed and renewable.expires_at < soon:
                renew(self._database, renewable, self._settings)
        return killed

    def _elapsed(self) -> float:
        """Return the seconds since the last round, capped in case this process was suspended."""
        now, last = self._clock(), self._last_round
        self._last_round = now
        return 0.0 if last is None else min(now - last, 5 * ROUND_SECONDS)


def time_limit(held: Lease | None, settings: Settings) -> float:
    """Return the seconds an owner may work on its lease before an item of it must end.

    An owner whose work was canceled holds nothing; it has the time of a large document to notice.
    """
    if held is None:
        return settings.item_time_limit
    if held.wave is not None or held.stage in (Stage.dedup, Stage.embed):
        # An item of a dedup waits for answers of a chat endpoint, each with a limit of its own; an encoder
        # takes minutes for a book.
        return settings.task_time_limit
    limit = settings.item_time_limit * max(MIN_TIME_SHARE, held.n_bytes / FULL_TIME_BYTES)
    if held.stage is Stage.convert:
        # It ends by itself before, as one failed item.
        limit = max(limit, seconds_for(held.n_bytes, settings.conversion_seconds) + 2 * START_SECONDS)
    return limit


def round_seconds(settings: Settings) -> float:
    """Return the time between two rounds."""
    return min(ROUND_SECONDS, settings.lease_seconds / 6)


@contextmanager
def renewing_leases(database: Database, settings: Settings, job_id: int) -> Iterator[None]:
    """Renew the leases of a local job in a thread for the duration of the block.

    No watchdog kills this process. If its interpreter is blocked for longer than a lease, a service on the
    same database may reclaim the work, and the process repeats it.
    """
    stop = threading.Event()

    def renew_until_stopped() -> None:
        while not stop.wait((1 - RENEW_BELOW) * settings.lease_seconds):
            try:
                for held in leases(database):
                    if job_id in held.job_ids:
                        renew(database, held, settings)
            except StorageError as error:
                log.warning("lease not renewed: %s", error)

    thread = threading.Thread(target=renew_until_stopped, name="lease-renewal", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _is_same(before: Lease | None, now: Lease | None) -> bool:
    if before is None or now is None:
        return before is now
    return (before.item_ids, before.wave) == (now.item_ids, now.wave)
