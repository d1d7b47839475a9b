"""Uploads to a service process over a real socket: aborted, on a full disk, and large."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import signal
import socket
import struct
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fake_scorer import FakeScorer
from postgres_schemas import sqlite_only
from running import PATIENCE, Running, environment_of, read_response
from surface import API, VOLCANO

from shoal.engine import Engine
from shoal.settings import Settings
from shoal.support.byte_units import KIB, MIB

BULK = f"{API}/documents/bulk"
NDJSON = "application/x-ndjson"

LIMITED = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
runpy.run_module("shoal_api", run_name="__main__")
"""
"""Program of a service with a limited file size, which simulates a full disk."""


def until(condition: Callable[[], Any]) -> Any:
    """Wait until `condition` returns a true value, and return it."""
    deadline = time.monotonic() + PATIENCE
    while not (result := condition()):
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.02)
    return result


@pytest.fixture
def environment(settings: Settings, tmp_path: Path) -> dict[str, str]:
    return environment_of(settings, tmp_path / "home")


@pytest.fixture
def running(environment: dict[str, str], tmp_path: Path) -> Iterator[Running]:
    started = Running(environment, tmp_path)
    try:
        yield started.wait()
    finally:
        started.end()


@pytest.fixture(scope="module")
def empty_service(
    migrated: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Running, Settings]]:
    """A service that stores nothing; afterwards it must stop cleanly and have logged no errors."""
    folder = tmp_path_factory.mktemp("empty")
    settings = Settings(database_url=f"sqlite:///{folder / 'shoal.db'}")
    shutil.copy(migrated, settings.database_path)
    started = Running(environment_of(settings, folder / "home"), folder)
    try:
        yield started.wait(), settings
        assert started.stop() == 0
        assert not [line for line in started.log() if line["level"] in ("error", "critical")], started.lines
    finally:
        started.end()


def lines(n: int, words: int = 200, seed: int = 0) -> list[bytes]:
    rng = random.Random(seed)
    return [
        json.dumps(
            {
                "title": f"{seed}-{i}",
                "content": " ".join(rng.choices(VOLCANO.split(), k=words)) + f" {seed} {i}.",
            }
        ).encode()
        + b"\n"
        for i in range(n)
    ]


