"""What one nudge sets in motion: claim a batch, pass the nudge on while more waits, work, look again."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from shoal.errors import StorageError
from shoal.jobs import lease
from shoal.jobs.claims import claim, has_claimable_work
from shoal.jobs.pipeline import Handlers, process
from shoal.settings import Settings
from shoal.storage.database import Database

log = structlog.get_logger(__name__)


def work_once(database: Database, handlers: Handlers, settings: Settings, nudge: Callable[[], None]) -> bool:
    """Answer one "come and claim"; whether there was anything to do.

    As long as more can be claimed one message is on its way, so that other workers come too: it is sent before
    the work and, since the work itself may have opened a stage or freed duplicates, again after it. A database
    that can't be used is logged; the reconciler sends the next message.
    """
    started = time.monotonic()
    try:
        batch = claim(database, lease.new_owner(), settings)
        if batch is None:
            return False
        if batch.more:
            nudge()
        advance = process(batch, database, handlers, settings)
        if has_claimable_work(database):
            nudge()
    except StorageError as error:
        log.warning("work left for later", reason=str(error))
        return True
    log.info(
        "batch processed",
        stage=batch.stage.value,
        jobs=sorted({item.job_id for item in batch.items}),
        items=len(batch.items),
        bytes=sum(item.n_bytes for item in batch.items),
        seconds=round(time.monotonic() - started, 3),
        ended_jobs=list(advance.ended_jobs),
    )
    return True
