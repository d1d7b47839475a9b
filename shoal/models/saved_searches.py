"""Values of saved searches and of the webhooks that report their matches."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from shoal.models.described import Time

MAX_NAME_CHARS = 200
MIN_SECRET_CHARS, MAX_SECRET_CHARS = 16, 200


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
    """A search that reports new matches."""

    id: Annotated[int, "id of the saved search"]
    name: Annotated[str, "its name"]
    search: Annotated[Mapping[str, Any], "`query` and the arguments that differ from the defaults"]
    min_score: Annotated[float, "lowest `match_score` of a match, 0 to 1"]
    url: Annotated[str, "where webhooks are sent"]
    is_active: Annotated[bool, "whether new documents are reported"]
    is_pending: Annotated[bool, "whether documents of ended jobs wait for its evaluation"]
    n_waiting: Annotated[int, "webhooks that wait to be sent"]
    n_failed: Annotated[int, "webhooks that were given up"]
    error: Annotated[str | None, "why its last evaluation was not possible"]
    created_at: Annotated[Time, "when it was created, UTC in ISO 8601"]
    updated_at: Annotated[Time, "when it was changed, UTC in ISO 8601"]


@dataclass(frozen=True, slots=True)
class NewSavedSearch:
    """A saved search with its secret, which is shown this once."""

    saved_search: Annotated[SavedSearch, "what was created"]
    secret: Annotated[str, "signs the webhooks; shown this once"]


@dataclass(frozen=True, slots=True)
class SavedSearchPage:
    """A page of saved searches."""

    saved_searches: Annotated[tuple[SavedSearch, ...], "a page, by id"]
    total: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """A webhook."""

    delivery_id: Annotated[str, "the same for every try"]
    saved_search_id: Annotated[int, "id of the saved search"]
    event: Annotated[DeliveryEvent, "what it reports"]
    n_passages: Annotated[int, "passages in it"]
    status: Annotated[DeliveryStatus, "`waiting` for the first or the next try; `failed`: given up"]
    attempts: Annotated[int, "tries so far"]
    next_try_at: Annotated[Time | None, "null if there is no next try"]
    response_status: Annotated[int | None, "HTTP status of the last try; null without an answer"]
    error: Annotated[str | None, "of the last try; null if there was none"]
    created_at: Annotated[Time, "when it was made, or last sent again, UTC in ISO 8601"]
    updated_at: Annotated[Time, "time of the last try"]


@dataclass(frozen=True, slots=True)
class DeliveryDetail(Delivery):
    """A webhook with what it sends."""

    body: Annotated[str, "the JSON that is sent"]


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """A page of deliveries."""

    deliveries: Annotated[tuple[Delivery, ...], "a page, newest first"]
    total: int
