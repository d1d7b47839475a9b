"""The page for operators: workers, what waits for them, and how far index and vectors are."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from shoal.jobs.queue.queries import live_workers
from shoal.storage.statistics import WORKER_SEEN_SECONDS
from shoal_api import access, service
from shoal_api.console.layout import blueprint, page

LISTED_SECONDS = 24 * 3600.0
"""Workers are listed for at most so long after their last heartbeat."""


@blueprint.get("/status")
@page()
def status() -> tuple[str, Mapping[str, Any]]:
    """Show the workers, the queue, the index and the sizes of the library."""
    engine = service.current().engine
    now = time.time()
    seen = [
        (worker, max(0.0, now - worker.seen_at)) for worker in live_workers(engine.database, LISTED_SECONDS)
    ]
    work = engine.jobs.work()
    return "status.html", {
        "workers": seen,
        "silent_after": WORKER_SEEN_SECONDS,
        "n_alive": sum(seconds <= WORKER_SEEN_SECONDS for _, seconds in seen),
        "work": work,
        "n_waiting": sum(work.waiting.values()),
        "library": engine.status(access.current().owners),
        "n_to_index": engine.maintenance.n_to_index(),
    }
