"""Waiting for conditions that other processes and threads make true."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

DEADLINE_SECONDS = 120.0
"""Timeout for a condition. It is generous, because a busy machine may take many times as long as an idle
one."""
LOOK_SECONDS = 0.03


def until(condition: Callable[[], Any], seconds: float = DEADLINE_SECONDS) -> Any:
    """Wait until `condition` returns a true value, and return it."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(LOOK_SECONDS)
    return result
