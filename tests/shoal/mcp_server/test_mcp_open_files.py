"""With few file descriptors, the MCP server over HTTP lets nobody wait without an answer."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp: `pip install 'shoal[mcp]'`")

import httpx
from mcp_library import LIST_TOOLS, connected
from waiting import until

from shoal.engine import Engine

FILES = 64
PATIENCE = 60
PROGRAM = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))
from shoal.service import process_setup
process_setup.OWN_FILES = int(sys.argv[1]) or process_setup.OWN_FILES
from shoal.cli import main
main(["--db", sys.argv[2], "mcp", "--http", "0"])
"""
BLIND = "-10000"
"""As if the server had more than enough descriptors, so that it runs out of them."""


@pytest.fixture(params=["0", BLIND], ids=["fitting", "running out"])
def url(request: pytest.FixtureRequest, library: Engine, tmp_path: Path) -> Iterator[str]:
    environment = {**os.environ, "PYTHONPATH": ":".join(path for path in sys.path if path)}
    command = [sys.executable, "-c", PROGRAM, request.param, str(library.settings.database_path)]
    with (
        (tmp_path / "log").open("w+") as log,
        subprocess.Popen(command, stderr=log, env=environment) as process,
    ):
        try:
            yield until(lambda: re.search(r"http://\S+", (tmp_path / "log").read_text()))[0]
        finally:
            process.kill()


def status_of_call(url: str) -> int:
    response = httpx.post(
        url,
        content=LIST_TOOLS,
        headers={"Content-Type": "application/json", "Accept": "*/*"},
        timeout=PATIENCE,
    )
    return response.status_code


def test_silent_connections_keep_nobody_out(url: str) -> None:
    with ExitStack() as silent:
        for _ in range(2 * FILES):
            silent.enter_context(connected(url))
        # The server reads its keys for each request, which may take the file that is one too many.
        assert status_of_call(url) in (200, 503)
    assert until(lambda: status_of_call(url) == 200)


def test_connections_above_the_descriptors_are_refused(url: str) -> None:
    """All open connections send a body, so that none can be closed for another."""
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n"
    head += b"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\r\n"

    def first_line(connection: socket.socket) -> bytes:
        try:
            connection.sendall(head)
            return connection.recv(4096).partition(b"\r\n")[0]
        except ConnectionError:
            return b""

    with ExitStack() as uploading:
        outcomes = [first_line(uploading.enter_context(connected(url))) for _ in range(FILES)]
    assert set(outcomes) <= {b"HTTP/1.1 100 Continue", b"HTTP/1.1 503 Service Unavailable", b""}
    assert outcomes[0] == b"HTTP/1.1 100 Continue"
    assert outcomes[-1] != b"HTTP/1.1 100 Continue"
    assert until(lambda: status_of_call(url) == 200)
