"""Limits of connections and of the head of a request, the same for every server.

A server gives each connection the form of `LimitedConnection`. It enforces the limits when a connection opens
(`ConnectionLimits.surplus`) and once in MAINTENANCE_SECONDS (`is_overdue`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, Protocol, TypeVar

from shoal.settings import Settings
from shoal.support.byte_units import KIB, MIB
from shoal.support.search_tokens import MAX_BYTES as MAX_TOKEN

HEAD_SECONDS = 20.0
"""Limit from the first byte of a request to the end of its head, which fits into one or two packets."""

IDLE_SECONDS = 20.0
"""A connection without a request is closed after this time."""

STALL_SECONDS = 60.0
"""A connection without traffic for this long during a request is closed."""

MIN_BYTES_PER_SECOND = 1 * KIB
RATE_GRACE_SECONDS = 30.0
"""Lowest mean rate of a body since its request began, and how long a body may be slower at first."""

LINGER_SECONDS = 2.0
LINGER_BYTES = 64 * MIB
"""How long, and how much, is still read after the last response of a connection. A client that is still
sending reads the response only afterwards; closing at once would reset its connection before that."""

MAINTENANCE_SECONDS = 1
"""Time between two looks for slow clients."""


class Phase(Enum):
    """What a connection waits for."""

    idle = auto()
    """The first byte of a request."""
    head = auto()
    """The rest of a head."""
    body = auto()
    """The rest of a body."""
    working = auto()
    """The application."""
    sending = auto()
    """A client that reads the response."""
    lingering = auto()
    """A client that still sends after the last response."""


DISPOSABLE = frozenset({Phase.idle, Phase.head, Phase.lingering})
"""A connection in these phases can be closed without loss: no request is past its head."""


class Progress(NamedTuple):
    """How far the present request of a connection is. Times are readings of one clock, in seconds.

    began          when the first byte of the request arrived; while lingering, when the response was sent
    last_activity  when the last byte arrived or was sent
    body_bytes     size of what arrived of the body
    """

    phase: Phase
    began: float
    last_activity: float
    body_bytes: int = 0


class LimitedConnection(Protocol):
    """What the limits read of a connection."""

    @property
    def address(self) -> str:
        """The address of the client, without its port."""

    @property
    def progress(self) -> Progress:
        """How far its present request is."""


ConnectionT = TypeVar("ConnectionT", bound=LimitedConnection)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The most open connections.

    in_all       of one process
    per_address  of one address of clients; 0 for no limit
    """

    in_all: int
    per_address: int

    @classmethod
    def of(cls, settings: Settings) -> ConnectionLimits:
        """Return the limits that the settings name."""
        return cls(settings.max_connections, settings.max_connections_per_address)

    def surplus(self, newest: ConnectionT, connections: Iterable[ConnectionT]) -> ConnectionT | None:
        """Return the connection to close because `newest` opened, or None within the limits.

        It is the one that has been idle longest, of the address that is above its limit or of all; the newest
        if none is idle. `connections` are all open ones, the newest included.
        """
        connections = list(connections)
        same_address = [each for each in connections if each.address == newest.address]
        for group, limit in ((same_address, self.per_address), (connections, self.in_all)):
            if limit and len(group) > limit:
                return longest_idle(group) or newest
        return None


def longest_idle(connections: Iterable[ConnectionT]) -> ConnectionT | None:
    """Return the connection that has been silent longest of those that can be closed without loss, if any."""
    idle = [each for each in connections if each.progress.phase in DISPOSABLE]
    return min(idle, key=lambda each: each.progress.last_activity, default=None)


def is_overdue(progress: Progress, now: float) -> bool:
    """Whether the client of a connection takes too long. `now` is a reading of the clock of `progress`."""
    phase, began, last_activity, body_bytes = progress
    silence = now - last_activity
    match phase:
        case Phase.idle:
            return silence > IDLE_SECONDS
        case Phase.head:
            return now - began > HEAD_SECONDS
        case Phase.body:
            due_bytes = (now - began - RATE_GRACE_SECONDS) * MIN_BYTES_PER_SECOND
            return silence > STALL_SECONDS or body_bytes < due_bytes
        case Phase.sending:
            return silence > STALL_SECONDS
        case Phase.lingering:
            return now - began > LINGER_SECONDS
        case Phase.working:
            return False


MAX_LINE = 8190
MAX_HEADERS = 64
MAX_HEADER = 8190
"""Most bytes of the request line and of one header, and most headers. Longer queries belong in the body of a
POST."""
AUTHORIZATION = b"authorization"
MAX_AUTHORIZATION = len(AUTHORIZATION) + len(" Bearer ") + MAX_TOKEN
"""The same of the header that holds a search token."""
MAX_HEAD = 64 * KIB

ONCE = (b"host", b"transfer-encoding", b"content-length", AUTHORIZATION)
"""Headers that may occur only once. Proxies and servers choose differently among several."""


def _most_of(name: bytes) -> int:
    return MAX_AUTHORIZATION if name.lower() == AUTHORIZATION else MAX_HEADER


def status_of_head(line_bytes: int, headers: Sequence[tuple[bytes, bytes]]) -> int | None:
    """Return the status that refuses a head, or None for an acceptable one.

    414 stands for a long request line, 431 for many or long headers, 400 for a repeated header of ONCE.

    line_bytes  size of the request line, without its end
    headers     names and values
    """
    if line_bytes > MAX_LINE:
        return 414
    if len(headers) > MAX_HEADERS or any(len(name) + len(value) > _most_of(name) for name, value in headers):
        return 431
    names = Counter(name.lower() for name, _ in headers)
    return 400 if any(names[name] > 1 for name in ONCE) else None
