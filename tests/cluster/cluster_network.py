"""Hosts as network namespaces of one machine, on a network of their own that can be cut.

All addresses exist only inside these namespaces. A host has its own interfaces, loopback and host name. Hosts
share the file system, the process table and the clock, unless a process is started with another clock.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

PREFIX = "shoal-trial-"
SUBNET = "10.77.0"
NAMESPACES = Path("/run/netns")
CLONE_NEWNET = 0x40000000
TOOLS = ("ip", "nsenter", "unshare")


def why_not() -> str:
    """Return why this machine cannot have such hosts, or nothing."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"there is no {', '.join(missing)}"
    probe = f"{PREFIX}{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode:
        return f"network namespaces cannot be made: {made.stderr.strip()}"
    _ip("netns", "delete", probe)
    return ""


class Host:
    """A host of the network. `address` is its own; it may have more (`add_address`)."""

    def __init__(self, network: Network, name: str, number: int) -> None:
        self._network, self._port = network, f"port{number}"
        self.name, self.address = name, f"{SUBNET}.{number}"
        self.namespace = network.namespace(name)
        self.is_cut = False
        _ip("netns", "add", self.namespace)
        _ip("-n", self.namespace, "link", "set", "lo", "up")
        _ip("link", "add", self._port, "netns", network.switch, "type", "veth", "peer", "name", "eth0",
            "netns", self.namespace)  # fmt: skip
        _ip("-n", network.switch, "link", "set", self._port, "master", "bridge", "up")
        _ip("-n", self.namespace, "link", "set", "eth0", "up")
        self.add_address(self.address)

    def add_address(self, address: str) -> None:
        _ip("-n", self.namespace, "address", "add", f"{address}/24", "dev", "eth0")
        self._network.forget_neighbours()

    def remove_address(self, address: str) -> None:
        _ip("-n", self.namespace, "address", "delete", f"{address}/24", "dev", "eth0")
        self._network.forget_neighbours()

    def cut(self) -> None:
        """Lose every packet from and to this host. Connections hang without an error."""
        _ip("-n", self._network.switch, "link", "set", self._port, "down")
        self.is_cut = True

    def reconnect(self) -> None:
        _ip("-n", self._network.switch, "link", "set", self._port, "up")
        self.is_cut = False

    def start(
        self,
        command: Sequence[str],
        log: IO[bytes],
        *,
        environment: Mapping[str, str] | None = None,
        user: str = "",
        folder: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a program on the host, in a session of its own."""
        variables = {**os.environ, **(environment or {})}
        return subprocess.Popen(
            [*self._entering(user), *command],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder or "/",
            start_new_session=True,
        )

    def run(self, command: Sequence[str], *, user: str = "", timeout: float = 60) -> str:
        """Run a program on the host and return what it prints. Raises CalledProcessError."""
        done = subprocess.run(
            [*self._entering(user), *command], capture_output=True, text=True, timeout=timeout, cwd="/"
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} on {self.name}: {done.stderr or done.stdout}")
        return done.stdout

    def _entering(self, user: str) -> list[str]:
        entering = ["nsenter", f"--net={NAMESPACES / self.namespace}", "unshare", "--uts", "sh", "-c"]
        entering += [f'hostname {self.name}; exec "$@"', "sh"]
        if user:
            entering += ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        return entering

    def processes(self) -> list[int]:
        return _processes(self.namespace)

    def kill_all(self) -> None:
        """Power off: kill every process on the host at once."""
        _kill(self.namespace)


class Network:
    """Hosts on one switch. A context manager: afterwards no process and no namespace is left."""

    def __init__(self) -> None:
        remove_leftovers()
        self._owner = os.getpid()
        self.hosts: dict[str, Host] = {}
        self.switch = self.namespace("switch")
        _ip("netns", "add", self.switch)
        _ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self.switch, "link", "set", "bridge", "up")

    def namespace(self, name: str) -> str:
        return f"{PREFIX}{os.getpid()}-{name}"

    def add(self, name: str) -> Host:
        self.hosts[name] = Host(self, name, 11 + len(self.hosts))
        return self.hosts[name]

    def forget_neighbours(self) -> None:
        """Let every host ask again which interface has an address, as after a gratuitous ARP."""
        for host in self.hosts.values():
            _ip("-n", host.namespace, "neighbour", "flush", "all")

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *_: object) -> None:
        if os.getpid() == self._owner:
            for namespace in _namespaces(self._owner):
                _remove(namespace)


@contextlib.contextmanager
def entered(host: Host):  # type: ignore[no-untyped-def]
    """Put this thread, and the threads that it starts, on a host."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(path: str) -> None:
        with Path(path).open("rb") as namespace:
            if libc.setns(namespace.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"cannot enter {path}")

    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        enter(str(NAMESPACES / host.namespace))
        yield
    finally:
        libc.setns(before, CLONE_NEWNET)
        os.close(before)


def wrong_clock(folder: Path, hours: float) -> dict[str, str]:
    """Return variables for a program whose wall clock is `hours` ahead; none without a C compiler."""
    library = folder / "wrong_clock.so"
    if not library.exists():
        compiler = shutil.which("cc")
        if compiler is None:
            return {}
        source = Path(__file__).with_name("wrong_clock.c")
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
        subprocess.run(command, check=True, capture_output=True)
    return {"LD_PRELOAD": str(library), "SHOAL_TEST_CLOCK_SECONDS": f"{hours * 3600:.0f}"}


def remove_leftovers() -> None:
    """Remove what a killed trial has left: the name of a namespace has the process id of its trial."""
    for namespace in _namespaces():
        owner = re.match(rf"{PREFIX}(\d+)-", namespace)
        if owner and not Path(f"/proc/{owner[1]}").exists():
            _remove(namespace)


def _namespaces(owner: int | None = None) -> list[str]:
    prefix = PREFIX if owner is None else f"{PREFIX}{owner}-"
    return sorted(path.name for path in NAMESPACES.glob(f"{prefix}*"))


def _remove(namespace: str) -> None:
    _kill(namespace)
    subprocess.run(["ip", "netns", "delete", namespace], capture_output=True)


def _kill(namespace: str) -> None:
    # Twice: a process may have started another between the list and the signal.
    for _ in range(20):
        found = _processes(namespace)
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _processes(namespace: str) -> list[int]:
    """The processes in a namespace, without this one, which may be there to use the network."""
    listed = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True).stdout
    return [int(pid) for pid in listed.split() if int(pid) != os.getpid() and not _is_zombie(int(pid))]


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
