"""`search_and_explain` gives the results of `search` and `explain`, and analyzes the query once."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from fake_scorer import FakeScorer

from shoal.engine import Engine
from shoal.errors import QueryError
from shoal.search import query_analysis, searcher

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


@pytest.mark.parametrize("query", ["lava and the law", '"ash fell" -bee', "zzyzx"])
@pytest.mark.parametrize("mode", ["hybrid", "lexical", "reef"])
def test_search_and_explain_equals_search_and_explain_alone(engine: Engine, query: str, mode: str) -> None:
    response, explanation = engine.search_and_explain(
        query, mode=mode, include_scores=True, trace_id="t" * 32
    )
    search_alone = engine.search(query, mode=mode, include_scores=True, trace_id="t" * 32)
    assert dataclasses.replace(response, took_ms=0.0) == dataclasses.replace(search_alone, took_ms=0.0)
    explain_alone = dataclasses.replace(engine.explain(query, mode=mode), counterfactuals=None)
    assert explanation.trace_id == "t" * 32
    assert dataclasses.replace(explanation, took_ms=0.0, trace_id="") == dataclasses.replace(
        explain_alone, took_ms=0.0, trace_id=""
    )


def test_query_is_analyzed_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    original = query_analysis.analyze_query

    def counted(*args: object) -> object:
        calls.append("call")
        return original(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(searcher, "analyze_query", counted)
    engine.search_and_explain("lava")
    assert calls == ["call"]


def test_invalid_argument_is_named(engine: Engine) -> None:
    with pytest.raises(QueryError) as error:
        engine.search_and_explain("lava", filters={"archipelago": 9})
    assert error.value.field == "filters.archipelago"
