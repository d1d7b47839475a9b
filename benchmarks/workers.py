"""Check that the library does not depend on the number of workers, the broker or the order within a wave.

    python -m benchmarks.workers FOLDER [--workers 1 2 4] [--wave-mb 64 4] [--redis URL]

Every run starts `shoal up` on an empty database, uploads the files of FOLDER in bulk, and runs `shoal export
--canonical` when the job has ended. For each wave size there are runs for every number of workers on the
embedded broker, the same on Redis (a separate redis-server, unless --redis names one), and one run with the
documents of each wave in another order. Prints a line of JSON for each run: seconds from the first byte sent
to the end of the job, MB/s and the SHA-256 of the export; finally whether these agree for each wave size.
Exits 1 unless they do.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.ingest_service import SHOAL, service
from shoal.cli.folder_ingest import find_files
from shoal.client import Client, UploadFile
from shoal.settings import MIB

START_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Run:
    """Configuration of a run; `turned` sends the documents of every wave in another order."""

    wave_mb: int
    broker: str
    workers: int
    turned: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a run. `waves`: number of waves of the upload."""

    documents: int
    waves: int
    seconds: float
    mb_per_s: float
    sha256: str


def runs(wave_mb: Sequence[int], workers: Sequence[int], brokers: Sequence[str]) -> Iterator[Run]:
    for size in wave_mb:
        for broker in brokers:
            yield from (Run(size, broker, n) for n in workers)
        yield Run(size, brokers[0], max(workers), turned=True)


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


def measure(run: Run, files: Sequence[UploadFile], redis: str | None) -> Result:
    wave_bytes = run.wave_mb * MIB
    sent = turned(files, wave_bytes) if run.turned else list(files)
    broker = redis if run.broker == "redis" else None
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with (
            service(folder, run.workers, broker, SHOAL_WAVE_BYTES=str(wave_bytes)) as address,
            Client(address, patience=600) as client,
        ):
            began = time.perf_counter()
            job = client.upload(sent)
            job = client.wait_for_job(job)
            seconds = time.perf_counter() - began
        if not job.succeeded:
            raise SystemExit(f"the job ended as {job.status}: {job.error}")
        exported = folder / "export.jsonl"
        command = [*SHOAL, "--db", str(folder / "bench.db"), "export", "--canonical", str(exported)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with exported.open("rb") as lines:
            digest = hashlib.file_digest(lines, "sha256").hexdigest()
    size = sum(file.size for file in files)
    n_waves = len(waves_of(files, wave_bytes))
    return Result(len(files), n_waves, round(seconds, 2), round(size / 1e6 / seconds, 2), digest)


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
    options = parser.parse_args()
    files = [
        UploadFile.of(file.path, file.path.name)
        for file in find_files(options.folder.resolve(), recursive=False)
    ]
    digests: dict[int, set[str]] = {size: set() for size in options.wave_mb}
    with contextlib.nullcontext(options.redis) if options.redis else redis_server() as redis:
        brokers = ["embedded", "redis"] if redis else ["embedded"]
        if redis is None:
            print("no Redis: there is no redis-server on this machine", file=sys.stderr)
        for run in runs(options.wave_mb, options.workers, brokers):
            result = measure(run, files, redis)
            digests[run.wave_mb].add(result.sha256)
            print(json.dumps(asdict(run) | asdict(result)), flush=True)
    agreed = {size: len(exports) == 1 for size, exports in digests.items()}
    print(json.dumps({"agree": agreed}))
    return int(not all(agreed.values()))


if __name__ == "__main__":
    raise SystemExit(main())
