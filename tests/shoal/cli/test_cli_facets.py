"""`shoal facets` and `shoal search --facet`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_scorer import FakeScorer

from shoal.cli.app import run
from shoal.engine import Engine

Shoal = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shoal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, migrated_file: Path, monkeypatch: pytest.MonkeyPatch
) -> Shoal:
    """Run a command on a library of three documents."""
    library = tmp_path / "shoal.db"
    library.write_bytes(migrated_file.read_bytes())
    open_engine = Engine.__init__
    monkeypatch.setattr(
        Engine, "__init__", lambda self, **given: open_engine(self, **{**given, "scorer": FakeScorer()})
    )
    with Engine(db_path=library) as engine:
        for number, tags in enumerate((["fire"], ["fire", "[bold]rock\x1b[31m"], [])):
            engine.ingest(content=f"Lava number {number}.", tags=tags, metadata={"year": 2000 + number})

    def run_shoal(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["--db", str(library), *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_shoal


def test_facets_of_the_library_are_a_table(shoal: Shoal) -> None:
    code, out, _ = shoal("facets", "tags", "year:2", "--filter", "tags = fire", "--facet-limit", "1")
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines() if line.strip()]
    assert lines[:6] == [
        "tags", "2 fire selected", "1 more value; 1 document without a value", "year by 2", "2 2000",
        "2 documents in " + lines[5].removeprefix("2 documents in "),
    ]  # fmt: skip


def test_facets_of_a_search_come_after_its_results(shoal: Shoal) -> None:
    code, out, _ = shoal("search", "lava", "--facet", "tags", "--facet", "year")
    assert code == 0
    assert out.index("Lava number") < out.index("tags") < out.index("[bold]rock") < out.index("year\n")
    assert "\x1b" not in out
    answer = json.loads(shoal("search", "lava", "--facet", "tags", "--json")[1])
    assert [value["count"] for value in answer["facets"][0]["values"]] == [2, 1]


def test_a_bad_facet_is_refused_with_a_hint(shoal: Shoal) -> None:
    code, _, err = shoal("facets", "tittle")
    assert code == 2
    assert "did you mean title?" in err
    code, _, err = shoal("facets", "yeer")
    assert code == 0
    assert "did you mean year?" in err
