"""The service as a gunicorn process on a real socket."""

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
from running import PATIENCE, Running, environment_of, read_response, request
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


def test_service_serves_until_it_is_stopped(running: Running, tmp_path: Path) -> None:
    with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
        assert client.get("/health").json() == {"status": "ok"}
        response = client.post(f"{API}/documents", json={"content": VOLCANO})
        assert response.status_code == 202
        trace = response.headers["X-Trace-Id"]
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
    # The service leaves no files in its working directory except those of the database.
    others = {path.name for path in tmp_path.iterdir() if not path.name.startswith("shoal.db")}
    assert others - {"data"} == {"home"}, "`data` is SHOAL_DATA_DIR of tests on PostgreSQL"
    assert list((tmp_path / "home").iterdir()) == []


def test_refused_body_that_never_arrives_closes_the_connection(running: Running) -> None:
    head = (
        b"POST /api/v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 200000000\r\n\r\n"
    )
    with running.connect() as connection:
        connection.sendall(head)
        response = connection.recv(65536)
    assert response.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in response.lower()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_waiting_requests_and_event_streams_do_not_delay_shutdown(
    environment: dict[str, str], tmp_path: Path, number: int
) -> None:
    running = Running({**environment, "SHOAL_MAX_WAIT_SECONDS": "600"}, tmp_path)
    try:
        with running.wait().connect() as waiting, running.connect() as listening:
            body = json.dumps({"content": VOLCANO}).encode()
            # Both requests are sent at once, so the first response shows that the service has the second one.
            waiting.sendall(
                request(f"POST {API}/documents", body, "Content-Type: application/json")
                + request(f"GET {API}/jobs/1?wait=600")
            )
            assert read_response(waiting).startswith(b"HTTP/1.1 202 ")
            listening.sendall(request(f"GET {API}/jobs/1/events"))
            assert read_response(listening).startswith(b"HTTP/1.1 200 ")
            # Whether or not the requests are waiting by now, the service must stop cleanly.
            time.sleep(0.5)
            assert running.stop(number) == 0
            if number == signal.SIGTERM:
                assert read_response(waiting).startswith(b"HTTP/1.1 200 ")
    finally:
        running.end()


def test_malformed_request_does_not_break_the_service(running: Running) -> None:
    for request_bytes in (
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        (
            b"POST /api/v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000\r\n\r\n{"
        ),
        (
            b"POST /api/v1/documents/bulk HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/x-ndjson\r\n"
            b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"con'
        ),
    ):
        with running.connect() as connection:
            connection.sendall(request_bytes)
            connection.shutdown(socket.SHUT_WR)
            response = connection.recv(65536)
        assert b"500 " not in response.split(b"\r\n")[0], running.lines
        assert b"Traceback" not in response
    with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
        assert client.get(f"{API}/jobs").json()["total"] == 0


def _run_failing(environment: dict[str, str], folder: Path) -> str:
    completed = subprocess.run(
        [sys.executable, "-m", "shoal_api"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert completed.returncode == 1
    assert completed.stdout == ""
    assert "Traceback" not in completed.stderr
    return completed.stderr


def test_port_in_use_is_reported(environment: dict[str, str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        message = _run_failing({**environment, "SHOAL_PORT": str(port)}, tmp_path)
    assert f"port {port} on 127.0.0.1 is in use" in message


def test_public_address_without_keys_is_refused(environment: dict[str, str], tmp_path: Path) -> None:
    message = _run_failing({**environment, "SHOAL_HOST": "0.0.0.0"}, tmp_path)
    assert "SHOAL_ALLOW_ANONYMOUS" in message


def test_invalid_settings_are_reported(environment: dict[str, str], tmp_path: Path) -> None:
    message = _run_failing({**environment, "SHOAL_PROT": "1"}, tmp_path)
    assert "did you mean SHOAL_PORT" in message
    assert "nowhere" in _run_failing(
        {**environment, "SHOAL_HOST": "nowhere.invalid", "SHOAL_ALLOW_ANONYMOUS": "1"}, tmp_path
    )


def test_file_that_is_not_a_database_is_refused(
    environment: dict[str, str], settings: Settings, tmp_path: Path
) -> None:
    settings.database_path.write_text("this is a diary, not a database " * 100)
    assert "not a" in _run_failing(environment, tmp_path)
