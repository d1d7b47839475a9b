"""Ways to compare a query with all vectors of a library: time, memory and error, on the same vectors.

usage: python -m benchmarks.dense_search [--chunks 35000 310000 1000000] [--queries 50] [--only NAME...]

The vectors are random, of unit length and 384 numbers, around 500 centres, as passages gather around topics.
Each way answers the same queries for all vectors, or for the 100 nearest if it offers no more, in a process
of its own with one thread. A way that cannot be used here is left out. Prints a line for each way and size:

    p50_ms, p95_ms   of a query
    cpu_ms           that a query computes, median; less than p50_ms where other programs take processors
    memory_mb        that the process needs more with its vectors than before, mapped files included
    build_s          of making its index from 32-bit vectors
    recall@10        share of the ten nearest that it finds among its ten first
    error            root mean square error of a cosine, of the ten nearest
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIMENSION = 384
N_CENTRES = 500
SPREAD = 0.9
"""Distance of a vector from its centre: cosines within a topic are then about 0.55."""
N_NEAREST = 100
SHOWN = 10
ROWS_TOGETHER = 16_384

Vectors = NDArray[np.float32]
Answer = Callable[[Vectors], tuple[NDArray[Any], NDArray[Any]]]
"""Returns places and cosines of at least the ten nearest."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunks", nargs="*", type=int, default=[35_000, 310_000, 1_000_000])
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--only", nargs="*", default=list(WAYS))
    options = parser.parse_args()
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    context = multiprocessing.get_context("spawn")
    for n_chunks in options.chunks:
        for name in options.only:
            process = context.Process(target=_measure, args=(name, n_chunks, options.queries))
            process.start()
            process.join()


def made(n: int, seed: int) -> Vectors:
    """Return random unit vectors around the centres."""
    centres = np.random.default_rng(0).standard_normal((N_CENTRES, DIMENSION), dtype=np.float32)
    rng = np.random.default_rng(seed)
    vectors = np.empty((n, DIMENSION), dtype=np.float32)
    for start in range(0, n, ROWS_TOGETHER):
        own = vectors[start : start + ROWS_TOGETHER]
        own[:] = centres[rng.integers(N_CENTRES, size=len(own))]
        own += SPREAD * rng.standard_normal(own.shape, dtype=np.float32)
        own /= np.linalg.norm(own, axis=1, keepdims=True)
    return vectors


def _measure(name: str, n_chunks: int, n_queries: int) -> None:
    try:
        importlib.import_module(PACKAGES.get(name, "numpy"))
    except ImportError:
        return
    vectors, queries = made(n_chunks, 1), made(n_queries, 2)
    exact = [query @ vectors.T for query in queries]
    nearest = [np.argsort(-each)[:SHOWN] for each in exact]
    before = _resident_mb() - vectors.nbytes / 1e6
    started = time.perf_counter()
    try:
        answer = WAYS[name](vectors)
    except AttributeError as error:
        # Python was built without extensions of SQLite.
        print(json.dumps({"way": name, "unusable": str(error)}), flush=True)
        return
    build_s = time.perf_counter() - started
    if name != "numpy f32":
        del vectors
    answer(queries[0])
    memory = _resident_mb() - before
    seconds, computing, found, errors = [], [], 0, []
    for query, best, cosines in zip(queries, nearest, exact, strict=True):
        started, computed = time.perf_counter(), time.process_time()
        places, values = answer(query)
        seconds.append(time.perf_counter() - started)
        computing.append(time.process_time() - computed)
        if len(places) == 0:
            places = np.argpartition(-values, SHOWN)[:SHOWN]
            values = values[places]
        order = np.argsort(-values)[:SHOWN]
        found += len(set(places[order].tolist()) & set(best.tolist()))
        errors.append(values[order] - cosines[places[order]])
    row = {
        "way": name,
        "chunks": n_chunks,
        "p50_ms": round(1000 * float(np.percentile(seconds, 50)), 1),
        "p95_ms": round(1000 * float(np.percentile(seconds, 95)), 1),
        "cpu_ms": round(1000 * float(np.median(computing)), 1),
        "memory_mb": round(memory),
        "build_s": round(build_s, 1),
        "recall@10": round(found / SHOWN / n_queries, 3),
        "error": round(float(np.sqrt(np.mean(np.concatenate(errors) ** 2))), 5),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000),
    }
    print(json.dumps(row), flush=True)


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


ALL = np.empty(0, dtype=np.int64)


def _f32(vectors: Vectors) -> Answer:
    return lambda query: (ALL, vectors @ query)


def _int8_rows(vectors: Vectors) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    scales = np.abs(vectors).max(axis=1) / 127
    rows = np.empty(vectors.shape, dtype=np.int8)
    for start in range(0, len(rows), ROWS_TOGETHER):
        own = slice(start, start + ROWS_TOGETHER)
        rows[own] = np.rint(vectors[own] / scales[own, None])
    return rows, scales


def _int8_numpy(vectors: Vectors) -> Answer:
    rows, scales = _int8_rows(vectors)

    def answer(query: Vectors) -> tuple[NDArray[Any], NDArray[Any]]:
        cosines = np.empty(len(rows), dtype=np.float32)
        for start in range(0, len(rows), 1_024):
            own = slice(start, start + 1_024)
            cosines[own] = rows[own].astype(np.float32) @ query
        return ALL, cosines * scales

    return answer


