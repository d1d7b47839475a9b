"""Threads that repeat a step for as long as a worker process lives."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

import structlog

from shoal.errors import ChatEndpointError, StorageError

log = structlog.get_logger(__name__)


def repeat(name: str, step: Callable[[], object], seconds: float, *, rests: bool = False) -> None:
    """Start a thread that repeats a step, with a pause of `seconds`. An error is logged and ends nothing.

    With `rests`, a pause is at least as long as the step before it, so that jobs have half of the time, and
    no longer if the step returned True: there is more to do.
    """
    threading.Thread(target=_repeat, args=(name, step, seconds, rests), name=name, daemon=True).start()


def block_sigterm() -> None:
    """Leave SIGTERM to the main thread: Celery blocks it there while the process holds a lock shared by the
    pool. In another thread it would end the process together with the lock."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _repeat(name: str, step: Callable[[], object], seconds: float, rests: bool) -> None:
    block_sigterm()
    while True:
        started = time.monotonic()
        has_more: object = False
        try:
            has_more = step()
        except (StorageError, ChatEndpointError) as error:
            log.warning("step of a thread failed", thread=name, reason=str(error))
        except Exception:
            # Recovery depends on these threads, so no error may end them.
            log.exception("step of a thread failed", thread=name)
        worked = time.monotonic() - started if rests else 0.0
        time.sleep(worked if rests and has_more is True else max(seconds, worked))
