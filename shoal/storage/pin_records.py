"""Values of pins as they are stored."""

from __future__ import annotations

import enum
from dataclasses import dataclass


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
    """A target of a pin with the title of its document.

    `chunk_index`: the number of the passage in its document, from 0; None for a document. `is_gone`: the
    document was replaced and has the passage no more. Then the whole document is pinned; nothing is hidden.
    """

    document_id: int
    chunk_id: int | None
    document_title: str
    chunk_index: int | None = None
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class Pin:
    """What comes first for a query, in order, and what is hidden from its results.

    Deleted documents are in neither list. Times are as in `shoal.support.clock`.
    """

    id: int
    query: str
    match: PinMatch
    pinned: tuple[ListedTarget, ...]
    hidden: tuple[ListedTarget, ...]
    created_at: str
    updated_at: str


@dataclass(frozen=True, slots=True)
class PinPage:
    """A page of the pins, by id, and how many there are on all pages."""

    pins: tuple[Pin, ...]
    total: int


@dataclass(frozen=True, slots=True)
class PinRule:
    """A pin as a search applies it."""

    id: int
    query: str
    match: PinMatch
    pinned: tuple[PinTarget, ...]
    hidden: tuple[PinTarget, ...]
