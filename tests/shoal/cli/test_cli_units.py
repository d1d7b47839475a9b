"""`shoal search --units`: passages and notes in one order, for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_scorer import FakeScorer

from shoal.cli.app import run
from shoal.engine import Engine

LAVA = "Lava of the volcano cools to basalt and ash."
NOTE = "Never stand below lava \x1b]0;owned\x07 and ash."

Search = Callable[..., tuple[int, str, str]]


@pytest.fixture
def search(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    migrated_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Search:
    """Run `shoal search` on a library with a document and a note of Ann."""
    library = tmp_path / "shoal.db"
    library.write_bytes(migrated_file.read_bytes())
    open_engine = Engine.__init__
    monkeypatch.setattr(
        Engine, "__init__", lambda self, **given: open_engine(self, **{**given, "scorer": FakeScorer()})
    )
    with Engine(db_path=library) as engine:
        engine.ingest(content=LAVA, title="Fire")
        engine.notes.of("ann").add(NOTE, tags=["rock"], categories=["earth/fire"])

    def run_search(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["--db", str(library), "search", "lava and ash", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_search


def test_notes_stand_among_passages(search: Search) -> None:
    code, out, _ = search("--units", "chunk,note", "--owner", "ann", "--scores")
    assert code == 0
    assert "document 1, passage" in out
    assert "note 1 of ann, lesson, earth/fire" in out
    assert "tags rock" in " ".join(out.split())
    assert "Never stand below lava" in out
    assert "\x1b]" not in out
    assert "note 1" not in search()[1]
    assert "note 1" not in search("--units", "chunk,note")[1], "of the default owner"
    code, out, _ = search("--units", "note", "--owner", "ann")
    assert (code, "document 1, passage" in out, "note 1 of ann" in out) == (0, False, True)


def test_json_is_that_of_the_api(search: Search) -> None:
    code, out, _ = search("--units", "chunk,note", "--owner", "ann", "--json")
    results = json.loads(out)["results"]
    assert code == 0
    assert [("note" in result, "chunk_id" in result) for result in results] in (
        [(True, False), (False, True)],
        [(False, True), (True, False)],
    )
    scores = [result["match_score"] for result in results]
    assert scores == sorted(scores, reverse=True)


def test_owner_of_the_settings_is_the_default(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_NOTE_OWNER", "ann")
    assert "note 1 of ann" in search("--units", "note")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--owner", "ann"), "only for --units with note"),
        (("--units", "page"), "must be one or both of chunk, note"),
        (("--units", ""), "must be one or both of chunk, note"),
        (("--units", "note", "--owner", " "), "owner"),
    ],
)
def test_invalid_units_are_refused(search: Search, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = search(*arguments)
    assert code != 0
    assert message in " ".join(err.replace("│", " ").split())
    assert out == ""
