"""Memory of the service during a large upload, and its latency for another client meanwhile.

    python -m benchmarks.upload_memory [--megabytes 1024] [--kind lines form archive]

Starts `shoal serve` on an empty database, without workers, and for each kind of body uploads that many
generated megabytes in documents of one megabyte. Another client requests a job every 20 ms, for five seconds
before and then during the upload. Prints one JSON object for each kind: seconds until the response, resident
memory before, at its peak and after (MB), and the 50th and 95th percentile and the maximum of the other
client's latency (ms), without and with the upload. Exits 1 if memory grew by 100 MB or more.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

SAMPLE = Path(__file__).parents[1] / "shoal" / "sample_corpus"
API = "/api/v1"
SHOAL = [sys.executable, "-m", "shoal.cli"]
DOCUMENT_BYTES = 1_000_000
POLL_SECONDS = 0.02
IDLE_SECONDS = 5.0
MOST_GROWN_MB = 100.0
START_SECONDS = 60.0
KINDS = ("lines", "form", "archive")


def sentences() -> list[str]:
    """Of the sample corpus."""
    texts = [path.read_text() for path in sorted(SAMPLE.iterdir()) if path.suffix in (".md", ".txt")]
    return [line for text in texts for line in text.replace(". ", ".\n").splitlines() if len(line) > 40]


def documents(n: int, n_bytes: int, seed: int = 0) -> Iterator[bytes]:
    """Distinct texts of about `n_bytes` bytes."""
    corpus, chance = sentences(), random.Random(seed)
    # Each document is another part of one long text, so that generation takes little time.
    long = "\n".join(chance.choices(corpus, k=max(5_000, n_bytes // 20)))
    for number in range(n):
        start = chance.randrange(len(long) - n_bytes)
        yield f"Document {number} of {seed}. {long[start : start + n_bytes]}".encode()


def as_lines(texts: Iterator[bytes]) -> Iterator[bytes]:
    for text in texts:
        yield json.dumps({"content": text.decode()}).encode() + b"\n"


def as_form(texts: Iterator[bytes]) -> Iterator[bytes]:
    for n, text in enumerate(texts):
        head = f'--b\r\nContent-Disposition: form-data; name="files"; filename="{n}.txt"\r\n\r\n'
        yield head.encode() + text + b"\r\n"
    yield b"--b--\r\n"


def as_archive(texts: Iterator[bytes], file: Path) -> Iterator[bytes]:
    """An uncompressed zip, so that its size is that of the texts; built before the first piece is
    requested."""
    with zipfile.ZipFile(file, "w") as archive:
        for n, text in enumerate(texts):
            archive.writestr(f"{n}.txt", text)
    return pieces(file)


def pieces(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while data := opened.read(1 << 20):
            yield data


def body_of(kind: str, n: int, scratch: Path) -> tuple[str, Iterator[bytes]]:
    texts = documents(n, DOCUMENT_BYTES, seed=KINDS.index(kind))
    if kind == "lines":
        return "application/x-ndjson", as_lines(texts)
    if kind == "form":
        return "multipart/form-data; boundary=b", as_form(texts)
    return "application/zip", as_archive(texts, scratch / "upload.zip")


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[tuple[str, int]]:
    """Run a service without workers; yields its address and the id of the serving process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with (folder / "serve.log").open("w") as log:
        command = [*SHOAL, "--db", str(folder / "bench.db"), "serve", "--port", str(port)]
        running = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + START_SECONDS
            while time.monotonic() < deadline:
                with contextlib.suppress(httpx.TransportError):
                    if httpx.get(f"{address}/health").status_code == 200:
                        break
                time.sleep(0.1)
            yield address, answering(running.pid)
        finally:
            running.terminate()
            running.wait(timeout=START_SECONDS)


def answering(pid: int) -> int:
    """The last process in the chain of child processes of `pid`."""
    while children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        pid = int(children[0])
    return pid


def resident_mb(pid: int, field: str = "VmRSS") -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split(f"{field}:")[1].split()[0]) * 1024 / 1e6


class Poller(threading.Thread):
    """A client that polls a job."""

    def __init__(self, address: str, job_id: int) -> None:
        super().__init__(daemon=True)
        self._address = f"{address}{API}/jobs/{job_id}"
        self._done = threading.Event()
        self.waited_ms: list[float] = []

    def run(self) -> None:
        with httpx.Client(timeout=60) as client:
            while not self._done.wait(POLL_SECONDS):
                began = time.perf_counter()
                client.get(self._address).raise_for_status()
                self.waited_ms.append(1000 * (time.perf_counter() - began))

    def stop(self) -> list[float]:
        self._done.set()
        self.join()
        return sorted(self.waited_ms)


def measure(kind: str, megabytes: int, scratch: Path) -> dict[str, Any]:
    n = megabytes * 1_000_000 // DOCUMENT_BYTES
    with serving(scratch) as (address, pid), httpx.Client(base_url=address, timeout=600) as client:
        content_type, body = body_of(kind, n, scratch)
        first = client.post(f"{API}/documents", json={"content": "The tide and the shore."}).json()["job"][
            "id"
        ]
        # A small upload first, so that code loaded on first use does not count as growth.
        warm = b"".join(as_lines(documents(3, DOCUMENT_BYTES, seed=99)))
        client.post(
            f"{API}/documents/bulk", content=warm, headers={"Content-Type": "application/x-ndjson"}
        ).raise_for_status()
        before = resident_mb(pid)
        poller = Poller(address, first)
        poller.start()
        time.sleep(IDLE_SECONDS)
        idle = poller.stop()
        poller = Poller(address, first)
        poller.start()
        began = time.perf_counter()
        response = client.post(f"{API}/documents/bulk", content=body, headers={"Content-Type": content_type})
        seconds = time.perf_counter() - began
        waited = poller.stop()
        response.raise_for_status()
        progress = response.json()["job"]["progress"]
        numbers = {
            "kind": kind,
            "megabytes": round(progress["bytes_total"] / 1e6),
            "documents": progress["total"],
            "failed": progress["failed"],
            "seconds": round(seconds, 1),
            "before_mb": round(before, 1),
            "peak_mb": round(resident_mb(pid, "VmHWM"), 1),
            "after_mb": round(resident_mb(pid), 1),
        }
    numbers["grown_mb"] = round(numbers["peak_mb"] - numbers["before_mb"], 1)
    numbers["polls"] = len(waited)
    shares = (("p50_ms", 0.5), ("p95_ms", 0.95), ("max_ms", 1.0))
    quantiles = {
        f"{before}{name}": round(sample[min(len(sample) - 1, int(share * len(sample)))], 1)
        for before, sample in (("idle_", idle), ("", waited))
        for name, share in shares
    }
    return numbers | quantiles


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--scratch", type=Path, help="where the database is made; default: TMPDIR")
    options = parser.parse_args()
    grown = []
    for kind in options.kind:
        with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
            numbers = measure(kind, options.megabytes, Path(scratch))
        print(json.dumps(numbers), flush=True)
        grown.append(numbers["grown_mb"])
    return int(max(grown) >= MOST_GROWN_MB)


if __name__ == "__main__":
    os.environ.setdefault("SHOAL_LOG_LEVEL", "warning")
    raise SystemExit(main())
