"""A library that learns, from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from teaching_texts import SENTENCES, WORDS, about, text_of

from shoal.cli.app import run

Run = Callable[..., str]


@pytest.fixture
def shoal(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in an empty folder, to a good end; what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOAL_WAVE_BYTES", "2000")

    def run_shoal(*arguments: object, code: int = 0) -> str:
        capsys.readouterr()
        assert run([str(argument) for argument in arguments]) == code, capsys.readouterr().err
        return capsys.readouterr().out

    return run_shoal


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    for i, topic in enumerate(SENTENCES):
        for j, word in enumerate(WORDS[:5]):
            pieces = [(topic, n, word) for n in range(3 + i)]
            (folder / f"{j}-{topic}.txt").write_text(text_of(pieces))
    (folder / "bad.md").write_text("# Only a heading")
    return folder


def test_any_number_of_processes_makes_the_same_library(shoal: Run, texts: Path) -> None:
    shoal("--db", "one.db", "ingest-dir", texts, code=1)
    shoal("--db", "three.db", "ingest-dir", texts, "--workers", "3", code=1)
    exports = [shoal("--db", f"{name}.db", "export", "--canonical") for name in ("one", "three")]
    assert exports[0] == exports[1]
    words = {
        record["word"]
        for record in map(json.loads, exports[0].splitlines())
        if record["type"] == "custom_word"
    }
    assert words >= set(WORDS[:5])


def test_a_learned_word_is_found_and_explained(shoal: Run, texts: Path) -> None:
    shoal("ingest", texts / "0-fire.txt")
    found = json.loads(shoal("search", "zorblats", "--json"))
    assert found["results"][0]["source_path"].endswith("0-fire.txt")
    assert "learned" in shoal("explain", "a zorblat") or "custom" in shoal("explain", "a zorblat")
    assert json.loads(shoal("status", "--json"))["n_custom_words"] == 1


def test_rescore_brings_every_passage_up_to_date(shoal: Run, texts: Path) -> None:
    shoal("ingest", texts / "0-fire.txt")
    (texts / "later.txt").write_text(about("sea", "zorblat", 9))
    shoal("ingest", texts / "later.txt")
    assert json.loads(shoal("status", "--json"))["n_stale_chunks"] > 0
    done = json.loads(shoal("rescore", "--json"))
    assert (done["n_documents"], done["failed"], done["n_stale_chunks"]) == (2, [], 0)
    assert json.loads(shoal("status", "--json"))["n_stale_chunks"] == 0
    assert "2 documents up to date" in shoal("rescore")


def test_rescore_makes_no_database(shoal: Run) -> None:
    shoal("--db", "misspelt.db", "rescore", code=1)
    assert not Path("misspelt.db").exists()
