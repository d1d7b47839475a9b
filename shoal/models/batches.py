"""The answer to several searches at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from shoal.errors import ShoalError
from shoal.models.described import Presence
from shoal.models.prompts import Prompt, TokenUse
from shoal.models.search import SearchResponse, SearchResult

MAX_SEARCHES = 100
"""Most searches of a batch."""
MAX_RESULTS = 2_000
"""Most results that the searches of a batch ask for together; each may ask for `SHOAL_MAX_TOP_K`."""


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """The answer to one search of a batch. One of `response` and `error` is None.

    `index`: its place among the searches, from 0; `query`: as it was given, empty if it is not a text.
    """

    index: int
    query: str
    response: SearchResponse | None
    error: ShoalError | None = None


@dataclass(frozen=True, slots=True)
class FoundBy:
    """A search that found a fused result."""

    search: Annotated[int, "its index in `searches`, from 0"]
    query: Annotated[str, "its query"]
    rank: Annotated[int, "of the result in it, from 1"]
    match_score: Annotated[float, "of the result in it"]
    part: Annotated[float, "what it adds to `fused_score`"]


@dataclass(frozen=True, slots=True)
class FusedResult:
    """A result of a fused ranking. `result` is that of the search with the largest part."""

    fused_score: Annotated[float, "0 to 1, the sum of the parts"]
    found_by: Annotated[tuple[FoundBy, ...], "the searches that found it"]
    result: Annotated[SearchResult, "as of a search"]


@dataclass(frozen=True, slots=True)
class BatchResponse:
    """The answers to the searches of a batch, in their order, from one snapshot of the library.

    `fused`: the fused ranking, if requested; the responses of the searches then have no results. `tokens` and
    `prompt` are of the fused results.
    """

    answers: Annotated[Sequence[BatchAnswer], "in the order of `searches`"]
    trace_id: str
    took_ms: float
    fused: Annotated[Sequence[FusedResult] | None, "best first, with `fused`", Presence.IF_SET] = None
    tokens: Annotated[TokenUse | None, "of `fused`, with `max_tokens`", Presence.IF_SET] = None
    prompt: Annotated[Prompt | None, "of `fused`, with `prompt`", Presence.ON_REQUEST] = None
    warnings: tuple[str, ...] = field(default=())
