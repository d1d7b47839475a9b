"""How far the index of a machine is behind a running bulk upload, and how fast it answers searches meanwhile.

    python benchmarks/index_lag.py FOLDER [--database URL] [--workers 2] [--broker URL]

Runs an API and its workers on a database of its own of a PostgreSQL server, uploads the .md and .txt files of
the folder as one job, and asks `/ready` for `seconds_behind` again and again, while a client
searches. Ends when all is stored and indexed, and drops the database.

Lag: of all answers between the upload and the end of the job. Each answer measures it anew.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import httpx
import psycopg

from shoal.cli.supervisor import environment_of
from shoal.settings import Settings

PORT = 8437
URL = f"http://127.0.0.1:{PORT}"
DATABASE = "postgresql://root@127.0.0.1:5432/test"
EVERY = 0.1
"""Seconds between two measurements of the lag."""
QUERIES = (
    "whales of the southern sea",
    "a walk over the moor",
    "letters between sisters",
    "the price of bread",
    '"old man"',
    "storm and rain",
    "justice of kings",
    "an experiment with light",
)
ENDED = {"succeeded", "partial", "failed", "canceled"}
LONGEST = 1800.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, help="of .md and .txt files")
    parser.add_argument("--database", default=DATABASE, help="beside which one is made and dropped")
    parser.add_argument("--broker", default="filesystem://")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--idle", action="store_true", help="without searches")
    given = parser.parse_args()
    files = sorted(path for path in given.folder.rglob("*") if path.suffix in (".md", ".txt"))
    if not files:
        parser.error(f"there are no .md or .txt files in {given.folder}")
    # A polite end drops the database too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with new_database(given.database) as url, tempfile.TemporaryDirectory(prefix="shoal-lag-") as folder:
        settings = Settings(
            database_url=url,
            broker_url=given.broker,
            broker_queue=url.rpartition("/")[2].partition("?")[0],
            data_dir=folder,
            port=PORT,
            workers=given.workers,
            log_level="warning",
        )
        with running(settings):
            measure(files, given.workers, is_idle=given.idle)


@contextmanager
def new_database(url: str) -> Iterator[str]:
    """The URL of an empty database beside another one, dropped at the end."""
    name = f"shoal_lag_{secrets.token_hex(4)}"
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def measure(files: list[Path], n_workers: int, *, is_idle: bool) -> None:
    documents = [
        {
            "title": path.stem,
            "content": path.read_text(encoding="utf-8", errors="replace"),
            "format": "markdown" if path.suffix == ".md" else "text",
        }
        for path in files
    ]
    body = b"".join(json.dumps(document).encode() + b"\n" for document in documents)
    ending = threading.Event()
    seconds: list[float] = []
    answers: Counter[int] = Counter()
    searcher = threading.Thread(target=search, args=(ending, seconds, answers), daemon=True)
    lags: list[float] = []
    with httpx.Client(base_url=URL, timeout=60) as client:
        headers = {"Content-Type": "application/x-ndjson"}
        started = time.monotonic()
        job = client.post("/api/v1/documents/bulk", content=body, headers=headers).raise_for_status()
        number = job.json()["job"]["id"]
        if not is_idle:
            searcher.start()
        status, progress = "", {}
        while status not in ENDED and time.monotonic() - started < LONGEST:
            lags.append(lag(client))
            answer = client.get(f"/api/v1/jobs/{number}").json()
            status, progress = answer["status"], answer["progress"]
            time.sleep(EVERY)
        took = time.monotonic() - started
        while (left := lag(client)) > 0 and time.monotonic() - started < LONGEST:
            time.sleep(EVERY)
        caught_up = time.monotonic() - started - took
    ending.set()
    if not is_idle:
        searcher.join(60)
    n_bytes = sum(path.stat().st_size for path in files)
    print(
        f"{len(files)} files, {n_bytes / 1e6:.1f} MB, {n_workers} workers on PostgreSQL: {status}, "
        f"{progress['done']} of {progress['total']} in {took:.1f} s ({n_bytes / 1e6 / took:.2f} MB/s)"
    )
    print(
        f"lag of the index, s: {percentiles(lags)} ({len(lags)} measurements); "
        f"0 again {caught_up:.1f} s after the end" + (f", no: {left:.1f} s" if left > 0 else "")
    )
    if not is_idle:
        shown = ", ".join(f"{n} with {code}" for code, n in sorted(answers.items()))
        print(f"searches meanwhile, ms: {percentiles([1000 * each for each in seconds])} ({shown})")


def lag(client: httpx.Client) -> float:
    """`seconds_behind`, measured now."""
    answer = client.get("/ready").json()
    if "index" not in answer:
        raise SystemExit(f"the API follows no index: {json.dumps(answer)}")
    return float(answer["index"]["seconds_behind"])


def search(ending: threading.Event, seconds: list[float], answers: Counter[int]) -> None:
    """Search again and again, with short pauses, until the job has ended."""
    with httpx.Client(base_url=URL, timeout=60) as client:
        number = 0
        while not ending.wait(EVERY):
            started = time.perf_counter()
            body = {"query": QUERIES[number % len(QUERIES)], "top_k": 10}
            answers[client.post("/api/v1/search", json=body).status_code] += 1
            seconds.append(time.perf_counter() - started)
            number += 1


def percentiles(values: list[float]) -> str:
    cuts = statistics.quantiles(values, n=20) if len(values) > 1 else [*values] * 19
    return f"p50 {statistics.median(values):.2f}, p95 {cuts[18]:.2f}, largest {max(values):.2f}"


@contextmanager
def running(settings: Settings) -> Iterator[None]:
    """Run API and workers until the end of the block."""
    environment = {**environment_of(settings), "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = []
    try:
        for module in ("shoal_api", "shoal_worker"):
            process = subprocess.Popen(
                [sys.executable, "-m", module], env=environment, start_new_session=True
            )
            processes.append(process)
            if module == "shoal_api":
                wait_until_ready(process)
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(90)


def wait_until_ready(api: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and api.poll() is None:
        try:
            if httpx.get(f"{URL}/ready", timeout=10).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise SystemExit("the API has not become ready")


if __name__ == "__main__":
    main()
