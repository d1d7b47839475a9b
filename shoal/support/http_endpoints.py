"""What clients of OpenAI-compatible endpoints share: addresses, refusals, and pauses between tries.

Does not import an HTTP client by itself: commands that ask no endpoint would wait for that.
"""

from __future__ import annotations

import email.utils
import math
import random
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx

MAX_TRIES = 3
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 20.0
"""Pauses between tries double, with a random part; an endpoint that asks for a longer one is not asked again
before."""
TOO_MANY, FIRST_SERVER_FAULT = 429, 500
MAX_SECONDS_DIGITS = 9
"""Digits of `Retry-After` that are read: three decades."""
OVERLOADED = (408, 409, 425, TOO_MANY)


class Endpoint(NamedTuple):
    """What an endpoint is called in messages, and the settings of its address and key."""

    name: str
    url_setting: str
    key_setting: str


class Refusal(NamedTuple):
    """Why a try failed. `pause`: seconds that the endpoint asks for; `is_lasting`: another try is useless;
    `status`: of the answer, 0 without one."""

    reason: str
    pause: float | None = None
    is_lasting: bool = False
    status: int = 0


def endpoint_address(url: str, operation: str) -> str:
    """Return the address of an operation such as `chat/completions`.

    `url` is that of the server, of its version, or the whole.
    """
    url = url.rstrip("/")
    if url.endswith(f"/{operation}"):
        return url
    return f"{url}/{operation}" if urlsplit(url).path else f"{url}/v1/{operation}"


def open_client(key: str, timeout: float) -> httpx.Client:
    """Return a client that follows no redirects and uses no proxies of the environment."""
    import httpx

    headers = {"Accept-Encoding": "identity", "Accept": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    return httpx.Client(headers=headers, timeout=timeout, follow_redirects=False, trust_env=False)


def refusal_of(response: httpx.Response, endpoint: Endpoint) -> Refusal:
    """Return the reason for an answer with another status than 200."""
    status = response.status_code
    if response.is_redirect:
        reason = (
            f"{endpoint.name} redirects ({status}), which is not followed; correct {endpoint.url_setting}"
        )
        return Refusal(reason, is_lasting=True, status=status)
    may_pass = status in OVERLOADED or status >= FIRST_SERVER_FAULT
    hint = f"; check {endpoint.key_setting}" if status in (401, 403) else ""
    return Refusal(
        f"{endpoint.name} answered with status {status}{hint}",
        pause=retry_after(response.headers.get("Retry-After", "")) if may_pass else None,
        is_lasting=not may_pass,
        status=status,
    )


def read_answer(response: httpx.Response, max_bytes: int, seconds: float) -> bytes | Refusal:
    """Return the body of an answer, or why it was not read to its end."""
    deadline = time.monotonic() + seconds
    parts, n_bytes = [], 0
    for part in response.iter_raw():
        n_bytes += len(part)
        if n_bytes > max_bytes:
            return Refusal(f"the answer has over {max_bytes:,} bytes", is_lasting=True)
        if time.monotonic() > deadline:
            return Refusal(f"the answer was not complete within {seconds:g} s")
        parts.append(part)
    return b"".join(parts)


def retry_after(value: str) -> float | None:
    """Return the seconds of a `Retry-After` header, a number or a date; None if it is neither."""
    if value.isascii() and value.isdigit():
        return float(value[:MAX_SECONDS_DIGITS])
    try:
        seconds = (email.utils.parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def pause_before_retry(refusal: Refusal, n_tries: int) -> float | None:
    """Return the seconds before the next try; None if there is none."""
    if refusal.is_lasting or n_tries >= MAX_TRIES or (refusal.pause or 0) > LONGEST_PAUSE_SECONDS:
        return None
    if refusal.pause is not None:
        return refusal.pause
    return FIRST_PAUSE_SECONDS * 2.0 ** (n_tries - 1) * random.uniform(1, 1.5)  # noqa: S311 - no secret
