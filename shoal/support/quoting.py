"""Stored texts as quoted data: the author of a document or a note does not speak to the model that reads it.

A quotation stays within its lines: it is on one line, or each of its lines is indented. So no stored text can
imitate the head of another quotation or an instruction.
"""

from __future__ import annotations

import re

from shoal.support.plain_text import plain

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
