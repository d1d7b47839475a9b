"""Programs as forks of one process, which has imported the project once.

The start of Python and its imports take most of the time of a short program. A fork of the server has its own
arguments, folder, environment, standard streams and, for workers, session.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from waiting import until

ROOT = Path(__file__).parents[1]
SHOAL = "shoal"
"""The name of the command line. Other programs are paths of Python files."""
PID_BYTES = 16
"""Length of the message with the process id, and more than that with the exit code."""
SHIM = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    request = {{"command": [*{command!r}, *sys.argv[1:]], "folder": os.getcwd(), "environment": dict(os.environ)}}
    socket.send_fds(server, [b"."], [0, 1, 2])
    server.sendall(json.dumps(request).encode())
    server.shutdown(socket.SHUT_WR)
    server.recv({pid_bytes}, socket.MSG_WAITALL)
    sys.exit(int(server.recv({pid_bytes})))
"""


class Fork:
    """A running program, with the methods of `subprocess.Popen` that tests of workers use."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.pid = int(connection.recv(PID_BYTES, socket.MSG_WAITALL))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code; None while the program runs."""
        with contextlib.suppress(TimeoutError):
            return self.wait(0.001)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code when the program has ended. Raises TimeoutError after `timeout` seconds."""
        if self.returncode is None:
            self._connection.settimeout(timeout)
            self.returncode = int(self._connection.recv(PID_BYTES))
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def kill_session(self) -> None:
        """Kill the program and its children at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()


class ForkServer:
    """The process whose forks run programs."""

    def __init__(self, folder: Path, modules: Sequence[str]) -> None:
        """`modules` are imported once, `folder` gets the socket."""
        self._path = folder / "forks"
        paths = [ROOT, ROOT / "api", ROOT / "worker", ROOT / "tests"]
        environment = {"LC_ALL": "C.UTF-8", "PYTHONPATH": os.pathsep.join(map(str, paths))}
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(self._path), *modules], env={**os.environ, **environment}
        )
        until(lambda: self._path.exists() or self._process.poll() is not None)

    def start(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str], output: int
    ) -> Fork:
        """Start a program in a session of its own. `output` is the file of its stdout and stderr."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self._path))
        request = {
            "command": command,
            "folder": str(folder),
            "environment": dict(environment),
            "session": True,
        }
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123
            socket.send_fds(connection, [b"."], [nothing.fileno(), output, output])
        connection.sendall(json.dumps(request).encode())
        connection.shutdown(socket.SHUT_WR)
        return Fork(connection)

    def write_shim(self, path: Path, *command: str) -> None:
        """Write a program that starts `command`, with its own arguments after it, and waits for its end."""
        text = SHIM.format(python=sys.executable, path=str(self._path), command=command, pid_bytes=PID_BYTES)
        path.write_text(text)
        path.chmod(0o755)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def serve(path: str, modules: Sequence[str]) -> None:
    """Answer requests until SIGTERM, each in a fork."""
    for name in modules:
        importlib.import_module(name)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path + ".new")
        listener.listen(16)
        Path(path + ".new").rename(path)
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _answer(connection)
            connection.close()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def _answer(connection: socket.socket) -> NoReturn:
    """Run a program in another fork, which may be killed, and send its process id and its exit code."""
    _, files, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile("rb") as sent:
        request: dict[str, Any] = json.load(sent)
    pid = os.fork()
    if pid == 0:
        connection.close()
        _run(files, request)
    for file in files:
        os.close(file)
    connection.sendall(f"{pid:{PID_BYTES}}".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(str(code).encode())
    os._exit(0)


def _run(files: list[int], request: dict[str, Any]) -> NoReturn:
    """Run a program in this process, with the standard streams `files`, and exit."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    if request.get("session"):
        os.setsid()
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    code = _exit_code(request["command"])
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)


def _exit_code(command: list[str]) -> int:
    sys.argv[:] = command
    try:
        if command[0] == SHOAL:
            from shoal.cli import main

            main()
        sys.path.insert(0, str(Path(command[0]).parent))
        runpy.run_path(command[0], run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:])
