"""Memory of the API process after few and after many searches.

    python -m benchmarks.api_memory DATABASE [--few 100] [--many 10000] [--clients 100] [--seed 1] [--most
    2.0]

Starts `shoal serve` on a copy of a library, without workers. Queries are runs of two to eight words of its
passages: first a few from one client, then many from all clients at once. Prints a line of JSON before,
    between and after with
the memory of the API process (MB): `anonymous` is its own, `resident` includes cached pages of files; for the
searches also status counts and searches a second. The last line has the ratios of after to between. Exits 1
if the ratio of anonymous memory is above `--most`, or a search failed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import httpx

from benchmarks.search_latency import draw
from benchmarks.upload_memory import API, resident_mb, serving

N_QUERIES = 500


def memory(pid: int) -> dict[str, float]:
    """Memory of a process, megabytes."""
    return {
        name: round(resident_mb(pid, field), 1)
        for name, field in (("anonymous", "RssAnon"), ("resident", "VmRSS"))
    }


def search(address: str, queries: Sequence[str], n: int, clients: int) -> tuple[Counter[int], float]:
    """Status counts of `n` searches by concurrent clients, and searches a second."""

    def work(number: int) -> Counter[int]:
        statuses: Counter[int] = Counter()
        with httpx.Client(base_url=address, timeout=300) as client:
            for i in range(number, n, clients):
                body = {"query": queries[i % len(queries)]}
                try:
                    statuses[client.post(f"{API}/search", json=body).status_code] += 1
                except httpx.TransportError:
                    statuses[0] += 1
        return statuses

    began = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        status_counts = sum(pool.map(work, range(clients)), Counter[int]())
    return status_counts, n / (time.perf_counter() - began)


def measure(address: str, pid: int, queries: Sequence[str], n: int, clients: int) -> dict[str, object]:
    statuses, rate = search(address, queries, n, clients)
    return {"searches": n, "clients": clients, "statuses": statuses, "per_s": round(rate, 1), **memory(pid)}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("database", type=Path)
    parser.add_argument("--few", type=int, default=100)
    parser.add_argument("--many", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=float, default=2.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        shutil.copyfile(options.database, folder / "bench.db")
        queries = draw(folder / "bench.db", N_QUERIES, options.seed)
        with serving(folder) as (address, pid):
            print(json.dumps({"searches": 0, **memory(pid)}), flush=True)
            few = measure(address, pid, queries, options.few, 1)
            print(json.dumps(few), flush=True)
            many = measure(address, pid, queries, options.many, options.clients)
            print(json.dumps(many), flush=True)
    ratios = {
        name: round(float(str(many[name])) / float(str(few[name])), 2) for name in ("anonymous", "resident")
    }
    print(json.dumps({"after_to_between": ratios}))
    failed = any(set(line["statuses"]) != {200} for line in (few, many))  # type: ignore[call-overload]
    return int(failed or ratios["anonymous"] > options.most)


if __name__ == "__main__":
    os.environ.setdefault("SHOAL_LOG_LEVEL", "warning")
    sys.exit(main())
