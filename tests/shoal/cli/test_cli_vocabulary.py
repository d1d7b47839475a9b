"""`shoal vocabulary`: learned words on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from teaching_texts import about

from shoal.cli.app import run
from shoal.engine import Engine

Shoal = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("library") / "shoal.db"
    with Engine(db_path=path, learning=True) as engine:
        engine.ingest_many(
            [
                {"title": "About fire", "content": about("fire", "zorblat", 6)},
                {"title": "Ships \x1b[31m", "content": about("sea", "hoxley wump", 5)},
            ]
        )
    return path


@pytest.fixture
def shoal(capsys: pytest.CaptureFixture[str], library: Path) -> Shoal:
    def run_shoal(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["--db", str(library), *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_shoal


def test_words_are_listed_with_their_reefs(shoal: Shoal) -> None:
    code, out, _ = shoal("vocabulary")
    assert code == 0
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    assert set(lines) >= {"zorblat", "hoxley", "wump", "hoxley wump"}
    assert "1.00" in lines["zorblat"]
    _, out, _ = shoal("vocabulary", "--limit", "1", "--offset", "1")
    assert "1 of 4" in out
    _, out, _ = shoal("vocabulary", "--containing", "HOX")
    assert "zorblat" not in out
    assert "hoxley wump" in out
    _, out, _ = shoal("vocabulary", "--containing", "qwrtp")
    assert "no learned words" in out


def test_word_is_shown_with_its_evidence(shoal: Shoal) -> None:
    code, out, _ = shoal("vocabulary", "Zorblats")
    assert code == 0
    assert "learned from 6 occurrences in 1 document" in out
    assert "About fire (document 1): 6 occurrences" in out
    code, out, _ = shoal("vocabulary", "hoxley-wump")
    assert (code, "compound" in out, "\x1b" in out) == (0, True, False)


def test_word_that_was_not_learned_is_an_error_with_the_reason(shoal: Shoal) -> None:
    code, out, err = shoal("vocabulary", "volcano")
    assert (code, out) == (1, "")
    assert "in the dictionary" in err


def test_json_is_the_same_as_from_the_library(shoal: Shoal, library: Path) -> None:
    _, out, _ = shoal("vocabulary", "--json", "--limit", "2")
    page = json.loads(out)
    with Engine(db_path=library) as engine:
        assert [word["word"] for word in page["words"]] == [
            w.word for w in engine.vocabulary.list(limit=2).words
        ]
    assert page["total"] == 4
    _, out, _ = shoal("vocabulary", "zorblat", "--json")
    word = json.loads(out)
    assert word["evidence"]["documents"][0]["title"] == "About fire"
    assert word["reefs"][0]["strength"] == 1.0


def test_explanation_names_the_documents_a_word_was_learned_from(shoal: Shoal) -> None:
    _, out, _ = shoal("explain", "a zorblat and a volcano")
    assert "zorblat was learned from 6 occurrences in 1 document: About fire (document 1)" in out
    _, out, _ = shoal("explain", "a volcano")
    assert "learned" not in out
