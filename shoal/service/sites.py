"""Which site a request names and which site sent it, so that a foreign web page cannot use a local service.

Headers are read strictly: what is not exactly a host, or an origin, is of no site.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from shoal.service.listen_address import is_loopback
from shoal.support.host_patterns import canonical_host

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
