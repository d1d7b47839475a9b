"""Patterns of folders, in prerequisites of notes and in tags by path, and lists of hosts in settings.

| pattern | matches | |---|---| | `/work/acme` | this folder and everything below it | | `/work/*/api` | `*`
and `?` match within one name | | `/work/**/api` | `**` matches any number of folders | | `acme/api` | the
same names anywhere in the path | | `~/acme` | below the home folder of any user, so that the pattern means
the same on every machine |

Matching takes time proportional to the length of the pattern times that of the path. A host is a name, the
names below a domain, or an address, each with an optional port.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

MAX_CHARS = 300
"""Longest pattern, characters."""

_ANY_FOLDERS = "**"
_HOMES = ("/home/*", "/Users/*", "/root", "?:/Users/*")


def matches(folder: str, pattern: str) -> bool:
    """Whether an absolute path of a folder is matched by a pattern or lies below a folder that is."""
    parts = _parts(folder)
    return any(_match(parts, [*_parts(anchored), _ANY_FOLDERS]) for anchored in _anchored(pattern))


def parse_path_tags(text: str) -> tuple[tuple[str, str], ...]:
    """Parse `PATTERN=TAG` separated by commas: pairs of pattern and tag. Raises ValueError."""
    pairs = []
    for entry in filter(None, map(str.strip, text.split(","))):
        pattern, equals, tag = (part.strip() for part in entry.rpartition("="))
        if not (pattern and equals and tag):
            raise ValueError(f"{entry[:50]!r} must be PATTERN=TAG, such as /work/acme/*=acme")
        if len(pattern) > MAX_CHARS:
            raise ValueError(f"a pattern has {len(pattern):,} characters; the limit is {MAX_CHARS:,}")
        pairs.append((pattern, tag))
    return tuple(pairs)


def _parts(path: str) -> list[str]:
    return [part for part in path.replace("\\", "/").split("/") if part]


def _anchored(pattern: str) -> list[str]:
    """Return patterns from the root of the file system that together mean the same."""
    pattern = pattern.replace("\\", "/")
    if pattern == "~" or pattern.startswith("~/"):
        return [home + pattern[1:] for home in _HOMES]
    is_anchored = pattern.startswith("/") or pattern[1:2] == ":"
    return [pattern if is_anchored else f"{_ANY_FOLDERS}/{pattern}"]


def _match(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether all parts match. What follows `**` takes its first possible place: a later one leaves fewer
    parts for the rest of the pattern."""
    i_part = i_pattern = 0
    retry_part = retry_pattern = -1
    while i_part < len(parts):
        if i_pattern < len(pattern) and pattern[i_pattern] == _ANY_FOLDERS:
            i_pattern += 1
            retry_part, retry_pattern = i_part, i_pattern
        elif i_pattern < len(pattern) and _match_name(parts[i_part], pattern[i_pattern]):
            i_part += 1
            i_pattern += 1
        elif retry_pattern >= 0:
            retry_part += 1
            i_part, i_pattern = retry_part, retry_pattern
        else:
            return False
    return all(part == _ANY_FOLDERS for part in pattern[i_pattern:])


def _match_name(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern.replace("[", "[[]"))


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
