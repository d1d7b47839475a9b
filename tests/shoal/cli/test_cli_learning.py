"""Learning of words from the command line."""

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
    """Run a command in an empty folder, check its exit code and return its output."""
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
    (folder / "bad.md").write_text("<!-- only a comment -->")
    return folder


def test_number_of_processes_does_not_change_the_library(shoal: Run, texts: Path) -> None:
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


def test_learned_word_is_found_and_explained(shoal: Run, texts: Path) -> None:
    shoal("ingest", texts / "0-fire.txt")
    response = json.loads(shoal("search", "zorblats", "--json"))
    assert response["results"][0]["source_path"].endswith("0-fire.txt")
    assert "learned" in shoal("explain", "a zorblat") or "custom" in shoal("explain", "a zorblat")
    assert json.loads(shoal("status", "--json"))["n_custom_words"] == 1


def test_rescore_brings_every_passage_up_to_date(shoal: Run, texts: Path) -> None:
    shoal("ingest", texts / "0-fire.txt")
    (texts / "later.txt").write_text(about("sea", "zorblat", 9))
    shoal("ingest", texts / "later.txt")
    assert json.loads(shoal("status", "--json"))["n_stale_chunks"] > 0
    result = json.loads(shoal("rescore", "--json"))
    assert (result["n_documents"], result["failed"], result["n_stale_chunks"]) == (1, [], 0)
    assert json.loads(shoal("status", "--json"))["n_stale_chunks"] == 0
    assert "0 documents rescored" in shoal("rescore")


def test_rescore_does_not_create_a_database(shoal: Run) -> None:
    shoal("--db", "misspelt.db", "rescore", code=1)
    assert not Path("misspelt.db").exists()
