"""Searches and explanations, and the service about itself."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import httpx

from shoal.client.errors import ClientError
from shoal.client.exchange import Flow, Request, Stream, listing, operation
from shoal.client.reading import API, Reading, decoded, given, object_of, pages, read
from shoal.client.replies import Readiness, Reefs, Status
from shoal.models import SearchFilters, SearchMode, SearchResponse

if TYPE_CHECKING:
    from shoal.learning.word_details import LearnedWord, WordPage
    from shoal.search.explain.explanation import Explanation

Filters = SearchFilters | Mapping[str, Any]


class _Default(enum.Enum):
    """Of arguments for which None means something."""

    default = "as the service has it"


DEFAULT = _Default.default


class SearchOperations(Reading):
    """What can be asked of the library."""

    @operation
    def search(
        self,
        query: str,
        *,
        top_k: int | None = None,
        mode: SearchMode | str | None = None,
        tags: Sequence[str] | None = None,
        min_confidence: float | None = None,
        filters: Filters | None = None,
        max_per_document: int | _Default | None = DEFAULT,
        include_scores: bool | None = None,
        offset: int | None = None,
        context: int | None = None,
        preset: str | None = None,
        weights: Mapping[str, float] | None = None,
        fusion: str | None = None,
    ) -> Flow[SearchResponse]:
        """The chunks that match a query best, best first; arguments and answer are those of `Engine.search`.

        Raises InvalidError, whose `errors` name the argument that can't be used.
        """
        asked = given(
            query=query,
            top_k=top_k,
            mode=mode,
            filters=_filters(filters, tags, min_confidence),
            include_scores=include_scores,
            offset=offset,
            context=context,
            preset=preset,
            weights=None if weights is None else dict(weights),
            fusion=fusion,
        )
        if max_per_document is not DEFAULT:
            asked["max_per_document"] = max_per_document
        return read(SearchResponse, (yield from self._ask(Request("POST", f"{API}/search", json=asked))))

    @operation
    def explain(
        self,
        /,
        query: str,
        *,
        document_id: int | None = None,
        chunk_id: int | None = None,
        tags: Sequence[str] | None = None,
        min_confidence: float | None = None,
        filters: Filters | None = None,
        **search: Any,
    ) -> Flow[Explanation]:
        """How a query is understood, word by word; with a document or chunk, its rank and what kept it out.
        `search` takes the arguments of `search`. Raises InvalidError, NotFoundError."""
        from shoal.search.explain.explanation import (
            Explanation,  # a good deal of the library, which most clients never need
        )

        asked = {
            "query": query,
            **search,
            **given(
                document_id=document_id, chunk_id=chunk_id, filters=_filters(filters, tags, min_confidence)
            ),
        }
        return read(Explanation, (yield from self._ask(Request("POST", f"{API}/explain", json=asked))))

    @operation
    def vocabulary(self, *, q: str | None = None, limit: int = 50, offset: int = 0) -> Flow[WordPage]:
        """A page of the learned words that hold `q`, those met most often first."""
        from shoal.learning.word_details import WordPage

        return (yield from self._page(WordPage, "/vocabulary", limit, offset, q=q))

    @listing
    def each_word(self, *, q: str | None = None) -> Stream[LearnedWord]:
        """All of them, read page by page."""
        from shoal.learning.word_details import WordPage

        yield from pages(
            lambda limit, offset: self._page(WordPage, "/vocabulary", limit, offset, q=q),
            lambda page: page.words,
        )


class ServiceOperations(Reading):
    """What a service says of itself."""

    @operation
    def status(self) -> Flow[Status]:
        """Counts, versions, jobs and workers."""
        return (yield from self._get(Status, "/status"))

    @operation
    def reefs(self) -> Flow[Reefs]:
        """The hierarchy: archipelagos, islands, and reefs with their typical words."""
        return (yield from self._get(Reefs, "/reefs"))

    @operation
    def health(self) -> Flow[bool]:
        """Whether the service answers; asked once."""
        try:
            yield from self._ask(Request("GET", "/health", patience=0.0))
        except ClientError:
            return False
        return True

    @operation
    def ready(self) -> Flow[Readiness]:
        """Whether the service can do its work, and what keeps it from it; asked once."""
        unready = httpx.codes.SERVICE_UNAVAILABLE
        request = Request("GET", "/ready", patience=0.0, passed=frozenset({int(unready)}))
        answer = yield from self._ask(request)
        body = object_of(answer)
        if answer.status_code == unready:
            body = {"checks": {}, **body, "status": str(body.get("detail") or "not ready")}
        return decoded(Readiness, body, answer)

    @operation
    def metrics(self) -> Flow[str]:
        """The metrics as Prometheus reads them."""
        return (yield from self._ask(Request("GET", "/metrics"))).text


def _filters(
    filters: Filters | None, tags: Sequence[str] | None, min_confidence: float | None
) -> dict[str, Any] | None:
    """The filters as the API takes them. Raises InvalidError's like for none: the service checks them."""
    if isinstance(filters, SearchFilters):
        # Its empty tuple of tags is no condition; that of document ids allows nothing.
        filters = {each.name: getattr(filters, each.name) for each in dataclasses.fields(filters)}
    given = {name: as_json(value) for name, value in (filters or {}).items()}
    if tags is not None:
        given["tags"] = list(tags)
    if min_confidence is not None:
        given["min_confidence"] = min_confidence
    return given or None


def as_json(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo else value.astimezone()
        return moment.isoformat()
    return list(value) if isinstance(value, tuple | set | frozenset) else value
