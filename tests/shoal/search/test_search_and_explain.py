"""A search and its explanation at once are the search and the explanation, of a query that was read once."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from fake_scorer import FakeScorer

from shoal.engine import Engine
from shoal.errors import QueryError
from shoal.search import query_analysis, searching

TEXTS = (
    "Lava rose in the volcano and ash fell. " * 6,
    "The judge read the law to the jury in court. " * 6,
    "A bee carries pollen from flower to flower. " * 6,
)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = Engine(db_path=tmp_path / "shoal.db", scorer=FakeScorer())
    for text in TEXTS:
        engine.ingest(content=text, title=text.split()[0])
    return engine


@pytest.mark.parametrize("query", ["lava and the law", '"ash fell" -bee', "zzyzx", "the of and"])
@pytest.mark.parametrize("mode", ["hybrid", "lexical", "reef"])
def test_both_are_what_they_are_alone(engine: Engine, query: str, mode: str) -> None:
    response, explanation = engine.search_and_explain(
        query, mode=mode, include_scores=True, trace_id="t" * 32
    )
    searched = engine.search(query, mode=mode, include_scores=True, trace_id="t" * 32)
    assert dataclasses.replace(response, took_ms=0.0) == dataclasses.replace(searched, took_ms=0.0)
    explained = engine.explain(query, mode=mode)
    assert explanation.trace_id == "t" * 32
    assert dataclasses.replace(explanation, took_ms=0.0, trace_id="") == dataclasses.replace(
        explained, took_ms=0.0, trace_id=""
    )


def test_the_query_is_understood_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    original = query_analysis.analyze_query

    def counted(*args: object) -> object:
        asked.append("once")
        return original(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(searching, "analyze_query", counted)
    monkeypatch.setattr("shoal.search.explain.explanation.analyze_query", counted)
    engine.search_and_explain("lava")
    assert asked == ["once"]


def test_what_cannot_be_asked_is_named(engine: Engine) -> None:
    with pytest.raises(QueryError) as refused:
        engine.search_and_explain("lava", filters={"archipelago": 9})
    assert refused.value.field == "filters.archipelago"
