"""Latency and throughput of searches over HTTP.

usage: python benchmarks/search_latency.py DATABASE|FOLDER... [--queries FILE.jsonl] [--n 200] [--upload
    FOLDER] [--seed 1]

Starts `shoal up` with one worker on a copy of a library, or on one built from folders of texts. Queries are
the `text` of each line of FILE, or runs of two to eight words of the library's passages. Prints for each mode
the median and 95th percentile in milliseconds with one client, and requests a second with eight; with
--upload the same for hybrid while that folder is ingested; and the load of the machine before, because other
work slows everything down.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx

from benchmarks.ingest_service import SHOAL, service
from shoal.storage.database import Snapshot

MODES = ("hybrid", "reef", "lexical")
CLIENTS = 8
WARM_UP = 20
SECONDS = 10.0
WORD = re.compile(r"[^\W_]+")


def draw(database: Path, n: int, seed: int) -> list[str]:
    """Queries of a library on SQLite."""
    from shoal.storage.opening import open_database

    opened = open_database(f"sqlite:///{database}")
    with opened.snapshot() as snapshot:
        queries = draw_from(snapshot, n, seed)
    opened.close()
    return queries


def draw_from(snapshot: Snapshot, n: int, seed: int) -> list[str]:
    """Runs of words of random passages, without the line breaks between them."""
    generator = random.Random(seed)
    ids = [row[0] for row in snapshot.tuples("SELECT id FROM chunks ORDER BY id")]
    texts = [
        snapshot.value("SELECT text FROM chunks WHERE id = :id", {"id": chunk_id})
        for chunk_id in generator.choices(ids, k=n)
    ]
    queries = []
    for text in texts:
        words = WORD.findall(text)
        start = generator.randrange(max(1, len(words) - 8))
        queries.append(" ".join(words[start : start + generator.randint(2, 8)]) or "rain")
    return queries


def ask(client: httpx.Client, query: str, mode: str) -> float:
    """Milliseconds until the response is complete."""
    began = time.perf_counter()
    response = client.post("/api/v1/search", json={"query": query, "mode": mode})
    milliseconds = 1000 * (time.perf_counter() - began)
    response.raise_for_status()
    return milliseconds


def percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    in_order = sorted(milliseconds)
    if not in_order:
        return {"n": 0}
    return {
        "p50_ms": round(statistics.median(in_order), 1),
        "p95_ms": round(in_order[int(0.95 * (len(in_order) - 1))], 1),
        "n": len(in_order),
    }


def throughput(address: str, queries: Sequence[str], mode: str) -> float:
    """Requests a second with several clients."""
    deadline = time.perf_counter() + SECONDS

    def work(start: int) -> int:
        done = 0
        with httpx.Client(base_url=address, timeout=60) as client:
            while time.perf_counter() < deadline:
                ask(client, queries[(start + done) % len(queries)], mode)
                done += 1
        return done

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        began = time.perf_counter()
        done = sum(pool.map(work, range(0, len(queries), max(1, len(queries) // CLIENTS))))
        return done / (time.perf_counter() - began)


def while_uploading(address: str, folder: Path, measure: Callable[[], float]) -> list[float]:
    """Measure repeatedly until the upload is ingested."""
    command = [*SHOAL, "upload", str(folder), "--server", address, "--wait"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as upload:
        latencies = []
        while upload.poll() is None:
            latencies.append(measure())
    return latencies


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", type=Path, nargs="+")
    parser.add_argument("--queries", type=Path)
    parser.add_argument("--upload", type=Path)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        database = folder / "bench.db"
        if options.sources[0].is_file():
            shutil.copyfile(options.sources[0], database)
        else:
            for source in options.sources:
                command = [*SHOAL, "--db", str(database), "ingest-dir", str(source)]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        if options.queries:
            lines = options.queries.read_text(encoding="utf-8").splitlines()
            queries = [json.loads(line)["text"] for line in lines][: options.n]
        else:
            queries = draw(database, options.n, options.seed)
        _measure(folder, queries, options.upload)


def _measure(folder: Path, queries: Sequence[str], upload: Path | None) -> None:
    with (
        service(folder, workers=1, broker=None) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        status = client.get("/api/v1/status").json()
        load = [round(average, 1) for average in os.getloadavg()]
        print(
            json.dumps(
                {"chunks": status["n_chunks"], "queries": len(queries), "cores": os.cpu_count(), "load": load}
            )
        )
        for mode in MODES:
            for query in queries[:WARM_UP]:
                ask(client, query, mode)
            line: dict[str, Any] = {
                "mode": mode,
                **percentiles([ask(client, query, mode) for query in queries]),
            }
            line[f"per_s_with_{CLIENTS}"] = round(throughput(address, queries, mode), 1)
            print(json.dumps(line), flush=True)
        if upload is not None:
            turn = iter(range(sys.maxsize))
            latencies = while_uploading(
                address, upload, lambda: ask(client, queries[next(turn) % len(queries)], "hybrid")
            )
            print(json.dumps({"mode": "hybrid", "while": "a bulk job runs", **percentiles(latencies)}))


if __name__ == "__main__":
    main()
