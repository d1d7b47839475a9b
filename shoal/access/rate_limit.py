"""Rate limit of callers: token buckets in the memory of this process, one for each.

A bucket refills steadily, whereas a counter per minute would allow twice the limit around the turn of a
minute. Several processes count separately.
"""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from shoal.access.rights import Access

MAX_CALLERS = 10_000
"""Most buckets in memory. Beyond that, the least recently used bucket is evicted; its caller starts with a
full one."""

IPV6_SITE_BITS = 64
"""Prefix that an IPv6 customer gets. All of its addresses count as one caller."""


class TokenBuckets:
    """Counts requests of callers. May be shared between threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # caller -> (tokens, time at which they were counted), least recently used first.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, caller: str, *, size: float, per_second: float) -> int:
        """Take a token of `caller` and return 0; if there is none, return the seconds until the next one.

        A bucket has `size` tokens when it is full, and gets `per_second`.
        """
        with self._lock:
            now = self._clock()
            tokens, before = self._buckets.pop(caller, (size, now))
            tokens = min(size, tokens + (now - before) * per_second)
            is_allowed = tokens >= 1
            self._buckets[caller] = (tokens - is_allowed, now)
            if len(self._buckets) > MAX_CALLERS:
                self._buckets.popitem(last=False)
        return 0 if is_allowed else max(1, math.ceil((1 - tokens) / per_second))


class Excess(NamedTuple):
    """Why a request is over the limit, and the seconds until the next one is allowed."""

    detail: str
    seconds: int


class RateLimit:
    """Limit of requests per minute and caller. After a minute without requests, as many may come at once.

    A key with a rate of its own may send what it gets in one second at once.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Set the limit of callers without a rate of their own; 0 means no limit."""
        self._per_minute = per_minute
        self._buckets = TokenBuckets(clock)

    def take_for(self, access: Access | None, address: str) -> Excess | None:
        """Count a request of a token and of its key, or of an address without a valid one: that limits
        guessing."""
        if access is not None and access.name:
            excess = None
            if access.token_rate is not None:
                name = f"token {access.key_id} {access.token}"
                excess = self.take(name, per_second=access.token_rate)
            return excess or self.take(f"key {access.key_id or access.name}", per_second=access.rate)
        return self.take(address)

    def take(self, caller: str, *, per_second: float | None = None) -> Excess | None:
        """Count a request of `caller`, an address or a key; return how it is over the limit, if it is."""
        if per_second is not None:
            size, limit = max(1.0, per_second), f"{per_second:,g} a second"
        elif self._per_minute:
            size, per_second = float(self._per_minute), self._per_minute / 60
            limit = f"{self._per_minute:,} a minute"
        else:
            return None
        seconds = self._buckets.take(site_of(caller), size=size, per_second=per_second)
        if not seconds:
            return None
        pause = "1 second" if seconds == 1 else f"{seconds:,} seconds"
        return Excess(f"too many requests: the limit is {limit}; try again in {pause}", seconds)


def site_of(address: str) -> str:
    """Return the name under which an address is counted: of an IPv6 address, the prefix of the customer."""
    try:
        parsed = ipaddress.ip_address(address.split("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, IPV6_SITE_BITS), strict=False))
