"""Lists of hosts in settings: names, the names below a domain, and addresses, each with an optional port."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

USUAL_PORTS = frozenset({80, 443})
"""The ports of a host that is listed without one."""

_NAME = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_ENTRY = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::(\d{1,5}|\*))?")
_MAX_NAME = 253
_MAX_PORT = 65535
_EXAMPLE = "write a name, *.example.org, an address, or * for any host, each with :PORT if needed"


@dataclass(frozen=True, slots=True)
class HostPattern:
    """`name`: a host, `*.` and a domain for the names below it, or `*`. `port`: None for the usual ones,
    0 for any."""

    name: str
    port: int | None

    def matches(self, host: str) -> bool:
        """Whether a host, as `canonical_host` returns it, is meant."""
        if self.name.startswith("*"):
            return host.endswith(self.name[1:])
        return host == self.name

    def allows(self, host: str, port: int) -> bool:
        """Whether a host and its port are meant."""
        in_ports = port in USUAL_PORTS if self.port is None else self.port in (0, port)
        return in_ports and self.matches(host)


def parse_hosts(text: str) -> tuple[HostPattern, ...]:
    """Return the entries of a list that is separated by commas. Raises ValueError."""
    return tuple(_pattern(entry.strip()) for entry in text.split(",") if entry.strip())


def canonical_host(host: str) -> str:
    """Return a host name in lower case and ASCII without a final dot, or an address in its usual form.

    An address of IPv6 has no brackets. Raises ValueError for what is no host.
    """
    if ":" in host:
        address = ipaddress.IPv6Address(host)
        if address.scope_id is not None:
            raise ValueError(f"{host!r} names an interface of one machine")
        return str(address)
    name = host.lower().removesuffix(".")
    if not name.isascii():
        # A late import: most names are ASCII.
        import idna

        # Its errors are ValueErrors.
        name = idna.encode(name).decode("ascii")
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        raise ValueError(f"{host!r} is not the name of a host")
    return name


def _pattern(entry: str) -> HostPattern:
    match = _ENTRY.fullmatch(entry)
    if match is None:
        raise ValueError(f"{entry!r} is not a host; {_EXAMPLE}")
    name, port = match.groups()
    number = None if port is None else 0 if port == "*" else int(port)
    if number is not None and (number > _MAX_PORT or port == "0"):
        raise ValueError(f"{entry!r} has no valid port")
    if name == "*":
        return HostPattern(name, number)
    prefix = "*." if name.startswith("*.") else ""
    try:
        return HostPattern(prefix + canonical_host(name.removeprefix(prefix).strip("[]")), number)
    except ValueError:
        raise ValueError(f"{entry!r} is not a host; {_EXAMPLE}") from None
