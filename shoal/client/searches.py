"""Searches, explanations and the state of the service, which clients ask in ways of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import httpx

from shoal.client.errors import ClientError, error_from_response, unexpected_response
from shoal.client.flows import Flow, operation
from shoal.client.requests import Requester, json_object, json_value, parse_part, with_filters
from shoal.declared.operations.searches import OtherSearchOperations as Searches
from shoal.declared.operations.service import OtherServiceOperations as Service
from shoal.declared.search import RankingArguments, SearchArguments
from shoal.models.prompts import Prompt, TokenUse
from shoal.models.responses import Readiness
from shoal.models.search import (
    BatchAnswer,
    BatchResponse,
    FusedResult,
    SearchResponse,
    SearchResult,
)

if TYPE_CHECKING:
    from shoal.models.notes import UnitResponse


def read_batch(response: httpx.Response) -> BatchResponse:
    """Read the answer to a batch. Raises NotShoalError."""
    body = json_object(response)
    answers, fused, warnings = body.get("answers"), body.get("fused"), body.get("warnings")
    if not isinstance(answers, list):
        raise unexpected_response(response)
    return BatchResponse(
        answers=tuple(_answer(answer, response) for answer in answers),
        trace_id=parse_part(str, body.get("trace_id"), response),
        took_ms=parse_part(float, body.get("took_ms"), response),
        fused=None if fused is None else parse_part(tuple[FusedResult, ...], fused, response),
        tokens=parse_part(TokenUse | None, body.get("tokens"), response),  # type: ignore[arg-type]
        prompt=parse_part(Prompt | None, body.get("prompt"), response),  # type: ignore[arg-type]
        warnings=parse_part(tuple[str, ...], warnings, response),
    )


def _answer(answer: Any, response: httpx.Response) -> BatchAnswer:
    """Read the answer to one search. A problem becomes the error that a single search would raise."""
    if not isinstance(answer, dict):
        raise unexpected_response(response)
    index = parse_part(int, answer.get("index"), response)
    query = parse_part(str, answer.get("query"), response)
    problem = answer.get("problem")
    if problem is None:
        return BatchAnswer(index, query, parse_part(SearchResponse, answer.get("answer"), response))
    if not isinstance(problem, dict) or not isinstance(problem.get("status"), int):
        raise unexpected_response(response)
    alone = httpx.Response(
        problem["status"],
        json=problem,
        headers={"Content-Type": "application/problem+json"},
        request=response.request,
    )
    return BatchAnswer(index, query, None, error_from_response(alone))


class Searching(Requester):
    """Operations that search the library. Invalid arguments raise InvalidError, whose `errors` name them."""

    @operation
    def search(self, query: str, **arguments: Unpack[SearchArguments]) -> Flow[SearchResponse]:
        """Search for the best matching chunks. Arguments and result are those of `Engine.search`."""
        return (yield from self._operate(Searches.search, {"query": query, **arguments}))

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
        return read_batch((yield from self._request(Searches.search_many, body)))

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
        without those of `exclude`."""
        given = {"query": query, **search, "include": include, "exclude": exclude}
        return json_object((yield from self._request(Searches.search, given)))

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

        `search` takes the other arguments of `search`.
        """
        from shoal.models.notes import NoteHit, UnitResponse

        given = {"query": query, "units": units, "owner": owner, **search}
        response = yield from self._request(Searches.search, given)
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


class ServiceState(Requester):
    """Whether the service answers, and how it is."""

    @operation
    def health(self) -> Flow[bool]:
        """Whether the service answers. Not retried."""
        try:
            yield from self._request(Service.health, {}, patience=0.0)
        except ClientError:
            return False
        return True

    @operation
    def ready(self) -> Flow[Readiness]:
        """Whether the service is ready, and which checks fail. Not retried."""
        unavailable = httpx.codes.SERVICE_UNAVAILABLE
        passed = frozenset({int(unavailable)})
        response = yield from self._request(Service.ready, {}, patience=0.0, passed=passed)
        body = json_object(response)
        if response.status_code == unavailable:
            body = {"checks": {}, **body, "status": str(body.get("detail") or "not ready")}
        return parse_part(Readiness, body, response)

    @operation
    def metrics(self) -> Flow[str]:
        """The metrics in the text format of Prometheus."""
        return (yield from self._request(Service.metrics, {})).text


def search_body(search: Any) -> Any:
    """A search in the form of the API, unchecked; the service validates it."""
    if not isinstance(search, Mapping):
        return search
    return with_filters({name: json_value(value) for name, value in search.items() if value is not None})
