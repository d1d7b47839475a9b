"""The supervisor restarts dead children and stops them with all their processes."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import until

from shoal.cli import supervisor as module
from shoal.cli.supervisor import PortTakenError, Supervisor, environment_of, is_ready, reserve_port
from shoal.errors import ShoalError
from shoal.settings import Settings

PYTHON = [sys.executable, "-c"]


def _alive(pid: int) -> bool:
    # A zombie that init has not collected yet counts as dead.
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _supervise(children: dict[str, str], condition: Callable[[], object]) -> list[str]:
    log: list[str] = []
    supervisor = Supervisor(
        {name: [*PYTHON, code] for name, code in children.items()}, os.environ, log.append
    )

    def stop() -> None:
        until(condition)
        supervisor.stop()

    thread = threading.Thread(target=stop)
    with supervisor.running():
        thread.start()
        supervisor.watch()
    thread.join()
    return log


def test_dead_child_is_restarted_after_growing_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.2)
    starts = tmp_path / "starts"
    code = f"open({str(starts)!r}, 'a').write('started '); raise SystemExit(3)"
    log = _supervise({"dying": code}, lambda: starts.exists() and len(starts.read_text().split()) >= 4)
    pauses = [line.rpartition(" in ")[2] for line in log if "restart in" in line]
    assert pauses[:3] == ["0.2 s", "0.4 s", "0.8 s"]
    assert "dying ended with code 3; restart in 0.2 s" in log


def test_processes_of_a_dead_child_are_killed_before_its_restart(tmp_path: Path) -> None:
    left = tmp_path / "left"
    code = (
        "import os, subprocess, sys\n"
        "left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(left)!r}, 'a').write(f'{{left.pid}}\\n')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    log = _supervise({"parent": code}, lambda: left.exists() and len(left.read_text().split()) >= 2)
    assert any("was killed by SIGKILL" in line for line in log)
    until(lambda: not any(_alive(int(pid)) for pid in left.read_text().split()))


def test_child_that_ignores_sigterm_is_killed_with_its_own_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOP_SECONDS", 0.5)
    pids = tmp_path / "pids"
    code = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}} ')\n"
        "time.sleep(600)\n"
    )
    _supervise({"deaf": code}, lambda: pids.exists() and pids.read_text().endswith(" "))
    until(lambda: not any(_alive(int(pid)) for pid in pids.read_text().split()))


def test_children_finish_current_work_before_they_stop(tmp_path: Path) -> None:
    begun, finished = tmp_path / "begun", tmp_path / "finished"
    code = (
        "import signal, time, sys, pathlib\n"
        f"def end(*_): time.sleep(0.5); pathlib.Path({str(finished)!r}).touch(); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end)\n"
        f"pathlib.Path({str(begun)!r}).touch()\n"
        "time.sleep(600)\n"
    )
    _supervise({"busy": code}, begun.exists)
    assert finished.exists()


def test_children_die_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    child = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid()) + ' '); time.sleep(600)"
    code = (
        "import os, sys\n"
        "from shoal.cli.supervisor import Supervisor\n"
        f"supervisor = Supervisor({{'child': [sys.executable, '-c', {child!r}]}}, os.environ, print)\n"
        "with supervisor.running(): supervisor.watch()\n"
    )
    parent = os.spawnv(os.P_NOWAIT, sys.executable, [*PYTHON, code])
    until(lambda: pid.exists() and pid.read_text().endswith(" "))
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    until(lambda: not _alive(int(pid.read_text())))


def test_start_fails_when_a_child_keeps_dying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.05)
    log: list[str] = []
    supervisor = Supervisor({"api": [*PYTHON, "raise SystemExit(1)"]}, os.environ, log.append)
    with pytest.raises(ShoalError, match="the api does not start"), supervisor.running():
        supervisor.wait_until_ready("127.0.0.1", 9)


def test_taken_port_is_refused_with_a_hint() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"port {port} on 127.0.0.1 is taken.*--port"):
            reserve_port("127.0.0.1", port)
        assert not is_ready("127.0.0.1", 9)
    assert reserve_port("127.0.0.1", port) == port
    assert reserve_port("127.0.0.1", 0) > 0


def test_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ShoalError, match="cannot listen on 192\\.0\\.2\\.1"):
        reserve_port("192.0.2.1", 0)


def test_environment_of_a_child_has_exactly_the_settings_of_its_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOAL_PORT", "1")
    monkeypatch.setenv("SHOAL_TEST_SWITCH", "kept")
    environment = environment_of(Settings(workers=3))
    assert environment["SHOAL_WORKERS"] == "3"
    assert environment["SHOAL_TEST_SWITCH"] == "kept"
    assert "SHOAL_PORT" not in environment
    assert environment["PATH"] == os.environ["PATH"]
