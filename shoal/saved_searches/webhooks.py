"""Sends webhooks: one request, signed, to an address that the settings allow.

Redirects are not followed, and nothing of the answer but its status is read.
"""

from __future__ import annotations

import hashlib
import hmac
import ssl
from typing import NamedTuple

import httpcore
import httpx

from shoal.conversion.web_addresses import parse_url
from shoal.conversion.web_network import (
    CheckedNetwork,
    Deadline,
    Resolver,
    resolve,
    unreachable,
)
from shoal.errors import FetchError
from shoal.saved_searches.arguments import MAX_URL_CHARS, WebhookPolicy
from shoal.settings import Settings
from shoal.support.http_endpoints import retry_after
from shoal.version import __version__

SIGNATURE, DELIVERY, EVENT = "Shoal-Signature", "Shoal-Delivery", "Shoal-Event"
"""Headers of a webhook."""


class Answer(NamedTuple):
    """HTTP status of an answer, and the seconds that it asks to wait for."""

    status: int
    retry_after: float | None


def signature(secret: str, body: bytes, moment: int) -> str:
    """Return the value of the header with the signature: HMAC-SHA256 over `TIME.BODY`, in hexadecimal.

    `moment`: seconds since the epoch, which the receiver compares with its clock against replays.
    """
    digest = hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={moment},v1={digest}"


class WebhookSender:
    """Sends webhooks. Safe to share between threads."""

    def __init__(self, settings: Settings, resolver: Resolver = resolve) -> None:
        self._settings = settings
        self._policy = WebhookPolicy(settings)
        self._resolver = resolver
        self._tls: ssl.SSLContext | None = None

    def send(
        self, url: str, secret: str, body: bytes, *, delivery_id: str, event: str, moment: int
    ) -> Answer:
        """Send a webhook and return the answer, whatever its status. Raises FetchError without an answer."""
        address = parse_url(url, MAX_URL_CHARS)
        self._policy.check_url(address)
        if address.scheme == "https" and self._tls is None:
            self._tls = httpx.create_ssl_context()
        network = CheckedNetwork(self._policy, self._resolver, Deadline(self._settings.webhook_seconds))
        headers = [
            ("Host", address.authority),
            ("User-Agent", f"Shoal/{__version__}"),
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
            (SIGNATURE, signature(secret, body, moment)),
            (DELIVERY, delivery_id),
            (EVENT, event),
        ]
        target = httpcore.URL(
            scheme=address.scheme.encode(),
            host=address.host.encode(),
            port=address.port,
            target=address.target,
        )
        try:
            with (
                httpcore.ConnectionPool(self._tls, network_backend=network) as pool,
                pool.stream(
                    "POST",
                    target,
                    headers=[(name.encode(), value.encode("latin-1")) for name, value in headers],
                    content=body,
                ) as response,
            ):
                given = httpx.Headers(response.headers).get("retry-after", "")
                return Answer(response.status, retry_after(given))
        except httpcore.TimeoutException:
            raise FetchError(
                "time_limit",
                f"{address.host} did not answer within {self._settings.webhook_seconds:g} seconds "
                "(SHOAL_WEBHOOK_SECONDS)",
                is_temporary=True,
            ) from None
        except httpcore.NetworkError as error:
            raise unreachable(address.host, error) from None
        except httpcore.ProtocolError:
            raise FetchError(
                "failed", f"the answer of {address.host} is not HTTP", is_temporary=True
            ) from None
