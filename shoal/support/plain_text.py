"""Stored texts as plain, quoted data: documents, notes and answers are untrusted.

Plain text has no escape sequences and control characters. The author of a document or a note does not speak
to the model that reads it: a quotation stays within its lines, on one line, or with each of its lines
indented. So no stored text can imitate the head of another quotation or an instruction.
"""

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


INDENT = "    "

# Characters without a glyph that can carry hidden text: zero-width spaces, word joiners,
# annotations, tags.
_INVISIBLE = re.compile("[\u200b\u2060-\u2064\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]")
# Line ends that `split("\n")` does not see, but models and programs do.
_OTHER_LINE_ENDS = re.compile("[\u2028\u2029\x85]")


def clean(text: str) -> str:
    """Remove what a reader does not see: escapes, control characters, hidden text. Lines and tabs stay."""
    unified = _OTHER_LINE_ENDS.sub("\n", text.replace("\r\n", "\n").replace("\r", "\n"))
    return _INVISIBLE.sub("", plain(unified))


def in_line(text: str) -> str:
    """Clean text on one line."""
    return " ".join(clean(text).split())


def indented(text: str) -> str:
    """Clean text whose lines are all indented."""
    return "\n".join(INDENT + line for line in clean(text).split("\n"))
