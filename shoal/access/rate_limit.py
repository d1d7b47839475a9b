"""Token buckets in the memory of this process, one for each caller.

A bucket refills steadily, whereas a counter per minute would allow twice the limit around the turn of a
minute. Several processes of the API count separately.
"""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

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
