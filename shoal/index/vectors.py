"""Vectors of the chunks of a segment: quantised to 4 bits a number, in a file beside the segment.

A vector v becomes codes c of 0 to 15 and a scale s, and stands for s * (2c - 15); s makes its length 1. With
n half the dimension, rounded up, byte i of its codes holds number i in the lower half and number i + n in the
upper half. A query is quantised to whole numbers, as fine as sums in single precision stay exact. So all
kernels compute the same cosines.

The file is a header, a CRC-32 of everything behind it, and three arrays, each starting at a multiple of 8:
whether each chunk has a vector, the scales, and the codes. All numbers are little-endian.
"""

from __future__ import annotations

import copy
import struct
import zlib
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DamagedIndexError
from shoal.index.format import MAX_CHUNKS, MILLIONTHS
from shoal.index.kernels import active

MAX_DIMENSION = 8_192
"""Largest models have 4,096 numbers."""
CODE_BITS = 4
HIGHEST_CODE = 15
SCALE_BYTES = 4
EXACT = 1 << 24
"""Single precision holds all whole numbers up to this."""
MAX_QUERY_LEVEL = 4_095
CLIPS = (1.0, 0.9, 0.8, 0.7, 0.6)
"""Shares of its largest number at which a vector may be cut off: a few large numbers would make all others
coarse. The share with the smallest error is used."""
MAX_NORM_ERROR = 0.01
"""Largest distance of the length of a stored vector from 1."""

MAGIC = b"shoalvec"
FORMAT = 1
_HEAD = struct.Struct("<8sIIII")  # magic, format, dimension, n_chunks, CRC-32 of the arrays
_ALIGNMENT = 8
_BLOCK_BYTES = 1 << 20


class DenseScores(NamedTuple):
    """What a dense search finds at each place of an index.

    raw         i64 (n,): cosine in millionths; 0 without a vector, or if the cosine is negative
    has_vector  bool (n,)
    """

    raw: NDArray[np.int64]
    has_vector: NDArray[np.bool_]


class Query(NamedTuple):
    """A quantised query: `numbers` i16 (2, n), both halves of the dimension, times `scale`; `total` is the
    sum of all numbers."""

    numbers: NDArray[np.int16]
    scale: float
    total: int


def code_bytes(dimension: int) -> int:
    """Return the bytes of the codes of a vector."""
    return -(-dimension * CODE_BITS // 8)


def quantised(vectors: NDArray[np.float32]) -> list[bytes]:
    """Return scale and codes of unit vectors, f32 (n, dimension), as the database stores them."""
    vectors = np.asarray(vectors, dtype=np.float32)
    n, dimension = vectors.shape
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=np.float32(1e-12))
    best = np.full(n, np.inf)
    codes = np.empty((n, dimension), dtype=np.uint8)
    scales = np.empty(n, dtype=np.float32)
    for clip in CLIPS:
        step = largest * np.float32(2 * clip / HIGHEST_CODE)
        candidate = np.clip(np.floor(vectors / step) + 8, 0, HIGHEST_CODE)
        levels = 2 * candidate - HIGHEST_CODE
        norms = np.sqrt(np.einsum("ij,ij->i", levels, levels, dtype=np.float64))
        errors = 1 - np.einsum("ij,ij->i", levels, vectors, dtype=np.float64) / norms
        is_better = errors < best
        best[is_better] = errors[is_better]
        codes[is_better] = candidate[is_better].astype(np.uint8)
        scales[is_better] = (1 / norms[is_better]).astype(np.float32)
    half = code_bytes(dimension)
    padded = np.zeros((n, 2 * half), dtype=np.uint8)
    padded[:, :dimension] = codes
    packed = padded[:, :half] | (padded[:, half:] << CODE_BITS)
    heads = scales.astype("<f4").tobytes()
    return [heads[SCALE_BYTES * i : SCALE_BYTES * (i + 1)] + row.tobytes() for i, row in enumerate(packed)]


def dequantised(blobs: Sequence[bytes], dimension: int) -> NDArray[np.float32]:
    """Return vectors f32 (n, dimension) of what `quantised` made. Raises ValueError for another size."""
    row = SCALE_BYTES + code_bytes(dimension)
    if any(len(blob) != row for blob in blobs):
        raise ValueError(f"a vector of {dimension} numbers has {row} bytes")
    rows = np.frombuffer(b"".join(blobs), dtype=np.uint8).reshape(len(blobs), row)
    scales = np.ascontiguousarray(rows[:, :SCALE_BYTES]).view("<f4")
    packed = rows[:, SCALE_BYTES:]
    codes = np.concatenate([packed & HIGHEST_CODE, packed >> CODE_BITS], axis=1)[:, :dimension]
    vectors: NDArray[np.float32] = (2 * codes.astype(np.float32) - HIGHEST_CODE) * scales
    return vectors


def has_unit_length(blobs: Sequence[bytes], dimension: int) -> NDArray[np.bool_]:
    """Whether the length of each stored vector is within MAX_NORM_ERROR of 1, bool (n,)."""
    row = SCALE_BYTES + code_bytes(dimension)
    is_whole = np.array([len(blob) == row for blob in blobs], dtype=np.bool_)
    vectors = dequantised([blob for blob in blobs if len(blob) == row], dimension)
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
    is_whole[is_whole] = np.abs(norms - 1) <= MAX_NORM_ERROR
    return is_whole


