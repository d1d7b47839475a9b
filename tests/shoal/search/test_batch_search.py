"""Batches: the answers of single searches, one snapshot, errors of single searches, and the fused ranking."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_encoder import FakeEncoder
from fake_scorer import FakeScorer

from shoal import Engine
from shoal.errors import QueryError, ReadTimeoutError
from shoal.models.search import BatchAnswer, SearchResponse
from shoal.search.filters import CompiledFilters
from shoal.search.searcher import Searcher
from shoal.settings import Settings

TEXTS = {
    "Fire": "Lava rose in the volcano. Ash fell on the rock. The magma was hot.",
    "Garden": "A flower grows from a seed. The leaf drinks light. The root holds the soil.",
    "Coast": "The tide rises twice a day. The shore is rock, and the sea is salt.",
    "Court": "The judge read the law to the jury. A witness spoke of the crime.",
}
SEARCHES: list[Any] = [
    "lava and rock",
    {"query": "sea and rock", "top_k": 2, "include_scores": True, "context": 1},
    {"query": "the law", "mode": "lexical", "filter": 'tags = "n"'},
    {"query": "flower seed", "rerank": 3, "text": "snippet"},
    {"query": "the witness", "filter": 'tags = "n"', "max_tokens": 50},
]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(
        db_path=tmp_path / "shoal.db",
        scorer=FakeScorer(),
        settings=Settings(learning=False),
        encoder=FakeEncoder(),
    ) as engine:
        engine.ingest_many({"title": name, "content": text, "tags": ["n"]} for name, text in TEXTS.items())
        yield engine


def without_times(response: SearchResponse | None) -> SearchResponse:
    assert response is not None
    rerank = response.rerank and dataclasses.replace(response.rerank, ms=0.0)
    return dataclasses.replace(response, trace_id="", took_ms=0.0, rerank=rerank)


def test_answers_equal_those_of_single_searches(engine: Engine) -> None:
    response = engine.search_many(SEARCHES)
    for number, (search, answer) in enumerate(zip(SEARCHES, response.answers, strict=True)):
        arguments = {"query": search} if isinstance(search, str) else search
        assert answer.index == number
        assert answer.query == arguments["query"]
        assert answer.error is None
        assert without_times(answer.response) == without_times(engine.search(**arguments))


def test_bad_search_has_its_error_and_the_others_are_answered(engine: Engine) -> None:
    bad: list[Any] = [
        {"query": ""},
        {"query": "rock", "topk": 3},
        {"top_k": 3},
        7,
        None,
        {"query": "rock", "filter": "title ="},
        {"query": "rock", "filters": {"reef_ids": [999]}},
        {"query": "rock", "settings": 1},
        {7: 8, "query": "rock"},
        {"query": ["rock"]},
        {"query": "rock", "cursor": "x"},
    ]
    response = engine.search_many([*bad, "rock"])
    fields = [getattr(answer.error, "field", None) for answer in response.answers]
    assert fields == [
        *("query", "topk", "query", "query", "query", "filter"),
        *("filters.reef_ids", "settings", "7", "query", "cursor", None),
    ]
    assert "did you mean top_k?" in str(response.answers[1].error)
    assert [answer.response is None for answer in response.answers] == [True] * len(bad) + [False]


@pytest.mark.parametrize(
    ("searches", "options", "field"),
    [
        ("rock", {}, "searches"),
        ({"query": "rock"}, {}, "searches"),
        (7, {}, "searches"),
        ([], {}, "searches"),
        (["rock"] * 101, {}, "searches"),
        ([{"query": "rock", "top_k": 100}] * 21, {}, "searches"),
        (["rock"], {"fused": 1}, "fused"),
        (["rock"], {"fused": True, "top_k": 0}, "top_k"),
        (["rock"], {"fused": True, "max_per_document": -1}, "max_per_document"),
        (["rock"], {"fused": True, "text": "none", "max_tokens": 5}, "text"),
        (["rock", {"query": "sea", "group_by": "document"}], {"fused": True}, "searches"),
        ([{"query": "sea", "text": "none"}], {"fused": True, "prompt": True}, "searches"),
        (["rock", {"query": "sea", "text": "none"}], {"fused": True, "max_tokens": 50}, "searches"),
        (["rock"], {"prompt": True}, "fused"),
        (["rock"], {"max_tokens": 9}, "fused"),
    ],
)
def test_bad_batch_is_refused(engine: Engine, searches: Any, options: dict[str, Any], field: str) -> None:
    with pytest.raises(QueryError) as error:
        engine.search_many(searches, **options)
    assert error.value.field == field


def test_endless_searches_are_refused(engine: Engine) -> None:
    def endless() -> Iterator[str]:
        while True:
            yield "rock"

    with pytest.raises(QueryError, match="at most 100"):
        engine.search_many(endless())


def test_document_that_is_added_meanwhile_is_in_no_answer(engine: Engine) -> None:
    answered: list[BatchAnswer] = []

    def add_document(answer: BatchAnswer) -> None:
        if not answered:
            engine.ingest(content="Rock upon rock. The rock is a rock.", title="Rock")
        answered.append(answer)

    response = engine.search_many(["rock"] * 3, on_answer=add_document)
    titles = [[r.document_title for r in a.response.results] for a in response.answers if a.response]
    assert titles[0] == titles[1] == titles[2]
    assert "Rock" not in titles[0]
    assert [answer.index for answer in answered] == [0, 1, 2]
    assert "Rock" in [result.document_title for result in engine.search("rock").results]


def test_equal_filters_are_evaluated_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[CompiledFilters] = []
    evaluate = CompiledFilters._met_by_filters

    def counted(self: CompiledFilters, *arguments: Any) -> Any:
        calls.append(self)
        return evaluate(self, *arguments)

    monkeypatch.setattr(CompiledFilters, "_met_by_filters", counted)
    searches = [
        {"query": f"{word} -leaf", "filter": 'tags = "n"', "rerank": 0} for word in ("rock", "sea", "law")
    ]
    response = engine.search_many([*searches, {"query": "rock", "filter": 'tags = "m"'}])
    assert [len(a.response.results) for a in response.answers if a.response] == [2, 1, 1, 0]
    assert len({id(call.shared) for call in calls}) == len(calls) == 2


def test_searches_without_time_are_answered_with_the_error(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_page = Searcher.read_page
    done: list[int] = []

    def slow(*arguments: Any) -> Any:
        if len(done) == 2:
            raise ReadTimeoutError(1.0)
        done.append(1)
        return read_page(*arguments)

    monkeypatch.setattr(Searcher, "read_page", slow)
    response = engine.search_many(["rock", "sea", "law", "lava"])
    assert [type(answer.error) for answer in response.answers] == [
        type(None),
        type(None),
        ReadTimeoutError,
        ReadTimeoutError,
    ]


def test_models_read_after_the_snapshot(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    read_page, finish = Searcher.read_page, Searcher.finish
    monkeypatch.setattr(Searcher, "read_page", lambda *a: (order.append("read"), read_page(*a))[1])
    monkeypatch.setattr(Searcher, "finish", lambda *a: (order.append("finish"), finish(*a))[1])
    engine.search_many([{"query": "rock", "rerank": 5}, "sea"])
    assert order == ["read", "read", "finish", "finish"]


def test_fused_ranking_is_the_sum_of_reciprocal_ranks(engine: Engine) -> None:
    queries = ["lava and rock", "sea and rock", ""]
    response = engine.search_many(queries, fused=True, top_k=3)
    singles = [engine.search(query).results for query in queries[:2]]
    assert response.fused is not None
    for each in response.fused:
        expected = 0.0
        for found in each.found_by:
            result = singles[found.search][found.rank - 1]
            assert (result.chunk_id, result.match_score) == (each.result.chunk_id, found.match_score)
            assert found.query == queries[found.search]
            expected += 61 / (60 + found.rank) / 2
        assert each.fused_score == pytest.approx(expected)
    scores = [each.fused_score for each in response.fused]
    assert scores == sorted(scores, reverse=True)
    assert len(response.fused[0].found_by) == 2
    assert [answer.response.results for answer in response.answers if answer.response] == [(), ()]
    assert response.warnings == ("1 of 3 searches failed, and are not in the fused ranking",)


def test_fused_ranking_has_one_budget_and_one_prompt(engine: Engine) -> None:
    response = engine.search_many(["lava and rock", "the law"], fused=True, max_tokens=110, prompt=True)
    assert response.tokens is not None
    assert response.prompt is not None
    assert response.fused is not None
    assert response.tokens.used == response.prompt.n_tokens <= 110
    assert len(response.prompt.references) == len(response.fused) > 0
