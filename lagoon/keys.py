"""Keys of strings: hashes for the word tables, and keys of spans that find equal spans without creating
strings (a novel has half a million tokens, 20,000 of them distinct).
"""

from collections.abc import Sequence
from typing import NamedTuple

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


CodePoints = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.uint32]

# Longer spans are compared as strings; they are rare (encoded data, scripts without spaces).
MAX_KEYED = 64

_WORD_BYTES = 8
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(_WORD_BYTES + 1)], dtype=np.uint64)
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplication by it is invertible
_HALF = np.uint64(32)

# Steps of linear search from the estimated position of a key before bisection takes over: chosen words can
# have many keys with the same estimate.
_FEW_STEPS = 64


def _multipliers() -> NDArray[np.uint64]:
    """A fixed odd 64-bit number for each position (SplitMix64, Steele, Lea and Flood 2014)."""
    mask = (1 << 64) - 1
    numbers = []
    state = 0
    for _ in range(MAX_KEYED):
        state = (state + 0x9E3779B97F4A7C15) & mask
        mixed = state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & mask
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
        numbers.append((mixed ^ (mixed >> 31)) | 1)
    return np.array(numbers, dtype=np.uint64)


_MULTIPLIERS = _multipliers()


def code_points(text: str) -> CodePoints:
    """Code points in the narrowest type that fits all of them: most of the time is memory access."""
    try:
        return np.frombuffer(text.encode("latin-1"), dtype=np.uint8)
    except UnicodeEncodeError:
        units = text.encode("utf-16-le", "surrogatepass")
    if len(units) == 2 * len(text):
        return np.frombuffer(units, dtype="<u2")
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


class Narrowed(NamedTuple):
    """A text as one byte per character.

    wide   i64 (n,): positions without a Latin-1 byte
    codes  code points at these positions
    """

    data: bytes
    wide: NDArray[np.int64]
    codes: CodePoints


def narrow(text: str) -> Narrowed:
    """Encode a text in Latin-1, with "?" for other characters.

    Most texts are Latin-1 except for quotes and dashes, and tables for bytes are several times faster than
    tables for code points.
    """
    try:
        return Narrowed(text.encode("latin-1"), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint8))
    except UnicodeEncodeError:
        codes = code_points(text)
        wide = np.flatnonzero(codes > 0xFF)
        return Narrowed(text.encode("latin-1", "replace"), wide, codes[wide])


def distinct_spans(keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(first span with each distinct key, index of every span's key), distinct keys in order of
    appearance."""
    if not len(keys):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    distinct, ids = _ranks(keys)
    first = np.empty(len(distinct), dtype=np.int64)
    first[ids[::-1]] = np.arange(len(ids))[::-1]  # for repeated indices the last assignment wins
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return first[order], rank[ids]


def expand_spans(
    starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(concatenated positions of all spans, index of each span's first position among them)."""
    begins = np.cumsum(lengths) - lengths
    return np.repeat(starts - begins, lengths) + np.arange(int(lengths.sum())), begins


def byte_keys(data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Keys of the spans of `data`: equal for equal spans; different spans collide with probability 2**-64.

    Spans have no zero bytes and at most MAX_KEYED bytes. Eight bytes are read at once; up to that length the
    key is a bijection of the bytes.
    """
    padded = data + bytes(_WORD_BYTES)
    eight = np.ndarray((len(data) + 1,), dtype="<u8", buffer=padded, strides=(1,))
    lengths = ends - starts
    keys: NDArray[np.uint64] = eight[starts] & _FIRST_BYTES[np.minimum(lengths, _WORD_BYTES)]
    keys *= _MIX
    done = _WORD_BYTES
    longer = np.flatnonzero(lengths > done)
    while longer.size:
        rest = np.minimum(lengths[longer] - done, _WORD_BYTES)
        mixed = keys[longer]
        mixed ^= mixed >> _HALF
        mixed += eight[starts[longer] + done] & _FIRST_BYTES[rest]
        mixed *= _MIX
        keys[longer] = mixed
        done += _WORD_BYTES
        longer = longer[lengths[longer] > done]
    return keys


def code_keys(
    text: str, codes: CodePoints, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Like `byte_keys` for spans of any length and any characters, by multilinear hash: the sum of code *
    multiplier(position), modulo 2**64."""
    lengths = ends - starts
    at, begins = expand_spans(starts, lengths)
    positions = at - np.repeat(starts, lengths)
    chars = codes[at]
    keys = np.add.reduceat(_MULTIPLIERS[np.minimum(positions, MAX_KEYED - 1)] * chars, begins)
    for index in np.flatnonzero(lengths > MAX_KEYED).tolist():
        keys[index] = hash(text[starts[index] : ends[index]]) & ((1 << 64) - 1)
    return keys


def _ranks(keys: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """(distinct keys ascending, index of every key among them).

    Same as np.unique(..., return_inverse=True) but several times faster: the position of a key is first
    estimated from its high bits.
    """
    ordered = np.sort(keys)
    changes = np.ones(len(ordered), dtype=np.bool_)
    changes[1:] = ordered[1:] != ordered[:-1]
    distinct = ordered[changes]
    bits = len(distinct).bit_length() + 3  # at most one key in eight shares its bucket
    shift = np.uint64(64 - bits)
    bucket = np.zeros(1 << bits, dtype=np.int64)
    bucket[(distinct >> shift)[::-1]] = np.arange(len(distinct))[::-1]
    ids = bucket[keys >> shift]
    wrong = np.flatnonzero(distinct[ids] != keys)
    for _ in range(_FEW_STEPS):
        if not wrong.size:
            break
        ids[wrong] += 1
        wrong = wrong[distinct[ids[wrong]] != keys[wrong]]
    ids[wrong] = np.searchsorted(distinct, keys[wrong])
    return distinct, ids
