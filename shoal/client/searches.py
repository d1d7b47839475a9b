"""Operations for searches, explanations and the state of the service."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import httpx

from shoal.client.batches import read_batch
from shoal.client.errors import ClientError
from shoal.client.flows import Flow, Request, Stream, listing, operation
from shoal.client.paths import API
from shoal.client.requests import Requester, json_object, pages, parse, parse_part, without_none
from shoal.client.responses import Readiness, Reefs, Status
from shoal.models.batches import BatchResponse
from shoal.models.facets import LibraryFacets
from shoal.models.search import SearchFilters, SearchMode, SearchResponse, SearchResult

if TYPE_CHECKING:
    from shoal.grounding.verdicts import Verification
    from shoal.learning.word_details import LearnedWord, WordPage
    from shoal.models.notes import UnitResponse
    from shoal.notes.similarity import Similarity
    from shoal.search.explain.explanation import Explanation
    from shoal.search.suggesting import Suggestions

Filters = SearchFilters | Mapping[str, Any]


class SearchOperations(Requester):
    """Operations that search the library."""

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
        filter: str | Mapping[str, Any] | None = None,  # noqa: A002 - the name of the field
        max_per_document: int | None = None,
        include_scores: bool | None = None,
        offset: int | None = None,
        context: int | None = None,
        preset: str | None = None,
        weights: Mapping[str, float] | None = None,
        fusion: str | None = None,
        min_relevance: float | None = None,
        expand: str | None = None,
        rerank: int | None = None,
        facets: Sequence[str | Mapping[str, Any]] | None = None,
        facet_limit: int | None = None,
        typos: str | None = None,
        syntax: str | None = None,
        prefix: bool | None = None,
        sort: str | Sequence[str] | None = None,
        decay: str | Mapping[str, Any] | None = None,
        boosts: Sequence[str | Mapping[str, Any]] | None = None,
        group_by: str | None = None,
        fold_similar: bool | None = None,
        cursor: str | None = None,
        text: str | None = None,
        max_tokens: int | None = None,
        prompt: bool | None = None,
        synonyms: str | None = None,
        pins: str | None = None,
        shortlist: int | None = None,
    ) -> Flow[SearchResponse]:
        """Search for the best matching chunks. Arguments and result are those of `Engine.search`.

        Raises InvalidError, whose `errors` name the invalid arguments.
        """
        body = without_none(
            query=query,
            top_k=top_k,
            mode=mode,
            filters=_filters(filters, tags, min_confidence),
            filter=filter,
            max_per_document=max_per_document,
            include_scores=include_scores,
            offset=offset,
            context=context,
            preset=preset,
            weights=None if weights is None else dict(weights),
            fusion=fusion,
            min_relevance=min_relevance,
            expand=expand,
            rerank=rerank,
            facets=None if facets is None else list(facets),
            facet_limit=facet_limit,
            typos=typos,
            syntax=syntax,
            prefix=prefix,
            sort=sort if sort is None or isinstance(sort, str) else list(sort),
            decay=_decay(decay),
            boosts=None if boosts is None else list(boosts),
            group_by=group_by,
            fold_similar=fold_similar,
            cursor=cursor,
            text=text,
            max_tokens=max_tokens,
            prompt=prompt,
            synonyms=synonyms,
            pins=pins,
            shortlist=shortlist,
        )
        return parse(SearchResponse, (yield from self._send(Request("POST", f"{API}/search", json=body))))

    @operation
    def facets(
        self,
        facets: Sequence[str | Mapping[str, Any]],
        *,
        facet_limit: int | None = None,
        filters: Filters | None = None,
        filter: str | Mapping[str, Any] | None = None,  # noqa: A002 - the name of the field
    ) -> Flow[LibraryFacets]:
        """Count documents and passages by the values of fields. Arguments and result are those of
        `Engine.facets`.

        Raises InvalidError.
        """
        body = without_none(
            facets=list(facets),
            facet_limit=facet_limit,
            filters=_filters(filters, None, None),
            filter=filter,
        )
        return parse(LibraryFacets, (yield from self._send(Request("POST", f"{API}/facets", json=body))))

    @operation
    def search_many(
        self,
        searches: Iterable[str | Mapping[str, Any]],
        *,
        fused: bool | None = None,
        top_k: int | None = None,
        max_per_document: int | None = None,
        text: str | None = None,
        max_tokens: int | None = None,
        prompt: bool | None = None,
    ) -> Flow[BatchResponse]:
        """Run up to 100 searches on one state of the library. Arguments and result are those of
        `Engine.search_many`; the error of a bad search is an InvalidError.

        Raises InvalidError for an invalid argument of the batch itself.
        """
        body = without_none(
            searches=[search_body(search) for search in searches],
            fused=fused,
            top_k=top_k,
            max_per_document=max_per_document,
            text=text,
            max_tokens=max_tokens,
            prompt=prompt,
        )
        request = Request("POST", f"{API}/search/batch", json=body)
        return read_batch((yield from self._send(request)))

    @operation
    def search_json(
        self,
        /,
        query: str,
        *,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        **search: Any,
    ) -> Flow[dict[str, Any]]:
        """Search like `search`, and return the JSON of the response. Results have the fields of `include`,
        without those of `exclude`.

        Raises InvalidError.
        """
        names = without_none(
            include=None if include is None else list(include),
            exclude=None if exclude is None else list(exclude),
        )
        body = {**search_body({"query": query, **search}), **names}
        return json_object((yield from self._send(Request("POST", f"{API}/search", json=body))))

    @operation
    def search_units(
        self,
        /,
        query: str,
        *,
        units: Sequence[str] = ("chunk", "note"),
        owner: str | None = None,
        tags: Sequence[str] | None = None,
        min_confidence: float | None = None,
        filters: Filters | None = None,
        **search: Any,
    ) -> Flow[UnitResponse]:
        """Search for the best matching chunks and notes of an owner, in one order.

        `search` takes the other arguments of `search`. Raises InvalidError.
        """
        from shoal.models.notes import NoteHit, UnitResponse

        given = without_none(owner=owner, filters=_filters(filters, tags, min_confidence))
        body = {"query": query, "units": list(units), **search, **given}
        response = yield from self._send(Request("POST", f"{API}/search", json=body))
        answer = json_object(response)
        found = answer.get("results")
        unit_response = parse_part(UnitResponse, {**answer, "results": []}, response)
        results: list[SearchResult | NoteHit] = []
        for each in found if isinstance(found, list) else ():
            is_note = isinstance(each, dict) and "note" in each
            results.append(
                parse_part(NoteHit, each, response) if is_note else parse_part(SearchResult, each, response)
            )
        return dataclasses.replace(unit_response, results=tuple(results))

    @operation
    def suggest(self, q: str, *, limit: int | None = None) -> Flow[Suggestions]:
        """Queries that may be meant by the beginning of one, like `Engine.suggest`. Raises InvalidError."""
        from shoal.search.suggesting import Suggestions

        request = Request("GET", f"{API}/suggest", query=without_none(q=q, limit=limit))
        return parse(Suggestions, (yield from self._send(request)))

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
        """Explain the analyzed query word by word; with a document or chunk, also its rank or why it is
        missing.

        `search` takes the other arguments of `search`. Raises InvalidError, NotFoundError.
        """
        from shoal.search.explain.explanation import (
            Explanation,  # imported late: it loads much of the library, which few clients need
        )

        body = {
            "query": query,
            **search,
            **without_none(
                document_id=document_id, chunk_id=chunk_id, filters=_filters(filters, tags, min_confidence)
            ),
        }
        return parse(Explanation, (yield from self._send(Request("POST", f"{API}/explain", json=body))))

    @operation
    def similarity(self, a: str, b: str) -> Flow[Similarity]:
        """How similar two short texts are, and whether they may contradict each other, like
        `Engine.similarity`.

        Raises InvalidError.
        """
        from shoal.notes.similarity import Similarity

        request = Request("POST", f"{API}/similarity", json={"a": a, "b": b})
        return parse(Similarity, (yield from self._send(request)))

    @operation
    def verify(
        self,
        text: str | None = None,
        *,
        statements: Sequence[str | Mapping[str, Any]] | None = None,
        references: Sequence[Mapping[str, Any]] | None = None,
        format: str | None = None,  # noqa: A002 - the name of the field
        min_coverage: float | None = None,
    ) -> Flow[Verification]:
        """Check that every claim of a text is supported by the passages that it cites.

        Arguments and result are those of `Engine.verify`. Raises InvalidError.
        """
        from shoal.grounding.verdicts import Verification

        given = (
            None
            if statements is None
            else [{"text": each} if isinstance(each, str) else dict(each) for each in statements]
        )
        body = without_none(
            text=text,
            statements=given,
            references=None if references is None else [dict(each) for each in references],
            format=format,
            min_coverage=min_coverage,
        )
        return parse(Verification, (yield from self._send(Request("POST", f"{API}/verify", json=body))))

    @operation
    def vocabulary(self, *, q: str | None = None, limit: int = 50, offset: int = 0) -> Flow[WordPage]:
        """A page of the learned words that contain `q`, most frequent first."""
        from shoal.learning.word_details import WordPage

        return (yield from self._page(WordPage, "/vocabulary", limit, offset, q=q))

    @listing
    def each_word(self, *, q: str | None = None) -> Stream[LearnedWord]:
        """All learned words, read page by page."""
        from shoal.learning.word_details import WordPage

        yield from pages(
            lambda limit, offset: self._page(WordPage, "/vocabulary", limit, offset, q=q),
            lambda page: page.words,
        )


class ServiceOperations(Requester):
    """Operations about the service itself."""

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
        """Whether the service answers. Not retried."""
        try:
            yield from self._send(Request("GET", "/health", patience=0.0))
        except ClientError:
            return False
        return True

    @operation
    def ready(self) -> Flow[Readiness]:
        """Whether the service is ready, and which checks fail. Not retried."""
        unavailable = httpx.codes.SERVICE_UNAVAILABLE
        request = Request("GET", "/ready", patience=0.0, passed=frozenset({int(unavailable)}))
        response = yield from self._send(request)
        body = json_object(response)
        if response.status_code == unavailable:
            body = {"checks": {}, **body, "status": str(body.get("detail") or "not ready")}
        return parse_part(Readiness, body, response)

    @operation
    def metrics(self) -> Flow[str]:
        """The metrics in the text format of Prometheus."""
        return (yield from self._send(Request("GET", "/metrics"))).text


def search_body(search: str | Mapping[str, Any]) -> Any:
    """A search in the form of the API, unchecked."""
    if not isinstance(search, Mapping):
        return search
    ours = ("filters", "tags", "min_confidence")
    body = {name: value for name, value in search.items() if name not in ours}
    filters = _filters(search.get("filters"), search.get("tags"), search.get("min_confidence"))
    return {**body, **without_none(filters=filters)}


def _filters(
    filters: Filters | None, tags: Sequence[str] | None, min_confidence: float | None
) -> dict[str, Any] | None:
    """The filters in the form of the API, unchecked; the service validates them."""
    if isinstance(filters, SearchFilters):
        # An empty tuple of tags is no condition; an empty tuple of document ids matches nothing.
        filters = {field.name: getattr(filters, field.name) for field in dataclasses.fields(filters)}
    values = {name: _json_value(value) for name, value in (filters or {}).items()}
    if tags is not None:
        values["tags"] = list(tags)
    if min_confidence is not None:
        values["min_confidence"] = min_confidence
    return values or None


def _decay(decay: str | Mapping[str, Any] | None) -> str | dict[str, Any] | None:
    if decay is None or isinstance(decay, str):
        return decay
    return {name: _json_value(value) for name, value in decay.items()}


def _json_value(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo else value.astimezone()
        return moment.isoformat()
    return list(value) if isinstance(value, tuple | set | frozenset) else value
