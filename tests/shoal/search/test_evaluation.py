"""Evaluation: judged queries measure the quality of search settings."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.engine import Engine
from shoal.errors import QueryError
from shoal.maintenance.evaluation import Configuration, JudgementError, read_judged_queries

LEXICAL = Configuration("lexical", {"mode": "lexical"})
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


def judged_queries(*lines: dict[str, Any]) -> Any:
    return read_judged_queries(json.dumps(line) for line in lines)


def quality(engine: Engine, relevant: Any, query: str = "tide", **arguments: Any) -> Any:
    """The quality of one lexical search with one judged query."""
    return engine.maintenance.evaluate(
        judged_queries({"query": query, "relevant": relevant}), [LEXICAL], **arguments
    ).configurations[0]


def test_ndcg_depends_on_the_rank_of_relevant_documents(engine: Engine) -> None:
    first, second = (result.source_path for result in engine.search("tide", mode="lexical").results)
    assert quality(engine, [first]).ndcg == 1
    assert quality(engine, [second]).ndcg == pytest.approx(1 / math.log2(3))
    assert quality(engine, [first, second]).ndcg == 1
    assert (quality(engine, [second], depth=1).ndcg, quality(engine, [second], depth=1).n_missed) == (0, 1)


def test_ndcg_wants_higher_grades_first(engine: Engine) -> None:
    first, second = (result.source_path for result in engine.search("tide", mode="lexical").results)
    assert quality(engine, {first: 3, second: 1}).ndcg == 1
    reversed_gain = (1 + 7 / math.log2(3)) / (7 + 1 / math.log2(3))
    assert quality(engine, {first: 1, second: 3}).ndcg == pytest.approx(reversed_gain)
    assert quality(engine, {first: 1, second: 0}).ndcg == 1


def test_recall_is_the_share_of_relevant_documents_found(engine: Engine) -> None:
    lexical = quality(engine, ["tides.md", "other/bread.md"])
    assert lexical.recall == 0.5
    assert lexical.n_missed == 0
    assert quality(engine, ["other/bread.md"]).n_missed == 1


@pytest.mark.parametrize("name", ["notes/tides.md", "tides.md", "Tides"])
def test_document_is_named_by_path_end_of_path_or_title(engine: Engine, name: str) -> None:
    assert quality(engine, [name]).recall == 1


def test_name_shared_by_documents_names_all_of_them(engine: Engine) -> None:
    assert quality(engine, ["Bread"], query="flour").recall == 0.5
    assert quality(engine, ["Bread"], query="bread").recall == 1


def test_part_of_a_file_name_names_no_document(engine: Engine) -> None:
    with pytest.raises(JudgementError, match="none of the judged documents"):
        quality(engine, ["ides.md"])


def test_ways_are_compared_with_the_first_query_by_query(engine: Engine) -> None:
    questions = judged_queries(
        {"query": "tide", "relevant": ["tides.md", "shore.md"]},
        {"query": "flour", "relevant": ["bread.md"]},
        {"query": "winter", "relevant": ["Shore"]},
    )
    nothing = Configuration("nothing", {"mode": "lexical", "tags": ["no such tag"]})
    evaluation = engine.maintenance.evaluate(questions, [LEXICAL, nothing])
    words, none = evaluation.configurations
    assert (words.configuration, words.n_better, words.n_worse) == ("lexical", 0, 0)
    assert (none.n_better, none.n_worse, none.n_missed) == (0, 2, 3)
    assert engine.maintenance.evaluate(questions, [nothing, LEXICAL]).configurations[1].n_better == 2
    assert [query.query for query in evaluation.queries] == ["tide", "flour", "winter"]
    assert [query.ndcg["nothing"] for query in evaluation.queries] == [0, 0, 0]
    assert words.ndcg == pytest.approx(sum(query.ndcg["lexical"] for query in evaluation.queries) / 3)


def test_missing_documents_are_reported_and_left_out(engine: Engine) -> None:
    questions = judged_queries(
        {"query": "tide", "relevant": ["tides.md", "gone.md"]}, {"query": "salt", "relevant": ["gone.md"]}
    )
    evaluation = engine.maintenance.evaluate(questions, [LEXICAL])
    missing = [(document.line, document.name) for document in evaluation.missing]
    assert missing == [(1, "gone.md"), (2, "gone.md")]
    assert evaluation.n_queries == 1
    assert evaluation.configurations[0].recall == 1


def test_several_chunks_of_a_document_count_as_one_document(tmp_path: Path) -> None:
    long = "\n\n".join(f"# Part {i}\n\nThe tide of part {i} rises at the shore." for i in range(12))
    with Engine(db_path=tmp_path / "shoal.db", learning=False) as library:
        library.ingest(title="Long", content=long, format="markdown")
        library.ingest(title="Short", content="A tide is a slow wave, and much else may be said of the sea.")
        questions = judged_queries({"query": "tide", "relevant": ["Long", "Short"]})
        evaluation = library.maintenance.evaluate(questions, [LEXICAL], depth=2)
    assert evaluation.configurations[0].recall == 1


def test_invalid_search_raises_query_error(engine: Engine) -> None:
    with pytest.raises(QueryError) as error:
        quality(engine, ["tides.md"], depth=5000)
    assert error.value.field == "top_k"


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
def test_invalid_line_is_named(line: str, reason: str) -> None:
    with pytest.raises(JudgementError) as error:
        read_judged_queries(['{"query": "tide", "relevant": ["tides.md"]}', line])
    assert reason in str(error.value)


def test_empty_lines_are_skipped_but_counted(engine: Engine) -> None:
    lines = ["\n", '{"query": "tide", "relevant": ["gone.md", "Tides"]}\n', "  \n"]
    assert engine.maintenance.evaluate(read_judged_queries(lines), [LEXICAL]).missing[0].line == 2
    with pytest.raises(JudgementError, match="no judged queries"):
        read_judged_queries(["\n"])
