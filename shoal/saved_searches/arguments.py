"""The arguments of saved searches: checked like those of a search, and stored as JSON."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from shoal.conversion.web_addresses import FetchPolicy, parse_url
from shoal.declared.filters import SearchFilters
from shoal.declared.search import LIKELY, SEARCH
from shoal.errors import FetchError, InvalidFieldError, QueryError
from shoal.filters.tree import check_characters
from shoal.models.saved_searches import MAX_NAME_CHARS, MAX_SECRET_CHARS, MIN_SECRET_CHARS
from shoal.models.search import SearchMode
from shoal.search.request import SearchRequest, check_fraction, make_request
from shoal.settings import Settings
from shoal.storage.column_values import compact_json
from shoal.support.other_names import meant_name

MAX_URL_CHARS = 2_000
MAX_ARGUMENTS_BYTES = 256 * 1024
"""Largest arguments of one search, as JSON: 10,000 ids fit."""
DEFAULTS: Mapping[str, Any] = {
    name: argument.default for name, argument in SEARCH.items() if argument.is_saved
} | {"min_relevance": LIKELY}
"""Arguments that can be saved: not those that only shape an answer, or that make a match depend on other
documents. Without a threshold, each document that shares a topic would be a match."""

OFF = "webhooks are off; set SHOAL_WEBHOOK_HOSTS to the hosts that may receive them, and restart the service"


class WebhookPolicy(FetchPolicy):
    """The hosts and addresses that webhooks may be sent to."""

    hosts_setting = "SHOAL_WEBHOOK_HOSTS"
    private_setting = "SHOAL_WEBHOOK_PRIVATE"
    off = OFF

    def _listed(self, settings: Settings) -> tuple[str, str]:
        return settings.webhook_hosts, settings.webhook_private


def stored_arguments(search: Mapping[str, Any], settings: Settings) -> str:
    """Check the arguments of a search and return those that differ from the defaults, as JSON.

    Raises QueryError, which names the argument.
    """
    given = {name: _plain(value) for name, value in search.items()}
    for name in given:
        if name != "query" and name not in DEFAULTS:
            reason = "only shapes an answer and cannot be saved" if name in SEARCH else "does not exist"
            meant = None if name in SEARCH else meant_name(name, ("query", *DEFAULTS))
            hint = f"did you mean {meant}?" if meant else f"saved are query, {', '.join(DEFAULTS)}"
            raise QueryError(name, f"{reason}; {hint}")
    request_of(given, settings, top_k=1)
    if isinstance(filters := given.get("filters"), Mapping):
        empty = _plain(SearchFilters())
        kept = {key: value for key, value in filters.items() if value not in (None, empty.get(key))}
        given["filters"] = kept or None
    changed = {name: value for name, value in given.items() if name == "query" or value != DEFAULTS[name]}
    text = compact_json(changed)
    if len(text.encode()) > MAX_ARGUMENTS_BYTES:
        raise QueryError("search", f"has more than {MAX_ARGUMENTS_BYTES:,} bytes as JSON, which is the limit")
    return text


def request_of(arguments: Mapping[str, Any], settings: Settings, *, top_k: int) -> SearchRequest:
    """Return the search of stored arguments. Raises QueryError if settings no longer allow it."""
    # A match is what the query finds, not what somebody wants to come first.
    if arguments.get("mode") == SearchMode.dense:
        raise QueryError(
            "mode",
            "dense cannot be saved: whether a passage is a match is judged by words and reefs; use hybrid",
        )
    given = {**DEFAULTS, **arguments, "pins": "off"}
    return make_request(given.pop("query", None), settings=settings, top_k=top_k, **given)


def _plain(value: Any) -> Any:
    """Return a value of an argument as JSON has it."""
    if isinstance(value, SearchFilters):
        return _plain({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, str | int | float | bool | None):
        return value
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise QueryError("search", f"has a value of the type {type(value).__name__}, which JSON does not have")


def check_name(name: object) -> str:
    """Raises QueryError."""
    if not isinstance(name, str) or not name.strip():
        raise QueryError("name", "must be a string that is not empty")
    name = " ".join(check_characters("name", name).split())
    if len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise QueryError("name", f"must have at most {MAX_NAME_CHARS} printable characters")
    return name


def check_webhook(url: object, settings: Settings) -> str:
    """Return the URL of a webhook in its usual form. Raises QueryError if it is not allowed."""
    if not isinstance(url, str):
        raise QueryError("url", "must be a string")
    try:
        address = parse_url(url, MAX_URL_CHARS)
        WebhookPolicy(settings).check_url(address)
    except InvalidFieldError as error:
        raise QueryError("url", error.message) from None
    except FetchError as error:
        raise QueryError("url", str(error)) from None
    return str(address)


def check_secret(secret: object) -> str:
    """Raises QueryError, which does not repeat the secret."""
    is_text = isinstance(secret, str) and secret.isascii() and secret.isprintable() and " " not in secret
    if not is_text or not MIN_SECRET_CHARS <= len(str(secret)) <= MAX_SECRET_CHARS:
        raise QueryError(
            "secret",
            f"must have {MIN_SECRET_CHARS} to {MAX_SECRET_CHARS} printable ASCII characters without spaces",
        )
    return str(secret)


def check_score(min_score: object) -> float:
    """Raises QueryError."""
    return check_fraction("min_score", min_score)


def check_flag(field: str, value: object) -> bool:
    """Raises QueryError."""
    if not isinstance(value, bool):
        raise QueryError(field, "must be true or false")
    return value
