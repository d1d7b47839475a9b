"""Values of pins as they are stored."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated

from shoal.models.described import Time

MAX_CHARS = 200
"""Most characters of the query of a pin."""
MAX_WORDS = 16
"""Most words of the query of a pin."""
MAX_PINNED = 10
"""Most documents and passages that a pin puts first, and most that a search does."""
MAX_HIDDEN = 10
"""Most documents and passages that a pin hides."""


class PinMatch(enum.StrEnum):
    """Which queries a pin is for: those with exactly its words, or those that contain them side by side."""

    exact = "exact"
    contains = "contains"


@dataclass(frozen=True, slots=True)
class PinTarget:
    """A document, or with `chunk_id` one of its passages."""

    document_id: int
    chunk_id: int | None = None


@dataclass(frozen=True, slots=True)
class ListedTarget:
    """A document or passage of a pin."""

    document_id: Annotated[int, "of the document"]
    chunk_id: Annotated[int | None, "of the passage; null: the document"]
    document_title: Annotated[str, "its title"]
    chunk_index: Annotated[int | None, "of the passage in its document"] = None
    is_gone: Annotated[
        bool,
        "whether the document has the passage no more; then the whole document is pinned, and nothing hidden",
    ] = False


@dataclass(frozen=True, slots=True)
class Pin:
    """What comes first for a query, and what is hidden from its results. Deleted documents are in neither
    list."""

    id: Annotated[int, "id of the pin"]
    query: Annotated[str, "as it was given"]
    match: Annotated[
        PinMatch,
        "`exact`: for searches with exactly these words; `contains`: for all that have them side by side, "
        "among others",
    ]
    pinned: Annotated[tuple[ListedTarget, ...], "what comes first, in this order"]
    hidden: Annotated[tuple[ListedTarget, ...], "what is hidden from the results"]
    created_at: Annotated[Time, "when the pin was stored first"]
    updated_at: Annotated[Time, "when it was changed last"]


@dataclass(frozen=True, slots=True)
class PinPage:
    """A page of the pins."""

    pins: Annotated[tuple[Pin, ...], "a page of pins, by id"]
    total: int


@dataclass(frozen=True, slots=True)
class PinRule:
    """A pin as a search applies it."""

    id: int
    query: str
    match: PinMatch
    pinned: tuple[PinTarget, ...]
    hidden: tuple[PinTarget, ...]
