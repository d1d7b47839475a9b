"""A slow, silent or greedy client occupies a connection, but no thread that other clients need."""

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
from waiting import until

from shoal.settings import Settings

THREADS = 2
MAX_CONNECTIONS = 40
WRITE_KEY, READ_KEY = "w" * 32, "r" * 32
IMPATIENT_PROGRAM = """
from shoal.settings import Settings
from shoal.service import connection_limits as limits
from shoal_api import runner
limits.STALL_SECONDS = limits.RATE_GRACE_SECONDS = limits.IDLE_SECONDS = {seconds}
runner.serve(Settings.from_environment())
"""
POST = f"POST {API}/documents"
JSON = "Content-Type: application/json"


def settings_in(folder: Path, **changed: object) -> dict[str, str]:
    values = {"api_threads": THREADS, "max_event_streams": 1, "max_connections": MAX_CONNECTIONS, **changed}
    return environment_of(
        Settings(database_url=f"sqlite:///{folder / 'shoal.db'}", **values), folder / "home"
    )  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("service")
    started = Running(settings_in(folder), folder)
    try:
        yield started.wait()
    finally:
        started.end()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with keys that closes slow connections after a second."""
    folder = tmp_path_factory.mktemp("guarded")
    keys = f"write:{WRITE_KEY},read:{READ_KEY}"
    started = Running(settings_in(folder, api_keys=keys), folder, IMPATIENT_PROGRAM.format(seconds=1.0))
    try:
        yield started.wait()
    finally:
        started.end()


def assert_responsive(service: Running) -> None:
    """Assert that the service responds to health checks and searches of a new client."""
    with httpx.Client(base_url=service.url, timeout=PATIENCE) as client:
        assert client.get("/health").json() == {"status": "ok"}
        assert client.get("/ready").status_code == 200
        assert client.post(f"{API}/search", json={"query": "volcano"}).status_code == 200


def status_of(connection: socket.socket) -> int:
    return int(read_response(connection).split()[1])


@pytest.mark.parametrize("path", [f"{API}/documents", f"{API}/documents/bulk", f"{API}/search"])
def test_slow_bodies_occupy_no_thread(service: Running, path: str) -> None:
    """More bodies arrive than there are threads, with a length and in chunks."""
    with ExitStack() as slow:
        for length in ("Content-Length: 100000", "Transfer-Encoding: chunked"):
            for _ in range(THREADS + 1):
                connection = slow.enter_context(service.connect())
                connection.sendall(request(f"POST {path}", b"", JSON, length) + b"5\r\n")
        assert_responsive(service)


def test_body_that_arrives_in_pieces_is_accepted(service: Running) -> None:
    body = json.dumps({"content": VOLCANO}).encode()
    with service.connect() as connection:
        connection.sendall(request(POST, b"", JSON, f"Content-Length: {len(body)}"))
        for start in range(0, len(body), 100):
            connection.sendall(body[start : start + 100])
        assert status_of(connection) == 202


def test_silent_connections_are_closed_for_new_ones(service: Running) -> None:
    """At the limit, the service closes the connection that has been idle longest."""
    with ExitStack() as silent:
        connections = [silent.enter_context(service.connect()) for _ in range(2 * MAX_CONNECTIONS)]
        assert_responsive(service)
        assert connections[0].recv(1) == b""
        connections[-1].sendall(request("GET /health"))
        assert status_of(connections[-1]) == 200


def test_active_connection_is_not_closed_for_new_ones(service: Running) -> None:
    body = json.dumps({"content": f"{VOLCANO} It erupts."}).encode()
    with ExitStack() as stack:
        uploading = stack.enter_context(service.connect())
        uploading.sendall(request(POST, b"", JSON, f"Content-Length: {len(body)}") + body[:10])
        # Afterwards the service has read the first bytes of the upload.
        assert_responsive(service)
        for _ in range(2 * MAX_CONNECTIONS):
            stack.enter_context(service.connect())
        assert_responsive(service)
        uploading.sendall(body[10:])
        assert status_of(uploading) == 202


def test_connections_per_address_are_limited(tmp_path: Path) -> None:
    running = Running(settings_in(tmp_path, max_connections_per_address=4), tmp_path)
    try:
        with ExitStack() as working:
            running.wait()
            for _ in range(4):
                connection = working.enter_context(running.connect())
                connection.sendall(request(POST, b"", JSON, "Content-Length: 100000", "Expect: 100-continue"))
                assert connection.recv(4096).startswith(b"HTTP/1.1 100 ")
            # All four are sending bodies, so the service closes the fifth.
            fifth = working.enter_context(running.connect())
            assert fifth.recv(1) == b""
            elsewhere = working.enter_context(socket.socket())
            elsewhere.bind(("127.0.0.2", 0))
            host, port = running.url.removeprefix("http://").split(":")
            elsewhere.connect((host, int(port)))
            elsewhere.sendall(request("GET /health"))
            assert status_of(elsewhere) == 200
    finally:
        running.end()


def test_stalled_body_returns_408(guarded: Running) -> None:
    key = f"Authorization: Bearer {WRITE_KEY}"
    with guarded.connect() as connection:
        connection.sendall(request(POST, b"", JSON, key, "Content-Length: 100000") + b"{")
        response = read_response(connection)
        assert response.startswith(b"HTTP/1.1 408 ")
        assert json.loads(response.partition(b"\r\n\r\n")[2])["detail"] == "the body did not arrive in time"
        assert connection.recv(1) == b""


def test_body_below_the_minimum_rate_returns_408(guarded: Running) -> None:
    """The body never pauses for a second, but sends less than a kilobyte per second."""
    key = f"Authorization: Bearer {WRITE_KEY}"
    with guarded.connect() as connection:
        connection.sendall(request(POST, b"", JSON, key, "Content-Length: 100000"))
        connection.settimeout(0.2)
        response = b""
        for _ in range(100):
            try:
                response = read_response(connection)
                break
            except TimeoutError:
                connection.sendall(b" ")
        assert response.startswith(b"HTTP/1.1 408 ")


def test_idle_connection_is_closed(guarded: Running) -> None:
    with guarded.connect() as connection:
        assert connection.recv(1) == b""


@pytest.mark.parametrize(
    ("path", "key", "status"),
    [
        (f"{API}/documents/bulk", None, 401),
        (f"{API}/documents/bulk", "x" * 32, 401),
        (f"{API}/documents/bulk", READ_KEY, 403),
        (f"{API}/documents", READ_KEY, 403),
        (f"{API}/search", None, 401),
    ],
)
def test_request_without_the_required_key_is_refused_before_its_body(
    guarded: Running, path: str, key: str | None, status: int
) -> None:
    headers = [JSON, "Content-Length: 900000", *([f"Authorization: Bearer {key}"] if key else [])]
    with guarded.connect() as connection:
        connection.sendall(request(f"POST {path}", b"", *headers))
        head, _, body = read_response(connection).partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"\r\nConnection: close" in head
    assert b"\r\nwww-authenticate: bearer" in head.lower()
    assert json.loads(body)["status"] == status


def test_read_key_may_send_a_search_body(guarded: Running) -> None:
    with httpx.Client(base_url=guarded.url, headers={"Authorization": f"Bearer {READ_KEY}"}) as client:
        assert client.post(f"{API}/search", json={"query": "volcano"}, timeout=PATIENCE).status_code == 200


def test_refused_body_is_read_so_that_the_client_receives_the_response(service: Running) -> None:
    """The client sends everything before it reads. Closing at once would reset its connection."""
    with service.connect() as connection:
        connection.sendall(request(f"POST {API}/search", b"x" * 8_000_000, JSON))
        assert status_of(connection) == 413


@pytest.mark.parametrize(
    "body",
    [b"1\r\na\r\n" * 4_000, b"f;" + b"x" * 4_000, b"0\r\n" + b"X: a\r\n" * 4_000],
    ids=["tiny chunks", "an endless line", "an endless trailer"],
)
def test_inefficient_chunks_are_refused(service: Running, body: bytes) -> None:
    head = request(
        f"POST {API}/documents/bulk", b"", "Content-Type: application/x-ndjson", "Transfer-Encoding: chunked"
    )
    with service.connect() as connection:
        connection.sendall(head + body)
        assert status_of(connection) == 400


def test_expect_continue_is_answered_only_for_an_acceptable_body(service: Running) -> None:
    body = json.dumps({"content": f"{VOLCANO} Again."}).encode()
    expecting = (JSON, "Expect: 100-continue")
    with service.connect() as connection:
        connection.sendall(request(POST, b"", *expecting, f"Content-Length: {len(body)}"))
        assert connection.recv(4096).startswith(b"HTTP/1.1 100 ")
        connection.sendall(body)
        assert status_of(connection) == 202
    with service.connect() as connection:
        connection.sendall(request(POST, b"", *expecting, "Content-Length: 999999999"))
        assert status_of(connection) == 413


def test_large_bodies_are_spooled_in_the_data_folder_and_removed(service: Running) -> None:
    [database] = [value for name, value in _environment(service).items() if name == "SHOAL_DATABASE_URL"]
    spool = Path(f"{database.removeprefix('sqlite:///')}-data") / "spool"

    def spooled() -> list[str]:
        links = [
            str(link.readlink())
            for link in Path(f"/proc/{service.process.pid}/fd").iterdir()
            if link.is_symlink()
        ]
        return [link for link in links if link.startswith(str(spool))]

    with service.connect() as connection:
        head = request(
            f"POST {API}/documents/bulk", b"", "Content-Type: application/x-ndjson", "Content-Length: 2000000"
        )
        connection.sendall(head + b" " * 1_000_000)
        assert until(spooled)
    assert until(lambda: not spooled())
    assert list(spool.iterdir()) == []


def _environment(service: Running) -> dict[str, str]:
    lines = Path(f"/proc/{service.process.pid}/environ").read_bytes().decode().split("\0")
    return dict(line.split("=", 1) for line in lines if "=" in line)
