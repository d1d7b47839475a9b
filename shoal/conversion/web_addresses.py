"""Which URLs may be fetched, and from which addresses of the network.

Every URL is checked, redirects too, and every address that its host resolves to.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shoal.errors import FetchError, InvalidFieldError
from shoal.settings import Settings
from shoal.support.patterns import canonical_host, parse_hosts

if TYPE_CHECKING:
    import httpx

PORTS = {"http": 80, "https": 443}
MAX_REDIRECT_CHARS = 8000
"""Longest URL of a redirect; servers refuse longer ones too."""

OFF = (
    "fetching from URLs is off; the operator of this library sets SHOAL_FETCH_URLS to the hosts that are "
    "allowed"
)

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052
_COMPATIBLE = ipaddress.IPv6Network("::/96")  # RFC 4291, 2.5.5.1: deprecated, with an address of IPv4 inside
# Of special use (IANA registries), and global for some versions of Python.
_SPECIAL = (
    ipaddress.IPv4Network("192.0.0.0/24"),
    ipaddress.IPv4Network("192.88.99.0/24"),
    ipaddress.IPv6Network("3fff::/20"),
)
# Services with keys of virtual machines, at addresses that private networks have too.
_METADATA = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200")))


@dataclass(frozen=True, slots=True)
class WebAddress:
    """A URL in parts. `host`: as `canonical_host` returns it; `target`: path and query."""

    scheme: str
    host: str
    port: int
    target: bytes

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.target.decode('ascii')}"

    @property
    def authority(self) -> str:
        """The value of the header Host."""
        return str(self).split("/")[2]


def parse_url(text: str, max_chars: int) -> WebAddress:
    """Return the parts of a URL. Raises InvalidFieldError for the field `url`."""
    import httpx

    text = text.strip()
    if len(text) > max_chars:
        raise InvalidFieldError("url", f"is {len(text):,} characters; the limit is {max_chars:,}")
    try:
        address = _address(httpx.URL(text))
    except httpx.InvalidURL as error:
        raise InvalidFieldError("url", f"is not valid: {error}") from None
    except ValueError as error:
        raise InvalidFieldError("url", str(error)) from None
    if len(str(address)) > max_chars:
        raise InvalidFieldError(
            "url", f"has more than {max_chars:,} characters, which is the limit, once it is encoded"
        )
    return address


def _address(url: httpx.URL) -> WebAddress:
    """Raises ValueError."""
    if url.scheme not in PORTS:
        raise ValueError("must begin with http:// or https://")
    if url.userinfo:
        raise ValueError("must not contain a user name or password")
    if not url.host:
        raise ValueError("has no host")
    port = PORTS[url.scheme] if url.port is None else url.port
    if not 0 < port < 2**16:
        raise ValueError("has no valid port")
    try:
        host = canonical_host(url.raw_host.decode("ascii"))
    except ValueError:
        raise ValueError("has a host that is no name and no address") from None
    return WebAddress(url.scheme, host, port, url.raw_path)


class FetchPolicy:
    """The hosts and addresses that the settings allow."""

    hosts_setting = "SHOAL_FETCH_URLS"
    private_setting = "SHOAL_FETCH_PRIVATE"
    off = OFF

    def __init__(self, settings: Settings) -> None:
        self._hosts, self._private = map(parse_hosts, self._listed(settings))

    def _listed(self, settings: Settings) -> tuple[str, str]:
        """Return the settings that list the hosts, and those of them with private addresses."""
        return settings.fetch_urls, settings.fetch_private

    @property
    def is_on(self) -> bool:
        return bool(self._hosts)

    def check_url(self, address: WebAddress) -> None:
        """Raises FetchError for a host or port that is not allowed."""
        if not self.is_on:
            raise FetchError("refused", self.off)
        if not any(pattern.allows(address.host, address.port) for pattern in self._hosts):
            raise FetchError(
                "refused",
                f"{address.host} port {address.port} is not among the hosts that {self.hosts_setting} allows",
            )

    def check_redirect(self, before: WebAddress, location: str) -> WebAddress:
        """Return where a redirect leads. Raises FetchError if it is not allowed."""
        import httpx

        try:
            if len(location) > MAX_REDIRECT_CHARS:
                raise ValueError("is too long")
            after = _address(httpx.URL(str(before)).join(location))
        except (ValueError, httpx.InvalidURL) as error:
            raise FetchError("refused", f"{before.host} redirects to a URL that {error}") from None
        if before.scheme == "https" and after.scheme == "http":
            raise FetchError("refused", f"{before.host} redirects from https to http")
        self.check_url(after)
        return after

    def check_ip(self, host: str, ip: str) -> str:
        """Return an address of a host in its usual form. Raises FetchError if it is not allowed.

        The error does not name the address: who asks may not know the network.
        """
        try:
            address = ipaddress.ip_address(ip)
        except ValueError:
            raise FetchError("refused", f"{host} has an address that is not valid") from None
        inner = _inner(address)
        if _is_public(address) and (inner is None or _is_public(inner)):
            return str(address)
        if not any(pattern.matches(host) for pattern in self._private):
            raise FetchError(
                "refused",
                f"{host} has an address of this machine or of a private network; the operator of this "
                f"library lists such hosts in {self.private_setting}",
            )
        if not all(_is_of_a_machine(each) for each in (address, inner) if each is not None):
            raise FetchError("refused", f"{host} has an address that no page has")
        return str(address)


IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def _inner(address: IpAddress) -> IpAddress | None:
    """Return the address of IPv4 that an address of IPv6 stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def _is_public(address: IpAddress) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return _is_public(address.ipv4_mapped)
        if address.is_site_local or (address.is_reserved and address not in _NAT64):
            return False
    is_special = any(address in network for network in _SPECIAL if network.version == address.version)
    return address.is_global and not address.is_multicast and not is_special


def _is_of_a_machine(address: IpAddress) -> bool:
    """Whether an address may be one of a server in a private network."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return _is_of_a_machine(address.ipv4_mapped)
    return not (
        address.is_link_local or address.is_multicast or address.is_unspecified or address in _METADATA
    )
