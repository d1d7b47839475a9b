"""Answers to batches of searches, read from responses."""

from __future__ import annotations

from typing import Any

import httpx

from shoal.client.errors import error_from_response, unexpected_response
from shoal.client.requests import json_object, parse_part
from shoal.models.batches import BatchAnswer, BatchResponse, FusedResult
from shoal.models.prompts import Prompt, TokenUse
from shoal.models.search import SearchResponse


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
