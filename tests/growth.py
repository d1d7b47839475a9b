"""How much longer something takes for more input, as a ratio, so that the machine's speed does not matter."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

FACTOR = 32
"""How much larger the large input must be than the small one."""
LIMIT = FACTOR * FACTOR / 4
"""Quadratic time would be about 1,024 times as long, linear time 32 times. Half-way is out of reach of
the noise of a busy machine, and a fixed cost only makes the ratio smaller."""


def seconds(call: Callable[[], object], repetitions: int = 3, enough: float = float("inf")) -> float:
    """Processor time of the quickest of some runs, without the garbage collector's share. A run that takes longer than
    `enough` is not repeated."""
    best = float("inf")
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(repetitions):
            start = time.process_time()
            call()
            best = min(best, time.process_time() - start)
            if best > enough:
                break
    finally:
        if collecting:
            gc.enable()
    return best


def assert_not_quadratic(small: Callable[[], object], large: Callable[[], object]) -> None:
    """``large`` works on ``FACTOR`` times the input of ``small`` and must not take ``FACTOR`` squared times as long."""
    # A clock that ticks in milliseconds would make the small input look free.
    baseline = max(seconds(small), 1e-4)
    assert seconds(large, 2) < LIMIT * baseline
