"""Latency of `/health` during attacks by hostile clients.

    python -m benchmarks.hostile_clients DATABASE [--seconds 60] [--attack NAME ...]

Starts `shoal serve` on a copy of a library. For each attack, a separate process runs the clients for the
given time, while `GET /health` is requested on a new connection ten times a second. Prints one JSON object
for each attack: the 50th and 99th percentile and the maximum of the response time (ms), failed responses,
    responses to the hostile clients,
and resident memory before and after (MB). Exits 1 if a 99th percentile is 500 ms or more.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import io
import itertools
import json
import multiprocessing
import os
import shutil
import socket
import statistics
import sys
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

from benchmarks.upload_memory import API, resident_mb, serving

PROBE_SECONDS = 0.1
MOST_P99_MS = 500.0
TIMEOUT_SECONDS = 60.0
COMMON = (
    "the of and to in a is that was for it with as his on be at by had not are but from or have an they "
    "which "
    "one you"
)

Responses = Counter[str]
Attack = Callable[[str, float], Responses]


def _connect(address: str) -> socket.socket:
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=TIMEOUT_SECONDS)


def _trickle(n: int, head: bytes, drop: bytes, every: float) -> Attack:
    """Open `n` connections that send `head` and then `drop` repeatedly; closed connections are replaced."""

    def attack(address: str, until: float) -> Responses:
        responses: Responses = Counter()
        clients: list[socket.socket] = []
        while time.time() < until:
            while len(clients) < n:
                clients.append(_connect(address))
                clients[-1].setblocking(False)
                clients[-1].send(head)
            for client in list(clients):
                try:
                    client.send(drop)
                    ended = client.recv(4096)
                except BlockingIOError:
                    continue
                except OSError:
                    ended = b""
                responses[ended[9:12].decode() or "closed"] += 1
                clients.remove(client)
                client.close()
            time.sleep(every)
        return responses

    return attack


def _silent(address: str, until: float) -> Responses:
    """Keep two hundred connections open that never send a byte, ten new ones a second."""
    clients: list[socket.socket] = []
    opened = 0
    while time.time() < until:
        for _ in range(200 if not clients else 10):
            clients.append(_connect(address))
            opened += 1
        for client in clients[:-200]:
            client.close()
        clients = clients[-200:]
        time.sleep(1.0)
    return Counter(opened=opened)


def _repeated(n: int, requests: Callable[[], Iterator[dict[str, Any]]]) -> Attack:
    """Run `n` clients that send these requests in a loop."""

    def attack(address: str, until: float) -> Responses:
        responses: Responses = Counter()

        def client(start: int) -> None:
            with httpx.Client(base_url=address, timeout=TIMEOUT_SECONDS) as session:
                for request in itertools.islice(requests(), start, None):
                    if time.time() >= until:
                        return
                    try:
                        responses[str(session.request("POST", **request).status_code)] += 1
                    except httpx.TransportError as error:
                        responses[type(error).__name__] += 1

        threads = [threading.Thread(target=client, args=(start,)) for start in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return responses

    return attack


def _worst_searches() -> Iterator[dict[str, Any]]:
    words = COMMON.split()
    queries = [
        COMMON,
        " ".join(f'"{first} {second}"' for first, second in itertools.pairwise(words)),
        '"' + " ".join(["a"] * 2_000) + '"',
        "-".join(["a"] * 2_000),
        '"' + "of the " * 16 + '"',
        " ".join(f"-{word}" for word in words),
        f"{COMMON} title:the",
    ]
    for number in itertools.count():
        query = queries[number % len(queries)]
        path = f"{API}/explain" if number % 3 == 2 else f"{API}/search"
        more = {} if path.endswith("explain") else {"top_k": 100, "include_scores": True, "context": 2}
        yield {"url": path, "json": {"query": query[:4096], **more}}


def _worst_uploads() -> Iterator[dict[str, Any]]:
    escaped = b'{"content": "' + b"\\u0041b " * 4_000_000 + b'"}'
    hostile = json.dumps(
        {"content": "---\n" + "# " * 34 + "\n!\n---\nx " + "== a" + "_" * 200_000 + "b =="}
    ).encode()
    latin = (
        "Caf\u00e9 cr\u00e8me br\u00fbl\u00e9e \u0142\u00f3d\u017a. ".encode("utf-8")
        .decode("latin-1")
        .encode("cp1250", "ignore")
    )
    lines = b'{"content": "a line that is a document"}\n{"tags": [1, 1, 1]}\n' * 100_000
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(20_000):
            archive.writestr(f"{number}.md", "---\ntitle: x\n---\ntext")
        archive.writestr("large.txt", latin * 200_000)
    bodies = [
        (f"{API}/documents", "application/json", escaped),
        (f"{API}/documents", "application/json", hostile),
        (f"{API}/documents", "application/json", b'{"content": "x", "tags": [' + b"1," * 1_000_000 + b"1]}"),
        (
            f"{API}/documents",
            "application/json",
            b'{"content": "x", "metadata": {"a": [' + b"[]," * 5_000_000 + b"[]]}}",
        ),
        (f"{API}/documents/bulk", "application/x-ndjson", lines),
        (f"{API}/documents/bulk", "application/zip", buffer.getvalue()),
        (
            f"{API}/documents/bulk",
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\n'
            + latin * 400_000
            + b"\r\n--b--\r\n",
        ),
    ]
    for number in itertools.count():
        url, content_type, body = bodies[number % len(bodies)]
        yield {"url": url, "content": body, "headers": {"Content-Type": content_type}}


HEAD = (
    f"POST {API}/documents HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Content-Length: 100000\r\n\r\n"
)
CHUNKED = (
    f"POST {API}/documents/bulk HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    "Transfer-Encoding: chunked\r\n\r\n"
)
ATTACKS: dict[str, Attack] = {
    "nobody": lambda _address, until: time.sleep(max(0.0, until - time.time())) or Counter(),
    "50 slow bodies": _trickle(50, HEAD.encode(), b" ", 1.0),
    "60 slow heads": _trickle(60, b"GET /health HTTP/1.1\r\nHost: ", b"a", 1.0),
    "8 bodies in chunks of a byte": _trickle(8, CHUNKED.encode(), b"1\r\na\r\n" * 2_000, 0.0),
    "200 silent connections": _silent,
    "16 of the worst searches": _repeated(16, _worst_searches),
    "8 of the worst uploads": _repeated(8, _worst_uploads),
}


def _play(name: str, address: str, until: float, responses: Any) -> None:
    responses.put(ATTACKS[name](address, until))


def probe(address: str, until: float) -> tuple[list[float], Responses]:
    """Milliseconds of each response of `/health`, and the failures."""
    times, failures = [], Counter[str]()
    while time.time() < until:
        began = time.perf_counter()
        try:
            client = http.client.HTTPConnection(address.removeprefix("http://"), timeout=TIMEOUT_SECONDS)
            client.request("GET", "/health")
            status = client.getresponse().status
            client.close()
            if status != 200:
                failures[str(status)] += 1
        except (OSError, http.client.HTTPException) as error:
            failures[type(error).__name__] += 1
        times.append((time.perf_counter() - began) * 1000)
        time.sleep(PROBE_SECONDS)
    return times, failures


def run(name: str, address: str, pid: int, seconds: float) -> float:
    """Run an attack and print its results; returns the 99th percentile in milliseconds."""
    context = multiprocessing.get_context("spawn")
    responses = context.Queue()
    before = resident_mb(pid)
    until = time.time() + seconds
    attacker = context.Process(target=_play, args=(name, address, until, responses))
    attacker.start()
    times, failures = probe(address, until)
    percentiles = statistics.quantiles(times, n=100, method="inclusive") if len(times) > 1 else times * 99
    counted = responses.get(timeout=3 * TIMEOUT_SECONDS)
    attacker.join()
    row = {
        "attack": name,
        "n_probes": len(times),
        "p50_ms": round(percentiles[49], 1),
        "p99_ms": round(percentiles[98], 1),
        "max_ms": round(max(times), 1),
        "failures": dict(failures),
        "hostile_clients_were_answered": dict(counted),
        "resident_mb": [round(before), round(resident_mb(pid))],
    }
    print(json.dumps(row), flush=True)
    return percentiles[98]


def main() -> int:
    """Run the attacks and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("database", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--attack", action="append", choices=sorted(ATTACKS))
    options = parser.parse_args()
    print(json.dumps({"load": os.getloadavg()[0]}))
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        shutil.copyfile(options.database, Path(scratch) / "bench.db")
        address, pid = stack.enter_context(serving(Path(scratch)))
        worst = [run(name, address, pid, options.seconds) for name in options.attack or ATTACKS]
    return int(max(worst) >= MOST_P99_MS)


if __name__ == "__main__":
    sys.exit(main())
