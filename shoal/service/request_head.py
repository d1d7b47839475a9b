"""Limits of the head of a request, the same for every server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from shoal.support.byte_units import KIB

MAX_LINE = 8190
MAX_HEADERS = 64
MAX_HEADER = 8190
"""Most bytes of the request line and of one header, and most headers. Longer queries belong in the body of a
POST."""
MAX_HEAD = 64 * KIB

ONCE = (b"host", b"transfer-encoding", b"content-length", b"authorization")
"""Headers that may occur only once. Proxies and servers choose differently among several."""


def status_of_head(line_bytes: int, headers: Sequence[tuple[bytes, bytes]]) -> int | None:
    """Return the status that refuses a head, or None for an acceptable one.

    414 stands for a long request line, 431 for many or long headers, 400 for a repeated header of ONCE.

    line_bytes  size of the request line, without its end
    headers     names and values
    """
    if line_bytes > MAX_LINE:
        return 414
    if len(headers) > MAX_HEADERS or any(len(name) + len(value) > MAX_HEADER for name, value in headers):
        return 431
    names = Counter(name.lower() for name, _ in headers)
    return 400 if any(names[name] > 1 for name in ONCE) else None
