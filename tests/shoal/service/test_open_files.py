"""The limit of open files, and how many connections fit into it."""

from __future__ import annotations

import resource
import socket
from contextlib import ExitStack

import pytest

from shoal.errors import SettingsError
from shoal.service.process_setup import FILES_PER_THREAD, OWN_FILES, SpareFile, fit_connections
from shoal.settings import Settings

SETTINGS = Settings(max_connections=500, api_threads=8)
OWN = OWN_FILES + FILES_PER_THREAD * 8
UNLIMITED = resource.RLIM_INFINITY


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The soft and the hard limit of open files, in place of those of this process."""
    limits = {"soft": 0, "hard": 0}

    def set_limits(_kind: int, pair: tuple[int, int]) -> None:
        limits["soft"], limits["hard"] = pair

    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (limits["soft"], limits["hard"]))
    monkeypatch.setattr(resource, "setrlimit", set_limits)
    return limits


@pytest.mark.parametrize(
    ("soft", "hard", "n_collections", "new_soft", "connections"),
    [
        (4096, 4096, 0, 4096, 500),
        (UNLIMITED, UNLIMITED, 0, UNLIMITED, 500),
        (64, 4096, 0, OWN + 500, 500),
        (64, UNLIMITED, 2, OWN + 20 + 500, 500),
        (64, 300, 0, 300, 300 - OWN),
        (300, 300, 2, 300, 300 - OWN - 20),
        (64, 64, 0, 64, 8),
        (64, 64, 32, 64, 8),
    ],
)
def test_connections_fit_into_the_limit(
    limits: dict[str, int], soft: int, hard: int, n_collections: int, new_soft: int, connections: int
) -> None:
    limits.update(soft=soft, hard=hard)
    fitting = fit_connections(SETTINGS, n_collections=n_collections, service="test")
    assert fitting.max_connections == connections
    assert limits == {"soft": new_soft, "hard": hard}


def test_a_server_that_can_hold_no_connections_does_not_start(limits: dict[str, int]) -> None:
    limits.update(soft=32, hard=32)
    with pytest.raises(SettingsError, match=rf"is 32, and the service needs {OWN + 8}: raise it"):
        fit_connections(SETTINGS, n_collections=0, service="test")


def test_a_limit_that_the_system_does_not_raise_counts(
    limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbid(_kind: int, _pair: tuple[int, int]) -> None:
        raise OSError("not permitted")

    monkeypatch.setattr(resource, "setrlimit", forbid)
    limits.update(soft=100, hard=4096)
    assert fit_connections(SETTINGS, n_collections=0, service="test").max_connections == 100 - OWN


def test_waiting_connections_are_refused_with_the_spare_file() -> None:
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        listener.setblocking(False)
        spare = SpareFile()
        assert not spare.refuse(listener)
        clients = [
            stack.enter_context(socket.create_connection(listener.getsockname(), 60)) for _ in range(3)
        ]
        assert [spare.refuse(listener) for _ in range(4)] == [True, True, True, False]
        assert all(client.recv(4096).startswith(b"HTTP/1.1 503 ") for client in clients)
