"""A client of an OpenAI-compatible chat endpoint (`SHOAL_LLM_URL`), for steps that need judgement.

Texts go to the configured address and nowhere else: redirects are not followed, and proxies of the
environment are not used. Every request counts for the limit of a day.
"""

from __future__ import annotations

import email.utils
import json
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from shoal.errors import ChatEndpointError
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.storage.session_maintenance import take_request

if TYPE_CHECKING:
    import httpx

MAX_TRIES = 3
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 20.0
"""Pauses between tries double, with a random part; an endpoint that asks for a longer one is not asked again
before."""
MAX_ANSWER_BYTES = 1024 * 1024
MAX_ANSWER_TOKENS = 4_000

UNSUPPORTED = (400, 422)
"""Statuses with which endpoints refuse parameters that they do not know."""
TOO_MANY, FIRST_SERVER_FAULT = 429, 500
OVERLOADED = (408, 409, 425, TOO_MANY)

Message = Mapping[str, str]
"""A message of a chat: `role` and `content`."""


class _Refusal(NamedTuple):
    """Why a try failed. `pause`: seconds that the endpoint asks for; `is_lasting`: another try is useless."""

    reason: str
    pause: float | None = None
    is_lasting: bool = False


class ChatEndpoint:
    """Asks the configured endpoint. Use it as a context manager; not safe to share between threads."""

    def __init__(
        self, settings: Settings, database: Database, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Raises ChatEndpointError if no endpoint is configured."""
        if not settings.llm_url or not settings.llm_model:
            raise ChatEndpointError("no chat endpoint: set SHOAL_LLM_URL and SHOAL_LLM_MODEL")
        import httpx

        self._settings = settings
        self._database = database
        self._sleep = sleep
        self._n_unsupported = 0
        headers = {"Accept-Encoding": "identity", "Accept": "application/json"}
        if settings.llm_key:
            headers["Authorization"] = f"Bearer {settings.llm_key}"
        self._client = httpx.Client(
            headers=headers, timeout=settings.llm_timeout, follow_redirects=False, trust_env=False
        )

    def __enter__(self) -> ChatEndpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> str:
        """Return the text of the answer, which should have the form of a JSON schema.

        Tries again after errors that may pass. Raises ChatEndpointError, which says when to ask again.
        """
        n_tries = 0
        while True:
            outcome = self._try(messages, schema)
            if isinstance(outcome, str):
                return outcome
            if outcome is None:
                continue  # in a simpler form, of which there are few
            n_tries += 1
            pause = _pause(outcome, n_tries)
            if pause is None:
                raise ChatEndpointError(outcome.reason, retry_seconds=outcome.pause)
            self._sleep(pause)

    def _try(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> str | _Refusal | None:
        """Send one request; return the answer, why there is none, or None to try a simpler form."""
        import httpx

        self._take_request()
        forms = _response_forms(schema)
        body = {
            "model": self._settings.llm_model,
            "messages": list(messages),
            **forms[self._n_unsupported],
        }
        try:
            with self._client.stream("POST", address_of(self._settings.llm_url), json=body) as response:
                if response.status_code in UNSUPPORTED and self._n_unsupported < len(forms) - 1:
                    self._n_unsupported += 1
                    return None
                if response.status_code != httpx.codes.OK:
                    return _refusal_of(response)
                data = self._read(response)
        except httpx.TimeoutException:
            return _Refusal(f"the chat endpoint did not answer within {self._settings.llm_timeout:g} s")
        except httpx.HTTPError as error:
            return _Refusal(f"the chat endpoint cannot be reached: {type(error).__name__}")
        return _content(data) if isinstance(data, bytes) else data

    def _read(self, response: httpx.Response) -> bytes | _Refusal:
        deadline = time.monotonic() + self._settings.llm_timeout
        parts, n_bytes = [], 0
        for part in response.iter_raw():
            n_bytes += len(part)
            if n_bytes > MAX_ANSWER_BYTES:
                return _Refusal(f"the answer has over {MAX_ANSWER_BYTES:,} bytes", is_lasting=True)
            if time.monotonic() > deadline:
                return _Refusal(f"the answer was not complete within {self._settings.llm_timeout:g} s")
            parts.append(part)
        return b"".join(parts)

    def _take_request(self) -> None:
        now = datetime.now(UTC)
        with self._database.write() as transaction:
            is_allowed = take_request(transaction, today(now), self._settings.llm_daily_requests)
        if not is_allowed:
            raise ChatEndpointError(
                f"the {self._settings.llm_daily_requests:,} requests of a day (SHOAL_LLM_DAILY_REQUESTS) are "
                "used",
                retry_seconds=_seconds_to_midnight(now),
            )


def address_of(url: str) -> str:
    """Return the address of chat completions; `url` is that of the server, of its version, or the whole."""
    url = url.rstrip("/")
    if url.endswith("/chat/completions"):
        return url
    return f"{url}/chat/completions" if urlsplit(url).path else f"{url}/v1/chat/completions"


def today(now: datetime) -> str:
    """Return the day (UTC) for which a request counts."""
    return now.date().isoformat()


def _response_forms(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return parameters that ask for JSON, the strictest first. Not every endpoint knows a form, and some
    models refuse the limits."""
    named = {"name": "answer", "strict": True, "schema": schema}
    strict = {"response_format": {"type": "json_schema", "json_schema": named}}
    limits = {"max_tokens": MAX_ANSWER_TOKENS, "temperature": 0}
    return [{**strict, **limits}, strict, {"response_format": {"type": "json_object"}, **limits}, {}]


def _refusal_of(response: httpx.Response) -> _Refusal:
    status = response.status_code
    if response.is_redirect:
        reason = f"the chat endpoint redirects ({status}), which is not followed; correct SHOAL_LLM_URL"
        return _Refusal(reason, is_lasting=True)
    may_pass = status in OVERLOADED or status >= FIRST_SERVER_FAULT
    hint = "; check SHOAL_LLM_KEY" if status in (401, 403) else ""
    return _Refusal(
        f"the chat endpoint answered with status {status}{hint}",
        pause=_retry_after(response.headers.get("Retry-After", "")) if may_pass else None,
        is_lasting=not may_pass,
    )


def _retry_after(value: str) -> float | None:
    """Return the seconds of a `Retry-After` header: a number, or a date."""
    if value.isascii() and value.isdigit() and len(value) < 10:
        return float(value)
    try:
        seconds = (email.utils.parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _pause(refusal: _Refusal, n_tries: int) -> float | None:
    """Return the seconds before the next try; None if there is none."""
    if refusal.is_lasting or n_tries >= MAX_TRIES or (refusal.pause or 0) > LONGEST_PAUSE_SECONDS:
        return None
    if refusal.pause is not None:
        return refusal.pause
    return FIRST_PAUSE_SECONDS * 2.0 ** (n_tries - 1) * random.uniform(1, 1.5)  # noqa: S311 - no secret


def _content(data: bytes) -> str | _Refusal:
    """Return the text in an answer of the endpoint."""
    try:
        answer = json.loads(data)
        choice = answer["choices"][0]
        content = choice["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return _Refusal("the answer is not in the form of chat completions")
    if not isinstance(content, str) or not content.strip():
        return _Refusal("the answer has no text")
    if choice.get("finish_reason") not in (None, "stop"):
        return _Refusal("the answer is incomplete: it was cut or filtered")
    return content


def _seconds_to_midnight(now: datetime) -> float:
    midnight = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), tzinfo=UTC)
    return (midnight - now).total_seconds()
