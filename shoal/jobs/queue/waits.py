"""What a claim passes by: items that wait for another item, and jobs without claimable work.

A claim that finds them notes it in the database, so that the next one does not look at them again. Each
change that may end a wait wakes them (`wake`). So a claim costs the same however many items and jobs wait.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.jobs.queue import statements
from shoal.storage.database import Transaction, listed_in_parts

MAX_WAITS = 200
"""Waiting items and jobs that one look for work passes by, and one transaction parks: about 20 ms."""


class Parked(enum.IntEnum):
    """When a claim looks at a job."""

    no = 0
    """At once."""
    until_change = 1
    """When something has changed in the job, or an item for which one of its items waits."""
    until_learning = 2
    """The same, or when no other wave is being learned from."""


@dataclass(slots=True)
class Waits:
    """What a look for work found waiting: rows of PARK_ITEM and PARK_JOB."""

    items: list[dict[str, Any]] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return len(self.items) + len(self.jobs) >= MAX_WAITS

    def park(self, transaction: Transaction) -> None:
        """Write it. The transaction must be the one that looked."""
        transaction.write_many(statements.PARK_ITEM, self.items)
        transaction.write_many(statements.PARK_JOB, self.jobs)


def wake(transaction: Transaction, job_ids: Collection[int], ended: Sequence[int] = ()) -> None:
    """Let claims look at jobs in which something has changed, and at what waits for items that have ended or
    passed a stage."""
    woken = set(job_ids)
    for ids, parameters in listed_in_parts("id", ended):
        waiting = {
            row[0] for row in transaction.rows(statements.JOBS_WAITING_FOR.format(ids=ids), parameters)
        }
        if waiting:
            transaction.execute(statements.WAKE_ITEMS.format(ids=ids), parameters)
        woken |= waiting
    _wake_jobs(transaction, woken)


def wake_due(transaction: Transaction) -> None:
    """Wake the items whose pause before another try has ended."""
    moment = {"moment": transaction.now()}
    jobs = [row[0] for row in transaction.rows(statements.JOBS_DUE, moment)]
    if jobs:
        transaction.execute(statements.WAKE_DUE, moment)
        _wake_jobs(transaction, jobs)


def wake_all(transaction: Transaction) -> None:
    """Look at everything again, after a repair."""
    transaction.execute(statements.WAKE_ALL_ITEMS)
    transaction.execute(statements.WAKE_ALL_JOBS)


def _wake_jobs(transaction: Transaction, job_ids: Iterable[int]) -> None:
    transaction.write_many(statements.WAKE_JOB, [{"job_id": job_id} for job_id in sorted(job_ids)])
