"""Contexts of words as bytes: a third of the size of JSON.

The first byte is the width of a sum in bytes: 1, 2, 4 or 8. The reefs follow, a byte each, then their sums,
little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
_ENDS = ((1 << 8, 1), (1 << 16, 2), (1 << 32, 4))


def pack_context(reefs: Sequence[int], sums: Sequence[int]) -> bytes:
    """Pack a context: reefs 0..255, and their sums, from 0."""
    if not reefs:
        return b""
    largest = max(sums)
    width = next((width for end, width in _ENDS if largest < end), 8)
    n = len(reefs)
    return struct.pack(f"<B{n}B{n}{_CODES[width]}", width, *reefs, *sums)


def unpack_context(data: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Unpack reefs and sums."""
    if not data:
        return (), ()
    width = data[0]
    n = (len(data) - 1) // (1 + width)
    return tuple(data[1 : 1 + n]), struct.unpack_from(f"<{n}{_CODES[width]}", data, 1 + n)
