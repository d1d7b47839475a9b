"""Many small notes in one upload: seconds until they are accepted, and until all are stored.

    python -m benchmarks.small_notes [--notes 10000] [--bytes 1000] [--workers 2] [--broker URL]

Starts `shoal up` on an empty database and sends generated notes as NDJSON. Prints one JSON object. Exits 1
unless every note was stored.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.ingest_service import service
from benchmarks.upload_memory import as_lines, documents
from shoal.client import Client


def measure(notes: int, n_bytes: int, workers: int, broker: str | None) -> dict[str, Any]:
    lines = list(as_lines(documents(notes, n_bytes)))
    with (
        tempfile.TemporaryDirectory() as scratch,
        service(Path(scratch), workers, broker) as address,
        Client(address, timeout=600.0) as client,
    ):
        began = time.perf_counter()
        job = client.upload_documents(lines)
        accepted = time.perf_counter() - began
        job = client.wait_for_job(job)
        finished = time.perf_counter() - began
    progress = job.progress
    return {
        "broker": broker or "embedded",
        "workers": workers,
        "notes": progress.total,
        "megabytes": round(sum(map(len, lines)) / 1e6, 1),
        "accepted_seconds": round(accepted, 2),
        "finished_seconds": round(finished, 2),
        "notes_per_second": round(progress.total / finished),
        "status": job.status,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--notes", type=int, default=10_000)
    parser.add_argument("--bytes", type=int, default=1_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--broker", help="default: the embedded broker")
    options = parser.parse_args()
    numbers = measure(options.notes, options.bytes, options.workers, options.broker)
    print(json.dumps(numbers))
    return int(numbers["status"] != "succeeded")


if __name__ == "__main__":
    raise SystemExit(main())
