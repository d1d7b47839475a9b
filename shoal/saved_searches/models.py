"""Values of saved searches and of the webhooks that report their matches."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class DeliveryStatus(enum.StrEnum):
    """`waiting` for the first or the next try; `failed`: given up."""

    waiting = "waiting"
    delivered = "delivered"
    failed = "failed"


class DeliveryEvent(enum.StrEnum):
    """What a webhook reports: new matches, or a test."""

    match = "match"
    test = "test"


@dataclass(frozen=True, slots=True)
class SavedSearch:
    """A search that reports new matches.

    search      its arguments, as of `Engine.search`, that differ from the defaults; `query` is always there
    min_score   lowest `match_score` of a match, 0..1
    url         where webhooks are sent
    is_pending  whether documents of ended jobs wait for its evaluation
    n_waiting   webhooks that wait to be sent; n_failed: those that were given up
    error       why its last evaluation was not possible
    """

    id: int
    name: str
    search: Mapping[str, Any]
    min_score: float
    url: str
    is_active: bool
    is_pending: bool
    n_waiting: int
    n_failed: int
    error: str | None
    created_at: str
    updated_at: str


@dataclass(frozen=True, slots=True)
class NewSavedSearch:
    """A saved search with its secret, which is shown this once."""

    saved_search: SavedSearch
    secret: str


@dataclass(frozen=True, slots=True)
class SavedSearchPage:
    """A page of saved searches, by id, and the number of all."""

    saved_searches: tuple[SavedSearch, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """A webhook.

    delivery_id      the same for every try
    attempts         tries so far; next_try_at: of the next, None if there is none
    response_status  HTTP status of the last try; None if there was no answer
    error            of the last try
    created_at       when it was made, or last sent again; the body keeps the time when it was made
    body             what is sent, as JSON; only where a single delivery is read
    """

    delivery_id: str
    saved_search_id: int
    event: DeliveryEvent
    n_passages: int
    status: DeliveryStatus
    attempts: int
    next_try_at: str | None
    response_status: int | None
    error: str | None
    created_at: str
    updated_at: str
    body: str | None = None


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """A page of deliveries, newest first, and the number of all."""

    deliveries: tuple[Delivery, ...]
    total: int
