"""Settings of jobs."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.settings.checks import at_least, between
from shoal.settings.declaration import setting
from shoal.support.byte_units import MIB


@dataclass(frozen=True, kw_only=True)
class JobSettings:
    """Jobs and the workers that process them."""

    wave_bytes: int = setting(
        64 * MIB, "size of a wave, bytes; a large job goes through the stages in several waves", at_least(1)
    )
    batch_bytes: int = setting(MIB, "largest batch of small documents, bytes", at_least(1))
    batch_items: int = setting(256, "most documents in a batch", at_least(1))
    lease_seconds: float = setting(
        300.0, "a worker's claim expires after this many seconds without a heartbeat", at_least(1)
    )
    reconcile_seconds: float = setting(
        2.0, "interval at which a worker looks for work whose message was lost, seconds", at_least(0.05)
    )
    max_attempts: int = setting(
        3,
        "an item fails after it has killed its worker this often while running alone, or after so many "
        "fetches that failed for a time",
        at_least(1),
    )
    worker_memory_bytes: int = setting(
        0,
        "most private memory of a worker process, bytes; 0: no limit. A document of 32 MiB takes 2.2 GB",
        lambda value: None if value == 0 or value >= 256 * MIB else f"must be 0 or at least {256 * MIB}",
    )
    item_time_limit: float = setting(
        600.0,
        "a worker process that works longer on a document of 32 MiB is killed, seconds. The limit is "
        "proportional to the size of the document, but at least a fifth of this",
        at_least(1),
    )
    task_time_limit: float = setting(
        3600.0, "a worker process that learns from a wave for longer is killed, seconds", at_least(10)
    )
    upload_timeout: float = setting(
        3600.0, "an upload without progress for this many seconds is dropped", at_least(1)
    )
    job_retention: float = setting(
        30 * 86_400.0, "finished jobs are deleted after this many seconds; 0: never", at_least(0)
    )
    max_wait_seconds: float = setting(60.0, "longest `Prefer: wait` and `?wait=`, seconds", between(0, 600))
