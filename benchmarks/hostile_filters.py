"""What searches with hostile filters leave behind: the cost of a later search, memory, and the latency of
`/health`.

    python -m benchmarks.hostile_filters [--documents 1000] [--requests 1000] [--clients 4] [--seconds 600]

Starts `shoal serve` on a library of generated documents. Measures a search with 64 conditions that no request
had before, then sends the hostile requests from several clients on the loopback: 256 distinct conditions,
long lists of values, and conditions on keys of the metadata that no document has. `GET /health` is requested
ten times a second meanwhile. Prints one JSON object: the median time of a search with 64 and with 256
conditions before and after (seconds), their ratio, the percentiles of `/health` (ms), the statuses of the
responses, the resident memory before, after a tenth and after all of the requests (MB), and the time and the
failed searches of a batch of 100 searches with 256 conditions each.

`--seconds`: the hostile requests end after this time at the latest. Exits 1 if a search with 64 conditions
costs more than 1.5 times as much as before, if memory grew by 50 MB or more after the first tenth, or if the
99th percentile of `/health` is 500 ms or more.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from benchmarks.hostile_clients import MOST_P99_MS, probe
from benchmarks.upload_memory import API, resident_mb, serving
from shoal.engine import Engine

SEED = 3
MOST_RATIO = 1.5
MOST_GROWN_MB = 50.0
MEASURED = 15
"""Searches whose median is printed."""
TIMEOUT_SECONDS = 600.0

_numbers = itertools.count(1)
"""Each condition compares with a number of its own."""


def build(path: Path, n_documents: int) -> None:
    drawn = random.Random(SEED)
    with Engine(db_path=path) as engine:
        engine.ingest_many(
            {
                "title": f"Report {i}",
                "content": f"Report {i} on tides, bees and the price of labour: {drawn.random()}.",
                "metadata": {"rank": drawn.random(), "author": f"Person {drawn.randint(1, 500)}"},
            }
            for i in range(n_documents)
        )


def conditions(n: int) -> str:
    return " OR ".join(f"rank < {next(_numbers) / 1e9:.9f}" for _ in range(n))


def lists() -> str:
    values = ", ".join(f'"Person {next(_numbers)} of a long list"' for _ in range(6_000))
    return f"author IN [{values}]"


def unknown_keys() -> str:
    return " OR ".join(f"key{next(_numbers)} = 1" for _ in range(64))


HOSTILE = (lambda: conditions(256), lists, unknown_keys)


def search(client: httpx.Client, expression: str) -> httpx.Response:
    body = {"query": "tides and bees", "top_k": 3, "filter": expression}
    return client.post(f"{API}/search", json=body)


def seconds_of(client: httpx.Client, n_conditions: int, n: int) -> float:
    """The median time of searches with new conditions."""
    times = []
    for _ in range(n):
        expression = conditions(n_conditions)
        began = time.perf_counter()
        search(client, expression)
        times.append(time.perf_counter() - began)
    return round(statistics.median(times), 3)


class Clients:
    """Clients that send hostile requests in turns."""

    def __init__(self, address: str, n_clients: int, seconds: float) -> None:
        self._address, self._until = address, time.time() + seconds
        self._lock = threading.Lock()
        self._n_clients = n_clients
        self.responses: Counter[str] = Counter()

    def send(self, n: int) -> None:
        """Send `n` requests, and return after the last response."""
        left = iter(range(n))
        threads = [threading.Thread(target=self._send, args=(left,)) for _ in range(self._n_clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _send(self, left: Iterator[int]) -> None:
        with httpx.Client(base_url=self._address, timeout=TIMEOUT_SECONDS) as client:
            while time.time() < self._until:
                with self._lock:
                    number = next(left, None)
                    if number is None:
                        return
                    expression = HOSTILE[number % len(HOSTILE)]()
                status = str(search(client, expression).status_code)
                with self._lock:
                    self.responses[status] += 1


def batch_of(client: httpx.Client) -> dict[str, Any]:
    searches = [{"query": "tides", "top_k": 1, "filter": conditions(256)} for _ in range(100)]
    began = time.perf_counter()
    response = client.post(f"{API}/search/batch", json={"searches": searches})
    seconds = round(time.perf_counter() - began, 1)
    answers = response.json().get("answers", [])
    return {
        "seconds": seconds,
        "failed": sum(bool(answer.get("problem")) for answer in answers),
        "n": len(answers),
    }


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    build(folder / "bench.db", options.documents)
    with serving(folder) as (address, pid), httpx.Client(base_url=address, timeout=TIMEOUT_SECONDS) as client:
        seconds_of(client, 64, 2 * MEASURED)  # opens the index, and warms the process
        first_64, first_256 = seconds_of(client, 64, MEASURED), seconds_of(client, 256, 5)
        memory = [resident_mb(pid)]
        clients = Clients(address, options.clients, options.seconds)
        tenth = options.requests // 10
        latencies: list[float] = []
        failures: Counter[str] = Counter()
        for n in (tenth, options.requests - tenth):
            hostile = threading.Thread(target=clients.send, args=(n,))
            hostile.start()
            while hostile.is_alive():
                times, failed = probe(address, time.time() + 1)
                latencies += times
                failures += failed
            memory.append(resident_mb(pid))
        last_64, last_256 = seconds_of(client, 64, MEASURED), seconds_of(client, 256, 5)
        percentiles = statistics.quantiles(latencies, n=100, method="inclusive")
        return {
            "hostile_responses": dict(clients.responses),
            "64_conditions_s": [first_64, last_64],
            "256_conditions_s": [first_256, last_256],
            "ratio": round(last_64 / first_64, 2),
            "health_p50_ms": round(percentiles[49], 1),
            "health_p99_ms": round(percentiles[98], 1),
            "health_failures": dict(failures),
            "resident_mb": [round(each) for each in memory],
            "batch": batch_of(client),
        }


def main() -> int:
    """Run the attack and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=1_000)
    parser.add_argument("--requests", type=int, default=1_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=600.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        row = measure(options, Path(scratch))
    print(json.dumps(row))
    grown = row["resident_mb"][2] - row["resident_mb"][1]
    return int(row["ratio"] > MOST_RATIO or grown >= MOST_GROWN_MB or row["health_p99_ms"] >= MOST_P99_MS)


if __name__ == "__main__":
    sys.exit(main())
