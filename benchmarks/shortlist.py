"""What ranking documents first costs and gains: nDCG@10 and latency by the size of the shortlist.

    python -m benchmarks.shortlist COLLECTION... [--keep FOLDER]

Ingests each test collection, unless FOLDER has its library, and searches its queries with each size of the
shortlist; 0 ranks the passages of all documents. Prints the mean of nDCG@10 of the documents, the mean of the
differences from size 0 with its standard error, and the median and 95th percentile of the milliseconds that a
processor works on a search for ten results; the best of three runs of each query counts.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.chunk_ranges import difference, judge
from benchmarks.judged_library import read_collection
from shoal import Engine

SIZES = (0, 10, 20, 50, 100, 1000)
RUNS = 3


def latencies(engine: Engine, texts: Sequence[str], size: int) -> list[float]:
    """The milliseconds of processor time of a search for each query."""
    found = []
    for text in texts:
        runs = []
        for _ in range(RUNS):
            started = time.process_time()
            engine.search(text, shortlist=size)
            runs.append(1000 * (time.process_time() - started))
        found.append(min(runs))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collections", nargs="+", type=Path)
    parser.add_argument("--keep", type=Path, help="where libraries are and stay")
    arguments = parser.parse_args()
    means: dict[int, list[float]] = {size: [] for size in SIZES}
    for folder in arguments.collections:
        documents, texts, judged = read_collection(folder)
        with (
            tempfile.TemporaryDirectory() as scratch,
            Engine(db_path=(arguments.keep or Path(scratch)) / f"{folder.name}.db") as engine,
        ):
            if not engine.status().n_documents:
                engine.ingest_many(documents)
            scores = {size: list(judge(engine, documents, texts, judged, shortlist=size)) for size in SIZES}
            for size, each in scores.items():
                median, p95 = np.percentile(latencies(engine, texts, size), [50, 95])
                means[size].append(float(np.mean(each)))
                print(
                    f"{folder.name}, {size}: nDCG@10 {means[size][-1]:.4f}, {difference(scores[0], each)}; "
                    f"{median:.1f} ms, p95 {p95:.1f}",
                    flush=True,
                )
    for size, values in means.items():
        print(f"mean, {size}: {np.mean(values):.4f}")


if __name__ == "__main__":
    main()
