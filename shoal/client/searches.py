"""Operations for searches, explanations and the state of the service."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import httpx

from shoal.client.batches import read_batch
from shoal.client.errors import ClientError
from shoal.client.flows import Flow, Request, operation
from shoal.client.requests import Requester, json_object, json_value, parse, parse_part, without_none
from shoal.declared.filters import SearchFilters
from shoal.declared.operations.operation import API
from shoal.declared.search import SHORT_FORMS, RankingArguments, SearchArguments
from shoal.models.batches import BatchResponse
from shoal.models.facets import LibraryFacets
from shoal.models.responses import Readiness, Reefs, Status
from shoal.models.search import SearchResponse, SearchResult

if TYPE_CHECKING:
    from shoal.models.explanations import Explanation
    from shoal.models.notes import UnitResponse
    from shoal.models.queries import Suggestions
    from shoal.models.similarity import Similarity
    from shoal.models.verdicts import Verification


class SearchOperations(Requester):
    """Operations that search the library."""

    @operation
    def search(self, query: str, **arguments: Unpack[SearchArguments]) -> Flow[SearchResponse]:
        """Search for the best matching chunks. Arguments and result are those of `Engine.search`.

        Raises InvalidError, whose `errors` name the invalid arguments.
        """
        body = search_body({"query": query, **arguments})
        return parse(SearchResponse, (yield from self._send(Request("POST", f"{API}/search", json=body))))

    @operation
    def facets(
        self,
        facets: Sequence[str | Mapping[str, Any]],
        *,
        facet_limit: int | None = None,
        filters: SearchFilters | Mapping[str, Any] | None = None,
        filter: str | Mapping[str, Any] | None = None,  # noqa: A002 - the name of the field
    ) -> Flow[LibraryFacets]:
        """Count documents and passages by the values of fields. Arguments and result are those of
        `Engine.facets`.

        Raises InvalidError.
        """
        body = search_body(
            {"facets": facets, "facet_limit": facet_limit, "filters": filters, "filter": filter}
        )
        return parse(LibraryFacets, (yield from self._send(Request("POST", f"{API}/facets", json=body))))

    @operation
    def search_many(
        self,
        searches: Iterable[str | Mapping[str, Any]],
        *,
        fused: bool | None = None,
        **of_ranking: Unpack[RankingArguments],
    ) -> Flow[BatchResponse]:
        """Run up to 100 searches on one state of the library. Arguments and result are those of
        `Engine.search_many`; the error of a bad search is an InvalidError.

        Raises InvalidError for an invalid argument of the batch itself.
        """
        body = {"searches": [search_body(search) for search in searches], "fused": fused, **of_ranking}
        body = without_none(**body)
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
        **search: Unpack[SearchArguments],
    ) -> Flow[dict[str, Any]]:
        """Search like `search`, and return the JSON of the response. Results have the fields of `include`,
        without those of `exclude`.

        Raises InvalidError.
        """
        body = search_body({"query": query, **search, "include": include, "exclude": exclude})
        return json_object((yield from self._send(Request("POST", f"{API}/search", json=body))))

    @operation
    def search_units(
        self,
        /,
        query: str,
        *,
        units: Sequence[str] = ("chunk", "note"),
        owner: str | None = None,
        **search: Unpack[SearchArguments],
    ) -> Flow[UnitResponse]:
        """Search for the best matching chunks and notes of an owner, in one order.

        `search` takes the other arguments of `search`. Raises InvalidError.
        """
        from shoal.models.notes import NoteHit, UnitResponse

        body = search_body({"query": query, "units": units, "owner": owner, **search})
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
        from shoal.models.queries import Suggestions

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
        **search: Unpack[SearchArguments],
    ) -> Flow[Explanation]:
        """Explain the analyzed query word by word; with a document or chunk, also its rank or why it is
        missing.

        `search` takes the other arguments of `search`. Raises InvalidError, NotFoundError.
        """
        from shoal.models.explanations import Explanation

        body = search_body({"query": query, "document_id": document_id, "chunk_id": chunk_id, **search})
        return parse(Explanation, (yield from self._send(Request("POST", f"{API}/explain", json=body))))

    @operation
    def similarity(self, a: str, b: str) -> Flow[Similarity]:
        """How similar two short texts are, and whether they may contradict each other, like
        `Engine.similarity`.

        Raises InvalidError.
        """
        from shoal.models.similarity import Similarity

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
        from shoal.models.verdicts import Verification

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


def search_body(search: Any) -> Any:
    """A search in the form of the API, unchecked; the service validates it."""
    if not isinstance(search, Mapping):
        return search
    body = {name: json_value(value) for name, value in search.items() if value is not None}
    filters = {name: body.pop(name) for name in SHORT_FORMS if name in body}
    if filters:
        body["filters"] = {**body.get("filters", {}), **filters}
    return body
