"""Rate limit per caller, limit of the job queue, and sizes of request bodies.

The rate limit is a token bucket per caller in the memory of this process, because one process serves the
whole service. A bucket refills steadily, whereas a counter per minute would allow twice the limit around the
turn of a minute.
"""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

import flask

from shoal.jobs.queue.queries import Waiting
from shoal.jobs.service import Jobs
from shoal.settings import MIB, Settings
from shoal_api.paths import DOCUMENTS, ID
from shoal_api.problems import ProblemError

ESCAPED = 3
"""Most bytes of JSON per byte of text in practice: `\\u0434` for the two bytes of a Cyrillic letter."""

MAX_JSON_BYTES = MIB
"""Limit of a body without a document, and of the other fields of a document besides content and metadata. A
search with ten thousand ids in its filters fits."""

MAX_NOTES_BYTES = 16 * MIB
"""Limit of a bulk upload of notes, whose lines have the limit of other bodies. A thousand notes of average
length have less than one mebibyte."""

MAX_CALLERS = 10_000
"""Most buckets in memory. Beyond that, the least recently used bucket is evicted; its caller starts with a
full one."""

IPV6_SITE_BITS = 64
"""Prefix that an IPv6 customer gets. All of its addresses count as one caller."""

QUEUE_RETRY_SECONDS = 30
"""Value of `Retry-After` where the queue is full: about what a worker needs for a shelf of books."""

MANY_JOBS = 1000
COUNT_AGE_SECONDS = 1.0
"""With more open jobs than MANY_JOBS, counting takes milliseconds, so the count is cached for
COUNT_AGE_SECONDS."""

FILLS_QUEUE = frozenset(
    {
        ("POST", DOCUMENTS),
        ("POST", f"{DOCUMENTS}/bulk"),
        ("PUT", f"{DOCUMENTS}/<{ID}:document_id>"),
    }
)
"""Methods and routes that add items to the queue."""


def max_body_bytes(settings: Settings) -> int:
    """Return the largest JSON body, in bytes, of a document within the limits."""
    return ESCAPED * settings.max_document_bytes + max_beside_content(settings)


def max_beside_content(settings: Settings) -> int:
    """Return how many bytes of such a body may be something other than the content."""
    return ESCAPED * settings.max_metadata_bytes + MAX_JSON_BYTES


class RateLimit:
    """Limit of requests per minute and caller. After a minute without requests, as many may come at once."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Set the limit; 0 means no limit."""
        self._size = float(per_minute)
        self._per_second = per_minute / 60
        self._clock = clock
        # caller -> (tokens, time at which they were counted), least recently used first.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, caller: str) -> None:
        """Count a request of `caller`, an address or a key name. Raises a 429 problem above the limit."""
        if not self._size:
            return
        seconds = self._wait(_site(caller))
        if seconds:
            raise ProblemError(
                429,
                f"too many requests: the limit is {self._size:,.0f} a minute; try again in "
                f"{counted(seconds)}",
                headers={"Retry-After": str(seconds)},
            )

    def _wait(self, caller: str) -> int:
        """Take a token and return 0; if there is none, return the seconds until the next one."""
        with self._lock:
            now = self._clock()
            tokens, before = self._buckets.pop(caller, (self._size, now))
            tokens = min(self._size, tokens + (now - before) * self._per_second)
            is_allowed = tokens >= 1
            self._buckets[caller] = (tokens - is_allowed, now)
            if len(self._buckets) > MAX_CALLERS:
                self._buckets.popitem(last=False)
        return 0 if is_allowed else max(1, math.ceil((1 - tokens) / self._per_second))


class QueueLimit:
    """Limit of the documents that wait for the workers, by number and bytes."""

    def __init__(self, jobs: Jobs, settings: Settings) -> None:
        self._jobs = jobs
        self._items = settings.max_queue_items
        self._bytes = settings.max_queue_bytes
        self._counted: tuple[Waiting, float] | None = None

    def check(self) -> None:
        """Raise a 429 problem if the queue is full. An upload accepted before that may exceed the limit."""
        if not self._items and not self._bytes:
            return
        waiting = self._waiting()
        if not (
            (self._items and waiting.items >= self._items) or (self._bytes and waiting.bytes >= self._bytes)
        ):
            return
        raise ProblemError(
            429,
            f"the queue is full: {waiting.items:,} documents wait for the workers; nothing of this request "
            "was stored; send it again later",
            code="queue_full",
            headers={"Retry-After": str(QUEUE_RETRY_SECONDS)},
        )

    def _waiting(self) -> Waiting:
        now = time.monotonic()
        if self._counted is not None and now - self._counted[1] < COUNT_AGE_SECONDS:
            return self._counted[0]
        waiting = self._jobs.backlog()
        self._counted = (waiting, now) if waiting.jobs > MANY_JOBS else None
        return waiting


def register(app: flask.Flask, jobs: Jobs, settings: Settings) -> None:
    """Check the encoding, the URL and the queue limit of each request before its body is read."""
    queue = QueueLimit(jobs, settings)

    @app.before_request
    def check_encoding() -> None:
        encoding = flask.request.headers.get("Content-Encoding", "identity")
        if encoding.strip().lower() not in ("", "identity"):
            raise ProblemError(
                415, "send the body without Content-Encoding; an archive is recognized by its content type"
            )

    @app.before_request
    def check_address() -> None:
        try:
            flask.request.query_string.decode()
        except UnicodeDecodeError:
            raise ProblemError(400, "the URL is not UTF-8; write other bytes as %XX") from None

    @app.before_request
    def check_queue() -> None:
        request = flask.request
        rule = request.url_rule
        if rule is None or (request.method, rule.rule) not in FILLS_QUEUE:
            return
        key = request.headers.get("Idempotency-Key")
        # A repeated request returns its accepted job even while the queue is full.
        if key is None or jobs.by_key(key) is None:
            queue.check()


def counted(seconds: int) -> str:
    return "1 second" if seconds == 1 else f"{seconds:,} seconds"


def _site(caller: str) -> str:
    """Return the name under which a caller is counted: of an IPv6 address, the prefix of the customer."""
    try:
        address = ipaddress.ip_address(caller.split("%")[0])
    except ValueError:
        return caller
    if address.version == 4:
        return caller
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, IPV6_SITE_BITS), strict=False))