def quantised_query(vector: NDArray[Any]) -> Query:
    """Quantise a query vector, (dimension,). Raises ValueError if it is not finite, or 0."""
    numbers = np.asarray(vector, dtype=np.float64).ravel()
    norm = float(np.linalg.norm(numbers))
    if not np.isfinite(norm) or norm == 0:
        raise ValueError("a query vector must be finite and not 0")
    dimension = len(numbers)
    level = min(MAX_QUERY_LEVEL, (EXACT - 1) // (HIGHEST_CODE * dimension))
    largest = float(np.abs(numbers).max())
    whole = np.rint(numbers * (level / largest)).astype(np.int16)
    half = code_bytes(dimension)
    halves = np.zeros(2 * half, dtype=np.int16)
    halves[:dimension] = whole
    return Query(halves.reshape(2, half), largest / level / norm, int(whole.sum(dtype=np.int64)))


def write_vectors(
    dimension: int, n_chunks: int, ordinals: NDArray[Any], blobs: Sequence[bytes], file: BinaryIO
) -> None:
    """Write the vectors of a segment of `n_chunks` chunks: those of `ordinals`, of the right size each."""
    row = SCALE_BYTES + code_bytes(dimension)
    rows = np.frombuffer(b"".join(blobs), dtype=np.uint8).reshape(len(blobs), row)
    has_vector = np.zeros(n_chunks, dtype=np.uint8)
    has_vector[ordinals] = 1
    scales = np.zeros(n_chunks, dtype="<f4")
    scales[ordinals] = np.ascontiguousarray(rows[:, :SCALE_BYTES]).view("<f4")[:, 0]
    codes = np.zeros((n_chunks, row - SCALE_BYTES), dtype=np.uint8)
    codes[ordinals] = rows[:, SCALE_BYTES:]
    parts = [_padded(array) for array in (has_vector, scales, codes)]
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    file.write(_HEAD.pack(MAGIC, FORMAT, dimension, n_chunks, checksum))
    for part in parts:
        file.write(part)


class SegmentVectors:
    """The open vectors of a segment. The arrays share the memory of the bytes or map.

    has_vector  bool (n_chunks,)
    scales      f32 (n_chunks,)
    codes       u8 (n_chunks * code_bytes(dimension),)
    """

    def __init__(self, data: Any, n_chunks: int, *, verify: bool = False) -> None:
        """Raises DamagedIndexError."""
        content = memoryview(data).cast("B")
        if len(content) < _HEAD.size:
            raise DamagedIndexError("its vectors are shorter than their header")
        magic, version, dimension, stored_chunks, checksum = _HEAD.unpack_from(content)
        if magic != MAGIC or version != FORMAT:
            raise DamagedIndexError("its vectors do not begin like vectors of this version")
        if stored_chunks != n_chunks or not (n_chunks <= MAX_CHUNKS and 1 <= dimension <= MAX_DIMENSION):
            raise DamagedIndexError("its vectors do not fit its chunks")
        sizes = (n_chunks, SCALE_BYTES * n_chunks, n_chunks * code_bytes(dimension))
        starts = [_HEAD.size]
        for size in sizes:
            starts.append(starts[-1] + _aligned(size))
        if starts[-1] != len(content):
            raise DamagedIndexError("its vectors have another length than their header says")
        if verify and _checksum(content[_HEAD.size :]) != checksum:
            raise DamagedIndexError("its vectors do not match their checksum")
        flags, scales, codes = (
            content[start : start + size] for start, size in zip(starts[:-1], sizes, strict=True)
        )
        self.dimension = dimension
        # Any value but 0 counts as true: a damaged byte must not make an invalid bool.
        self.has_vector: NDArray[np.bool_] = np.frombuffer(flags, dtype=np.uint8) != 0
        self.scales: NDArray[np.float32] = _readonly(scales, "<f4")
        self.codes: NDArray[np.uint8] = _readonly(codes, "u1")
        self.n_vectors = int(np.count_nonzero(self.has_vector))

    def of(self, ordinals: NDArray[np.int64]) -> SegmentVectors:
        """Return the vectors of some chunks alone."""
        chosen = copy.copy(self)
        chosen.has_vector, chosen.scales = self.has_vector[ordinals], self.scales[ordinals]
        chosen.codes = self.codes.reshape(len(self.has_vector), -1)[ordinals].ravel()
        chosen.n_vectors = int(np.count_nonzero(chosen.has_vector))
        return chosen

    def add_cosines(self, query: Query, raw: NDArray[np.int64]) -> None:
        """Write the cosine of each chunk with a query of the same dimension into `raw`, as `DenseScores` has
        it; `raw` is 0 before."""
        active().add_cosines(
            raw, self.codes, self.scales, query.numbers, query.total, query.scale * MILLIONTHS
        )


def _readonly(content: memoryview, kind: str) -> NDArray[Any]:
    array = np.frombuffer(content, dtype=kind)
    if not array.flags.aligned:
        array = array.copy()
    array.flags.writeable = False
    return array


def _padded(array: NDArray[Any]) -> bytes:
    data = array.tobytes()
    return data + bytes(_aligned(len(data)) - len(data))


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _checksum(content: memoryview) -> int:
    checksum = 0
    for start in range(0, len(content), _BLOCK_BYTES):
        checksum = zlib.crc32(content[start : start + _BLOCK_BYTES], checksum)
    return checksum
