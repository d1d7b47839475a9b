"""The service as it runs: a process of gunicorn on a real socket."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from running import PATIENCE, Running, answer_of, environment_of, request
from surface import API, VOLCANO

from shoal.settings import Settings


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


def test_the_service_serves_until_it_is_told_to_stop(running: Running, tmp_path: Path) -> None:
    with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
        assert client.get("/health").json() == {"status": "ok"}
        answer = client.post(f"{API}/documents", json={"content": VOLCANO})
        assert answer.status_code == 202
        trace = answer.headers["X-Trace-Id"]
        upload = client.post(
            f"{API}/documents/bulk",
            content=(json.dumps({"content": f"{VOLCANO} {n}"}).encode() + b"\n" for n in range(1000)),
            headers={"Content-Type": "application/x-ndjson"},
        )
        assert upload.status_code == 202, "a body sent in chunks, without a length"
        assert upload.json()["job"]["progress"]["total"] == 1000
        assert client.get(f"{API}/nothing").headers["Content-Type"] == "application/problem+json"
        too_large = client.post(f"{API}/search", json={"query": "x" * 3_000_000})
        assert too_large.status_code == 413
        assert client.get("/health").status_code == 200
    assert running.stop() == 0
    logged = running.log()
    assert any(line.get("trace_id") == trace and line.get("status") == 202 for line in logged)
    assert not [line for line in logged if line["level"] in ("error", "critical")], running.lines
    # Nothing is left where the service was started but what belongs to the database.
    assert {path.name for path in tmp_path.iterdir() if not path.name.startswith("shoal.db")} == {"home"}
    assert list((tmp_path / "home").iterdir()) == []


def test_a_refused_body_that_does_not_come_ends_the_connection(running: Running) -> None:
    head = (
        b"POST /api/v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 200000000\r\n\r\n"
    )
    with running.connect() as connection:
        connection.sendall(head)
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_service_does_not_wait_for_those_who_wait_or_listen(
    environment: dict[str, str], tmp_path: Path, number: int
) -> None:
    running = Running({**environment, "SHOAL_MAX_WAIT_SECONDS": "600"}, tmp_path)
    try:
        with running.wait().connect() as waiting, running.connect() as listening:
            body = json.dumps({"content": VOLCANO}).encode()
            # Both requests at once: by the first answer the service has the second one, too.
            waiting.sendall(
                request(f"POST {API}/documents", body, "Content-Type: application/json")
                + request(f"GET {API}/jobs/1?wait=600")
            )
            assert answer_of(waiting).startswith(b"HTTP/1.1 202 ")
            listening.sendall(request(f"GET {API}/jobs/1/events"))
            assert answer_of(listening).startswith(b"HTTP/1.1 200 ")
            # They may or may not have begun to wait by now; it must end well either way.
            time.sleep(0.5)
            assert running.stop(number) == 0
            if number == signal.SIGTERM:
                assert answer_of(waiting).startswith(b"HTTP/1.1 200 ")
    finally:
        running.end()


def test_a_broken_request_does_not_break_the_service(running: Running) -> None:
    for broken in (
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        (
            b"POST /api/v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000\r\n\r\n{"
        ),
        (
            b"POST /api/v1/documents/bulk HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
            b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"con'
        ),
    ):
        with running.connect() as connection:
            connection.sendall(broken)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(65536)
        assert b"500 " not in answer.split(b"\r\n")[0], running.lines
        assert b"Traceback" not in answer
    with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
        assert client.get(f"{API}/jobs").json()["total"] == 0


def _fails(environment: dict[str, str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "shoal_api"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_taken_port_is_told(environment: dict[str, str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        message = _fails({**environment, "SHOAL_PORT": str(port)}, tmp_path)
    assert f"port {port} on 127.0.0.1 is in use" in message


def test_an_open_address_is_refused(environment: dict[str, str], tmp_path: Path) -> None:
    message = _fails({**environment, "SHOAL_HOST": "0.0.0.0"}, tmp_path)
    assert "SHOAL_ALLOW_ANONYMOUS" in message


def test_wrong_settings_are_told(environment: dict[str, str], tmp_path: Path) -> None:
    message = _fails({**environment, "SHOAL_PROT": "1"}, tmp_path)
    assert "did you mean SHOAL_PORT" in message
    assert "nowhere" in _fails(
        {**environment, "SHOAL_HOST": "nowhere.invalid", "SHOAL_ALLOW_ANONYMOUS": "1"}, tmp_path
    )


def test_a_database_of_something_else_is_refused(
    environment: dict[str, str], settings: Settings, tmp_path: Path
) -> None:
    settings.database_path.write_text("this is a diary, not a database " * 100)
    assert "not a" in _fails(environment, tmp_path)
