"""How much is taken at a time: requests of a caller, and work that waits.

The rate limit is a token bucket for each caller, in this process: one process answers for the whole service, so
nothing needs to be shared, and a bucket refills steadily where a counter per minute would let twice the limit
through around the turn of a minute.
"""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

import flask

from shoal.jobs.queue import queries
from shoal.jobs.queue.queries import Waiting
from shoal.settings import MIB, Settings
from shoal.storage.database import Database
from shoal_api.paths import DOCUMENTS, ID
from shoal_api.problems import ProblemError

ESCAPED = 3
"""Bytes of JSON for a byte of text at most, in practice: `\\u0434` for the two bytes of a Cyrillic letter."""

MAX_JSON_BYTES = MIB
"""Of a body that holds no document, and of one that does beside content and metadata. A search with ten thousand ids in
its filters fits."""

MAX_CALLERS = 10_000
"""Buckets that are kept; of more callers the one that was silent longest is forgotten, and has a full one again."""

IPV6_SITE_BITS = 64
"""One customer's share of the IPv6 addresses: whoever has one of them has them all."""

QUEUE_RETRY_SECONDS = 30
"""What `Retry-After` says where the queue is full: about what a worker needs for the documents of a book shelf."""

MANY_JOBS = 1000
COUNT_AGE_SECONDS = 1.0
"""Beyond so many open jobs, counting them takes milliseconds: the count then serves for as long as this."""

FILLS_QUEUE = frozenset(
    {
        ("POST", DOCUMENTS),
        ("POST", f"{DOCUMENTS}/bulk"),
        ("PUT", f"{DOCUMENTS}/<{ID}:document_id>"),
    }
)
"""Methods and rules that bring documents to be worked on."""


def max_body_bytes(settings: Settings) -> int:
    """Bytes of JSON that a document within its limits can need."""
    return ESCAPED * settings.max_document_bytes + max_beside_content(settings)


def max_beside_content(settings: Settings) -> int:
    """Bytes of those that may be something other than the content."""
    return ESCAPED * settings.max_metadata_bytes + MAX_JSON_BYTES


class RateLimit:
    """Requests a minute of each caller. As many may come at once after a minute's silence."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """0: no limit."""
        self._size = float(per_minute)
        self._per_second = per_minute / 60
        self._clock = clock
        # Of each caller: the tokens there were, and when that was.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, caller: str) -> None:
        """Count a request of `caller`, an address or a name. Raises a 429 problem if there were too many."""
        if not self._size:
            return
        seconds = self._wait(_site(caller))
        if seconds:
            raise ProblemError(
                429,
                f"too many requests: {self._size:,.0f} a minute are answered; try again in {counted(seconds)}",
                headers={"Retry-After": str(seconds)},
            )

    def _wait(self, caller: str) -> int:
        """Take a token; 0, or where there is none the seconds until there is."""
        with self._lock:
            now = self._clock()
            tokens, before = self._buckets.pop(caller, (self._size, now))
            tokens = min(self._size, tokens + (now - before) * self._per_second)
            is_there = tokens >= 1
            self._buckets[caller] = (tokens - is_there, now)
            if len(self._buckets) > MAX_CALLERS:
                self._buckets.popitem(last=False)
        return 0 if is_there else max(1, math.ceil((1 - tokens) / self._per_second))


class QueueLimit:
    """Documents are taken until too many, or too much of them, wait for the workers."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._items = settings.max_queue_items
        self._bytes = settings.max_queue_bytes
        self._counted: tuple[Waiting, float] | None = None

    def check(self) -> None:
        """Raise a 429 problem if the queue is full. An upload that begins before that may go over the limit."""
        if not self._items and not self._bytes:
            return
        waiting = self._waiting()
        if not (
            (self._items and waiting.items >= self._items) or (self._bytes and waiting.bytes >= self._bytes)
        ):
            return
        raise ProblemError(
            429,
            f"the queue is full: {waiting.items:,} documents wait for the workers; nothing of this request was "
            f"stored, send it again later",
            headers={"Retry-After": str(QUEUE_RETRY_SECONDS)},
        )

    def _waiting(self) -> Waiting:
        now = time.monotonic()
        if self._counted is not None and now - self._counted[1] < COUNT_AGE_SECONDS:
            return self._counted[0]
        waiting = queries.waiting(self._database)
        self._counted = (waiting, now) if waiting.jobs > MANY_JOBS else None
        return waiting


def register(app: flask.Flask, database: Database, settings: Settings) -> None:
    """Refuse bodies whose size nobody knows, and documents while the queue is full, before anything is read."""
    queue = QueueLimit(database, settings)

    @app.before_request
    def check_encoding() -> None:
        encoding = flask.request.headers.get("Content-Encoding", "identity")
        if encoding.strip().lower() not in ("", "identity"):
            raise ProblemError(
                415, "send the body without Content-Encoding; an archive is taken as one, by its content type"
            )

    @app.before_request
    def check_address() -> None:
        try:
            flask.request.query_string.decode()
        except UnicodeDecodeError:
            raise ProblemError(400, "the address is not UTF-8; write other bytes as %XX") from None

    @app.before_request
    def check_queue() -> None:
        request = flask.request
        rule = request.url_rule
        if rule is None or (request.method, rule.rule) not in FILLS_QUEUE:
            return
        key = request.headers.get("Idempotency-Key")
        # What was accepted is told again, however full the queue is by now.
        if key is None or queries.find_by_key(database, key) is None:
            queue.check()


def counted(seconds: int) -> str:
    return "1 second" if seconds == 1 else f"{seconds:,} seconds"


def _site(caller: str) -> str:
    """A caller as it is counted: of an IPv6 address the part that stands for the customer."""
    try:
        address = ipaddress.ip_address(caller.split("%")[0])
    except ValueError:
        return caller
    if address.version == 4:
        return caller
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, IPV6_SITE_BITS), strict=False))
