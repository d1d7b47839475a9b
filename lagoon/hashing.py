"""FNV-1a, 64 bit, unsigned: keys of the word tables.

Offset and prime are those of the published function (Fowler, Noll, Vo).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FNV_OFFSET = 14695981039346656037
FNV_PRIME = 1099511628211
_MASK = 0xFFFFFFFFFFFFFFFF

# Strings that fnv1a64_many hashes at once: limits its memory to a few MB.
_BATCH = 65536

# For the few words of a query, Python is faster than the overhead of numpy.
_FEW = 32
_FEW_CHARS = 512


def fnv1a64(text: str) -> int:
    """Hash of the UTF-8 bytes of `text` as given (fold it first), 0..2**64-1."""
    value = FNV_OFFSET
    for byte in text.encode("utf-8", "surrogatepass"):
        value = ((value ^ byte) * FNV_PRIME) & _MASK
    return value


def fnv1a64_many(texts: Sequence[str]) -> NDArray[np.uint64]:
    """`fnv1a64` of every string, shape (len(texts),); time grows with the total number of bytes."""
    if len(texts) <= _FEW and sum(map(len, texts)) <= _FEW_CHARS:
        return np.array([fnv1a64(text) for text in texts], dtype=np.uint64)
    out = np.empty(len(texts), dtype=np.uint64)
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        out[start : start + len(batch)] = _hash_batch([t.encode("utf-8", "surrogatepass") for t in batch])
    return out


def _hash_batch(encoded: Sequence[bytes]) -> NDArray[np.uint64]:
    """Hash byte j of all strings at once, longest strings first, so that the strings with a byte j are a
    prefix."""
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    order = np.argsort(-lengths, kind="stable")
    data = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    offsets = (np.cumsum(lengths) - lengths)[order]
    # n_longer[j]: number of strings longer than j bytes
    n_longer = len(encoded) - np.searchsorted(
        np.sort(lengths), np.arange(lengths.max(initial=0)), side="right"
    )
    state = np.full(len(encoded), FNV_OFFSET, dtype=np.uint64)
    prime = np.uint64(FNV_PRIME)
    for position, count in enumerate(n_longer.tolist()):
        active = state[:count]
        active ^= data[offsets[:count] + position]
        active *= prime
    out = np.empty_like(state)
    out[order] = state
    return out
