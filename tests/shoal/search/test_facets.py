"""Facets on generated libraries, against a plain count of the stored rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from filter_model import NAMES, SCORER, documents, meets, rows_of, store, trees, values_of
from generated_libraries import (
    EQUAL_WEIGHTS,
    MANY,
    libraries,
    open_library,
    queries,
    rank_query,
    texts,
)
from hypothesis import example, given
from hypothesis import strategies as st

from shoal import SearchFilters
from shoal.declared.search import MAX_FACETS
from shoal.errors import QueryError
from shoal.facets.counting import toggled
from shoal.facets.requests import MAX_FIELD_CHARS, FacetRequest, Interval, make_facets
from shoal.filters.parsing import make_filter
from shoal.filters.tree import All, Condition, Field, Node, Op, conditions_of, span_of, text_of
from shoal.models.documents import DocFormat
from shoal.models.search import Facet, FacetValue, SearchMode, TagsMatch
from shoal.search.filters import CompiledFilters, compile_filters, facet_counter
from shoal.search.library_index import IndexCache
from shoal.storage.database import Database

FACETS = [
    "tags",
    "title",
    "source_path",
    "format",
    "id",
    "section",
    "reef",
    "island",
    "archipelago",
    "confidence",
    "coverage",
    "metadata.year",
    "draft",
    "by",
    "by.name",
    "by.name.year",
    'metadata."a.b"',
    "created:day",
    "date:week",
    "date:month",
    "date:year",
    "metadata.year:1",
    "metadata.year:0.1",
    "by:100",
    "metadata.year:month",
    "by.name:day",
    "confidence:0.3",
    "id:2",
    "page",
]
facets = st.lists(st.sampled_from(FACETS), min_size=1, max_size=4)


# The model: what docs/facets.md says, row by row.


def model_value(request: FacetRequest, value: Any) -> Any:
    """The value that is counted, after the name of its type; None if there is none."""
    if request.interval is not None:
        begin = model_begin(request, value)
        return None if begin is None else ("begin", begin)
    if value is None:
        return "null", None
    if isinstance(value, bool):
        return "truth", value
    if isinstance(value, int | float):
        return "number", value
    return ("text", value) if isinstance(value, str) else None


def model_begin(request: FacetRequest, value: Any) -> Any:
    interval = request.interval
    assert interval is not None
    if interval.unit is None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if abs(Fraction(value) / interval.width) * interval.width.numerator > 2**53 - 10**7:
            return None
        first = math.floor(Fraction(value) / interval.width)
        (bucket,) = (
            each
            for each in (first - 1, first, first + 1)
            if float(each * interval.width) <= value < float((each + 1) * interval.width)
        )
        return float(bucket * interval.width)
    span = span_of(value) if isinstance(value, str) else None
    if span is None:
        return None
    day = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=span[0])).date()
    if interval.unit == "week":
        return str(day - timedelta(days=day.weekday()))
    return str(day)[: {"day": 10, "month": 7, "year": 4}[interval.unit]]


def model_facet(request: FacetRequest, rows: list[dict[str, Any]]) -> tuple[dict[Any, tuple[int, int]], int]:
    """({value: (documents, chunks)}, documents without a value)."""
    chunks: Counter[Any] = Counter()
    of_document: dict[Any, set[int]] = {}
    with_value = set()
    for row in rows:
        found = {model_value(request, value) for value in flat(values_of(request.field, row))} - {None}
        chunks.update(found)
        for value in found:
            of_document.setdefault(value, set()).add(row["id"])
            with_value.add(row["id"])
    counts = {value: (len(of_document[value]), n) for value, n in chunks.items()}
    return counts, len({row["id"] for row in rows}) - len(with_value)


def flat(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if not isinstance(value, list | dict)]


def model_others(tree: Node | None, field: Field) -> list[Node]:
    """The conditions at the top of a tree that are not all on a field."""
    if isinstance(tree, All):
        return [other for part in tree.parts for other in model_others(part, field)]
    is_own = tree is None or all(condition.field == field for condition in conditions_of(tree))
    return [] if is_own else [tree]  # type: ignore[list-item]


def counted(facet: Facet) -> dict[Any, tuple[int, int]]:
    def key(value: FacetValue) -> Any:
        if facet.interval is not None:
            return "begin", value.value
        kinds = {bool: "truth", int: "number", float: "number", str: "text", type(None): "null"}
        return kinds[type(value.value)], value.value

    return {key(value): (value.count, value.n_chunks) for value in facet.values}


def library_facets(database: Database, tree: Node | None, requests: Iterable[FacetRequest]) -> list[Facet]:
    with database.snapshot() as snapshot:
        library = IndexCache(database).of(snapshot)
        compiled = CompiledFilters(tree=tree, names=NAMES)
        everything = np.ones(len(library), dtype=np.bool_)
        is_result = compiled.met_by(snapshot, library)
        counter = facet_counter(snapshot, library, compiled, NAMES, everything, is_result)
        return [counter.facet(request) for request in requests]


@MANY
@given(stored=st.lists(documents, min_size=1, max_size=5), tree=st.none() | trees(), fields=facets)
@example(
    stored=[({"year": [1, 1.0, True, 0.3, 10**30]}, {"sea"}, "SEA", None, DocFormat.markdown, [0.1, 0.9])]
    * 2,
    tree=make_filter("year = 1 AND tags = sea"),
    fields=["metadata.year", "metadata.year:0.1", "tags"],
)
def test_facets_of_a_library_are_a_plain_count(
    stored: list[tuple[Any, ...]], tree: Node | None, fields: list[str]
) -> None:
    requests = make_facets(fields, limit=1000)
    with open_library([]) as database:
        store(database, stored)
        rows = rows_of(database)
        for request, facet in zip(requests, library_facets(database, tree, requests), strict=True):
            kept = [
                row for row in rows if all(meets(part, row) for part in model_others(tree, request.field))
            ]
            expected, n_missing = model_facet(request, kept)
            assert counted(facet) == expected
            assert (facet.n_values, facet.n_other, facet.n_missing) == (len(expected), 0, n_missing)
            assert facet.n_documents == len({row["id"] for row in kept})
            assert facet.n_chunks == len(kept)
            counts = [value.count for value in facet.values]
            if facet.interval is None:
                assert counts == sorted(counts, reverse=True)
            else:
                assert sorted(facet.values, key=lambda each: each.value) == list(facet.values)
            for value in facet.values:
                if value.filter is not None and facet.interval is None:
                    chosen = make_filter(value.filter)
                    assert chosen is not None
                    with_names = NAMES.with_ids(chosen) if isinstance(chosen, Condition) else chosen
                    assert sum(meets(with_names, row) for row in kept) == value.n_chunks


few_filters = st.sampled_from(
    [
        SearchFilters(),
        SearchFilters(tags=("red",)),
        SearchFilters(tags=("red", "blue"), tags_match=TagsMatch.any, format=DocFormat.markdown),
        SearchFilters(metadata={"turn": 1, "even": False}),
        SearchFilters(min_confidence=0.5, name_contains="title"),
        SearchFilters(reef_ids=(1, 2, 3), metadata={"turn": 0}),
    ]
)
"""Few at a time, so that something meets them."""


@MANY
@given(
    library=libraries, given_filters=few_filters, query=queries, text=texts, mode=st.sampled_from(SearchMode)
)
def test_facets_of_a_search_count_all_of_its_results(
    library: Any, given_filters: SearchFilters, query: Any, text: str, mode: SearchMode
) -> None:
    requests = make_facets(["tags", "format", "turn", "confidence", "reef"], limit=1000)
    with open_library(library) as database, database.snapshot() as snapshot:
        rows = {row["chunk_id"]: row for row in rows_of(database)}
        index = IndexCache(database).of(snapshot)

        def ranked(kept: SearchFilters) -> tuple[Any, CompiledFilters]:
            compiled = compile_filters(kept, SCORER, 0.5)  # type: ignore[arg-type]
            return rank_query(
                snapshot, index, text, query, compiled, mode=mode, weights=EQUAL_WEIGHTS
            ), compiled

        ranking, compiled = ranked(given_filters)
        counter = facet_counter(snapshot, index, compiled, NAMES, ranking.is_found, ranking.order.is_result)
        own = {
            "tags": {"tags": ()},
            "format": {"format": None},
            "turn": {"metadata": without(given_filters.metadata, "turn")},
            "confidence": {"min_confidence": None},
            "reef": {"reef_ids": None},
        }
        for request in requests:
            name = request.field.path[0] if request.field.path else request.field.name
            others, _ = ranked(SearchFilters(**{**as_dict(given_filters), **own[name]}))
            kept = [rows[each.chunk_id] for each in others.first(10_000, None)]
            facet = counter.facet(request)
            assert counted(facet) == model_facet(request, kept)[0]


@pytest.mark.parametrize(
    ("expression", "fields", "expected"),
    [
        ("metadata.year = 1 AND tags = sea", "metadata.year tags", [{1: 1, 2: 1}, {"sea": 1, "wind": 1}]),
        ("metadata.year = 1 OR tags = sea", "metadata.year tags", [{1: 2, 2: 1}, {"sea": 2, "wind": 1}]),
        ("NOT metadata.year = 1 AND format = markdown", "metadata.year format", [{1: 2, 2: 1}, {"markdown": 1}]),
    ],
)  # fmt: skip
def test_the_conditions_of_a_facet_do_not_apply_to_it_and_all_others_do(
    expression: str, fields: str, expected: list[dict[Any, int]]
) -> None:
    facts = [(1, "sea"), (1, "wind"), (2, "sea")]
    with open_library([]) as database:
        store(
            database, [({"year": year}, {tag}, "SEA", None, DocFormat.markdown, [0.1]) for year, tag in facts]
        )
        counted_facets = library_facets(database, make_filter(expression), make_facets(fields.split()))
    assert [{value.value: value.count for value in facet.values} for facet in counted_facets] == expected


@given(st.sampled_from(["0.1", "0.3", "0.7", "0.000007", "3", "1000.01"]), st.integers(-(10**6), 10**6))
def test_the_bound_of_an_interval_is_in_it(width: str, bucket: int) -> None:
    interval = Interval.of_numbers(Decimal(width))
    bound = float(bucket * interval.width)
    numbers = np.array([bound, np.nextafter(bound, -np.inf), np.nextafter(bound, np.inf)])
    assert interval.of_values(numbers).tolist() == [bucket, bucket - 1, bucket]
    assert interval.begin(bucket) == bound


def without(metadata: Any, key: str) -> Any:
    return {name: value for name, value in (metadata or {}).items() if name != key} or None


def as_dict(given_filters: SearchFilters) -> dict[str, Any]:
    return {name: getattr(given_filters, name) for name in SearchFilters.__dataclass_fields__}


@pytest.mark.parametrize(
    ("before", "chosen", "after"),
    [
        (None, 'tags = "sea"', 'tags = "sea"'),
        ("year > 2000", "tags = sea", 'year > 2000 AND tags = "sea"'),
        ("tags = sea AND year > 2000", "tags = wind", 'year > 2000 AND tags IN ["sea", "wind"]'),
        ("tags IN [sea, wind]", "tags = sea", 'tags = "wind"'),
        ("tags = sea AND tags = wind", "tags = wind", 'tags = "sea"'),
        ("tags = sea", "tags = sea", None),
        ("year = 1", "year = true", "year IN [1, true]"),
        ("tags = sea OR year > 1", "tags = sea", '(tags = "sea" OR year > 1) AND tags = "sea"'),
        (None, "year >= 10 AND year < 20", "year >= 10 AND year < 20"),
        ("year >= 10 AND year < 20", "year >= 10 AND year < 20", None),
        (
            "year >= 10 AND year < 20 AND a = 1",
            "year >= 20 AND year < 30",
            "a = 1 AND year >= 20 AND year < 30",
        ),
    ],
)
def test_choosing_a_value_changes_the_conditions_of_its_field(
    before: str | None, chosen: str, after: str | None
) -> None:
    value = make_filter(chosen)
    assert value is not None
    tree = toggled(make_filter(before), value)
    assert (None if tree is None else text_of(tree)) == after


def test_a_reef_that_was_chosen_by_its_number_is_removed_by_its_name() -> None:
    chosen = Condition(Field("reef"), Op.eq, ("tides",))
    assert toggled(make_filter("reef = 7"), chosen, (7,)) is None


def test_values_beyond_the_limit_are_counted_together() -> None:
    stored = [({"year": n}, set(), "SEA", None, DocFormat.markdown, [0.1]) for n in (1, 1, 1, 2, 2, 5, 4, 3)]
    with open_library([]) as database:
        store(database, stored)
        (facet,) = library_facets(database, None, make_facets(["metadata.year"], limit=3))
        (histogram,) = library_facets(database, None, make_facets(["metadata.year:2"], limit=2))
    assert [(value.value, value.count) for value in facet.values] == [(1, 3), (2, 2), (3, 1)]
    assert (facet.n_values, facet.n_other) == (5, 2)
    assert [(value.value, value.count) for value in histogram.values] == [(0, 3), (2, 3)]
    assert (histogram.n_values, histogram.n_other) == (3, 2)


def test_twenty_thousand_values_are_counted_and_few_are_returned() -> None:
    values = [f"value {n}" for n in range(20_000)]
    stored = [({"many": values}, set(), "SEA", None, DocFormat.markdown, [0.1])] * 2
    with open_library([]) as database:
        store(database, stored)
        (facet,) = library_facets(database, None, make_facets(["many"]))
    assert [value.value for value in facet.values] == sorted(values)[:10]
    assert (facet.n_values, facet.n_other) == (20_000, 2 * 19_990)


def test_a_long_text_is_shortened_and_has_no_filter() -> None:
    with open_library([]) as database:
        store(database, [({"by": "x" * 5_000}, set(), "SEA", None, DocFormat.markdown, [0.1])])
        (facet,) = library_facets(database, None, make_facets(["by"]))
    (value,) = facet.values
    assert (value.value, value.filter) == ("x" * 1_000 + "…", None)


@pytest.mark.parametrize(
    ("facets", "field", "message"),
    [
        ("tags", "facets", "must be a list"),
        (["tags"] * (MAX_FACETS + 1), "facets", "more than 20"),
        ([7], "facets[0]", "must be a field"),
        (["tags", ""], "facets[1]", "needs the name"),
        (["tittle"], "facets[0]", "did you mean title?"),
        (["creatd:month"], "facets[0]", "did you mean created?"),
        (["x" * (MAX_FIELD_CHARS + 1)], "facets[0]", "over 1,000 characters"),
        (['"' * 500], "facets[0]", ""),
        ([".".join("a" * 99)], "facets[0]", "at most 16 names"),
        (["a\0b\ud800"], "facets[0]", ""),
        ([{"field": "tags", "limit": 0}], "facets[0].limit", "from 1 to 1,000"),
        ([{"field": "tags", "limit": True}], "facets[0].limit", "whole number"),
        ([{"field": "tags", "size": 3}], "facets[0]", "known are field, limit, interval"),
        ([{"field": "created", "interval": "hour"}], "facets[0]", "one of day, week, month, year"),
        (["tags:month"], "facets[0]", "tags is no date"),
        (["tags:10"], "facets[0]", "tags is no number"),
        (["created:10"], "facets[0]", "created is no number"),
        (["year:0"], "facets[0]", "it is from 0.000001"),
        (["year:0.0000001"], "facets[0]", "it is from 0.000001"),
        ([{"field": "year", "interval": float("nan")}], "facets[0]", "no number"),
        ([{"field": "year", "interval": -1}], "facets[0]", "it is from"),
        (["year:99999999999999999999"], "facets[0]", "it is from"),
    ],
)
def test_bad_facets_are_refused_by_name(facets: Any, field: str, message: str) -> None:
    with pytest.raises(QueryError) as error:
        make_facets(facets)
    assert error.value.field == field
    assert message in str(error.value)


def test_a_name_may_have_a_colon() -> None:
    (facet,) = make_facets(["dc:title"])
    assert (facet.field.path, facet.interval) == (("dc:title",), None)
    (facet,) = make_facets(['metadata."dc:7"'])
    assert (facet.field.path, facet.interval) == (("dc:7",), None)
