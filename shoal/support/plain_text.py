"""Text without escape sequences and control characters: documents, notes and answers are untrusted."""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    r"""\x1b\[[0-?]*[ -/]*[@-~]        # CSI: colours, cursor
      | \x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?  # OSC, DCS, SOS, PM, APC up to their end
      | \x1b[ -/]*[0-~]                # two-character escapes
    """,
    re.VERBOSE,
)
# C0 and C1 controls except tab and newline, DEL, direction marks, lone surrogates.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    """Remove escape sequences and control characters from `text`, except newlines and tabs."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def one_line(text: str) -> str:
    """`plain` text with every run of white space replaced by one space."""
    return " ".join(plain(text).split())


def line_range(first: int, last: int) -> str:
    """Format a range of lines for people."""
    return f"line {first}" if first == last else f"lines {first}-{last}"


def words_of(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())
