"""Quantised vectors keep cosines, and every kernel computes the same ones."""

from __future__ import annotations

import io

import numpy as np
import pytest

from shoal.errors import DamagedIndexError
from shoal.index import kernels
from shoal.index.vectors import (
    SegmentVectors,
    dequantised,
    has_unit_length,
    quantised,
    quantised_query,
    write_vectors,
)


def unit(rng: np.random.Generator, n: int, dimension: int) -> np.ndarray:
    vectors = rng.standard_normal((n, dimension)) + rng.standard_normal(dimension)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def file_of(vectors: np.ndarray, n_chunks: int, ordinals: np.ndarray) -> bytes:
    file = io.BytesIO()
    write_vectors(vectors.shape[1], n_chunks, ordinals, quantised(vectors), file)
    return file.getvalue()


@pytest.mark.parametrize("dimension", [1, 2, 7, 64, 384, 1001])
def test_cosines_stay_near_and_are_equal_in_all_kernels(dimension: int) -> None:
    rng = np.random.default_rng(dimension)
    vectors, n_chunks = unit(rng, 1_500, dimension), 2_000
    ordinals = np.sort(rng.choice(n_chunks, len(vectors), replace=False))
    segment = SegmentVectors(file_of(vectors, n_chunks, ordinals), n_chunks, verify=True)
    assert segment.has_vector.nonzero()[0].tolist() == ordinals.tolist()
    query = unit(rng, 1, dimension)[0]
    raw = np.zeros(n_chunks, dtype=np.int64)
    kernels.use_numpy()
    segment.add_cosines(quantised_query(query), raw)
    exact = np.maximum(dequantised(quantised(vectors), dimension) @ query, 0)
    assert np.abs(raw[ordinals] / 1e6 - exact).max() < 2e-3
    assert not np.delete(raw, ordinals).any()
    if dimension >= 64:
        assert np.abs(raw[ordinals] / 1e6 - np.maximum(vectors @ query, 0)).std() < 0.1 / dimension**0.5
    pytest.importorskip("numba")
    try:
        assert kernels.use_compiled()
        compiled = np.zeros(n_chunks, dtype=np.int64)
        segment.add_cosines(quantised_query(query), compiled)
    finally:
        kernels.use_numpy()
    assert compiled.tolist() == raw.tolist()


def test_negative_cosines_are_zero() -> None:
    vectors = np.array([[1, 0, 0], [-1, 0, 0]], dtype=np.float32)
    raw = np.zeros(2, dtype=np.int64)
    SegmentVectors(file_of(vectors, 2, np.arange(2)), 2).add_cosines(quantised_query(vectors[0]), raw)
    assert raw[0] > 990_000
    assert raw[1] == 0


def test_quantised_vectors_have_unit_length() -> None:
    vectors = unit(np.random.default_rng(1), 50, 384)
    # One number that is far larger than the others.
    vectors[0] = np.eye(384, dtype=np.float32)[3]
    blobs = quantised(vectors)
    assert has_unit_length(blobs, 384).all()
    assert np.abs(np.linalg.norm(dequantised(blobs, 384), axis=1) - 1).max() < 1e-3
    damaged = [blobs[0][:-1], b"\0" * len(blobs[1]), blobs[2]]
    assert has_unit_length(damaged, 384).tolist() == [False, False, True]


@pytest.mark.parametrize("vector", [[0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_a_query_without_direction_is_refused(vector: list[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        quantised_query(np.array(vector))


def test_damaged_files_are_recognized() -> None:
    content = file_of(unit(np.random.default_rng(2), 5, 10), 6, np.arange(5))
    SegmentVectors(content, 6, verify=True)
    for damaged in (b"", content[:20], content[:-1], content + b"\0", b"x" + content[1:]):
        with pytest.raises(DamagedIndexError):
            SegmentVectors(damaged, 6)
    with pytest.raises(DamagedIndexError, match="do not fit its chunks"):
        SegmentVectors(content, 7)
    flipped = bytearray(content)
    flipped[-3] ^= 1
    SegmentVectors(bytes(flipped), 6)
    with pytest.raises(DamagedIndexError, match="checksum"):
        SegmentVectors(bytes(flipped), 6, verify=True)