def bodies() -> dict[str, tuple[str, bytes]]:
    """Return uploads of three kinds, each with 40 documents, as content type and body."""
    documents = lines(40)
    form = b"".join(
        b'--b\r\nContent-Disposition: form-data; name="f"; filename="%d.txt"\r\n\r\n%b\r\n' % (i, line)
        for i, line in enumerate(documents)
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for i, line in enumerate(documents):
            archive.writestr(f"{i}.txt", line)
    return {
        "form": ("multipart/form-data; boundary=b", form + b"--b--\r\n"),
        "lines": (NDJSON, b"".join(documents)),
        "archive": ("application/zip", packed.getvalue()),
    }


@pytest.mark.parametrize("with_length", [True, False], ids=["length", "chunked"])
@pytest.mark.parametrize("ending", ["closed", "reset"])
@pytest.mark.parametrize("kind", ["form", "lines", "archive"])
def test_aborted_upload_stores_nothing(
    empty_service: tuple[Running, Settings], kind: str, ending: str, *, with_length: bool
) -> None:
    running, settings = empty_service
    n_before = len(posts(running))
    content_type, body = bodies()[kind]
    half = body[: len(body) // 2]
    head = (
        f"POST {BULK} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nExpect: 100-continue\r\n"
    )
    length = f"Content-Length: {len(body)}" if with_length else "Transfer-Encoding: chunked"
    with running.connect() as connection:
        connection.sendall(f"{head}{length}\r\n\r\n".encode())
        # A reset discards data that the service has not read; the 100 shows that it has read the head.
        assert connection.recv(4096).startswith(b"HTTP/1.1 100 ")
        connection.sendall(half if with_length else f"{len(half):x}\r\n".encode() + half + b"\r\n")
        if ending == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            connection.shutdown(socket.SHUT_WR)
            response = read_response(connection)
            assert response.startswith(b"HTTP/1.1 400 "), response
    logged = until(lambda: posts(running)[n_before:])
    assert json.loads(logged[0])["status"] == 400
    with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
        assert client.get(f"{API}/jobs").json()["total"] == 0
        assert client.get("/health").status_code == 200
    assert_no_rows(settings)
    assert list((settings.data_path / "spool").iterdir()) == []


def posts(running: Running) -> list[str]:
    """Return the log lines of POST requests."""
    return [line for line in running.lines if '"POST"' in line]


def assert_no_rows(settings: Settings) -> None:
    with Engine(settings=settings, scorer=FakeScorer()) as engine, engine.database.snapshot() as snapshot:
        for table in ("jobs", "job_items", "job_item_contents"):
            assert snapshot.value(f"SELECT COUNT(*) FROM {table}") == 0


def kill(running: Running) -> None:
    """Kill a service process and its children."""
    pid = running.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for process in (pid, *map(int, children)):
        os.kill(process, signal.SIGKILL)
    running.stop(0)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finding the child processes needs /proc")
def test_service_killed_during_an_upload_stores_nothing_of_it(
    running: Running, environment: dict[str, str], settings: Settings, tmp_path: Path
) -> None:
    _, body = bodies()["lines"]
    with running.connect() as connection:
        connection.sendall(
            f"POST {BULK} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {NDJSON}\r\n"
            f"Content-Length: {2 * len(body)}\r\n\r\n".encode()
            + body
        )
        spool = settings.data_path / "spool"
        until(spool.is_dir)
        kill(running)
    restarted = Running(environment, tmp_path)
    try:
        with httpx.Client(base_url=restarted.wait().url, timeout=PATIENCE) as client:
            assert client.get(f"{API}/jobs").json()["total"] == 0
        assert list(spool.iterdir()) == []
        assert_no_rows(settings)
    finally:
        restarted.end()


# The limit is that of the process, which writes no file of a PostgreSQL.
@sqlite_only
@pytest.mark.skipif(
    sys.platform != "linux", reason="file size limits are reported differently on other systems"
)
def test_full_disk_returns_507_and_accepted_documents_are_complete(
    environment: dict[str, str], settings: Settings, tmp_path: Path
) -> None:
    limit = 5 * MIB
    limited = Running(environment, tmp_path, LIMITED.format(limit=limit))
    accepted: dict[int, int] = {}
    headers = {"Content-Type": NDJSON}
    try:
        with httpx.Client(base_url=limited.wait().url, timeout=PATIENCE) as client:
            # This body does not fit on the disk.
            response = client.post(BULK, content=b"".join(lines(6, words=200_000)), headers=headers)
            assert response.status_code == 507, response.text
            assert "nothing of this request was stored" in response.json()["detail"]
            assert client.get(f"{API}/jobs").json()["total"] == 0
            # These bodies fit, until the database is full.
            for n in range(1, 40):
                documents = lines(8, words=12_000, seed=n)
                response = client.post(BULK, content=b"".join(documents), headers=headers)
                if response.status_code != 202:
                    break
                accepted[response.json()["job"]["id"]] = len(documents)
            assert response.status_code == 507, response.text
            assert response.headers["Content-Type"] == "application/problem+json"
            for n in range(20):
                single = client.post(f"{API}/documents", json={"content": "word " * 500_000 + str(n)})
                if single.status_code != 202:
                    break
                accepted[single.json()["job"]["id"]] = 1
            assert single.status_code == 507, single.text
            assert client.get("/health").status_code == 200
            listed = client.get(f"{API}/jobs?limit=100").json()
            assert {job["id"]: job["progress"]["total"] for job in listed["jobs"]} == accepted
    finally:
        limited.end()
    assert accepted
    # Without the limit, every accepted text is waiting in the queue.
    with Engine(settings=settings, scorer=FakeScorer()) as engine, engine.database.snapshot() as snapshot:
        stored_items = """SELECT i.job_id, COUNT(c.content) FROM job_items i
                   JOIN jobs j ON j.id = i.job_id AND j.status = 'enqueued'
                   LEFT JOIN job_item_contents c ON c.item_id = i.id AND LENGTH(c.content) = i.n_bytes
                   GROUP BY i.job_id"""
        assert dict(snapshot.rows(stored_items)) == accepted  # type: ignore[arg-type]


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="reading the memory of a process needs /proc"
)
def test_large_upload_takes_no_more_memory_than_a_small_one(running: Running) -> None:
    """Measures the whole process, including the memory of SQLite and the allocator."""
    paragraph = VOLCANO.encode() * 640
    n_sent = 0

    def body(n_documents: int) -> Iterator[bytes]:
        nonlocal n_sent
        for _ in range(n_documents):
            n_sent += 1
            yield b'{"content": "%d %b"}\n' % (n_sent, paragraph)

    def memory(field: str) -> int:
        text = Path(f"/proc/{running.process.pid}/status").read_text()
        return int(text.split(f"{field}:")[1].split()[0]) * KIB

    with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
        headers = {"Content-Type": NDJSON}
        assert client.post(BULK, content=body(150), headers=headers).status_code == 202
        before = memory("VmRSS")
        assert client.post(BULK, content=body(1500), headers=headers).status_code == 202
    assert len(paragraph) * 1500 > 90 * MIB
    assert memory("VmHWM") < before + 45 * MIB
