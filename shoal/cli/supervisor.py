"""The service on one machine: the API and the worker as child processes that live and die together.

Every child leads a process group of its own, so that a Ctrl-C at the terminal reaches the supervisor alone and
whatever a child started can be ended with it. A child that dies is started again, later each time it dies young.
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
"""Seconds before a dead child is started again; doubled from the first to the longest while it dies young."""
GROWN_UP = 30.0
"""A child that lived this many seconds died of something else than its start: the pause begins anew."""
MOST_FAILED_STARTS = 3
"""Before the service has ever been ready: a child that dies this often will not get well by itself."""
STOP_SECONDS = 40.0
"""How long children may finish what they have in hand. The API gives its requests 30 s, a worker needs less."""
DYING_SECONDS = 2.0
"""How long to see the killed out: the kernel takes a moment, and init another to collect them."""
READY_SECONDS = 120.0
"""How long the start may take. It takes two seconds on an idle machine."""
POLL_SECONDS = 0.1

ANY_IPV4 = "0.0.0.0"  # noqa: S104 - recognised here, never chosen
_PR_SET_PDEATHSIG = 1  # linux/prctl.h

Log = Callable[[str], None]


class PortTakenError(ShoalError):
    """Something else listens on the port."""


@dataclass
class Child:
    """One kind of process to keep alive, and the process that is alive now, if any."""

    name: str
    command: Sequence[str]
    pause: float
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    due: float = 0.0
    deaths: int = 0


class Supervisor:
    """Keeps children running until it is told to stop."""

    def __init__(
        self, children: Mapping[str, Sequence[str]], environment: Mapping[str, str], log: Log
    ) -> None:
        """`children`: command by name. `log` is told every start, death and end in a line."""
        self._children = [Child(name, command, FIRST_PAUSE) for name, command in children.items()]
        self._environment = dict(environment)
        self._log = log
        # Plain flags: a lock taken in a signal handler could be held already by what it interrupted.
        self._stopping = False
        self._hurried = False

    def stop(self) -> None:
        """End everything. Called a second time, without waiting for work in hand. Safe in a signal handler."""
        self._hurried = self._stopping
        self._stopping = True

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Children are started at the beginning of the block and all gone at its end."""
        handlers = {
            number: signal.signal(number, lambda _number, _frame: self.stop())
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        }
        try:
            for child in self._children:
                self._start(child)
            yield
        finally:
            self._end_all()
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def wait_until_ready(self, host: str, port: int) -> bool:
        """Watch the children until `/ready` answers 200; False if told to stop before.

        Raises ShoalError when a child keeps dying or READY_SECONDS have passed.
        """
        deadline = time.monotonic() + READY_SECONDS
        while not self._stopping:
            if is_ready(host, port):
                return True
            self._revive()
            for child in self._children:
                if child.deaths >= MOST_FAILED_STARTS:
                    raise ShoalError(f"the {child.name} does not start; its log above says why")
            if time.monotonic() > deadline:
                raise ShoalError(
                    f"the service is not ready after {READY_SECONDS:.0f} seconds; see the log above"
                )
            time.sleep(POLL_SECONDS)
        return False

    def watch(self) -> None:
        """Keep the children alive until `stop`."""
        while not self._stopping:
            self._revive()
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

    def _revive(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if child.process is None:
                if now >= child.due:
                    self._start(child)
                    self._log(
                        f"{child.name} started again, process {child.process.pid if child.process else ''}"
                    )
                continue
            code = child.process.poll()
            if code is None:
                continue
            # What the dead one left behind would go on working, or hold the port.
            _kill_group(child.process.pid)
            child.process = None
            child.deaths += 1
            if now - child.started >= GROWN_UP:
                child.pause = FIRST_PAUSE
            child.due = now + child.pause
            self._log(f"{child.name} {_manner(code)}; it is started again in {child.pause:g} s")
            child.pause = min(child.pause * 2, LONGEST_PAUSE)

    def _end_all(self) -> None:
        """Ask every child to end, wait, and kill what is left of its group."""
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
        deadline = time.monotonic() + DYING_SECONDS
        while any(_kill_group(process.pid) for process in alive) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS / 2)
        for child in self._children:
            child.process = None


def environment_of(settings: Settings) -> dict[str, str]:
    """The environment for a child that is to see exactly `settings`."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(PREFIX) or name.startswith(f"{PREFIX}TEST_")
    }
    return {**inherited, **settings.environment()}


def reserve_port(host: str, port: int) -> int:
    """`port`, or a free one where it is 0. Raises PortTakenError, ShoalError if `host` is not of this machine."""
    try:
        family, kind, protocol, _name, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            # As the server does: a port that is only waiting out old connections is free.
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
                f"port {port} on {host} is taken, perhaps by a `shoal up` that runs already; "
                "choose another with --port, or --port 0 for any free one"
            ) from error
        raise ShoalError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error


def is_ready(host: str, port: int) -> bool:
    """Whether the service there answers that it can do its work."""
    connection = http.client.HTTPConnection(reachable(host), port, timeout=5)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def reachable(host: str) -> str:
    """An address that leads to a server which listens on `host`."""
    return {ANY_IPV4: "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)


def _die_with_parent() -> None:
    """In the child: ask the kernel for a SIGTERM when the supervisor is gone, even if it was killed."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _load_libc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL(None)
    except OSError:
        return None


# Loaded before any fork: a child between fork and exec should do as little as can be.
_libc = _load_libc()


def _kill_group(group: int) -> bool:
    """Kill what is left of a child and of what it started; whether there was anything."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _manner(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"
