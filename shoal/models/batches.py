"""The answer to several searches at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from shoal.errors import ShoalError
from shoal.models.prompts import Prompt, TokenUse
from shoal.models.search import SearchResponse, SearchResult


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
    """A search that found a fused result.

    `search`: its index; `rank`: its rank in it, from 1; `match_score`: its score there, comparable within
    this search only; `part`: what the search adds to the fused score.
    """

    search: int
    query: str
    rank: int
    match_score: float
    part: float


@dataclass(frozen=True, slots=True)
class FusedResult:
    """A result of a fused ranking. `fused_score`, 0..1, is the sum of the parts in `found_by`; `result` is
    that of the search with the largest part."""

    fused_score: float
    found_by: tuple[FoundBy, ...]
    result: SearchResult


@dataclass(frozen=True, slots=True)
class BatchResponse:
    """The answers to the searches of a batch, in their order, from one snapshot of the library.

    `fused`: the fused ranking, if requested; the responses of the searches then have no results. `tokens` and
    `prompt` are of the fused results.
    """

    answers: Sequence[BatchAnswer]
    trace_id: str
    took_ms: float
    fused: Sequence[FusedResult] | None = None
    tokens: TokenUse | None = None
    prompt: Prompt | None = None
    warnings: tuple[str, ...] = field(default=())
