"""Characters by what they do to the words around them."""

from __future__ import annotations

import functools
import unicodedata

HYPHENS = "-\u2010\u2011"
APOSTROPHES = "'’ʼ"
DEGREE, TIMES = "°", "×"

LINKS = frozenset(f"{HYPHENS}{APOSTROPHES}_./:@&,{DEGREE}{TIMES}")
"""Signs that may join what is on both sides of them: *node.js*, *AT&T*, *9:45*."""
PREFIXES = frozenset("@#$€£¥.-~")
"""Signs that may belong to the word behind them: *@handle*, *.NET*, *-xzf*."""
SUFFIXES = frozenset("+#%‰")
"""Signs that may belong to the word before them: *C++*, *C#*, *5%*."""
NO_WORDS = frozenset("-_.…,;:!?'\"()[]{}/\\«»‹›„“”‚‘’「」『』–—·¿¡\u2010\u2011`´")
"""Punctuation; a run of it is no word even if it stands alone."""

_WITHOUT_SPACES = (
    (0x0E00, 0x0E7F),  # Thai
    (0x0E80, 0x0EFF),  # Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),
    (0x3040, 0x30FF),  # kana
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9D),
    (0x20000, 0x323AF),
)
"""Letters of scripts whose words stand side by side."""


@functools.lru_cache(maxsize=100_000)
def is_without_spaces(char: str) -> bool:
    """Return whether a character is of a script whose words stand side by side."""
    point = ord(char)
    return point >= _WITHOUT_SPACES[0][0] and any(low <= point <= high for low, high in _WITHOUT_SPACES)


@functools.lru_cache(maxsize=100_000)
def is_pictograph(char: str) -> bool:
    """Return whether a character is a picture or symbol that is searched for alone: an emoji, *☎*, *∞*."""
    return ord(char) > 0xFF and unicodedata.category(char) in ("So", "Sm")
