"""`shoal pin`, and pins in `shoal search`, `explain`, `export` and `import`."""

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
        engine.ingest(content="The tide rises.", title="Tides")
        engine.ingest(content="Open from ten to four.", title="Visitors")

    def run_shoal(*arguments: str, db: Path = path) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["--db", str(db), *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_shoal


def test_pins_are_kept(shoal: Shoal) -> None:
    assert shoal("pin", "list")[1] == "no pins\n"
    _, out, _ = shoal("pin", "add", "tide", "Visitors", "--hide", "1#0", "--contains")
    assert "searches with “tide”" in out
    assert "1. Visitors (document 2)" in out
    assert "hidden: Tides (document 1, #0)" in out
    code, out, _ = shoal("pin", "replace", "1", "tide", "Visitors#0", "--json")
    assert (code, json.loads(out)["match"]) == (0, "exact")
    assert json.loads(shoal("pin", "list", "--containing", "ti", "--json")[1])["total"] == 1
    _, out, _ = shoal("search", "tide", "--mode", "lexical")
    assert "Visitors  " in out.splitlines()[0]
    assert "pinned" in out.splitlines()[0]
    assert "Visitors" not in shoal("search", "tide", "--mode", "lexical", "--pins", "off")[1]
    assert "Pin 1 puts it there" in shoal("explain", "tide", "--document", "2")[1]
    for arguments, message in (
        (("tide", "2"), "pin 1 is for the words"),
        (("moon", "Nothing"), "no document 'Nothing'"),
        (("moon", "2#7"), "there is no #7"),
        (("moon",), "is empty"),
    ):
        code, _, err = shoal("pin", "add", *arguments)
        assert code != 0
        assert message in err
    assert shoal("pin", "delete", "1")[0] == 0
    assert shoal("pin", "delete", "1")[0] == 1


def pins_of(export: str) -> list[str]:
    return [line for line in export.splitlines() if '"type":"pin"' in line]


def test_an_export_carries_pins(shoal: Shoal, tmp_path: Path) -> None:
    shoal("pin", "add", "tide", "Visitors#0", "--hide", "Tides")
    shoal("pin", "add", "moon", "Tides", "--contains")
    exported = tmp_path / "library.jsonl"
    exported.write_text(shoal("export", "--canonical")[1], encoding="utf-8")
    other = tmp_path / "other.db"
    assert shoal("import", str(exported), db=other)[0] == 0
    assert "2 pins" in shoal("import", str(exported), db=tmp_path / "third.db")[1]
    assert pins_of(shoal("export", "--canonical", db=other)[1]) == pins_of(exported.read_text("utf-8"))
    # A pin for the same words stays as it is.
    again = json.loads(shoal("import", str(exported), "--json", db=other)[1])
    assert again["pins"] == 0
    records = [json.loads(line) for line in exported.read_text(encoding="utf-8").splitlines()]
    pins = [record for record in records if record["type"] == "pin"]
    assert [(pin["query"], pin["match"]) for pin in pins] == [("moon", "contains"), ("tide", "exact")]
    head = [record for record in records if record["type"] == "export"]
    bad = [{**pins[0], "match": "near"}, {**pins[0], "pinned": [{"document": 1}]}, pins[0]]
    exported.write_text("\n".join(map(json.dumps, [*head, *bad])), encoding="utf-8")
    answer = json.loads(shoal("import", str(exported), "--json", db=tmp_path / "empty.db")[1])
    assert (answer["pins"], answer["n_bad"]) == (0, 3)
    assert "none of its documents" in answer["bad"][2]["reason"]


def test_deletion_and_export_take_filters(shoal: Shoal) -> None:
    _, out, _ = shoal("delete", "--filter", "title = Tides", "--dry-run")
    assert out.split() == ["1", "Tides", "1", "document", "would", "be", "deleted"]
    lines = shoal("export", "--filter", "title = Visitors")[1].splitlines()
    assert [json.loads(line).get("title") for line in lines][:2] == [None, "Visitors"]
    code, _, err = shoal("delete", "--filter", "page = 1")
    assert (code, "is of passages" in err, "^^^^" in err) == (2, True, True)
    for arguments in ((), ("1", "--filter", "title = Tides"), ("1", "--dry-run")):
        assert shoal("delete", *arguments)[0] == 2
    assert json.loads(shoal("delete", "--filter", "title = Tides", "--json")[1])["n_documents"] == 1
    assert json.loads(shoal("list", "--json")[1])["total"] == 1
