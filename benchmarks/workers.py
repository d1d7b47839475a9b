"""Check that the library does not depend on store, broker, workers or order, and measure how fast each is.

    python -m benchmarks.workers FOLDER [--workers 1 2 4] [--wave-mb 64 4] [--redis URL] [--rabbitmq URL]
        [--postgresql URL] [--searches N]

Every run starts `shoal up` on an empty library, uploads the files of FOLDER in bulk, searches while the job
runs and after it, and runs `shoal export --canonical`. For each wave size there are runs for every number of
workers on the embedded broker, the same on Redis (a separate redis-server, unless --redis names one) and on
RabbitMQ (--rabbitmq), and one run with the documents of each wave in another order; all that on SQLite and,
with --postgresql, in a schema of its own in that database, which is dropped afterwards. Prints a line of JSON
for each run: seconds from the first byte sent to the end of the job, MB/s, searches in a second by one client
after the job, p95 of searches during and after it in milliseconds, and the SHA-256 of the export; finally
whether the exports agree for each wave size. Exits 1 unless they do.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import json
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.ingest_service import SHOAL, service
from shoal.cli.documents import find_files
from shoal.client import Client, UploadFile
from shoal.support.byte_units import MIB

START_SECONDS = 30.0
BETWEEN_SEARCHES_S = 0.05
"""Pause between two searches during an upload, so that they measure it and do not compete with it."""
QUERY_WORDS = 4


@dataclass(frozen=True, slots=True)
class Run:
    """Configuration of a run; `turned` sends the documents of every wave in another order."""

    wave_mb: int
    store: str
    broker: str
    workers: int
    turned: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a run. `waves`: number of waves of the upload; milliseconds: of one search over HTTP."""

    documents: int
    waves: int
    seconds: float
    mb_per_s: float
    searches_per_s: float
    p95_ms: float
    p95_ms_during_upload: float
    sha256: str


def runs(
    wave_mb: Sequence[int], stores: Sequence[str], brokers: Sequence[str], workers: Sequence[int]
) -> Iterator[Run]:
    for size, store in itertools.product(wave_mb, stores):
        for broker in brokers:
            yield from (Run(size, store, broker, n) for n in workers)
        yield Run(size, store, brokers[0], max(workers), turned=True)


def files_of(folder: Path) -> list[UploadFile]:
    """Files of a folder that can be uploaded, without those of folders in it."""
    return [
        UploadFile.of(file.path, file.path.name) for file in find_files(folder.resolve(), recursive=False)
    ]


def waves_of(files: Sequence[UploadFile], wave_bytes: int) -> list[list[UploadFile]]:
    """Waves of an upload: each ends with the document that makes it reach `wave_bytes`."""
    waves: list[list[UploadFile]] = []
    filled = wave_bytes
    for file in files:
        if filled >= wave_bytes:
            waves.append([])
            filled = 0
        waves[-1].append(file)
        filled += file.size
    return waves


def turned(files: Sequence[UploadFile], wave_bytes: int) -> list[UploadFile]:
    """Files with another order within every wave, so that the waves have the same files."""
    order: list[UploadFile] = []
    for wave in waves_of(files, wave_bytes):
        # The document that completes a wave must stay the last.
        full = sum(file.size for file in wave) >= wave_bytes
        order += [*reversed(wave[:-1]), wave[-1]] if full else list(reversed(wave))
    as_before = [{file.name for file in wave} for wave in waves_of(files, wave_bytes)]
    assert [{file.name for file in wave} for wave in waves_of(order, wave_bytes)] == as_before
    return order


