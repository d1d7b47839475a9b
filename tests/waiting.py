"""Waiting for what other processes and threads do, without a guess at how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

DEADLINE_SECONDS = 120.0
"""How long a condition is waited for. None takes that long; a busy machine may take many times as long as an idle one."""
LOOK_SECONDS = 0.03


def until(condition: Callable[[], Any], seconds: float = DEADLINE_SECONDS) -> Any:
    """What `condition` returns as soon as that is true."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(LOOK_SECONDS)
    return result
