"""Several machines store every accepted document once, whatever dies or is cut off.

The trial takes minutes: SHOAL_TEST_LONG=1. `cluster_trial.py` does a longer one. Both need root.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from cluster_machines import Plan
from cluster_network import NAMESPACES, PREFIX, Network, entered, remove_leftovers, why_not, wrong_clock
from cluster_servers import accepts
from cluster_trial import run
from waiting import until

LONG = bool(os.environ.get("SHOAL_TEST_LONG"))
PORT = 9000


@pytest.fixture(autouse=True)
def namespaces() -> None:
    if reason := why_not():
        pytest.skip(reason)


def left(pid: int | None = None) -> list[str]:
    return [path.name for path in NAMESPACES.glob(f"{PREFIX}{pid or os.getpid()}-*")]


def test_host_that_is_cut_off_hangs_and_comes_back(tmp_path: Path) -> None:
    serve = [sys.executable, "-m", "http.server", str(PORT), "--directory", str(tmp_path)]
    outside = Path("/proc/thread-self/ns/net").readlink()
    with Network() as network, (tmp_path / "log").open("wb") as log:
        server, client = network.add("server"), network.add("client")
        started = server.start(serve, log)
        with entered(client):
            assert Path("/proc/thread-self/ns/net").readlink() != outside
            until(lambda: accepts(server.address, PORT))
            with socket.create_connection((server.address, PORT)) as connection:
                server.cut()
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                connection.settimeout(0.3)
                with pytest.raises(TimeoutError):
                    connection.recv(100)
                server.reconnect()
                connection.settimeout(10)
                # What was sent meanwhile arrives: no error said that the host was away.
                assert connection.recv(100).startswith(b"HTTP/1.0 200")
            server.add_address("10.77.0.200")
            until(lambda: accepts("10.77.0.200", PORT))
        assert Path("/proc/thread-self/ns/net").readlink() == outside
        server.kill_all()
        assert started.wait(10) == -9
    assert left() == []


def test_killed_trial_leaves_nothing_to_the_next_one(tmp_path: Path) -> None:
    program = """
import sys, time
from cluster_network import Network
network = Network()
network.add("one").start(["sleep", "1000"], sys.stderr.buffer)
print("made", flush=True)
time.sleep(1000)
"""
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    trial = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment)
    assert trial.stdout is not None
    assert trial.stdout.readline() == b"made\n"
    trial.kill()
    trial.wait()
    trial.stdout.close()
    assert left(trial.pid)
    remove_leftovers()
    assert left(trial.pid) == []


def test_wrong_clock_is_that_of_the_wall_alone(tmp_path: Path) -> None:
    environment = wrong_clock(tmp_path, -1)
    if not environment:
        pytest.skip("there is no C compiler")
    program = "import time, threading; threading.Event().wait(0.01); print(time.time(), time.monotonic())"
    printed = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    wall, monotonic = map(float, printed.stdout.split())
    assert time.time() - wall == pytest.approx(3600, abs=30)
    assert monotonic == pytest.approx(time.monotonic(), abs=30)


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("store", "broker"), [("postgresql", "rabbitmq"), ("postgresql", "redis")])
def test_every_accepted_document_is_stored_once(store: str, broker: str) -> None:
    plan = Plan(store=store, broker=broker, kills=8, partitions=4, longest=20, pauses=(2, 6))
    if reason := plan.why_not():
        pytest.skip(reason)
    if not LONG:
        pytest.skip("takes minutes: SHOAL_TEST_LONG=1")
    report = run(plan)
    assert report["wrong"] == []
    assert report["trouble"]["failover"] == 1
    assert report["documents accepted"] > 0
    assert threading.active_count() < 10
