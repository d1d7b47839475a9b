"""Checks for linear time, measured in processor time, which other load hardly affects."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

import growth

GROWTH = 4
"""Ratio of the sizes of two inputs."""
MOST = 6.0
"""Largest accepted ratio of times. Linear time grows 4 times, quadratic time 16 times."""
SURE_SECONDS = 0.05
"""A measurement of this length is hardly noise. A pattern that reads at most 999 characters looks quadratic
on shorter inputs, so inputs grow until the larger one takes this long."""
DOUBLED = 2.2
"""Ratio of times on a quarter more text that only exponential growth reaches; cubic growth reaches 1.95."""
TRIES = 3
"""Number of measurements. One of them must pass."""

# Slower texts are measured precisely. Being slow is not a failure.
_FIXED_SECONDS = 3e-4
_SECONDS_A_CHAR = 1.5e-7
# Whole documents take up to a hundred times as long as a pattern.
_SLACK = 100
_CAUTION = 3
"""Short texts are measured precisely if they take this many times longer than the longest one may."""

FEW = 40
"""Repetitions that show exponential time, which a longer text may hide from a pattern that gives up early."""

Work = Callable[[str], object]
"""The function to measure, applied to a text."""
Texts = Callable[[int], str]
"""Makes a text with a number of repetitions."""


def assert_linear(work: Work, text_of: Texts, most: int) -> None:
    """Fail if the time of the work grows faster than the text, for up to GROWTH times `most` repetitions."""
    grown = excessive_growth(work, text_of, most, _SLACK)
    if grown is None:
        grown = _growth(work, text_of, most)
    assert grown <= MOST, f"on {GROWTH} times the text the work takes {grown:.1f} times as long"


class _InterruptedError(Exception):
    """The work takes longer than SURE_SECONDS."""


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _InterruptedError


signal.signal(signal.SIGVTALRM, _interrupt)


def is_surely_linear(work: Work, text_of: Texts, most: int) -> bool:
    """Whether neither FEW nor `most` repetitions take more than the usual time, so that there is no growth to
    measure.

    For work that a signal may interrupt anywhere, which a pattern is.
    """
    for n in (FEW, most):
        text = text_of(n)
        signal.setitimer(signal.ITIMER_VIRTUAL, SURE_SECONDS)
        start = time.process_time()
        try:
            work(text)
        except _InterruptedError:
            return False
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if time.process_time() - start > _usual_seconds(text):
            return False
    return True


def _usual_seconds(text: str) -> float:
    return _FIXED_SECONDS + _SECONDS_A_CHAR * len(text)


def excessive_growth(work: Work, text_of: Texts, most: int, slack: int = 1) -> float | None:
    """Return the growth of time on GROWTH times the text if it is excessive for any number of repetitions up
    to `most`.

    Returns infinity if time grows exponentially, None if no growth is excessive. Texts that take at most
    `slack` times the usual time pass.
    """
    n = 10
    while True:
        text = text_of(n)
        limit = slack * _usual_seconds(text)
        taken = seconds(work, text, 1)
        # What grows too fast shows it best on the longest text, unless that one would take too long.
        is_suspicious = taken > limit * _CAUTION if n < most else taken > limit
        if is_suspicious and not _looks_linear(work, text_of, n, taken):
            if all(_doubles(work, text_of, n) for _ in range(TRIES)):
                return float("inf")
            grown = _growth(work, text_of, n)
            if grown > MOST:
                return grown
        if n >= most:
            return None
        # Start with few repetitions: if each doubles the time, a hundred would never end.
        n = min(most, n * 5 // 4 + 1 if n < 80 else n * 5 // 2)


def _looks_linear(work: Work, text_of: Texts, n: int, taken: float) -> bool:
    """Whether single runs grow little, first on a text that ends soon even if time grows exponentially."""
    return (
        seconds(work, text_of(n + max(1, n // 4)), 1) <= DOUBLED * taken
        and seconds(work, text_of(GROWTH * n), 1) <= MOST * taken
    )


def _growth(work: Work, text_of: Texts, n: int) -> float:
    """Measure the least growth from `n` repetitions on, up to a text that takes SURE_SECONDS."""
    least = float("inf")
    tries = TRIES
    while least > MOST and tries > 0:
        few, text = seconds(work, text_of(n)), text_of(GROWTH * n)
        many = seconds(work, text, 1)
        if many > MOST * few:
            many = min(many, seconds(work, text, 2))
        least = min(least, many / few)
        if many > SURE_SECONDS:
            tries -= TRIES if least > 2 * MOST else 1
        else:
            n *= GROWTH
    return least


def seconds(work: Work, text: str, repetitions: int = 3) -> float:
    """Measure the shortest time of several runs without garbage collection; a run of SURE_SECONDS is not
    repeated."""
    return growth.seconds(lambda: work(text), repetitions, SURE_SECONDS)


def _doubles(work: Work, text_of: Texts, n: int) -> bool:
    """Whether a quarter more repetitions take twice as long."""
    return seconds(work, text_of(n + max(1, n // 4))) > DOUBLED * seconds(work, text_of(n))
