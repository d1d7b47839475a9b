"""With few file descriptors, a service answers fewer clients, and lets nobody wait without an answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from running import PATIENCE, Running, environment_of, read_response, request
from surface import API
from waiting import until

from shoal.settings import Settings

FILES = 64
LIMITED_PROGRAM = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))
from shoal.service import process_setup
from shoal.settings import Settings
from shoal_api import runner
process_setup.OWN_FILES = {{own_files}}
runner.serve(Settings.from_environment())
"""
BLIND = -10_000
"""As if a server had more than enough descriptors, so that it runs out of them."""


def started(folder: Path, own_files: object) -> Running:
    settings = Settings(database_url=f"sqlite:///{folder / 'shoal.db'}", api_threads=2)
    return Running(
        environment_of(settings, folder / "home"), folder, LIMITED_PROGRAM.format(own_files=own_files)
    )


@pytest.fixture(params=["process_setup.OWN_FILES", BLIND], ids=["fitting", "running out"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    running = started(tmp_path, request.param)
    try:
        yield running.wait()
    finally:
        running.end()


def assert_responsive(service: Running) -> None:
    """Assert that a new client gets an answer to each request."""
    with httpx.Client(base_url=service.url, timeout=PATIENCE) as client:
        assert client.get("/health").json() == {"status": "ok"}
        # A search opens the database, which may be the file that is one too many.
        assert client.post(f"{API}/search", json={"query": "volcano"}).status_code in (200, 503)


def test_silent_connections_keep_nobody_out(service: Running) -> None:
    with ExitStack() as silent:
        for _ in range(2 * FILES):
            silent.enter_context(service.connect())
        assert_responsive(service)
    with httpx.Client(base_url=service.url, timeout=PATIENCE) as client:
        assert until(lambda: client.post(f"{API}/search", json={"query": "volcano"}).status_code == 200)


def test_connections_above_the_descriptors_are_refused(service: Running) -> None:
    """All open connections send a body, so that none can be closed for another."""
    with ExitStack() as uploading:
        outcomes = []
        for _ in range(FILES):
            connection = uploading.enter_context(service.connect())
            head = request(f"POST {API}/search", b"", "Content-Length: 100000", "Expect: 100-continue")
            try:
                connection.sendall(head)
                outcomes.append(read_response(connection).partition(b"\r\n")[0])
            except ConnectionError:
                outcomes.append(b"")
    assert set(outcomes) <= {b"HTTP/1.1 100 Continue", b"HTTP/1.1 503 Service Unavailable", b""}
    assert outcomes[0].startswith(b"HTTP/1.1 100 ")
    assert not outcomes[-1].startswith(b"HTTP/1.1 100 ")
    assert_responsive(service)


def test_the_log_says_what_to_do(tmp_path: Path) -> None:
    running = started(tmp_path, "process_setup.OWN_FILES")
    try:
        running.wait()
        [warning] = [line for line in running.log() if "SHOAL_MAX_CONNECTIONS" in line["event"]]
    finally:
        running.end()
    assert f"the limit of open files is {FILES}; raise it to " in warning["reason"]
    assert 8 <= warning["connections"] < warning["max_connections"] == 512
