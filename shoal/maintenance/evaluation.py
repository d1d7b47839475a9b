"""Evaluates the ranking of several search configurations with judged queries.

A judged query names its relevant documents by source path, by the end of one (`bees.md` for `notes/bees.md`)
or by title. A title names all documents that have it. Documents are ranked by their best chunk.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.errors import ShoalError
from shoal.models.search import SearchResponse
from shoal.storage.database import Database, Snapshot

EQUAL = 1e-9
"""Smaller differences are rounding errors of summation."""

MAX_GRADE = 10
"""The gain is 2 ** grade - 1: beyond this grade, a single document would decide the score."""

NAMES = "SELECT id, title, source_path FROM documents ORDER BY id"


class JudgementError(ShoalError, code="invalid_judgements"):
    """The judged queries cannot be used; the message names the line."""


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query and its relevant documents: grades above 0 by name. `line` is its line number in the file."""

    line: int
    query: str
    relevant: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Configuration:
    """A search configuration: a name and arguments of `Engine.search`."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Quality:
    """Metrics of one configuration over all queries.

    `ndcg` and `recall` are means, 0..1. `n_missed` queries have no relevant result. `n_better` and `n_worse`
    queries have a higher or lower nDCG than with the first configuration.
    """

    configuration: str
    ndcg: float
    recall: float
    n_missed: int
    n_better: int
    n_worse: int


@dataclass(frozen=True, slots=True)
class QueryQuality:
    """nDCG of one query by configuration."""

    line: int
    query: str
    ndcg: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class MissingDocument:
    """A name in a judged query that no document has."""

    line: int
    name: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of an evaluation. Queries whose documents are all `missing` are left out."""

    n_queries: int
    depth: int
    configurations: tuple[Quality, ...]
    queries: tuple[QueryQuality, ...]
    missing: tuple[MissingDocument, ...]


def read_judged_queries(lines: Iterable[str]) -> list[JudgedQuery]:
    """Parse judged queries from lines of JSON: `{"query": TEXT, "relevant": [NAME, …] or {NAME: GRADE, …}}`.

    Raises JudgementError for the first invalid line.
    """
    queries = [_judged_query(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not queries:
        raise JudgementError("there are no judged queries: one JSON object per line is expected")
    return queries


def evaluate(
    database: Database,
    search: Callable[..., SearchResponse],
    judged_queries: Sequence[JudgedQuery],
    configurations: Sequence[Configuration],
    *,
    depth: int,
) -> Evaluation:
    """Run every query in every configuration; `Maintenance.evaluate` describes the arguments."""
    with database.snapshot() as snapshot:
        ids = _ids_by_name(snapshot, {name for query in judged_queries for name in query.relevant})
    missing = tuple(
        MissingDocument(query.line, name)
        for query in judged_queries
        for name in query.relevant
        if name not in ids
    )
    grades = [
        {document_id: grade for name, grade in query.relevant.items() for document_id in ids.get(name, ())}
        for query in judged_queries
    ]
    graded = [
        (query, query_grades)
        for query, query_grades in zip(judged_queries, grades, strict=True)
        if query_grades
    ]
    if not graded:
        raise JudgementError(
            "none of the judged documents is in this library: name them by source path or title"
        )
    rankings = {
        configuration.name: [
            (_ranked_ids(search, query, configuration, depth), query_grades) for query, query_grades in graded
        ]
        for configuration in configurations
    }
    ndcg = {name: [_ndcg(*pair, depth) for pair in pairs] for name, pairs in rankings.items()}
    baseline = ndcg[configurations[0].name]
    return Evaluation(
        n_queries=len(graded),
        depth=depth,
        configurations=tuple(_quality(name, pairs, ndcg[name], baseline) for name, pairs in rankings.items()),
        queries=tuple(
            QueryQuality(query.line, query.query, {name: values[i] for name, values in ndcg.items()})
            for i, (query, _) in enumerate(graded)
        ),
        missing=missing,
    )


def _judged_query(number: int, line: str) -> JudgedQuery:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise JudgementError(f"line {number}: this is not JSON") from None
    query = record.get("query") if isinstance(record, dict) else None
    if not isinstance(query, str) or not query.strip():
        raise JudgementError(f'line {number}: an object with a "query" is expected')
    relevant = record.get("relevant")
    if isinstance(relevant, list):
        relevant = {name if isinstance(name, str) else "": 1 for name in relevant}
    if not isinstance(relevant, dict) or not all(
        name and isinstance(grade, int | float) and not isinstance(grade, bool) and 0 <= grade <= MAX_GRADE
        for name, grade in relevant.items()
    ):
        raise JudgementError(
            f'line {number}: "relevant" must be a list of source paths or titles, or an object of them with '
            f"grades from 0 to {MAX_GRADE}"
        )
    graded = {name: float(grade) for name, grade in relevant.items() if grade > 0}
    if not graded:
        raise JudgementError(
            f"line {number}: no document is relevant; a query without a relevant document cannot be scored"
        )
    return JudgedQuery(number, query, graded)


def _ids_by_name(snapshot: Snapshot, names: set[str]) -> dict[str, list[int]]:
    """Ids of the documents that have one of `names` as title, source path or end of it."""
    ids: dict[str, list[int]] = {}
    for document_id, title, source_path in snapshot.tuples(NAMES):
        own_names = {title}
        parts = (source_path or "").split("/")
        own_names.update("/".join(parts[i:]) for i in range(len(parts)))
        for name in own_names & names:
            ids.setdefault(name, []).append(document_id)
    return ids


def _ranked_ids(
    search: Callable[..., SearchResponse], query: JudgedQuery, configuration: Configuration, depth: int
) -> list[int]:
    # A ranking is judged, not what people put first.
    arguments = {"pins": "off", **configuration.arguments}
    response = search(query.query, top_k=depth, max_per_document=1, **arguments)
    return [result.document_id for result in response.results]


def _ndcg(ranking: Sequence[int], grades: Mapping[int, float], depth: int) -> float:
    """Discounted cumulative gain, divided by that of the ideal ranking."""
    ideal = sorted(grades.values(), reverse=True)[:depth]
    return _dcg([grades.get(document_id, 0.0) for document_id in ranking]) / _dcg(ideal)


def _dcg(grades: Sequence[float]) -> float:
    return sum((2**grade - 1) / math.log2(rank + 2) for rank, grade in enumerate(grades))


def _quality(
    name: str,
    pairs: Sequence[tuple[Sequence[int], Mapping[int, float]]],
    ndcg: Sequence[float],
    baseline: Sequence[float],
) -> Quality:
    recalls = [len(grades.keys() & set(ranking)) / len(grades) for ranking, grades in pairs]
    gains = [value - base for value, base in zip(ndcg, baseline, strict=True)]
    return Quality(
        configuration=name,
        ndcg=statistics.fmean(ndcg),
        recall=statistics.fmean(recalls),
        n_missed=sum(recall == 0 for recall in recalls),
        n_better=sum(gain > EQUAL for gain in gains),
        n_worse=sum(gain < -EQUAL for gain in gains),
    )
