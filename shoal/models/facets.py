"""What facets return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A value of a field, or an interval.

    value        as it is stored; of an interval, its begin: a number, or a date such as `2026-01`. A long
                 text is shortened
    name         of a reef, island or archipelago, whose `value` is an id; else None
    count        documents with a result that has the value
    n_chunks     results that have it
    filter       the condition that is met by what has the value; None if no filter can express it
    is_selected  whether the filter of the search asks for it
    """

    value: Any
    name: str | None
    count: int
    n_chunks: int
    filter: str | None
    is_selected: bool


@dataclass(frozen=True, slots=True)
class Facet:
    """The values of a field, most frequent first; intervals in ascending order.

    interval     of a histogram: `day`, `week`, `month`, `year` or a number; else None
    n_values     different values, those that are not listed included
    n_other      sum of the counts of the values that are not listed
    n_missing    documents with results, but none with a value
    n_documents  documents that were counted
    n_chunks     results that were counted
    """

    field: str
    interval: Any
    values: Sequence[FacetValue]
    n_values: int
    n_other: int
    n_missing: int
    n_documents: int
    n_chunks: int


@dataclass(frozen=True, slots=True)
class LibraryFacets:
    """The facets of a library, or of what meets a filter in it.

    n_documents, n_chunks  what meets the whole filter
    """

    facets: Sequence[Facet]
    n_documents: int
    n_chunks: int
    took_ms: float
    warnings: tuple[str, ...] = ()
