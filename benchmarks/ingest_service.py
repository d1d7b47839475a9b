"""Bulk ingestion through the whole service: `shoal up`, `shoal upload FOLDER --wait`, then the same upload
again.

    python benchmarks/ingest_service.py FOLDER [--workers N] [--broker URL]

Prints one JSON object: documents, megabytes, seconds and MB/s of the first upload, final states of the items
    of both
uploads, and the size of the database. Exits 1 unless all items of the first upload succeeded, and all items
of the second were duplicates.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from shoal.cli.supervisor import is_ready

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
POLL_SECONDS = 0.02
SHOAL = [sys.executable, "-m", "shoal.cli"]


@dataclass(frozen=True, slots=True)
class Running:
    """A running service. `pid`: the process of `shoal up`; `ready_s`: seconds from its start to ready."""

    address: str
    pid: int
    ready_s: float


@contextlib.contextmanager
def running(folder: Path, workers: int, broker: str | None = None, /, **settings: str) -> Iterator[Running]:
    """Run `shoal up` on the database `bench.db` in `folder`, or on that of `SHOAL_DATABASE_URL`.

    `settings`: further variables.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = dict(os.environ) | settings | ({"SHOAL_BROKER_URL": broker} if broker else {})
    library = settings.get("SHOAL_DATABASE_URL", str(folder / "bench.db"))
    command = [*SHOAL, "--db", library, "up", "--port", str(port), "--workers", str(workers)]
    with (folder / "up.log").open("w") as log:
        began = time.monotonic()
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
        try:
            _wait_ready(port)
            yield Running(f"http://127.0.0.1:{port}", process.pid, time.monotonic() - began)
        finally:
            process.terminate()
            try:
                process.wait(timeout=STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                # Its children die with it.
                process.kill()
                process.wait()


@contextlib.contextmanager
def service(folder: Path, workers: int, broker: str | None, **settings: str) -> Iterator[str]:
    """Run `shoal up` as `running` does; yields its address."""
    with running(folder, workers, broker, **settings) as started:
        yield started.address


def _wait_ready(port: int) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if is_ready("127.0.0.1", port):
            return
        time.sleep(POLL_SECONDS)
    raise SystemExit("the service did not get ready")


def upload(source: Path, address: str) -> tuple[float, dict[str, int]]:
    """Seconds until the job of an upload has ended, and the number of items in each state."""
    started = time.perf_counter()
    subprocess.run(
        [*SHOAL, "upload", str(source), "--server", address, "--wait"], check=False, stdout=subprocess.DEVNULL
    )
    seconds = time.perf_counter() - started
    job = httpx.get(f"{address}/api/v1/jobs", params={"limit": 1}).json()["jobs"][0]
    return seconds, {"status": job["status"], **job["progress"]}


def measure(source: Path, workers: int, broker: str | None) -> dict[str, Any]:
    size = sum(
        path.stat().st_size for path in source.rglob("*") if path.suffix in {".md", ".markdown", ".txt"}
    )
    with tempfile.TemporaryDirectory() as scratch, service(Path(scratch), workers, broker) as address:
        seconds, first = upload(source, address)
        before = httpx.get(f"{address}/api/v1/status").json()
        again, second = upload(source, address)
        after = httpx.get(f"{address}/api/v1/status").json()
        database_mb = (
            sum(path.stat().st_size for path in Path(scratch).glob("bench.db*") if path.is_file()) / 1e6
        )
    return {
        "broker": broker or "embedded",
        "workers": workers,
        "megabytes": round(size / 1e6, 2),
        "seconds": round(seconds, 2),
        "mb_per_s": round(size / 1e6 / seconds, 2),
        "first": first,
        "again_seconds": round(again, 2),
        "again": second,
        "n_documents": [before["n_documents"], after["n_documents"]],
        "n_chunks": [before["n_chunks"], after["n_chunks"]],
        "database_mb": round(database_mb, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--broker", help="for example redis://127.0.0.1:6379/14; default: the embedded broker"
    )
    options = parser.parse_args()
    numbers = measure(options.folder.resolve(), options.workers, options.broker)
    print(json.dumps(numbers))
    stored_all = numbers["first"]["status"] == "succeeded" and not numbers["first"]["duplicate"]
    nothing_new = (
        numbers["again"]["duplicate"] == numbers["again"]["total"] and len(set(numbers["n_chunks"])) == 1
    )
    return int(not (stored_all and nothing_new))


if __name__ == "__main__":
    raise SystemExit(main())
