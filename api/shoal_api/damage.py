"""Unexpected errors that come from a damaged library."""

from __future__ import annotations

import threading
import time

from shoal.errors import DamagedDatabaseError
from shoal.maintenance.stored_values import damage_behind
from shoal_api import service

AGAIN_SECONDS = 600.0
"""After a diagnosis, which reads the whole library, the next one of a collection may be made."""

_lock = threading.Lock()
_last: dict[str, tuple[float, DamagedDatabaseError | None]] = {}


def diagnose(error: BaseException) -> DamagedDatabaseError | None:
    """Return the error that names a damaged value of the collection of the request, or None."""
    here = service.current()
    now = time.monotonic()
    with _lock:
        made_at, damage = _last.get(here.engine.database.location, (-AGAIN_SECONDS, None))
        if now - made_at < AGAIN_SECONDS:
            return damage
        _last[here.engine.database.location] = now, None
    damage = damage_behind(error, here.engine.database)
    with _lock:
        _last[here.engine.database.location] = now, damage
    return damage
