"""Addresses of a service: where it may listen, which sites may use it, and the file that names it.

Without keys, a service listens on this machine alone, unless the operator allows more. The site that a
request names, and the one that sent it, are read strictly, so that a foreign web page cannot use a local
service: what is not exactly a host, or an origin, is of no site.

The file beside the database has the address of the service that runs for it, for hooks of agents. The service
holds a lock on the file while it runs, so nobody mistakes the file of a dead service for a living one. Of two
services of one library, the first is named.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from shoal.errors import SettingsError
from shoal.settings import Settings
from shoal.support.patterns import canonical_host


def is_loopback(host: str) -> bool:
    """Whether an address or name is a loopback address: no other machine can reach it."""
    host = host.strip("[]").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.split("%")[0]).is_loopback
    except ValueError:
        return False


def check_listen_address(settings: Settings, *, program: str = "the API", has_keys: bool = False) -> None:
    """Raise SettingsError if the address gives access to anyone without a key; the message names `program`.

    has_keys: whether the catalog has keys
    """
    if has_keys or settings.api_keys or is_loopback(settings.host) or settings.allow_anonymous:
        return
    hint = " (SHOAL_API_KEY is set, but it is the key that commands send.)" if settings.api_key else ""
    raise SettingsError(
        f"{program} refuses to listen on {settings.host or 'every address'}: anyone who reaches it could "
        "read, add and delete documents without a key. Make one with `shoal key create`, or set "
        "SHOAL_API_KEYS (`shoal new-key` makes one), or listen on 127.0.0.1, or set SHOAL_ALLOW_ANONYMOUS=1 "
        "if the network or a proxy in front keeps strangers away." + hint
    )


DEFAULT_PORTS = {"http": 80, "https": 443}
MAX_PORT = 65_535

_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{1,5}))?")


class Authority(NamedTuple):
    """A host, in lower case and without brackets, and its port; None for the usual one of the scheme."""

    host: str
    port: int | None


def parse_authority(text: str) -> Authority:
    """Return the host and the port of a `Host` header. Raises ValueError for everything else.

    Refuses user names, paths, other alphabets, an empty port, and anything after the bracket of an address.
    """
    match = _AUTHORITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:100]!r} is not HOST or HOST:PORT")
    address, name, digits = match.groups()
    if address is not None and ":" not in address:
        raise ValueError(f"{text[:100]!r} has brackets around what is no IPv6 address")
    port = None if digits is None else int(digits)
    if port is not None and not 0 < port <= MAX_PORT:
        raise ValueError(f"{text[:100]!r} has no valid port")
    return Authority(canonical_host(name if address is None else address), port)


def is_for_this_machine(host_header: str) -> bool:
    """Whether a `Host` header names this machine, by a loopback address or as `localhost`."""
    try:
        return is_loopback(parse_authority(host_header).host)
    except ValueError:
        return False


def is_same_site(origin_header: str, host_header: str) -> bool:
    """Whether an `Origin` header is that of the pages of the host that a request names.

    A `Host` without a port has the usual port of the origin's scheme, because a proxy may have ended TLS.
    """
    scheme, separator, rest = origin_header.partition("://")
    if not separator or scheme not in DEFAULT_PORTS:
        return False
    try:
        origin, host = parse_authority(rest), parse_authority(host_header)
    except ValueError:
        return False
    usual = DEFAULT_PORTS[scheme]
    return (origin.host, origin.port or usual) == (host.host, host.port or usual)


ATTEMPTS = 20
PAUSE_SECONDS = 0.05
"""A hook that looks at the file holds the lock for a moment."""


@contextlib.contextmanager
def announced(database: Path, url: str) -> Iterator[None]:
    """Name the service at `url` during the block. Without write permission or as a second service, do
    nothing."""
    path = database.with_name(f"{database.name}.service")
    descriptor = _locked(path)
    if descriptor is None:
        yield
        return
    try:
        os.truncate(descriptor, 0)
        os.write(descriptor, f"{url}\n".encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(path: Path) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    for _ in range(ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(PAUSE_SECONDS)
            continue
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        break  # a service that ended in this moment has removed the file
    os.close(descriptor)
    return None
