"""Judged queries say how well a way of searching finds what people want."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.engine import Engine
from shoal.errors import QueryError
from shoal.maintenance.evaluation import JudgementError, Way, evaluate, read_judged

WORDS = Way("lexical", {"mode": "lexical"})
DOCUMENTS = {
    "notes/tides.md": ("Tides", "The moon pulls at the sea and the tide rises. The tide falls again."),
    "notes/shore.md": ("Shore", "At the shore the tide leaves pools between the rocks."),
    "bread.md": ("Bread", "Flour and water and salt become bread in an oven."),
    "other/bread.md": ("Bread", "The price of bread rose again that winter in the city."),
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine(db_path=tmp_path_factory.mktemp("judged") / "shoal.db", learning=False) as opened:
        for path, (title, content) in DOCUMENTS.items():
            opened.ingest(title=title, content=content, source_path=path)
        yield opened


def judged(*lines: dict[str, Any]) -> Any:
    return read_judged(json.dumps(line) for line in lines)


def only(engine: Engine, relevant: Any, query: str = "tide", **more: Any) -> Any:
    """The quality of one search by words with one judgement."""
    return evaluate(engine, judged({"query": query, "relevant": relevant}), [WORDS], **more).ways[0]


def test_what_answers_counts_by_where_it_stands(engine: Engine) -> None:
    first, second = (result.source_path for result in engine.search("tide", mode="lexical").results)
    assert only(engine, [first]).ndcg == 1
    assert only(engine, [second]).ndcg == pytest.approx(1 / math.log2(3))
    assert only(engine, [first, second]).ndcg == 1
    assert (only(engine, [second], depth=1).ndcg, only(engine, [second], depth=1).n_missed) == (0, 1)


def test_a_higher_grade_belongs_before_a_lower_one(engine: Engine) -> None:
    first, second = (result.source_path for result in engine.search("tide", mode="lexical").results)
    assert only(engine, {first: 3, second: 1}).ndcg == 1
    reversed_gain = (1 + 7 / math.log2(3)) / (7 + 1 / math.log2(3))
    assert only(engine, {first: 1, second: 3}).ndcg == pytest.approx(reversed_gain)
    assert only(engine, {first: 1, second: 0}).ndcg == 1


def test_recall_is_the_share_of_what_answers(engine: Engine) -> None:
    found = only(engine, ["tides.md", "other/bread.md"])
    assert found.recall == 0.5
    assert found.n_missed == 0
    assert only(engine, ["other/bread.md"]).n_missed == 1


@pytest.mark.parametrize("name", ["notes/tides.md", "tides.md", "Tides"])
def test_a_document_is_named_by_its_path_the_end_of_it_or_its_title(engine: Engine, name: str) -> None:
    assert only(engine, [name]).recall == 1


def test_a_name_of_several_documents_names_all_of_them(engine: Engine) -> None:
    assert only(engine, ["Bread"], query="flour").recall == 0.5
    assert only(engine, ["Bread"], query="bread").recall == 1


def test_half_a_file_name_is_no_name(engine: Engine) -> None:
    with pytest.raises(JudgementError, match="none of the judged documents"):
        only(engine, ["ides.md"])


def test_ways_are_compared_query_by_query_with_the_first(engine: Engine) -> None:
    questions = judged(
        {"query": "tide", "relevant": ["tides.md", "shore.md"]},
        {"query": "flour", "relevant": ["bread.md"]},
        {"query": "winter", "relevant": ["Shore"]},
    )
    nothing = Way("nothing", {"mode": "lexical", "tags": ["no such tag"]})
    found = evaluate(engine, questions, [WORDS, nothing])
    words, none = found.ways
    assert (words.way, words.n_better, words.n_worse) == ("lexical", 0, 0)
    assert (none.n_better, none.n_worse, none.n_missed) == (0, 2, 3)
    assert evaluate(engine, questions, [nothing, WORDS]).ways[1].n_better == 2
    assert [one.query for one in found.queries] == ["tide", "flour", "winter"]
    assert [one.ndcg["nothing"] for one in found.queries] == [0, 0, 0]
    assert words.ndcg == pytest.approx(sum(one.ndcg["lexical"] for one in found.queries) / 3)


def test_documents_that_are_not_here_are_told_and_left_out(engine: Engine) -> None:
    questions = judged(
        {"query": "tide", "relevant": ["tides.md", "gone.md"]}, {"query": "salt", "relevant": ["gone.md"]}
    )
    found = evaluate(engine, questions, [WORDS])
    assert [(one.line, one.name) for one in found.missing] == [(1, "gone.md"), (2, "gone.md")]
    assert found.n_queries == 1
    assert found.ways[0].recall == 1


def test_several_passages_of_a_document_are_one_document(tmp_path: Path) -> None:
    long = "\n\n".join(f"# Part {i}\n\nThe tide of part {i} rises at the shore." for i in range(12))
    with Engine(db_path=tmp_path / "shoal.db", learning=False) as library:
        library.ingest(title="Long", content=long, format="markdown")
        library.ingest(title="Short", content="A tide is a slow wave, and much else may be said of the sea.")
        found = evaluate(library, judged({"query": "tide", "relevant": ["Long", "Short"]}), [WORDS], depth=2)
    assert found.ways[0].recall == 1


def test_a_search_that_is_refused_is_refused_here(engine: Engine) -> None:
    with pytest.raises(QueryError) as caught:
        only(engine, ["tides.md"], depth=5000)
    assert caught.value.field == "top_k"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "line 2: this is not JSON"),
        ("[1]", 'line 2: an object with a "query"'),
        ('{"relevant": ["a"]}', 'line 2: an object with a "query"'),
        ('{"query": " ", "relevant": ["a"]}', 'line 2: an object with a "query"'),
        ('{"query": "a"}', 'line 2: "relevant" must be'),
        ('{"query": "a", "relevant": "b"}', 'line 2: "relevant" must be'),
        ('{"query": "a", "relevant": [7]}', 'line 2: "relevant" must be'),
        ('{"query": "a", "relevant": {"b": "much"}}', 'line 2: "relevant" must be'),
        ('{"query": "a", "relevant": {"b": 11}}', 'line 2: "relevant" must be'),
        ('{"query": "a", "relevant": {"b": NaN}}', 'line 2: "relevant" must be'),
        ('{"query": "a", "relevant": {"b": 0}}', "line 2: no document is relevant"),
        ('{"query": "a", "relevant": []}', "line 2: no document is relevant"),
    ],
)
def test_a_line_that_is_no_judgement_is_named(line: str, reason: str) -> None:
    with pytest.raises(JudgementError) as caught:
        read_judged(['{"query": "tide", "relevant": ["tides.md"]}', line])
    assert reason in str(caught.value)


def test_empty_lines_are_passed_over_and_counted(engine: Engine) -> None:
    lines = ["\n", '{"query": "tide", "relevant": ["gone.md", "Tides"]}\n', "  \n"]
    assert evaluate(engine, read_judged(lines), [WORDS]).missing[0].line == 2
    with pytest.raises(JudgementError, match="no judged queries"):
        read_judged(["\n"])
