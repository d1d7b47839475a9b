"""How well searches find what people say they should: judged queries, answered in several ways.

A judged query names the documents that answer it, by source path, by the end of one (`bees.md` for `notes/bees.md`) or by
title; a title that several documents have names all of them. Documents are ranked by their best passage.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError
from shoal.storage.database import Snapshot

if TYPE_CHECKING:
    from shoal.engine import Engine

DEPTH = 10
"""Results that are looked at: what people read, and what published numbers are of."""
EQUAL = 1e-9
"""Differences below this come from the order of adding."""

MAX_GRADE = 10
"""A gain is 2 to the power of its grade, less 1: beyond this, one document would be all that counts."""

NAMES = "SELECT id, title, source_path FROM documents ORDER BY id"


class JudgementError(ShoalError):
    """The judged queries cannot be used; the message names the line."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A query and the names of the documents that answer it, each with a grade above 0. `line` is where it stands."""

    line: int
    query: str
    relevant: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Way:
    """A way to search: a name, and arguments of `Engine.search`."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Quality:
    """Of one way, over all queries. `ndcg` and `recall` are means, 0..1; `n_missed` queries found nothing relevant;
    `n_better` and `n_worse` have a higher or lower nDCG than with the first way."""

    way: str
    ndcg: float
    recall: float
    n_missed: int
    n_better: int
    n_worse: int


@dataclass(frozen=True, slots=True)
class Answered:
    """One query: its nDCG by way."""

    line: int
    query: str
    ndcg: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Missing:
    """A name in a judgement that no document has."""

    line: int
    name: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A query whose documents are all `missing` is left out."""

    n_queries: int
    depth: int
    ways: tuple[Quality, ...]
    queries: tuple[Answered, ...]
    missing: tuple[Missing, ...]


def read_judged(lines: Iterable[str]) -> list[Judged]:
    """Judged queries from lines of JSON: `{"query": TEXT, "relevant": [NAME, …] or {NAME: GRADE, …}}`.

    Raises JudgementError for the first line that is something else.
    """
    found = [_judged(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not found:
        raise JudgementError("there are no judged queries: one JSON object a line is expected")
    return found


def evaluate(
    engine: Engine, judged: Sequence[Judged], ways: Sequence[Way], *, depth: int = DEPTH
) -> Evaluation:
    """Answer every query in every way. Raises QueryError for arguments that a search refuses, and JudgementError where
    no judged document is in the library."""
    with engine.database.snapshot() as snapshot:
        ids = _ids_of(snapshot, {name for one in judged for name in one.relevant})
    missing = tuple(Missing(one.line, name) for one in judged for name in one.relevant if name not in ids)
    grades = [
        {document: grade for name, grade in one.relevant.items() for document in ids.get(name, ())}
        for one in judged
    ]
    asked = [(one, grade) for one, grade in zip(judged, grades, strict=True) if grade]
    if not asked:
        raise JudgementError(
            "none of the judged documents is in this library: name them by source path or title"
        )
    found = {way.name: [(_found(engine, one, way, depth), grade) for one, grade in asked] for way in ways}
    ndcg = {name: [_ndcg(*pair, depth) for pair in pairs] for name, pairs in found.items()}
    first = ndcg[ways[0].name]
    return Evaluation(
        n_queries=len(asked),
        depth=depth,
        ways=tuple(_quality(name, pairs, ndcg[name], first) for name, pairs in found.items()),
        queries=tuple(
            Answered(one.line, one.query, {name: values[i] for name, values in ndcg.items()})
            for i, (one, _) in enumerate(asked)
        ),
        missing=missing,
    )


def _judged(number: int, line: str) -> Judged:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        raise JudgementError(f"line {number}: this is not JSON") from None
    query = given.get("query") if isinstance(given, dict) else None
    if not isinstance(query, str) or not query.strip():
        raise JudgementError(f'line {number}: an object with a "query" is expected')
    relevant = given.get("relevant")
    if isinstance(relevant, list):
        relevant = {name if isinstance(name, str) else "": 1 for name in relevant}
    if not isinstance(relevant, dict) or not all(
        name and isinstance(grade, int | float) and not isinstance(grade, bool) and 0 <= grade <= MAX_GRADE
        for name, grade in relevant.items()
    ):
        raise JudgementError(
            f'line {number}: "relevant" must be a list of source paths or titles, or an object of them with grades '
            f"from 0 to {MAX_GRADE}"
        )
    graded = {name: float(grade) for name, grade in relevant.items() if grade > 0}
    if not graded:
        raise JudgementError(
            f"line {number}: no document is relevant; a query that nothing answers says nothing"
        )
    return Judged(number, query, graded)


def _ids_of(snapshot: Snapshot, wanted: set[str]) -> dict[str, list[int]]:
    """Documents by the names that are wanted."""
    found: dict[str, list[int]] = {}
    for number, title, source_path in snapshot.tuples(NAMES):
        names = {title}
        parts = (source_path or "").split("/")
        names.update("/".join(parts[i:]) for i in range(len(parts)))
        for name in names & wanted:
            found.setdefault(name, []).append(number)
    return found


def _found(engine: Engine, judged: Judged, way: Way, depth: int) -> list[int]:
    reply = engine.search(judged.query, top_k=depth, max_per_document=1, **way.arguments)
    return [result.document_id for result in reply.results]


def _ndcg(found: Sequence[int], grades: Mapping[int, float], depth: int) -> float:
    """Discounted gains over those of the best order there is."""
    ideal = sorted(grades.values(), reverse=True)[:depth]
    return _discounted([grades.get(one, 0.0) for one in found]) / _discounted(ideal)


def _discounted(grades: Sequence[float]) -> float:
    return sum((2**grade - 1) / math.log2(place + 2) for place, grade in enumerate(grades))


def _quality(
    name: str,
    pairs: Sequence[tuple[Sequence[int], Mapping[int, float]]],
    ndcg: Sequence[float],
    first: Sequence[float],
) -> Quality:
    recalls = [len(grades.keys() & set(found)) / len(grades) for found, grades in pairs]
    gains = [value - before for value, before in zip(ndcg, first, strict=True)]
    return Quality(
        way=name,
        ndcg=statistics.fmean(ndcg),
        recall=statistics.fmean(recalls),
        n_missed=sum(recall == 0 for recall in recalls),
        n_better=sum(gain > EQUAL for gain in gains),
        n_worse=sum(gain < -EQUAL for gain in gains),
    )
