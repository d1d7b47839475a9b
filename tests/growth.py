"""Growth of processor time with the size of the input, as a ratio that does not depend on the machine's
speed."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

FACTOR = 32
"""Ratio of the sizes of the large and the small input."""
LIMIT = FACTOR * FACTOR / 4
"""Largest accepted ratio of times. Quadratic time would give about 1,024, linear time 32. The noise of a busy
machine does not reach this limit, and a fixed cost only makes the ratio smaller."""


def seconds(call: Callable[[], object], repetitions: int = 3, enough: float = float("inf")) -> float:
    """Measure the processor time of the fastest of `repetitions` runs, without garbage collection.

    A run that takes longer than `enough` seconds is not repeated.
    """
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
    """Assert that `large`, with FACTOR times the input of `small`, does not take quadratic time."""
    # A lower bound, because a clock with a resolution of milliseconds may measure 0 for the small input.
    baseline = max(seconds(small), 1e-4)
    # A second run only after a first one that was disturbed.
    assert any(seconds(large, 1) < LIMIT * baseline for _ in range(2))
