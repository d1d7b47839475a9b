"""`shoal evaluate`: judged queries on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.cli.app import run
from shoal.engine import Engine

Shoal = Callable[..., tuple[int, str, str]]

LINES = (
    '{"query": "the moon and the tide", "relevant": ["tides.md"]}\n'
    '{"query": "bread", "relevant": {"Bread": 2, "gone.md": 1}}\n'
    '{"query": "salt in the oven", "relevant": ["tides.md"]}\n'
)


@pytest.fixture
def shoal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Shoal:
    with Engine(db_path=tmp_path / "shoal.db", learning=False) as engine:
        engine.ingest(title="Tides", content="The moon pulls at the sea: the tide.", source_path="tides.md")
        engine.ingest(title="Bread", content="Flour and salt become bread in an oven.")
    (tmp_path / "queries.jsonl").write_text("\ufeff" + LINES, encoding="utf-8")

    def run_shoal(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(
            ["--db", str(tmp_path / "shoal.db"), "evaluate", str(tmp_path / "queries.jsonl"), *arguments]
        )
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_shoal


def test_all_presets_and_signals_are_compared(shoal: Shoal) -> None:
    code, out, err = shoal()
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:6]] == [
        "balanced", "precise", "conceptual", "lexical", "reef",
    ]  # fmt: skip
    assert "nDCG@10" in out
    assert "judged queries: 3" in out
    assert "line 2: the library has no 'gone.md'" in err


def test_named_ways_are_compared_and_the_worst_queries_listed(shoal: Shoal) -> None:
    code, out, _ = shoal("--way", "lexical", "--way", "lexical=0.6,reef=0.4", "--way", "rrf", "--show", "1")
    assert code == 0
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["lexical", "lexical=0.6,reef=0.4", "rrf"]
    assert lines[-1].startswith("salt in the oven")
    assert "0.00" in lines[-1]


def test_json_has_every_query(shoal: Shoal) -> None:
    code, out, _ = shoal("--json", "--way", "lexical", "--depth", "3")
    assert code == 0
    evaluation = json.loads(out)
    assert (evaluation["n_queries"], evaluation["depth"]) == (3, 3)
    assert evaluation["missing"] == [{"line": 2, "name": "gone.md"}]
    assert evaluation["queries"][0]["ndcg"] == {"lexical": 1.0}
    assert evaluation["configurations"][0]["recall"] == pytest.approx(2 / 3)


def test_depth_beyond_the_search_limit_is_refused(shoal: Shoal) -> None:
    code, _, err = shoal("--depth", "5000")
    assert code == 2
    assert "--depth: must be between 1 and 100" in err


@pytest.mark.parametrize("way", ["nonsense", "lexical=much", "lexical=0.1,lexical=0.2"])
def test_unknown_way_is_wrong_usage(shoal: Shoal, way: str) -> None:
    code, _, err = shoal("--way", way)
    assert code == 2
    assert "--w" in err
