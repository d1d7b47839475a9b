"""The service on one machine: the API and the worker as supervised child processes.

Every child leads its own process group, so Ctrl-C at the terminal reaches only the supervisor, and the
processes that a child started can be killed with it. A dead child is restarted with exponential backoff.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shoal.errors import ShoalError
from shoal.settings import PREFIX, Settings

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
"""Seconds before a dead child is restarted. Doubled after each early death, up to the longest pause."""
STABLE_SECONDS = 30.0
"""A child that ran this long started successfully: the next pause is the first again."""
MAX_FAILED_STARTS = 3
"""Deaths of a child before the service was ever ready, after which the start fails."""
STOP_SECONDS = 40.0
"""Time for children to finish current work. The API gives its requests 30 s; a worker needs less."""
KILL_WAIT_SECONDS = 2.0
"""Time for the kernel to end killed processes and for init to collect them."""
READY_SECONDS = 120.0
"""Time limit for the start, which takes two seconds on an idle machine."""
POLL_SECONDS = 0.1

ANY_IPV4 = "0.0.0.0"  # noqa: S104 - only compared with, never a default
_PR_SET_PDEATHSIG = 1  # linux/prctl.h

Log = Callable[[str], None]


class PortTakenError(ShoalError, code="port_taken"):
    """Another process listens on the port."""


@dataclass
class Child:
    """A process to keep running, and its current process, if any."""

    name: str
    command: Sequence[str]
    pause: float
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    due: float = 0.0
    deaths: int = 0


class Supervisor:
    """Keeps child processes running until `stop` is called."""

    def __init__(
        self, children: Mapping[str, Sequence[str]], environment: Mapping[str, str], log: Log
    ) -> None:
        """`children`: commands by name. `log` is called with a line for every restart and death."""
        self._children = [Child(name, command, FIRST_PAUSE) for name, command in children.items()]
        self._environment = dict(environment)
        self._log = log
        # Plain flags: the code that a signal handler interrupts could already hold a lock.
        self._stopping = False
        self._hurried = False

    def stop(self) -> None:
        """Stop the children; on a second call, without waiting for their work. Safe in a signal handler."""
        self._hurried = self._stopping
        self._stopping = True

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run the children during the block. All of them have ended after it."""
        handlers = {
            number: signal.signal(number, lambda _number, _frame: self.stop())
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        }
        try:
            for child in self._children:
                self._start(child)
            yield
        finally:
            self._stop_all()
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def wait_until_ready(self, host: str, port: int) -> bool:
        """Keep the children running until `/ready` returns 200; False if stopped before.

        Raises ShoalError if a child keeps dying or READY_SECONDS have passed.
        """
        deadline = time.monotonic() + READY_SECONDS
        while not self._stopping:
            if is_ready(host, port):
                return True
            self._restart_dead()
            for child in self._children:
                if child.deaths >= MAX_FAILED_STARTS:
                    raise ShoalError(f"the {child.name} does not start; its log above says why")
            if time.monotonic() > deadline:
                raise ShoalError(
                    f"the service is not ready after {READY_SECONDS:.0f} seconds; see the log above"
                )
            time.sleep(POLL_SECONDS)
        return False

    def watch(self) -> None:
        """Keep the children running until `stop` is called."""
        while not self._stopping:
            self._restart_dead()
            time.sleep(POLL_SECONDS)

    def _start(self, child: Child) -> None:
        child.process = subprocess.Popen(
            child.command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            stderr=sys.stderr.fileno(),
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - this process has no threads
        )
        child.started = time.monotonic()

    def _restart_dead(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if child.process is None:
                if now >= child.due:
                    self._start(child)
                    self._log(f"{child.name} restarted, process {child.process.pid if child.process else ''}")
                continue
            code = child.process.poll()
            if code is None:
                continue
            # Processes that the dead child has left behind could continue working or hold the port.
            _kill_group(child.process.pid)
            child.process = None
            child.deaths += 1
            if now - child.started >= STABLE_SECONDS:
                child.pause = FIRST_PAUSE
            child.due = now + child.pause
            self._log(f"{child.name} {_describe_exit(code)}; restart in {child.pause:g} s")
            child.pause = min(child.pause * 2, LONGEST_PAUSE)

    def _stop_all(self) -> None:
        """Terminate every child, wait, and kill the rest of its process group."""
        alive = [child.process for child in self._children if child.process is not None]
        for process in alive:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        while any(process.poll() is None for process in alive):
            if self._hurried or time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS / 2)
        for process in alive:
            _kill_group(process.pid)
            process.wait()
        deadline = time.monotonic() + KILL_WAIT_SECONDS
        while any(_kill_group(process.pid) for process in alive) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS / 2)
        for child in self._children:
            child.process = None


def environment_of(settings: Settings) -> dict[str, str]:
    """The environment of a child that must use exactly `settings`."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(PREFIX) or name.startswith(f"{PREFIX}TEST_")
    }
    return {**inherited, **settings.environment()}


def reserve_port(host: str, port: int) -> int:
    """Return `port`, or a free port for 0.

    Raises PortTakenError, and ShoalError if `host` is not an address of this machine.
    """
    try:
        family, kind, protocol, _name, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            # As the server does: a port in TIME_WAIT counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            return int(probe.getsockname()[1])
    except PermissionError as error:
        raise ShoalError(
            f"not allowed to listen on port {port}; choose one above 1023 with --port"
        ) from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortTakenError(
                f"port {port} on {host} is taken, perhaps by another `shoal up`; "
                "choose another with --port, or --port 0 for any free port"
            ) from error
        raise ShoalError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error


def is_ready(host: str, port: int) -> bool:
    """Whether `/ready` of the service returns 200."""
    connection = http.client.HTTPConnection(reachable(host), port, timeout=5)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def reachable(host: str) -> str:
    """An address to connect to a server that listens on `host`."""
    return {ANY_IPV4: "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)


def _die_with_parent() -> None:
    """In the child: let the kernel send SIGTERM when the supervisor dies, even by SIGKILL."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _load_libc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL(None)
    except OSError:
        return None


# Loaded before any fork, because a child should do as little as possible between fork and exec.
_libc = _load_libc()


def _kill_group(group: int) -> bool:
    """Kill the remaining processes of a child's group. False if there were none."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
