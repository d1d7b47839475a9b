"""What every interface returns of a search: passages with their relevance, citation and reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.models.search import SearchResult
from shoal.search.retrieval import relevant, search_arguments
from shoal_api import service
from shoal_api.schemas.search import DEFAULTS
from shoal_api.trace import trace_id


def find(
    query: str,
    top_k: int,
    threshold: float,
    filter: Mapping[str, Any] | None,  # noqa: A002 - as in a search
) -> Sequence[SearchResult]:
    """Return the passages of the collection of the request whose relevance is at least `threshold`, pinned
    ones first and then the most relevant. Raises QueryError."""
    here = service.current()
    service.await_index(here.engine)
    response = here.engine.search(
        query, trace_id=trace_id(), **search_arguments(top_k, threshold, None, filter)
    )
    here.metrics.observe_search(
        str(DEFAULTS["mode"]), response.took_ms / 1000, response.query_info.near_words
    )
    return relevant(response.results, threshold)
