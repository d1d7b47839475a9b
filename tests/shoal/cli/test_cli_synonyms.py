"""`shoal synonyms` and `shoal acronyms`."""

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
def shoal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Shoal:
    path = tmp_path / "shoal.db"
    with Engine(db_path=path, scorer=FakeScorer()) as engine:
        engine.ingest(content="The World Health Organization (WHO) has a car.", title="Report")

    def run_shoal(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["--db", str(path), *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_shoal


def test_entries_are_kept(shoal: Shoal, tmp_path: Path) -> None:
    assert shoal("synonyms", "list")[1] == "no synonyms\n"
    assert shoal("synonyms", "add", "--root", "vehicle", "car", "motor car")[1].split() == (
        ["1", "vehicle", "→", "car,", "motor", "car"]
    )
    assert json.loads(shoal("synonyms", "add", "ship", "vessel", "--json")[1])["id"] == 2
    _, out, _ = shoal("synonyms", "list", "--limit", "1")
    assert "1 of 2" in out
    assert shoal("synonyms", "replace", "2", "ship", "boat")[1].split() == ["2", "ship,", "boat"]
    code, _, err = shoal("synonyms", "add", "ship", "boat")
    assert (code, "entry 2" in err) == (1, True)
    code, _, err = shoal("synonyms", "add", "ship")
    assert (code, "needs at least two" in err) == (2, True)
    exported = tmp_path / "synonyms.json"
    exported.write_text(shoal("synonyms", "export")[1])
    assert shoal("synonyms", "delete", "2")[0] == 0
    assert "1 entries added, 1 known" in shoal("synonyms", "import", str(exported))[1]
    exported.write_text("[")
    code, _, err = shoal("synonyms", "import", str(exported))
    assert (code, "is not JSON" in err) == (2, True)


def test_acronyms_are_decided_on(shoal: Shoal) -> None:
    assert "1 document not scanned yet" in shoal("acronyms", "list")[1]
    assert "1 document read, 1 new" in shoal("acronyms", "scan")[1]
    assert "World Health Organization  (proposed, 1 document)" in shoal("acronyms", "list")[1]
    assert "confirmed" in shoal("acronyms", "confirm", "1")[1]
    assert shoal("acronyms", "confirm", "1")[0] == 1
    assert json.loads(shoal("acronyms", "reject", "1", "--json")[1])["status"] == "rejected"
    assert json.loads(shoal("acronyms", "list", "--status", "rejected", "--json")[1])["total"] == 1
