"""`shoal note dedup`, proposals, merges and undo on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer

from shoal.cli.app import run
from shoal.engine import Engine

LAVA = "Lava of a volcano cools to basalt."
SAME = "The lava of volcanoes cools and becomes basalt."
MAP, CHART = "Use the volcano map, not the season map.", "Use the season map, not the volcano map."
HOSTILE = "Lava of a volcano cools \x1b]0;owned\x07to basalt [bold]red[/bold]."

Note = Callable[..., tuple[int, str, str]]


@pytest.fixture
def note(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, migrated_file: Path, monkeypatch: pytest.MonkeyPatch
) -> Note:
    """Run `shoal note` on a library of its own, with a small scorer."""
    library = tmp_path / "shoal.db"
    library.write_bytes(migrated_file.read_bytes())
    open_engine = Engine.__init__
    monkeypatch.setattr(
        Engine, "__init__", lambda self, **given: open_engine(self, **{**given, "scorer": FakeScorer()})
    )

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


def test_duplicates_are_found_accepted_and_undone(note: Note) -> None:
    for text in (LAVA, SAME):
        note("add", text)
    assert note("proposals")[1] == "no proposals\n"
    code, out, _ = note("dedup")
    assert (code, out.splitlines()[0]) == (0, "2 notes compared, 0 merged into others, 1 proposal")
    shown = note("proposals")[1]
    assert LAVA in shown
    assert SAME in shown
    assert note("accept", "1") == (0, "note 1 has absorbed 2 (merge 1)\n", "")
    assert "merge 1: note 1 absorbed 2, decided by person" in note("merges")[1]
    assert note("undo", "1") == (0, "merge 1 is undone; active again: 2\n", "")
    code, _, err = note("undo", "1")
    assert code == 1
    assert "undone already" in err
    assert as_json(note("merges", "--note", "2", "--json"))["merges"][0]["undone_at"]


def test_rejected_proposals_do_not_come_again(note: Note) -> None:
    for text in (LAVA, SAME):
        note("add", text)
    note("dedup")
    assert note("reject", "1") == (0, "proposal 1 is rejected\n", "")
    assert as_json(note("dedup", "--recheck", "--json"))["n_proposed"] == 0
    assert "proposal 1 · similarity" in note("proposals", "--status", "rejected")[1]


def test_contradicting_notes_need_a_text(note: Note) -> None:
    for text in (MAP, CHART):
        note("add", text)
    note("dedup")
    assert "may contradict each other; give --text" in note("proposals")[1]
    code, _, err = note("accept", "1")
    assert code == 2
    assert "--text: notes 1 and 2 may contradict each other; give the text that holds" in err
    assert note("accept", "1", "--text", "Use both maps.")[0] == 0
    assert as_json(note("show", "1", "--json"))["text"] == "Use both maps."


def test_notes_are_merged_by_their_numbers(note: Note) -> None:
    for text in (LAVA, SAME):
        note("add", text)
    merged = as_json(note("merge", "1", "2", "--text", "Lava cools.", "--reason", "same", "--json"))
    assert (merged["survivor_id"], merged["absorbed_ids"], merged["reason"]) == (1, [2], "same")
    assert note("merge", "1", "9")[0] == 1


def test_hostile_texts_are_shown_harmlessly(note: Note) -> None:
    for text in (HOSTILE, f"{HOSTILE} Volcano."):
        note("add", text)
    note("dedup")
    shown = note("proposals")[1]
    note("merge", "1", "2", "--reason", HOSTILE)
    for out in (shown, note("merges")[1]):
        assert "\x1b" not in out
        assert "[bold]" in out


def test_failed_endpoint_is_an_error_that_says_what_waits(
    note: Note, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_LLM_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("SHOAL_LLM_MODEL", "judge")
    monkeypatch.setattr("shoal.support.http_endpoints.FIRST_PAUSE_SECONDS", 0.001)
    for text in (LAVA, SAME):
        note("add", text)
    code, _, err = note("dedup")
    assert code == 1
    assert err.startswith("1 note still waiting: the chat endpoint cannot be reached")
