"""Contexts of words as bytes: a third of the size of JSON.

The first byte is the width of a sum in bytes: 1, 2, 4 or 8. The reefs follow, a byte each, then their sums,
little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

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


def unpack_contexts(contexts: Sequence[bytes]) -> tuple[Ints, Ints, Ints]:
    """Unpack n contexts: the number of reefs of each, (n,), then the reefs and sums of all, in order."""
    import numpy as np

    data = np.frombuffer(b"".join(contexts), dtype=np.uint8)
    sizes = np.fromiter(map(len, contexts), dtype=np.int64, count=len(contexts))
    starts = np.cumsum(sizes) - sizes
    widths = np.zeros(len(sizes), dtype=np.int64)
    widths[sizes > 0] = data[starts[sizes > 0]]
    lengths = np.maximum(sizes - 1, 0) // (1 + widths)
    reefs = data[_places(starts + 1, lengths)].astype(np.int64)
    sums = np.zeros(len(reefs), dtype=np.int64)
    for width in _CODES:
        has_width = widths == width
        firsts, counts = (starts + 1 + lengths)[has_width], lengths[has_width]
        sums[np.repeat(has_width, lengths)] = data[_places(firsts, counts * width)].view(f"<u{width}")
    return lengths, reefs, sums


def _places(firsts: Ints, counts: Ints) -> Ints:
    """The places firsts[i], firsts[i] + 1, ... of counts[i] bytes, for each i."""
    import numpy as np

    ends = np.cumsum(counts)
    places: Ints = np.arange(counts.sum()) + np.repeat(firsts - (ends - counts), counts)
    return places
