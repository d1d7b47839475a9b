"""Where a service may listen: without keys on this machine alone, unless whoever runs it insists."""

from __future__ import annotations

import ipaddress

from shoal.errors import SettingsError
from shoal.settings import Settings


def is_loopback(host: str) -> bool:
    """Whether an address or name is this machine's own, reachable from nowhere else."""
    host = host.strip("[]").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.split("%")[0]).is_loopback
    except ValueError:
        return False


def check_binding(settings: Settings, *, program: str = "the API") -> None:
    """Raise SettingsError where the address would let strangers in; it names `program`."""
    if settings.api_keys or is_loopback(settings.host) or settings.allow_anonymous:
        return
    mistaken = " (SHOAL_API_KEY, which is set, is the key that commands send.)" if settings.api_key else ""
    raise SettingsError(
        f"{program} refuses to listen on {settings.host or 'every address'}: whoever reaches it could read, add "
        "and delete documents without a key. Set SHOAL_API_KEYS (`shoal new-key` makes one), or listen on 127.0.0.1, "
        "or set SHOAL_ALLOW_ANONYMOUS=1 if the network or a proxy in front keeps strangers away." + mistaken
    )
