"""The check of listen addresses: without keys, only this machine, unless the operator allows more."""

from __future__ import annotations

import ipaddress

from shoal.errors import SettingsError
from shoal.settings import Settings


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
