"""How soon a bulk upload is searchable and how soon it is embedded, and how fast searches are meanwhile.

    python -m benchmarks.embedding FOLDER --encoder ENCODER [--workers N] [--searches N]

Runs `shoal up` with vectors on an empty library, uploads the files of FOLDER in bulk, and searches while the
workers embed the passages, and for half a minute when they are done. ENCODER is a value of SHOAL_ENCODER.
Prints one JSON object: seconds from the first byte sent until the job is done, which is when its documents
are found by words and reefs, and until every passage has a vector; passages embedded in a second; and the
50th and 95th percentile of the searches in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.ingest_service import service
from benchmarks.workers import files_of, queries_of, searching
from shoal.client import Client

POLL_SECONDS = 0.5
AFTER_SECONDS = 30.0
"""How long searches are measured after the last passage has its vector."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--searches", type=int, default=200, help="number of different queries (default 200)")
    options = parser.parse_args()
    files = files_of(options.folder)
    queries = queries_of(files, options.searches)
    settings = {"SHOAL_ENCODER": options.encoder, "SHOAL_EMBED": "1"}
    with (
        tempfile.TemporaryDirectory() as scratch,
        service(Path(scratch), options.workers, None, **settings) as address,
        Client(address, patience=600) as client,
    ):
        began = time.perf_counter()
        job = client.wait_for_job(client.upload(files))
        if not job.succeeded:
            raise SystemExit(f"the job ended as {job.status}: {job.error}")
        searchable_s = time.perf_counter() - began
        with searching(address, queries) as during:
            while client.status().n_chunks_to_embed:
                time.sleep(POLL_SECONDS)
            embedded_s = time.perf_counter() - began
        with searching(address, queries) as after:
            time.sleep(AFTER_SECONDS)
        n_chunks = client.status().n_embedded_chunks
    size = sum(file.size for file in files)
    print(
        json.dumps(
            {
                "documents": len(files),
                "megabytes": round(size / 1e6, 1),
                "passages": n_chunks,
                "workers": options.workers,
                "searchable_s": round(searchable_s, 1),
                "embedded_s": round(embedded_s, 1),
                "passages_per_s": round(n_chunks / (embedded_s - searchable_s), 1),
                "during": percentiles(during),
                "after": percentiles(after),
            }
        )
    )


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Number, and percentiles in milliseconds."""
    cuts = statistics.quantiles(seconds, n=20)
    return {
        "searches": len(seconds),
        "p50_ms": round(1000 * statistics.median(seconds), 1),
        "p95_ms": round(1000 * cuts[-1], 1),
    }


if __name__ == "__main__":
    main()
