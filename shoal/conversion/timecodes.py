"""Times in transcripts: `[00:01:05] text`, `01:05 - 01:18 text`, `Ann (01:05): text`, headings of frames."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

_TIME = r"(?:(\d{1,3}):)?([0-5]?\d):([0-5]\d)(?:[.,](\d{1,3}))?(?!\d|:\d)"
_DASH = r"[ \t]*+(?:-->|--|-|–|—|to)[ \t]*+"
_TIMES = rf"{_TIME}(?:{_DASH}{_TIME})?"
_AT_START = re.compile(
    rf"[ \t]*+(?:[-*][ \t]++)?(?:[\[(][ \t]*+)?{_TIMES}(?:[ \t]*+[\])])?"
    r"(?:[ \t]*+[:-](?=\s)|(?=\s|\Z|[^\w.,]))[ \t]*+"
)
_AFTER_NAME = re.compile(
    r"[ \t]*+([^\W\d_][^\r\n:\[\]()<>|]{0,60}?)"
    rf"(?:[ \t]*[\[(][ \t]*{_TIMES}[ \t]*[\])](?::|(?=\s|\Z))|:?[ \t]+{_TIME}(?=[ \t]*\Z))[ \t]*"
)
FRAME_HEADING = re.compile(
    rf"#{{1,6}}[ \t]+(?:Visual[ \t]+)?Frame[ \t]+at[ \t]+{_TIMES}[ \t:]*\Z", re.IGNORECASE
)
_RANGE = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}")

_MAX_LINE_CHARS = 400
"""A time is looked for in so many characters of a line."""
_PROBE_LINES = 400
_MIN_TIMED_LINES = 3
_MIN_TIMED_SHARE = 0.3
_MAX_STEPS_BACK = 0.1


class TimedLine(NamedTuple):
    """A line that begins with a time. `end` is None if the line has none; `speaker` may be empty."""

    start: float
    end: float | None
    speaker: str
    text: str


def read_timed_line(line: str) -> TimedLine | None:
    """Read a line of a transcript; None if it has no time at its start or after a name."""
    head = line[:_MAX_LINE_CHARS]
    if ":" not in head:
        return None
    match = _AT_START.match(head)
    if match:
        start, end = seconds(*match.group(1, 2, 3, 4)), _end(match.group(5, 6, 7, 8))
        return TimedLine(start, _after(start, end), "", line[match.end() :].strip())
    match = _AFTER_NAME.match(head)
    if match is None:
        return None
    groups = match.groups()
    in_brackets = groups[2] is not None
    start = seconds(*(groups[1:5] if in_brackets else groups[9:13]))
    end = _end(groups[5:9]) if in_brackets else None
    return TimedLine(start, _after(start, end), match.group(1).strip(), line[match.end() :].strip())


def read_range(line: str) -> tuple[float, float] | None:
    """Read a line such as `00:01:05.000 --> 00:01:18.000`, as subtitles have it."""
    match = _RANGE.match(line[:_MAX_LINE_CHARS])
    if match is None:
        return None
    start = seconds(*match.group(1, 2, 3, 4))
    return start, max(start, seconds(*match.group(5, 6, 7, 8)))


def read_frame_heading(line: str) -> tuple[float, float] | None:
    """Read `## Frame at 00:01:04` or `# Visual Frame at 00:01:04`; a frame without an end has none."""
    match = FRAME_HEADING.match(line[:_MAX_LINE_CHARS])
    if match is None:
        return None
    start = seconds(*match.group(1, 2, 3, 4))
    end = _end(match.group(5, 6, 7, 8))
    return start, start if end is None else max(start, end)


def looks_timed(text: str) -> bool:
    """Whether the beginning of a text is a transcript: times that grow, or headings of frames."""
    lines = [line for line in text.split("\n", _PROBE_LINES)[:_PROBE_LINES] if line.strip()]
    if any(read_frame_heading(line.rstrip()) for line in lines):
        return True
    starts = [timed.start for line in lines if (timed := read_timed_line(line.rstrip()))]
    if len(starts) < _MIN_TIMED_LINES or len(starts) < _MIN_TIMED_SHARE * len(lines):
        return False
    steps_back = sum(later < earlier for earlier, later in pairwise(starts))
    return steps_back <= _MAX_STEPS_BACK * len(starts)


def seconds(hours: str | None, minutes: str, secs: str, fraction: str | None) -> float:
    """Return the seconds of a time given by its digits."""
    thousandths = int(fraction.ljust(3, "0")) if fraction else 0
    return int(hours or 0) * 3600 + int(minutes) * 60 + int(secs) + thousandths / 1000


def _end(groups: tuple[str | None, ...]) -> float | None:
    hours, minutes, secs, fraction = groups
    return seconds(hours, minutes, secs, fraction) if minutes and secs else None


def _after(start: float, end: float | None) -> float | None:
    return end if end is not None and end >= start else None