def measure(run: Run, files: Sequence[UploadFile], addresses: Mapping[str, str], n_searches: int) -> Result:
    wave_bytes = run.wave_mb * MIB
    sent = turned(files, wave_bytes) if run.turned else list(files)
    queries = queries_of(files, n_searches)
    settings = {"SHOAL_WAVE_BYTES": str(wave_bytes)}
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        folder = Path(scratch)
        library = str(folder / "bench.db")
        if run.store == "postgresql":
            library = stack.enter_context(own_schema(addresses["postgresql"]))
            settings |= {"SHOAL_DATABASE_URL": library, "SHOAL_DATA_DIR": str(folder / "data")}
        with (
            service(folder, run.workers, addresses.get(run.broker), **settings) as address,
            Client(address, patience=600) as client,
        ):
            with searching(address, queries) as during:
                began = time.perf_counter()
                job = client.upload(sent)
                job = client.wait_for_job(job)
                seconds = time.perf_counter() - began
            after = [timed_search(client, query) for query in queries]
        if not job.succeeded:
            raise SystemExit(f"the job ended as {job.status}: {job.error}")
        exported = folder / "export.jsonl"
        command = [*SHOAL, "--db", library, "export", "--canonical", str(exported)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with exported.open("rb") as lines:
            digest = hashlib.file_digest(lines, "sha256").hexdigest()
    size = sum(file.size for file in files)
    return Result(
        documents=len(files),
        waves=len(waves_of(files, wave_bytes)),
        seconds=round(seconds, 2),
        mb_per_s=round(size / 1e6 / seconds, 2),
        searches_per_s=round(len(after) / sum(after), 1),
        p95_ms=_p95_ms(after),
        p95_ms_during_upload=_p95_ms(during),
        sha256=digest,
    )


def queries_of(files: Sequence[UploadFile], n: int) -> list[str]:
    """Queries of words that stand side by side, from places spread evenly over the files."""
    texts = [file.path.read_text("utf-8", "replace") for file in files]
    words = re.findall(r"[A-Za-z]{4,}", " ".join(texts))
    step = max(len(words) // max(n, 1), 1)
    return [" ".join(words[i : i + QUERY_WORDS]) for i in range(0, len(words), step)][:n]


def timed_search(client: Client, query: str) -> float:
    """Seconds of a search."""
    began = time.perf_counter()
    client.search(query)
    return time.perf_counter() - began


@contextlib.contextmanager
def searching(address: str, queries: Sequence[str]) -> Iterator[list[float]]:
    """Search again and again while the block runs; the list receives the seconds of each search."""
    taken: list[float] = []
    is_over = threading.Event()

    def search() -> None:
        with Client(address, patience=600) as client:
            for query in itertools.cycle(queries):
                if is_over.wait(BETWEEN_SEARCHES_S):
                    return
                taken.append(timed_search(client, query))

    thread = threading.Thread(target=search)
    if queries:
        thread.start()
    try:
        yield taken
    finally:
        is_over.set()
        if queries:
            thread.join()


def _p95_ms(seconds: Sequence[float]) -> float:
    return round(statistics.quantiles(seconds, n=20)[-1] * 1000, 1) if len(seconds) > 1 else 0.0


@contextlib.contextmanager
def own_schema(url: str) -> Iterator[str]:
    """Address of a library in a new schema of a PostgreSQL database; the schema is dropped at the end."""
    import psycopg

    schema = f"bench_{uuid.uuid4().hex[:12]}"
    try:
        yield f"{url}{'&' if '?' in url else '?'}schema={schema}"
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            for name in (schema, f"{schema}_catalog"):
                connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")


@contextlib.contextmanager
def redis_server() -> Iterator[str | None]:
    """Address of a separate redis-server, None if redis-server is not installed."""
    program = shutil.which("redis-server")
    if program is None:
        yield None
        return
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
        running = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
        try:
            _wait_for(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            running.terminate()
            running.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise SystemExit("redis-server did not start")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--wave-mb", type=int, nargs="+", default=[64, 4])
    parser.add_argument(
        "--redis", help="default: a redis-server that is started for it, where one is installed"
    )
    parser.add_argument("--rabbitmq", help="such as amqp://guest:guest@127.0.0.1:5672//")
    parser.add_argument("--postgresql", help="such as postgresql://postgres@127.0.0.1:5432/test")
    parser.add_argument("--searches", type=int, default=200, help="number of queries (default 200)")
    options = parser.parse_args()
    files = files_of(options.folder)
    given = {name: getattr(options, name) for name in ("redis", "rabbitmq", "postgresql")}
    digests: dict[int, set[str]] = {size: set() for size in options.wave_mb}
    with contextlib.nullcontext(options.redis) if options.redis else redis_server() as redis:
        addresses = {name: url for name, url in (given | {"redis": redis}).items() if url}
        for name in given.keys() - addresses.keys():
            print(f"no {name}: no address was given, and it was not started", file=sys.stderr)
        brokers = ["embedded", *(name for name in ("redis", "rabbitmq") if name in addresses)]
        stores = ["sqlite", *(name for name in ("postgresql",) if name in addresses)]
        for run in runs(options.wave_mb, stores, brokers, options.workers):
            result = measure(run, files, addresses, options.searches)
            digests[run.wave_mb].add(result.sha256)
            print(json.dumps(asdict(run) | asdict(result)), flush=True)
    agreed = {size: len(exports) == 1 for size, exports in digests.items()}
    print(json.dumps({"agree": agreed}))
    return int(not all(agreed.values()))


if __name__ == "__main__":
    raise SystemExit(main())
