"""Slow clients and clients that send invalid HTTP do not block other clients."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from running import PATIENCE, Running, environment_of, read_response, request
from surface import API, VOLCANO

from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.opening import open_database
from shoal.support.clock import timestamp
from shoal.support.search_tokens import MAX_BYTES
from shoal_api.problems import code_of_status

THREADS, STREAMS = 1, 6

IMPATIENT_PROGRAM = """
from shoal.settings import Settings
from shoal.service import connection_limits as limits
from shoal_api import runner
limits.HEAD_SECONDS = limits.STALL_SECONDS = limits.RATE_GRACE_SECONDS = 1.0
limits.LINGER_SECONDS = 0.2
runner.serve(Settings.from_environment())
"""
"""Program of a service with timeouts of about a second instead of twenty seconds or a minute."""

BOOK_BYTES = 24_000_000
"""Size of a document that does not fit into the buffers between service and client."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("service")
    settings = Settings(
        database_url=f"sqlite:///{folder / 'shoal.db'}",
        api_threads=THREADS,
        max_event_streams=STREAMS,
        event_heartbeat_seconds=0.2,
    )
    database = open_database(settings.database_url)
    migrate.upgrade(database)
    with database.write() as transaction:
        row = (
            "Long",
            "0" * 64,
            "plaintext",
            BOOK_BYTES,
            0,
            0,
            0.0,
            timestamp(),
            timestamp(),
            "x" * BOOK_BYTES,
        )
        transaction.write_many(
            "INSERT INTO documents (title, content_hash, format, n_bytes, n_chunks, n_sentences, coverage,"
            " created_at, updated_at, text_after) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [row],
        )
    database.close()
    started = Running(environment_of(settings, folder / "home"), folder, IMPATIENT_PROGRAM)
    try:
        yield started.wait()
    finally:
        started.end()


def assert_responsive(service: Running) -> None:
    """Assert that the service responds to a new client."""
    with httpx.Client(base_url=service.url, timeout=PATIENCE) as client:
        assert client.get("/health").json() == {"status": "ok"}
        assert client.get(f"{API}/jobs").status_code == 200


def test_event_streams_at_the_limit_do_not_block_other_requests(service: Running) -> None:
    with httpx.Client(base_url=service.url, timeout=PATIENCE) as client, ExitStack() as listening:
        job = client.post(f"{API}/documents", json={"content": VOLCANO}).headers["Location"]
        for _ in range(STREAMS):
            connection = listening.enter_context(service.connect())
            connection.sendall(request(f"GET {job}/events"))
            assert read_response(connection).startswith(b"HTTP/1.1 200 ")
        refused = client.get(f"{job}/events")
        assert refused.status_code == 503
        assert refused.headers["Retry-After"]
        assert_responsive(service)
        assert client.get(f"{job}?wait=0.1").status_code == 200


def test_incomplete_requests_are_refused(service: Running) -> None:
    with ExitStack() as slow:
        connections = [slow.enter_context(service.connect()) for _ in range(2 * (THREADS + STREAMS))]
        for connection in connections:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: local")
        assert_responsive(service)
        for connection in connections:
            assert b"200" not in connection.recv(65536).split(b"\r\n")[0]


def test_clients_that_do_not_read_responses_do_not_block_others(service: Running) -> None:
    with ExitStack() as stack:
        for _ in range(2 * (THREADS + STREAMS)):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            host, port = service.url.removeprefix("http://").split(":")
            connection.connect((host, int(port)))
            connection.sendall(request(f"GET {API}/documents/1/content"))
        assert_responsive(service)


def test_clients_that_do_not_close_connections_do_not_block_others(service: Running) -> None:
    """The service lingers on each connection for up to two seconds, but without occupying a thread."""
    with ExitStack() as stack:
        for _ in range(70):
            connection = stack.enter_context(service.connect())
            connection.sendall(request("GET /health", b"", "Connection: close"))
        assert_responsive(service)


REFUSED = {
    "no HTTP": (b"nonsense\r\n\r\n", 400),
    "no version": (b"GET /health\r\n\r\n", 400),
    "a version to come": (b"GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n", 400),
    "a header without a name": (b"GET /health HTTP/1.1\r\nHost: localhost\r\n: x\r\n\r\n", 400),
    "a header with a NUL": (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n", 400),
    "a folded header": (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n", 400),
    "a line without an end": (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
    "a header without an end": (
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 9000 + b"\r\n\r\n",
        431,
    ),
    "a token without an end": (
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + b"a" * 40_000 + b"\r\n\r\n",
        431,
    ),
    "headers without an end": (
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 65 + b"\r\n",
        431,
    ),
    "two lengths": (b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
    "a negative length": (b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
    "a length in letters": (b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: ten\r\n\r\n", 400),
    "a length and chunks": (
        b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "an unknown coding": (b"POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip2\r\n\r\n", 501),
    "an expectation": (b"POST /x HTTP/1.1\r\nHost: localhost\r\nExpect: a miracle\r\n\r\n", 417),
    "a TLS greeting": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64 + b"\r\n\r\n", 400),
}


@pytest.mark.parametrize("name", REFUSED)
def test_malformed_request_returns_a_problem_response(service: Running, name: str) -> None:
    request_bytes, status = REFUSED[name]
    with service.connect() as connection:
        connection.sendall(request_bytes)
        connection.shutdown(socket.SHUT_WR)
        response = b""
        while data := connection.recv(65536):
            response += data
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.split()[1] == str(status).encode(), head
    assert b"\r\nContent-Type: application/problem+json" in head
    assert b"\r\nX-Content-Type-Options: nosniff" in head
    problem = json.loads(body)
    assert problem["status"] == status
    assert problem["detail"]
    assert problem["code"] == code_of_status(status)
    assert problem["trace_id"].encode() in head


def test_the_longest_token_is_read(service: Running) -> None:
    with service.connect() as connection:
        connection.sendall(request("GET /health", b"", f"Authorization: Bearer {'a' * MAX_BYTES}"))
        assert read_response(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "header", ["PATH_INFO", "SCRIPT_NAME", "Path-Info", "X-Script-Name", "X-Original-URL"]
)
def test_headers_cannot_override_the_path(service: Running, header: str) -> None:
    with service.connect() as connection:
        connection.sendall(request("GET /nothing", b"", f"{header}: /health"))
        assert read_response(connection).startswith(b"HTTP/1.1 404 ")


def test_client_errors_are_not_logged_as_service_errors(service: Running, tmp_path: Path) -> None:
    """Runs last and checks the log of all tests above."""
    assert [line for line in service.log() if line["level"] in ("error", "critical")] == []
