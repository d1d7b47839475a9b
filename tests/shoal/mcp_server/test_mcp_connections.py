"""The limits of connections over HTTP: silent, slow and many clients do not keep others out."""

from __future__ import annotations

import dataclasses
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp: `pip install 'shoal[mcp]'`")

import httpx
from mcp_library import LIST_TOOLS, connected, served
from waiting import until

from shoal.engine import Engine
from shoal.mcp.backend import EngineBackend
from shoal.service import connection_limits
from shoal.settings import Settings

KEY = "write-key-0123456789"
MAX_CONNECTIONS, PER_ADDRESS = 12, 8
PATIENCE = 60
SHORT_SECONDS = 0.5
HEAD = (
    f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
    "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
)


@pytest.fixture(scope="module")
def limited(library: Engine) -> Settings:
    return dataclasses.replace(
        library.settings,
        api_keys=f"write:{KEY}",
        max_connections=MAX_CONNECTIONS,
        max_connections_per_address=PER_ADDRESS,
    )


@pytest.fixture(scope="module")
def url(library: Engine, limited: Settings) -> Iterator[str]:
    with served(EngineBackend(library), limited) as url:
        yield url


@pytest.fixture
def hasty_url(library: Engine, limited: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server with short limits of time."""
    for name in ("HEAD_SECONDS", "IDLE_SECONDS", "STALL_SECONDS", "RATE_GRACE_SECONDS", "LINGER_SECONDS"):
        monkeypatch.setattr(connection_limits, name, SHORT_SECONDS)
    with served(EngineBackend(library), limited) as url:
        yield url


def call(connection: socket.socket) -> bytes:
    """Send a valid request; return the first line of the response, or nothing if the connection closed."""
    connection.sendall(f"{HEAD}Content-Length: {len(LIST_TOOLS)}\r\n\r\n".encode() + LIST_TOOLS)
    return connection.recv(65536).partition(b"\r\n")[0]


def read_to_end(connection: socket.socket) -> bytes:
    response = b""
    try:
        while data := connection.recv(65536):
            response += data
    except ConnectionResetError:
        pass
    return response


def is_closed_on_sending(connection: socket.socket, data: bytes) -> bool:
    try:
        connection.sendall(data)
    except ConnectionError:
        return True
    return False


def test_silent_connections_keep_nobody_out(url: str) -> None:
    """The connection that has been silent longest closes for a new one of the same address."""
    with ExitStack() as silent:
        connections = [silent.enter_context(connected(url)) for _ in range(4 * MAX_CONNECTIONS)]
        for address in ("127.0.0.1", "127.0.0.2"):
            with connected(url, address) as other:
                assert call(other) == b"HTTP/1.1 200 OK"
        assert read_to_end(connections[0]) == b""
        assert call(connections[-1]) == b"HTTP/1.1 200 OK"


def test_incomplete_heads_keep_nobody_out(url: str) -> None:
    with ExitStack() as slow:
        for _ in range(4 * MAX_CONNECTIONS):
            slow.enter_context(connected(url)).sendall(b"POST /mcp HTTP/1.1\r\nHost: local")
        with connected(url) as other:
            assert call(other) == b"HTTP/1.1 200 OK"


def test_bodies_on_their_way_are_not_closed_for_new_connections(url: str) -> None:
    with ExitStack() as stack:
        uploading = [stack.enter_context(connected(url)) for _ in range(PER_ADDRESS)]
        for connection in uploading:
            # The server reads a first part of each body before the next connection opens.
            connection.sendall(
                f"{HEAD}Content-Length: {len(LIST_TOOLS)}\r\nExpect: 100-continue\r\n\r\n".encode()
            )
            assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")
        with connected(url) as surplus:
            assert read_to_end(surplus) == b""
        with connected(url, "127.0.0.2") as other:
            assert call(other) == b"HTTP/1.1 200 OK"
        for connection in uploading:
            connection.sendall(LIST_TOOLS)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_connections_of_all_addresses_are_limited(url: str) -> None:
    with ExitStack() as silent:
        connections = [
            silent.enter_context(connected(url, f"127.0.1.{1 + i % 3}")) for i in range(MAX_CONNECTIONS + 1)
        ]
        assert read_to_end(connections[0]) == b""
        assert call(connections[-1]) == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize("sent", [b"", b"POST /mcp HTTP/1.1\r\nHost: local"], ids=["nothing", "half a head"])
def test_a_client_that_never_sends_a_whole_head_is_closed(hasty_url: str, sent: bytes) -> None:
    with connected(hasty_url) as connection:
        connection.sendall(sent)
        assert read_to_end(connection) == b""


def test_a_head_that_arrives_byte_by_byte_has_a_limit_of_time(hasty_url: str) -> None:
    with connected(hasty_url) as connection:
        assert until(lambda: is_closed_on_sending(connection, b"x"))


def test_an_idle_connection_is_closed_after_a_response(hasty_url: str) -> None:
    with connected(hasty_url) as connection:
        assert call(connection) == b"HTTP/1.1 200 OK"
        read_to_end(connection)


def test_a_stalled_body_gets_408(hasty_url: str) -> None:
    with connected(hasty_url) as connection:
        connection.sendall(f"{HEAD}Content-Length: 100000\r\n\r\n".encode() + b"{")
        response = read_to_end(connection)
    assert response.startswith(b"HTTP/1.1 408 ")
    assert json.loads(response.partition(b"\r\n\r\n")[2]) == {"error": "the body did not arrive in time"}


def test_a_body_below_the_least_rate_gets_408(hasty_url: str) -> None:
    with connected(hasty_url) as connection:
        connection.sendall(f"{HEAD}Content-Length: 100000\r\n\r\n".encode())
        connection.settimeout(SHORT_SECONDS / 5)
        response = b""
        for _ in range(1000):
            try:
                response = connection.recv(65536)
                break
            except TimeoutError:
                connection.sendall(b" ")
    assert response.startswith(b"HTTP/1.1 408 ")


def test_a_refused_body_that_does_not_end_is_not_read_for_long(hasty_url: str) -> None:
    """The response comes at once; the connection closes after the time to linger."""
    with connected(hasty_url) as connection:
        connection.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{")
        response = read_to_end(connection)
    assert response.startswith(b"HTTP/1.1 401 ")


def test_a_client_that_reads_nothing_is_closed(hasty_url: str) -> None:
    """Its responses do not fit into the buffers, and the server does not wait for it."""
    request = f"{HEAD}Content-Length: {len(LIST_TOOLS)}\r\n\r\n".encode() + LIST_TOOLS
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.settimeout(PATIENCE)
        server = urlsplit(hasty_url)
        connection.connect((server.hostname, server.port))
        connection.sendall(request * 200)
        assert until(lambda: is_closed_on_sending(connection, b" "))


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_are_no_event_streams_without_a_message(url: str, method: str) -> None:
    headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {KEY}"}
    response = httpx.request(method, url, headers=headers, timeout=PATIENCE)
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert "send each message by POST" in response.json()["error"]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (f"POST /mcp?{'a' * connection_limits.MAX_LINE} HTTP/1.1\r\nHost: localhost\r\n", 414),
        (f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: {'a' * connection_limits.MAX_HEADER}\r\n", 431),
        ("POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + "X: a\r\n" * connection_limits.MAX_HEADERS, 431),
        (HEAD + f"Authorization: Bearer {KEY}\r\n", 400),
        ("POST /mcp HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n", 400),
    ],
    ids=["long line", "long header", "many headers", "two keys", "two hosts"],
)
def test_heads_have_the_limits_of_the_api(url: str, head: str, status: int) -> None:
    with connected(url) as connection:
        connection.sendall(f"{head}Content-Length: 0\r\n\r\n".encode())
        assert connection.recv(65536).startswith(f"HTTP/1.1 {status} ".encode())


def test_a_head_without_an_end_is_refused(url: str) -> None:
    with connected(url) as connection:
        connection.sendall(
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * connection_limits.MAX_HEAD
        )
        assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")


def test_the_longest_line_is_accepted(url: str) -> None:
    query = "a" * (connection_limits.MAX_LINE - len("POST /mcp? HTTP/1.1"))
    with connected(url) as connection:
        connection.sendall(
            HEAD.replace("/mcp", f"/mcp?{query}").encode()
            + f"Content-Length: {len(LIST_TOOLS)}\r\n\r\n".encode()
            + LIST_TOOLS
        )
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
