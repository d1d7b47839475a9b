"""What facets return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A value of a field, or an interval."""

    value: Annotated[
        str | float | bool | None,
        "as it is stored, a long text shortened; of an interval its begin: a number, or a date such as "
        "`2026-01`",
    ]
    name: Annotated[str | None, "of a reef, island or archipelago, whose `value` is its id; else null"]
    count: Annotated[int, "documents with a result that has it"]
    n_chunks: Annotated[int, "results that have it"]
    filter: Annotated[str | None, "the condition for `filter` that selects it; null if none can"]
    is_selected: Annotated[bool, "whether `filter` selects it already"]


@dataclass(frozen=True, slots=True)
class Facet:
    """The values of a field, most frequent first, equal ones in their order; intervals in ascending order."""

    field: Annotated[str, "as a filter names it"]
    interval: Annotated[str | float | None, "of a histogram: `day`, `week`, `month`, `year` or a number"]
    values: Annotated[Sequence[FacetValue], "at most as many as the limit"]
    n_values: Annotated[int, "different values, with those that are not listed"]
    n_other: Annotated[int, "sum of the counts of values that are not listed"]
    n_missing: Annotated[int, "documents without a value"]
    n_documents: Annotated[int, "documents counted: those that meet all filters but those on this field"]
    n_chunks: Annotated[int, "their results"]


@dataclass(frozen=True, slots=True)
class LibraryFacets:
    """The facets of a library, or of what meets a filter in it."""

    facets: Annotated[Sequence[Facet], "in the order of the request"]
    n_documents: Annotated[int, "documents with a passage that meets all filters"]
    n_chunks: Annotated[int, "passages that meet all filters"]
    took_ms: float
    warnings: tuple[str, ...] = ()
