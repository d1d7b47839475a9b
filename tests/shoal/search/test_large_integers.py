"""Integers of metadata beyond 64 bits: conditions, the order of results, and facets, on both stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from postgres_schemas import new_schema, url_of

from shoal import Engine
from shoal.errors import FilterError, QueryError
from shoal.filters.tree import MAX_DIGITS
from shoal.settings import Settings

TWO_64 = 2**64
LONGEST = 10**MAX_DIGITS - 1
NUMBERS = [TWO_64, TWO_64 + 1, -TWO_64 - 1, 10**400, 10**400 + 1, -(10**400), LONGEST, 7, 2**60, 1.5, 1e300]
"""Those of documents 1, 2, and so on. Floats cannot tell the first two apart, nor hold some of the others."""


def short(number: int) -> str:
    return str(number)[:21]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder: Path = tmp_path_factory.mktemp("library")
    if request.param == "sqlite":
        with opened(f"sqlite:///{folder}/shoal.db", folder) as engine:
            yield engine
    else:
        with new_schema() as schema, opened(url_of(schema), folder) as engine:
            yield engine


def opened(url: str, folder: Path) -> closing[Engine]:
    settings = Settings(database_url=url, learning=False, data_dir=str(folder))
    engine = Engine(scorer=FakeScorer(), settings=settings)
    for i, number in enumerate(NUMBERS):
        engine.ingest(content=f"Lava and rock of text {i}.", title=f"Text {i}", metadata={"n": number})
    return closing(engine)


def found(engine: Engine, filter_: Any, **arguments: Any) -> list[int]:
    response = engine.search("lava", filter=filter_, top_k=50, mode="lexical", **arguments)
    return [result.document_id for result in response.results]


def where(met: Any) -> list[int]:
    return [document_id for document_id, number in enumerate(NUMBERS, 1) if met(number)]


@pytest.mark.parametrize(
    "value", [TWO_64, TWO_64 + 2, -TWO_64 - 1, 10**400, LONGEST, -LONGEST, 10**300], ids=short
)
def test_conditions_compare_large_integers_exactly(engine: Engine, value: int) -> None:
    expected = {
        f"n = {value}": where(lambda n: n == value),
        f"n != {value}": where(lambda n: n != value),
        f"n < {value}": where(lambda n: n < value),
        f"n <= {value}": where(lambda n: n <= value),
        f"n > {value}": where(lambda n: n > value),
        f"n >= {value}": where(lambda n: n >= value),
        f"n IN [7, {value}, {TWO_64}, 'x']": where(lambda n: n in (7, value, TWO_64)),
        f"n {-TWO_64} TO {value}": where(lambda n: -TWO_64 <= n <= value),
    }
    assert {each: sorted(found(engine, each)) for each in expected} == expected


@pytest.mark.parametrize("value", [TWO_64 + 1, -(10**400), LONGEST], ids=short)
def test_objects_and_metadata_filters_take_large_integers(engine: Engine, value: int) -> None:
    equal = where(lambda n: n == value)
    assert found(engine, {"n": value}) == equal
    assert sorted(found(engine, {"n": {"$lte": value}})) == where(lambda n: n <= value)
    assert sorted(found(engine, {"n": {"$nin": [value, 7]}})) == where(lambda n: n not in (value, 7))
    assert found(engine, None, filters={"metadata": {"n": value}}) == equal


def test_results_are_sorted_by_large_integers(engine: Engine) -> None:
    ascending = sorted(range(1, len(NUMBERS) + 1), key=lambda each: NUMBERS[each - 1])
    assert found(engine, None, sort="n") == ascending
    assert found(engine, None, sort="-n") == ascending[::-1]
    response = engine.search("lava", sort="n", top_k=50, include_scores=True)
    values = [result.sort_values for result in response.results]
    assert values == [(NUMBERS[each - 1],) for each in ascending]


def test_facet_counts_each_large_integer_and_gives_its_filter(engine: Engine) -> None:
    response = engine.search("lava", facets=[{"field": "n", "limit": 50}], top_k=50)
    (facet,) = response.facets or ()
    assert sorted(each.value for each in facet.values) == sorted(NUMBERS)  # type: ignore[type-var]
    for each in facet.values:
        assert found(engine, each.filter) == [NUMBERS.index(each.value) + 1]  # type: ignore[arg-type]


def test_condition_on_another_field_takes_large_integers(engine: Engine) -> None:
    assert found(engine, f"id = {TWO_64 + 1}") == []
    assert len(found(engine, f"id < {10**400} AND confidence < {10**400}")) == len(NUMBERS)
    with pytest.raises(QueryError, match=f"there is no reef {TWO_64}"):
        found(engine, f"reef = {TWO_64}")
    with pytest.raises(FilterError, match="created is a date"):
        found(engine, f"created >= {TWO_64}")


@pytest.mark.parametrize("digits", [MAX_DIGITS + 1, 20_000])
def test_integer_that_no_metadata_has_is_refused(engine: Engine, digits: int) -> None:
    number = 10 ** (digits - 1)
    for given in (f"n = 1{'0' * (digits - 1)}", {"n": number}, {"n": {"$in": [1, -number]}}):
        with pytest.raises(
            FilterError, match=f"too large a number: an integer has at most {MAX_DIGITS:,} digits"
        ):
            found(engine, given)
    with pytest.raises(QueryError, match="too large a number"):
        found(engine, None, filters={"metadata": {"n": number}})
    with pytest.raises(FilterError, match="too large a number"):
        found(engine, "n = 1e400")
