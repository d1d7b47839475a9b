"""What 10,000 collections cost: creating them, the start of API and worker, memory, open files, and requests.

`python benchmarks/many_collections.py [--collections 10000] [--folder FOLDER]`. Each collection is an empty
file of 0.7 MB, so the folder needs 7 GB.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from shoal.cli.supervisor import environment_of
from shoal.collections.registry import Registry
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.opening import open_database

PORT = 8423
TOUCHED = 500
"""Collections that are searched once."""
UPLOADED = 50
"""Collections that get a document each."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collections", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, help="where the files go; default: a temporary folder")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="shoal-collections-", dir=given.folder))
    settings = Settings(database_url=f"sqlite:///{folder}/shoal.db", port=PORT, log_level="warning")
    try:
        measure(settings, given.collections)
    finally:
        shutil.rmtree(folder)


def measure(settings: Settings, n_collections: int) -> None:
    main_database = open_database(settings.database_url)
    migrate.upgrade(main_database)
    main_database.close()
    with service(settings) as (api, worker, seconds):
        report("with main alone", api, worker, seconds)
    registry = Registry(settings)
    names = [f"c{i}" for i in range(n_collections)]
    started = time.perf_counter()
    for name in names:
        registry.create(name)
    seconds = time.perf_counter() - started
    print(f"created {n_collections:,} collections: {1000 * seconds / n_collections:.1f} ms each", flush=True)
    chosen = random.Random(1).sample(names, min(TOUCHED, n_collections))
    with service(settings) as (api, worker, seconds):
        report(f"with {n_collections:,} collections", api, worker, seconds)
        with httpx.Client(base_url=f"http://127.0.0.1:{PORT}") as client:
            first = [timed(client, f"/api/v1/collections/{name}/search?q=rain") for name in chosen]
            again = [timed(client, f"/api/v1/collections/{chosen[-1]}/search?q=rain") for _ in chosen]
            of_main = [timed(client, "/api/v1/search?q=rain") for _ in chosen]
            page = [timed(client, f"/api/v1/collections?limit=100&offset={i * 90}") for i in range(100)]
            for label, values in (
                ("first search in a collection", first),
                ("search in an open collection", again),
                ("search in main", of_main),
                ("page of 100 collections", page),
            ):
                ms = sorted(1000 * value for value in values)
                print(f"{label}: median {statistics.median(ms):.1f} ms, p95 {ms[int(0.95 * len(ms))]:.1f} ms")
            report(f"after searches in {len(chosen)} collections", api, worker, None)
            started = time.perf_counter()
            for name in chosen[:UPLOADED]:
                body = {"content": f"Rain and storm over {name}.", "title": name}
                client.post(f"/api/v1/collections/{name}/documents", json=body).raise_for_status()
            accepted = time.perf_counter() - started
            waiting = set(chosen[:UPLOADED])
            while waiting and time.perf_counter() - started < 120:
                for name in sorted(waiting):
                    if client.get(f"/api/v1/collections/{name}").json()["n_documents"]:
                        waiting.discard(name)
                time.sleep(0.05)
            print(
                f"{UPLOADED} collections with a document each: accepted in {accepted:.1f} s, "
                f"all stored after {time.perf_counter() - started:.1f} s, {len(waiting)} missing"
            )
            report("after the uploads", api, worker, None)
    registry.close()


def timed(client: httpx.Client, path: str) -> float:
    started = time.perf_counter()
    client.get(path).raise_for_status()
    return time.perf_counter() - started


@contextmanager
def service(settings: Settings) -> Iterator[tuple[int, int, float]]:
    """Run API and worker; their pids, and the seconds until the API is ready."""
    environment = {**environment_of(settings), "PYTHONPATH": os.pathsep.join(sys.path)}
    started = time.perf_counter()
    api, worker = (
        subprocess.Popen([sys.executable, "-m", module], env=environment, start_new_session=True)
        for module in ("shoal_api", "shoal_worker")
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{PORT}") as client:
            while True:
                try:
                    if client.get("/ready").status_code == 200:
                        break
                except httpx.TransportError:
                    pass
                time.sleep(0.02)
        seconds = time.perf_counter() - started
        time.sleep(6)
        yield api.pid, worker.pid, seconds
    finally:
        for process in (api, worker):
            process.send_signal(signal.SIGTERM)
        for process in (api, worker):
            process.wait(60)


def report(when: str, api: int, worker: int, seconds: float | None) -> None:
    ready = "" if seconds is None else f"API ready after {seconds:.1f} s; "
    children = descendants(worker)
    print(
        f"{when}: {ready}API {memory(api):.0f} MB private, {files(api)} open files; "
        f"worker processes {sum(map(memory, children)):.0f} MB, {sum(map(files, children))} open files",
        flush=True,
    )


def descendants(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in listed for each in descendants(int(child)))]


def memory(pid: int) -> float:
    """Private memory, MB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_")) / 1000


def files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


if __name__ == "__main__":
    main()
