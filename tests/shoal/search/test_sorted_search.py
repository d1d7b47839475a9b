"""Searches sorted by fields, and the parts that a decay and boosts add to scores."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_scorer import FakeScorer
from hypothesis import given
from hypothesis import strategies as st

from shoal.engine import Engine
from shoal.errors import FilterError, QueryError
from shoal.filters.columns import make_column
from shoal.index.index import Index
from shoal.models.search import SearchResult
from shoal.search import ordering
from shoal.search.audit import search_arguments
from shoal.search.ordering import BestFirst, DocumentLimit, Order, Ranks, first_after, per_document
from shoal.settings import Settings

NOW = "2026-03-01T00:00:00.000Z"
HONEY = {
    "Zebra": {"date": "2026-01-30", "year": 2020, "rank": 2**53 + 1},
    "apple": {"date": "2026-02-27", "year": 2021.5, "rank": 2**53},
    "Apple": {"date": "2025-03-01", "year": "late", "rank": [1, 2**53 + 2]},
    "mango": {"date": "2031-01-01", "year": None, "deep": {"at": "2026-02-27"}},
    "Berry": {"year": True, "deep": [{"at": "2020-01-01"}, {"at": "2026-02-27T12:00:00Z"}]},
}
QUERY = "honey hive"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("sorted")
    settings = Settings(
        database_url=f"sqlite:///{folder}/shoal.db",
        learning=False,
        audit="full",
        audit_file=f"{folder}/audit.jsonl",
    )
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        for number, (title, metadata) in enumerate(HONEY.items()):
            content = "The honey of the hive. " + "A plain sentence about nothing much. " * number
            engine.ingest(title=title, content=content, metadata=metadata, tags=[f"t{number % 2}"])
        engine.ingest(title="Other", content="Nothing of the sort.", tags=["t0"])
        yield engine


def titles(engine: Engine, **arguments: Any) -> list[str]:
    found = engine.search(QUERY, max_per_document=1, **arguments).results
    return [result.document_title for result in found]


def test_titles_that_differ_only_by_case_tie(library: Engine) -> None:
    assert titles(library, sort="title") == ["apple", "Apple", "Berry", "mango", "Zebra"]
    assert titles(library, sort=["-title"]) == ["Zebra", "mango", "Berry", "apple", "Apple"]
    assert titles(library, sort="title,date")[:2] == ["Apple", "apple"]
    page = library.search(QUERY, sort="title,date", top_k=1)
    after = library.search(QUERY, sort="title,date", top_k=1, cursor=page.next_cursor)
    assert [page.results[0].document_title, after.results[0].document_title] == ["Apple", "apple"]


def test_missing_values_are_last_in_both_directions(library: Engine) -> None:
    ascending = titles(library, sort="year,title")
    assert ascending == ["Berry", "Zebra", "apple", "Apple", "mango"]
    assert titles(library, sort="-year,title") == ["Apple", "apple", "Zebra", "Berry", "mango"]


def test_large_integers_are_ordered_exactly(library: Engine) -> None:
    assert titles(library, sort="-rank")[:3] == ["Apple", "Zebra", "apple"]


def test_dates_fall_back_to_created(library: Engine) -> None:
    # Berry has no date, so it counts as stored today.
    assert titles(library, sort="date")[:3] == ["Apple", "Zebra", "apple"]
    assert titles(library, sort="-created") == titles(library, sort="-id")


def test_ties_are_ordered_by_score(library: Engine) -> None:
    assert titles(library, sort="nosuch") == titles(library)
    response = library.search(QUERY, sort="nosuch")
    assert "nothing is sorted by nosuch: no document has a value there" in response.warnings


def test_pages_of_a_sorted_search_are_its_ranking(library: Engine) -> None:
    whole = titles(library, sort="-deep.at,-title")
    pages = [titles(library, sort="-deep.at,-title", top_k=2, offset=offset) for offset in (0, 2, 4)]
    assert list(itertools.chain(*pages)) == whole
    assert library.search(QUERY, sort="-deep.at,-title").results[0].sort_values == (
        "2026-02-27T12:00:00Z",
        "Berry",
    )


def test_explanation_has_the_rank_of_the_sorted_search(library: Engine) -> None:
    for rank, result in enumerate(library.search(QUERY, sort="title", max_per_document=1).results, start=1):
        target = library.explain(QUERY, sort="title", chunk_id=result.chunk_id, max_per_document=1).target
        assert target is not None
        assert target.rank == rank
        assert target.sort_values == (result.document_title,)


@pytest.mark.parametrize("fusion", ["blend", "rrf"])
def test_added_parts_add_up_and_change_no_other_part(library: Engine, fusion: str) -> None:
    decay = {"field": "date", "half_life_days": 30, "weight": 0.4, "now": NOW}
    boosts = [{"filter": "tags = t1", "weight": 0.25}, {"filter": {"year": {"$gte": 2021}}, "weight": 0.5}]
    plain = {r.chunk_id: r for r in library.search(QUERY, top_k=50, fusion=fusion).results}
    response = library.search(QUERY, top_k=50, fusion=fusion, decay=decay, boosts=boosts)
    assert response.now == NOW
    assert {result.chunk_id for result in response.results} == set(plain)
    for result in response.results:
        before, scores = plain[result.chunk_id], result.scores
        expected_decay = 0.4 * 0.5 ** (_age(result) / 30)
        assert scores.decay == pytest.approx(expected_decay, rel=1e-12)
        assert scores.boosts is not None
        is_met = [result.tags == ("t1",), result.document_title == "apple"]
        assert [boost.value for boost in scores.boosts] == [0.25 * is_met[0], 0.5 * is_met[1]]
        total = before.match_score + scores.decay
        for boost in scores.boosts:
            total += boost.value
        assert result.match_score == total == scores.final
        assert dataclasses.replace(scores, final=before.match_score, decay=None, boosts=None) == before.scores
    scores_in_order = [result.match_score for result in response.results]
    assert scores_in_order == sorted(scores_in_order, reverse=True)


def _age(result: SearchResult) -> float:
    moment = {"Zebra": 30, "apple": 2, "Apple": 365, "mango": 0}.get(result.document_title)
    # Without a date of its own, a document counts as stored now, which is after the given moment.
    return 0.0 if moment is None else float(moment)


def test_decay_reads_dates_of_metadata_and_takes_the_newest(library: Engine) -> None:
    response = library.search(QUERY, decay=f"deep.at:1:1@{NOW}")
    parts = {result.document_title: result.scores.decay for result in response.results}
    assert parts["Berry"] == pytest.approx(0.5**1.5)
    assert parts["mango"] == pytest.approx(0.25)
    assert parts["Zebra"] == 0.0


def test_boosts_make_no_result(library: Engine) -> None:
    found = titles(library, boosts=["1:tags = t0"])
    assert "Other" not in found
    target = library.explain(QUERY, document_id=6, boosts=["1:tags = t0"]).target
    assert target is not None
    assert target.rank is None
    assert target.score == 0
    assert target.scores.boosts is None


def test_what_has_no_effect_is_warned_of(library: Engine) -> None:
    response = library.search(QUERY, decay="nosuch:1:1", boosts=["0.1:tags = nowhere"])
    assert "the decay adds nothing: no document has a date in nosuch" in response.warnings
    assert 'boosts[0] adds nothing: no passage meets tags = "nowhere"' in response.warnings


def test_audit_line_repeats_a_sorted_and_boosted_search(library: Engine) -> None:
    arguments: dict[str, Any] = {"decay": "date:30:0.4", "boosts": ["0.25:tags = t1 OR reef EXISTS"]}
    for order in ({}, {"sort": "-deep.at,title"}):
        first = library.search(QUERY, **arguments, **order)
        entry = json.loads(Path(library.settings.audit_file).read_text().splitlines()[-1])
        assert entry["results"][0]["decay"] == first.results[0].scores.decay
        again = library.search(**search_arguments(entry))
        assert again.now == first.now
        assert again.results == first.results


def test_sorted_results_are_not_reranked(library: Engine) -> None:
    with pytest.raises(QueryError, match="give one of them") as caught:
        library.search(QUERY, sort="title", rerank=5)
    assert caught.value.field == "rerank"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"sort": 5}, "sort"),
        ({"sort": [5]}, "sort"),
        ({"sort": "titel"}, "sort"),
        ({"sort": "page"}, "sort"),
        ({"sort": "tags"}, "sort"),
        ({"sort": "title,-title"}, "sort"),
        ({"sort": [f"k{n}" for n in range(9)]}, "sort"),
        ({"sort": ["x" * 2_000]}, "sort"),
        ({"sort": ["a\ud800"]}, "sort"),
        ({"decay": 5}, "decay"),
        ({"decay": "date:30"}, "decay"),
        ({"decay": "date:30:x"}, "decay"),
        ({"decay": "title:30:0.1"}, "decay.field"),
        ({"decay": "date:0:0.1"}, "decay.half_life_days"),
        ({"decay": "date:nan:0.1"}, "decay.half_life_days"),
        ({"decay": "date:30:0"}, "decay.weight"),
        ({"decay": "date:30:1.5"}, "decay.weight"),
        ({"decay": "date:30:0.1@soon"}, "decay.now"),
        ({"decay": {"field": "date", "weight": 0.1}}, "decay.half_life_days"),
        ({"decay": {"field": "date", "half_life_days": 1, "weight": 10**400}}, "decay.weight"),
        ({"decay": {"field": "date", "half_life_days": 1, "weight": True}}, "decay.weight"),
        ({"decay": {"day": 1}}, "decay"),
        ({"decay": "date:30:0.1", "mode": "lexical"}, "decay"),
        ({"boosts": 5}, "boosts"),
        ({"boosts": ["tags = t1"]}, "boosts[0]"),
        ({"boosts": [5]}, "boosts[0]"),
        ({"boosts": [{"filter": "tags = t1"}]}, "boosts[0].weight"),
        ({"boosts": [{"filter": {}, "weight": 0.1}]}, "boosts[0].filter"),
        ({"boosts": ["0.1:tags = t1", "0.1:tags ="]}, "boosts[1].filter"),
        ({"boosts": ["0.1:reef = nosuch"]}, "boosts[0].filter"),
        ({"boosts": ["0.1:tags = t1", "0.2:tags = t1"]}, "boosts[1]"),
        ({"boosts": [f"0.1:tags = t{n}" for n in range(17)]}, "boosts"),
        ({"boosts": ["0.1:tags = t1"], "mode": "reef"}, "boosts"),
    ],
)
def test_bad_arguments_are_named(library: Engine, arguments: Mapping[str, Any], field: str) -> None:
    with pytest.raises(QueryError) as caught:
        library.search(QUERY, **arguments)
    assert caught.value.field == field


def test_error_in_a_boost_points_at_the_place(library: Engine) -> None:
    with pytest.raises(FilterError) as caught:
        library.search(QUERY, boosts=["0.1:tags = t1 year"])
    assert caught.value.excerpt is not None
    assert caught.value.excerpt[1] == "year"


class _Places(Index):
    """An index of chunks whose ids are their places, three for each document."""

    def __init__(self) -> None:
        super().__init__(())

    def chunk_ids(self, places: Any) -> Any:
        return np.asarray(places) + 1

    def document_ids(self, places: Any) -> Any:
        return np.asarray(places) // 3


rows = st.lists(
    st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 1), st.sampled_from([0.0, 0.25, 1.0])),
    min_size=20,
    max_size=40,
)


limits = st.sampled_from([None, 1, 2, BestFirst(1), BestFirst(2)])


@given(rows, st.integers(1, 3), limits, st.integers(0, 2))
def test_order_equals_a_plain_sort(
    chunks: Sequence[tuple[bool, int, int, float]], n: int, limit: DocumentLimit, n_levels: int
) -> None:
    is_result, first, second, keys = (np.array(column) for column in zip(*chunks, strict=True))
    levels = (first.astype(np.int64), second.astype(np.int64))[:n_levels]
    order = Order(_Places(), keys, is_result, levels)
    eligible = [place for place in range(len(chunks)) if is_result[place]]
    eligible.sort(key=lambda p: (*(-int(level[p]) for level in levels), -keys[p], p))
    n_best = per_document(limit, len(eligible))
    counts: dict[int, int] = {}
    expected, further = [], []
    for place in eligible:
        counts[place // 3] = counts.get(place // 3, 0) + 1
        (expected if counts[place // 3] <= n_best else further).append(place)
    n_within = len(expected)
    if isinstance(limit, BestFirst):
        expected += further
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ordering, "FIRST_DEPTH", 1)
        patched.setattr(ordering, "DEPTH_FACTOR", 2)
        for size in (n, len(eligible) + 1):
            found = order.first(size, limit)
            assert found.places.tolist() == expected[:size]
            assert found.n_within == min(size, n_within)
        for rank, place in enumerate(expected, start=1):
            page = first_after(order, place, n, limit)
            assert page.places.tolist() == expected[rank : rank + n]
            assert page.n_within == len(expected[rank:n_within][:n])
    for place in eligible:
        rank = order.rank(place, limit)
        assert rank == (expected.index(place) + 1 if place in expected else None)


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False),
    st.sampled_from("aAbB"),
)


@given(st.lists(st.one_of(scalars, st.lists(scalars, max_size=3), st.just({})), max_size=8), st.booleans())
def test_levels_order_values_like_python(values: list[Any], is_descending: bool) -> None:
    column = make_column(len(values), enumerate(values))
    levels = Ranks(column).levels(is_descending=is_descending).tolist()

    def key(value: Any) -> tuple[Any, ...]:
        if isinstance(value, bool):
            return (0, value)
        return (1, value) if isinstance(value, int | float) else (2, value.casefold())

    def best(value: Any) -> tuple[Any, ...] | None:
        many = value if isinstance(value, list) else [value]
        keys = [key(each) for each in many if each is not None and not isinstance(each, dict)]
        return functools.reduce(max if is_descending else min, keys) if keys else None

    bests = [best(value) for value in values]
    for (one, level), (other, other_level) in itertools.combinations(zip(bests, levels, strict=True), 2):
        if one is None or other is None:
            assert (level > other_level) == (one is not None and other is None)
        else:
            comes_first = one > other if is_descending else one < other
            assert (level > other_level) == comes_first
            assert (level == other_level) == (one == other)
