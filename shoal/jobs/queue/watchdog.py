"""Renewing the leases of processes that work, and killing a process whose work has gone on for too long.

A process cannot do this for itself: a single call into C, such as the match of a regular expression, may hold the
interpreter for as long as it takes, and no thread of the process runs meanwhile. So another process does it, which
never touches a document.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from shoal.errors import StorageError
from shoal.jobs.queue import lease
from shoal.jobs.queue.claims import Lease, leases, renew
from shoal.settings import MIB, Settings
from shoal.storage.database import Database

ROUND_SECONDS = 1.0
"""Time between two rounds, at most: shorter where leases are."""

RENEW_BELOW = 2 / 3
"""A lease is renewed once less than this share of it is left, so that two rounds of renewing may fail."""

LARGE_BYTES = 32 * MIB
"""Size of the document that has all of `item_time_limit`; a larger one has more in proportion."""
SMALLEST_SHARE = 0.2
"""What a small document has of it: time enough to wait for a locked disk (`pipeline.STORE_RETRY_SECONDS`)."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Work:
    """What an owner held when it was last seen, and for how many seconds it has been the same."""

    lease: Lease | None
    seconds: float = 0.0


class Watchdog:
    """Watches processes of this machine through their claims."""

    def __init__(
        self, database: Database, settings: Settings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock
        self._last_round: float | None = None
        self._work: dict[str, _Work] = {}

    def watch(self, owners: Iterable[str]) -> list[str]:
        """One round over the owners that work now: renew their leases, and kill those over their time limit; the
        killed. Raises StorageError.

        Every item that ends starts the time anew: a batch may go on for as long as it makes progress.
        """
        # A process that has died is left to `reconcile`.
        alive = [owner for owner in owners if lease.is_local(owner) and not lease.is_dead(owner)]
        elapsed = self._elapsed()
        held = {one.owner: one for one in leases(self._database)} if alive else {}
        work: dict[str, _Work] = {}
        for owner in alive:
            before, now = self._work.get(owner), held.get(owner)
            same = before is not None and _is_same(before.lease, now)
            work[owner] = _Work(now, before.seconds + elapsed if before and same else 0.0)
        self._work = work
        killed = [owner for owner, one in work.items() if one.seconds > time_limit(one.lease, self._settings)]
        for owner in killed:
            log.error(
                "a process that made no progress for %.0f s is killed",
                work[owner].seconds,
                extra={"owner": owner},
            )
            lease.kill(owner)
        soon = time.time() + RENEW_BELOW * self._settings.lease_seconds
        for owner in alive:
            renewable = held.get(owner)
            if renewable is not None and owner not in killed and renewable.expires_at < soon:
                renew(self._database, renewable, self._settings)
        return killed

    def _elapsed(self) -> float:
        """Seconds since the last round; of a pause in which this process was stopped too, little counts."""
        now, last = self._clock(), self._last_round
        self._last_round = now
        return 0.0 if last is None else min(now - last, 5 * ROUND_SECONDS)


def time_limit(held: Lease | None, settings: Settings) -> float:
    """Seconds that an owner has for what it holds, until something of it has ended. An owner whose work was canceled
    holds nothing, and has the time of a large document to notice."""
    if held is None:
        return settings.item_time_limit
    if held.wave is not None:
        return settings.task_time_limit
    return settings.item_time_limit * max(SMALLEST_SHARE, held.n_bytes / LARGE_BYTES)


def round_seconds(settings: Settings) -> float:
    """Time between two rounds."""
    return min(ROUND_SECONDS, settings.lease_seconds / 6)


@contextmanager
def renewed(database: Database, settings: Settings, job_id: int) -> Iterator[None]:
    """Renew the leases of a job that this process works on by itself, in a thread, for the length of the block.

    Nobody is there to end the process but its user. Where its interpreter is held for longer than a lease, a service
    that runs beside it may take the work back, and the process does it again.
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