def _int8_compiled(vectors: Vectors) -> Answer:
    import numba

    @numba.njit("void(f4[::1], i1[:, ::1], f4[::1], i2[::1], f8)", nogil=True, error_model="numpy")
    def add(cosines: Any, rows: Any, scales: Any, query: Any, factor: float) -> None:
        for row in range(len(rows)):
            own = rows[row]
            total = np.int32(0)
            for i in range(len(query)):
                total += np.int32(own[i]) * np.int32(query[i])
            cosines[row] = total * scales[row] * factor

    rows, scales = _int8_rows(vectors)

    def answer(query: Vectors) -> tuple[NDArray[Any], NDArray[Any]]:
        factor = float(np.abs(query).max()) / 4_095
        cosines = np.empty(len(rows), dtype=np.float32)
        add(cosines, rows, scales, np.rint(query / factor).astype(np.int16), factor)
        return ALL, cosines

    return answer


def _shoal(vectors: Vectors, *, compiled: bool) -> Answer:
    """The segments of Shoal, 65,536 vectors each."""
    import io

    from shoal.index import kernels
    from shoal.index.format import MAX_CHUNKS
    from shoal.index.vectors import SegmentVectors, quantised, quantised_query, write_vectors

    if compiled:
        assert kernels.use_compiled()
    segments = []
    for start in range(0, len(vectors), MAX_CHUNKS):
        own = vectors[start : start + MAX_CHUNKS]
        blobs = [
            blob
            for at in range(0, len(own), ROWS_TOGETHER)
            for blob in quantised(own[at : at + ROWS_TOGETHER])
        ]
        file = io.BytesIO()
        write_vectors(DIMENSION, len(own), np.arange(len(own)), blobs, file)
        segments.append(SegmentVectors(file.getvalue(), len(own)))
    n = len(vectors)

    def answer(query: Vectors) -> tuple[NDArray[Any], NDArray[Any]]:
        raw = np.zeros(n, dtype=np.int64)
        quantised_once = quantised_query(query)
        for number, segment in enumerate(segments):
            segment.add_cosines(quantised_once, raw[number * MAX_CHUNKS : (number + 1) * MAX_CHUNKS])
        return ALL, raw / 1e6

    return answer


def _usearch(vectors: Vectors, *, exact: bool) -> Answer:
    from usearch.index import Index

    index = Index(ndim=DIMENSION, metric="cos", dtype="i8")
    index.add(np.arange(len(vectors)), vectors, threads=2)

    def answer(query: Vectors) -> tuple[NDArray[Any], NDArray[Any]]:
        found = index.search(query, N_NEAREST, threads=1, exact=exact)
        return found.keys.astype(np.int64), 1 - found.distances

    return answer


def _faiss(vectors: Vectors, description: str) -> Answer:
    import faiss

    faiss.omp_set_num_threads(2)
    index = faiss.index_factory(DIMENSION, description, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors[:100_000])
    index.add(vectors)
    faiss.omp_set_num_threads(1)

    def answer(query: Vectors) -> tuple[NDArray[Any], NDArray[Any]]:
        cosines, places = index.search(query[None], N_NEAREST)
        # Too few lists were searched: -1 fills up.
        is_found = places[0] >= 0
        return places[0][is_found], cosines[0][is_found]

    return answer


def _sqlite_vec(vectors: Vectors) -> Answer:
    import sqlite3

    import sqlite_vec

    connection = sqlite3.connect(":memory:")
    connection.enable_load_extension(True)
    sqlite_vec.load(connection)
    connection.execute(
        f"CREATE VIRTUAL TABLE v USING vec0(embedding int8[{DIMENSION}] distance_metric=cosine)"
    )
    rows, _ = _int8_rows(vectors)
    connection.executemany(
        "INSERT INTO v(rowid, embedding) VALUES (?, vec_int8(?))",
        ((number, row.tobytes()) for number, row in enumerate(rows)),
    )

    def answer(query: Vectors) -> tuple[NDArray[Any], NDArray[Any]]:
        own, _ = _int8_rows(query[None])
        found = connection.execute(
            "SELECT rowid, distance FROM v WHERE embedding MATCH vec_int8(?) AND k = ?",
            (own[0].tobytes(), N_NEAREST),
        ).fetchall()
        return np.array([row[0] for row in found]), 1 - np.array([row[1] for row in found])

    return answer


WAYS: dict[str, Callable[[Vectors], Answer]] = {
    "numpy f32": _f32,
    "numpy int8": _int8_numpy,
    "numba int8": _int8_compiled,
    "shoal int4": lambda vectors: _shoal(vectors, compiled=True),
    "shoal int4, numpy": lambda vectors: _shoal(vectors, compiled=False),
    "usearch int8, exact": lambda vectors: _usearch(vectors, exact=True),
    "usearch int8, graph": lambda vectors: _usearch(vectors, exact=False),
    "faiss int8, exact": lambda vectors: _faiss(vectors, "SQ8"),
    "faiss int4, exact": lambda vectors: _faiss(vectors, "SQ4"),
    "faiss int8, lists": lambda vectors: _faiss(vectors, "IVF1024,SQ8"),
    "sqlite-vec int8": _sqlite_vec,
}
PACKAGES = {
    "numba int8": "numba",
    "shoal int4": "numba",
    "usearch int8, exact": "usearch",
    "usearch int8, graph": "usearch",
    "faiss int8, exact": "faiss",
    "faiss int4, exact": "faiss",
    "faiss int8, lists": "faiss",
    "sqlite-vec int8": "sqlite_vec",
}

if __name__ == "__main__":
    main()
