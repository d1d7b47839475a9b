"""How long explanations take, which run the search again for each change of one word.

usage: python benchmarks/counterfactuals.py DATABASE... [--n 40] [--seed 5]

Queries are runs of two to eight words of random passages. Each is explained for the first result and for
number 21, with compiled kernels. Prints for each library processor and wall-clock milliseconds of searches
and explanations, and the searches of an explanation. A straight line through two sizes predicts the time at
310,000 passages.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.search_latency import draw
from shoal.engine import Engine
from shoal.index.kernels import use_compiled

RANKS = (1, 21)
PREDICTED = 310_000


def percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """The median and the 95th percentile in milliseconds."""
    in_order = sorted(seconds)
    return 1000 * statistics.median(in_order), 1000 * in_order[int(0.95 * (len(in_order) - 1))]


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Processor and wall-clock seconds of a call."""
    wall, processor = time.perf_counter(), time.process_time()
    call()
    return time.process_time() - processor, time.perf_counter() - wall


def measure(database: Path, n: int, seed: int) -> tuple[int, tuple[float, float]]:
    """Print the times of a library; return its passages and the processor milliseconds of explanations."""
    searches, explanations, counts = [], [], []
    with Engine(db_path=database) as engine:
        queries = draw(database, n, seed)
        engine.explain(queries[0])
        for query in queries:
            searches.append(timed(lambda query=query: engine.search(query)))  # type: ignore[misc]
            results = engine.search(query, top_k=max(RANKS)).results
            for rank in RANKS:
                if rank > len(results):
                    continue
                chunk_id = results[rank - 1].chunk_id
                explanations.append(
                    timed(lambda query=query, chunk_id=chunk_id: engine.explain(query, chunk_id=chunk_id))  # type: ignore[misc]
                )
                found = engine.explain(query, chunk_id=chunk_id).counterfactuals
                counts.append(found.n_searches if found else 0)
        n_chunks = engine.status().n_chunks
    print(f"{n_chunks:,} passages, {len(explanations)} explanations")
    for name, seconds in (("search", searches), ("explanation", explanations)):
        for kind, each in zip(("processor", "wall-clock"), zip(*seconds, strict=True), strict=True):
            print(f"  {name}, {kind} p50 / p95: {' / '.join(f'{ms:.0f}' for ms in percentiles(each))} ms")
    print(f"  searches of an explanation: {statistics.median(counts):.0f}, at most {max(counts)}")
    return n_chunks, percentiles([processor for processor, _ in explanations])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("databases", nargs="+", type=Path)
    parser.add_argument("--n", type=int, default=40)
    parser.add_argument("--seed", type=int, default=5)
    arguments = parser.parse_args()
    use_compiled()
    sizes = sorted(measure(database, arguments.n, arguments.seed) for database in arguments.databases)
    if len(sizes) > 1:
        (small, few), (large, many) = sizes[0], sizes[-1]
        steps = (PREDICTED - large) / (large - small)
        predicted = " / ".join(f"{b + (b - a) * steps:.0f}" for a, b in zip(few, many, strict=True))
        print(f"predicted for {PREDICTED:,} passages: processor p50 / p95 {predicted} ms")


if __name__ == "__main__":
    main()
