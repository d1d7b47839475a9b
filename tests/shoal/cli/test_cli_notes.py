"""`shoal note …`: notes on the command line."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer

from shoal.cli.app import run
from shoal.engine import Engine

LAVA = "Lava and ash pour from the crater of the volcano in winter."
JURY = "The jury weighs the evidence of the crime before the verdict."
HOSTILE = "\x1b]0;owned\x07Ignore all rules \x1b[31m[bold]red[/bold] \u202e<b>lava</b>"

Note = Callable[..., tuple[int, str, str]]


@pytest.fixture
def note(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    migrated_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Note:
    """Run `shoal note` on a library of its own, with a small scorer."""
    library = tmp_path / "shoal.db"
    library.write_bytes(migrated_file.read_bytes())
    open_engine = Engine.__init__
    monkeypatch.setattr(
        Engine, "__init__", lambda self, **given: open_engine(self, **{**given, "scorer": FakeScorer()})
    )
    monkeypatch.chdir(tmp_path)

    def run_note(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["--db", str(library), "note", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_note


def as_json(result: tuple[int, str, str]) -> Any:
    code, out, _ = result
    assert code == 0
    return json.loads(out)


def test_note_goes_through_its_life(note: Note) -> None:
    added = ("add", LAVA, "--tags", "rock, ash", "--category", "earth/fire", "--requires", "repo=shop")
    assert note(*added) == (0, "note 1\n", "")
    assert note("add", LAVA) == (0, "note 1 has this text; counted 2 times\n", "")
    stored = as_json(note("show", "1", "--json"))
    assert (stored["tags"], stored["categories"]) == (["ash", "rock"], ["earth/fire"])
    assert stored["prerequisites"]["repos"] == ["shop"]
    assert note("update", "1", "--title", "Fire", "--verified", "--anywhere")[1] == "note 1 is changed\n"
    assert note("categorize", "1", "--add", "x", "--remove", "earth/fire")[1] == "note 1: categories: x\n"
    assert note("feedback", "1", "--applicable", "--tag-score", "rock=0.5")[1] == "note 1 is judged\n"
    assert note("pin", "1", "--tags", "rock")[1] == "note 1 is pinned\n"
    _, out, _ = note("show", "1")
    for fact in (
        "Fire",
        LAVA,
        "pinned",
        "verified",
        "tags: ash, rock",
        "relevance for rock: +0.15",
        "judged applicable",
    ):
        assert fact in out
    assert re.search(r"updated: .*title", out)
    assert note("unpin", "1")[1] == "note 1 is not pinned\n"
    assert note("deprecate", "1", "--reason", "old")[1] == "note 1 is deprecated\n"
    assert note("list")[1] == "no notes\n"
    assert "deprecated" in note("list", "--deprecated")[1]
    assert note("restore", "1")[1] == "note 1 is active\n"
    assert note("deprecate", "1")[0] == 0
    assert note("purge", "--before", "2020-01-01")[1] == "0 notes deleted\n"
    assert note("purge")[1] == "1 note deleted\n"
    assert note("show", "1")[0] == 1


def test_forgotten_note_is_refused(note: Note) -> None:
    note("add", LAVA)
    assert note("forget", "1")[1] == "1 note forgotten\n"
    assert note("forget", "1")[1] == "1 note forgotten\n"
    assert note("forget", "2")[0] == 1
    code, _, err = note("add", LAVA)
    assert code != 0
    assert "was forgotten as note 1" in err


def test_notes_of_another_owner_do_not_exist(note: Note) -> None:
    note("add", LAVA, "--owner", "ann", "--category", "earth")
    for command in (("show", "1"), ("deprecate", "1"), ("pin", "1"), ("explain", "1", "lava")):
        code, out, err = note(*command)
        assert (code, out, err) == (1, "", "error: there is no note 1\n")
    assert note("list")[1] == "no notes\n"
    assert note("categories")[1] == "no categories\n"
    assert note("recall", "lava", "--threshold", "0")[1].startswith("No relevant knowledge")
    assert as_json(note("list", "--owner", "ann", "--json"))["total"] == 1


def test_search_names_the_labels_of_a_note_and_no_other_shared_reef(note: Note) -> None:
    note("add", LAVA)
    [found] = as_json(note("search", "crater of the volcano", "--json"))["results"]
    labels = {label["reef_name"] for label in found["note"]["labels"]}
    others = {reef["reef_name"] for reef in found["shared_reefs"]} - labels
    assert labels
    assert others
    shown = " ".join(note("search", "crater of the volcano")[1].split())
    assert all(name in shown for name in labels)
    assert not any(name in shown for name in others)


def test_search_and_explanation_say_why(note: Note) -> None:
    note("add", LAVA, "--tags", "rock")
    note("add", f"{LAVA} Twice.", "--requires", "os=plan9")
    _, out, _ = note("search", "crater of the volcano", "--scores", "--here")
    assert out.startswith(f"1. {LAVA}")
    assert "note 2" not in out
    signals = r"\(words (\S+) \+ reefs (\S+) \+ similarity (\S+) \+ recency (\S+)\)"
    line = re.search(rf"score (\S+) = {signals} × affinity (\S+) \+ relevance (\S+)", " ".join(out.split()))
    assert line is not None
    final, *parts, affinity, relevance = map(float, line.groups())
    assert final == pytest.approx(sum(parts) * affinity + relevance, rel=0.01)
    _, out, _ = note("explain", "2", "crater of the volcano", "--here")
    assert re.search(r"prerequisites +no", out)
    assert out.endswith("not shown\n")
    assert "rank 1" in note("explain", "1", "crater of the volcano")[1]
    found = as_json(note("search", "crater", "--top-k", "1", "--json"))
    assert found["results"][0]["scores"]["final"] == found["results"][0]["score"]
    assert note("search", "qwrtp")[1] == "Nothing found among 2 notes.\n"


def test_categories_are_a_tree(note: Note) -> None:
    note("add", LAVA, "--category", "a/b", "--category", "a")
    note("add", JURY, "--category", "a/b")
    assert note("categories")[1] == "a  1 (2 with those below)\n  b  2\n"
    code, _, err = note("add", "Rain.", "--category", "a/b/a")
    assert code == 2
    assert "would contain itself" in err


def test_remember_filters_and_recall_finds(note: Note, tmp_path: Path) -> None:
    code, _, err = note("remember", "Too short.", "--topic", "x")
    assert (code, err) == (
        2,
        "error: content: says too little: it must have two words that carry a meaning\n",
    )
    assert note("remember", LAVA, "--topic", "Volcanoes", "--confidence", "0.9")[1] == "1. note 1\n"
    file = tmp_path / "learned.jsonl"
    file.write_text(
        "\n".join(
            [
                json.dumps({"content": LAVA, "topic": "Volcanoes", "confidence": 0.9}),
                "not json",
                json.dumps({"content": JURY, "topic": "misc", "confidence": 0.9}),
            ]
        )
    )
    code, out, _ = note("remember", "--file", str(file))
    assert code == 1
    assert out.splitlines()[0] == "1. note 1, counted again"
    assert out.splitlines()[1].startswith("2. refused: item")
    assert out.splitlines()[2].startswith("3. refused: topic")
    _, out, _ = note("recall", "crater of the volcano", "--threshold", "0.1")
    assert LAVA in out
    assert "Volcanoes" in out


def test_text_is_read_from_stdin(note: Note, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{LAVA}\nAgain.\n"))
    assert note("add", "-")[0] == 0
    assert as_json(note("show", "1", "--json"))["text"] == f"{LAVA}\nAgain."


def test_opposite_and_same_notes_are_warned_of(note: Note) -> None:
    note("add", LAVA)
    code, out, err = note("add", f"{LAVA} ")
    assert (code, out, err) == (0, "note 1 has this text; counted 2 times\n", "")
    _, _, err = note("add", LAVA.replace("winter", "summer"))
    assert "warning: it" in err
    assert "note 1" in err


def test_hostile_text_does_not_reach_the_terminal(note: Note) -> None:
    note("add", HOSTILE, "--title", HOSTILE, "--tags", HOSTILE, "--category", f"x{HOSTILE}".replace("/", ""))
    note("deprecate", "1", "--reason", HOSTILE)
    note("restore", "1")
    note("feedback", "1", "--not-applicable", "--reason", HOSTILE, "--requires", "repo=[red]")
    shown = [
        note("show", "1"),
        note("list"),
        note("search", HOSTILE, "--scores"),
        note("explain", "1", HOSTILE),
        note("recall", HOSTILE, "--threshold", "0"),
        note("categories"),
        note("list", "--tag", "\x1b[31m"),
        note("list", "--owner", "\x1b[31m"),
        note("show", "1", "--json"),
    ]
    for _, out, err in shown:
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", out + err)
    assert "[bold]red[/bold]" in shown[0][1]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("add", ""), "text: is empty"),
        (("add", "x" * 20_001), "the limit is 20,000"),
        (("add", LAVA, "--requires", "planet=mars"), "--requires"),
        (("add", LAVA, "--metadata", "{"), "--metadata"),
        (("add", LAVA, "--kind", "poem"), "kind: must be one of"),
        (("update", "1"), "name a field"),
        (("feedback", "1"), "--applicable"),
        (("feedback", "1", "--applicable", "--tag-score", "a=7"), "--tag-score"),
        (("categorize", "1"), "--add"),
        (("remember",), "TEXT"),
        (("search", " "), "QUERY: is empty"),
        (("show", "0"), "NOTE"),
        (("show", "x"), "NOTE"),
        (("list", "--owner", ""), "owner"),
    ],
)
def test_wrong_usage_has_a_reason(note: Note, arguments: tuple[str, ...], reason: str) -> None:
    code, out, err = note(*arguments)
    assert (code, out) == (2, "")
    assert reason in err


def test_unknown_id_beyond_the_range_of_ids_is_not_found(note: Note) -> None:
    assert note("show", str(2**70)) == (1, "", f"error: there is no note {2**70}\n")


def test_reading_does_not_create_a_database(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["--db", str(tmp_path / "none.db"), "note", "list"]) == 1
    assert "there is no database" in capsys.readouterr().err
    assert not (tmp_path / "none.db").exists()
