"""Whether work takes time in proportion to its input, measured in processor time, which other load hardly changes."""

from __future__ import annotations

from collections.abc import Callable

import growth

GROWTH = 4
"""How much larger the larger of two inputs is."""
MOST = 6.0
"""Linear time grows as much as the input; quadratic time 16 times."""
SURE_SECONDS = 0.05
"""A measurement as long as this is hardly noise. A pattern that looks at 999 characters at most looks quadratic
on fewer, so inputs grow until the larger takes this long."""
TRIES = 3
"""Measurements of which one has to be good."""

# What is slower than this is looked at closely. Being slow is no fault.
_FIXED_SECONDS = 3e-4
_SECONDS_A_CHAR = 1.5e-7
# Whole documents take up to a hundred times as long as a pattern.
_SLACK = 100

Work = Callable[[str], object]
"""What is measured, on a text."""
Texts = Callable[[int], str]
"""A text with so many repetitions."""


def assert_linear(work: Work, text_of: Texts, most: int) -> None:
    """Fail where the time of the work grows faster than the text, of GROWTH times `most` repetitions."""
    grown = excessive_growth(work, text_of, most, _SLACK)
    if grown is None:
        grown = _growth(work, text_of, most)
    assert grown <= MOST, f"on {GROWTH} times the text the work takes {grown:.1f} times as long"


def excessive_growth(work: Work, text_of: Texts, most: int, slack: int = 1) -> float | None:
    """How much longer the work takes on GROWTH times the text, if that is too much for any number of repetitions up to
    `most`; infinity where time grows exponentially. Texts that take no longer than usual, times `slack`, pass."""
    n = 10
    while True:
        text = text_of(n)
        if seconds(work, text, 1) > slack * (_FIXED_SECONDS + _SECONDS_A_CHAR * len(text)):
            if all(_doubles(work, text_of, n) for _ in range(TRIES)):
                return float("inf")
            grown = _growth(work, text_of, n)
            if grown > MOST:
                return grown
        if n >= most:
            return None
        # Few come before many: where each doubles the time, a hundred would never end.
        n = min(most, n * 5 // 4 + 1 if n < 80 else n * 5 // 2)


def _growth(work: Work, text_of: Texts, n: int) -> float:
    """The least growth from `n` repetitions on, up to a text that takes SURE_SECONDS."""
    least = float("inf")
    tries = TRIES
    while least > MOST and tries > 0:
        few, many = seconds(work, text_of(n)), seconds(work, text_of(GROWTH * n))
        least = min(least, many / few)
        if many > SURE_SECONDS:
            tries -= TRIES if least > 2 * MOST else 1
        else:
            n *= GROWTH
    return least


def seconds(work: Work, text: str, repetitions: int = 3) -> float:
    """The shortest of some times that the work takes, without the garbage collector; of a time that is long enough to
    be sure, that one."""
    return growth.seconds(lambda: work(text), repetitions, SURE_SECONDS)


def _doubles(work: Work, text_of: Texts, n: int) -> bool:
    """Whether a quarter more repetitions take twice as long; 1.56 times would be quadratic, 1.95 cubic."""
    return seconds(work, text_of(n + max(1, n // 4))) > 2.2 * seconds(work, text_of(n))
