"""A client of an OpenAI-compatible chat endpoint (`SHOAL_LLM_URL`), for steps that need judgement.

Texts go to the configured address and nowhere else: redirects are not followed, and proxies of the
environment are not used. Every request counts for the limit of a day.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from shoal.errors import ChatEndpointError
from shoal.notes.session_maintenance import take_request
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.support.http_endpoints import (
    Endpoint,
    Refusal,
    endpoint_address,
    open_client,
    pause_before_retry,
    read_answer,
    refusal_of,
)

ENDPOINT = Endpoint("the chat endpoint", "SHOAL_LLM_URL", "SHOAL_LLM_KEY")
MAX_ANSWER_BYTES = 1024 * 1024
MAX_ANSWER_TOKENS = 4_000

UNSUPPORTED = (400, 422)
"""Statuses with which endpoints refuse parameters that they do not know."""

Message = Mapping[str, str]
"""A message of a chat: `role` and `content`."""


class ChatEndpoint:
    """Asks the configured endpoint. Use it as a context manager; not safe to share between threads."""

    def __init__(
        self, settings: Settings, database: Database, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Raises ChatEndpointError if no endpoint is configured."""
        if not settings.llm_url or not settings.llm_model:
            raise ChatEndpointError("no chat endpoint: set SHOAL_LLM_URL and SHOAL_LLM_MODEL")
        self._settings = settings
        self._database = database
        self._sleep = sleep
        self._n_unsupported = 0
        self._client = open_client(settings.llm_key, settings.llm_timeout)

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
                continue  # in a simpler form; there are few of them
            n_tries += 1
            pause = pause_before_retry(outcome, n_tries)
            if pause is None:
                raise ChatEndpointError(outcome.reason, retry_seconds=outcome.pause)
            self._sleep(pause)

    def _try(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> str | Refusal | None:
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
            with self._client.stream(
                "POST", endpoint_address(self._settings.llm_url, "chat/completions"), json=body
            ) as response:
                if response.status_code in UNSUPPORTED and self._n_unsupported < len(forms) - 1:
                    self._n_unsupported += 1
                    return None
                if response.status_code != httpx.codes.OK:
                    return refusal_of(response, ENDPOINT)
                data = read_answer(response, MAX_ANSWER_BYTES, self._settings.llm_timeout)
        except httpx.TimeoutException:
            return Refusal(f"the chat endpoint did not answer within {self._settings.llm_timeout:g} s")
        except httpx.HTTPError as error:
            return Refusal(f"the chat endpoint cannot be reached: {type(error).__name__}")
        return _content(data) if isinstance(data, bytes) else data

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


def _content(data: bytes) -> str | Refusal:
    """Return the text in an answer of the endpoint."""
    try:
        answer = json.loads(data)
        choice = answer["choices"][0]
        content = choice["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return Refusal("the answer is not in the form of chat completions")
    if not isinstance(content, str) or not content.strip():
        return Refusal("the answer has no text")
    if choice.get("finish_reason") not in (None, "stop"):
        return Refusal("the answer is incomplete: it was cut or filtered")
    return content


def _seconds_to_midnight(now: datetime) -> float:
    midnight = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), tzinfo=UTC)
    return (midnight - now).total_seconds()
