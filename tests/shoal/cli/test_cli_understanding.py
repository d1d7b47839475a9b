"""What a person reads of how a query was understood: one profile everywhere, and what the library lacks of it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shoal.cli.app import run
from shoal.engine import Engine

SAMPLES = Path(__file__).parents[3] / "shoal" / "sample_corpus"
QUERY = "how bees help flowers"
HOPELESS = "Obadiah Quenby bees"


class Ran(NamedTuple):
    out: str
    err: str


Shoal = Callable[..., Ran]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of three articles and a note of a word that no dictionary has."""
    folder = tmp_path_factory.mktemp("understood")
    texts = folder / "texts"
    texts.mkdir()
    for name in ("bees-and-pollination.md", "volcanoes.md", "juries.md"):
        shutil.copy(SAMPLES / name, texts)
    (texts / "note.txt").write_text("The keeper of the bees was called Zorblax in 1987.", encoding="utf-8")
    database = folder / "shoal.db"
    with Engine(db_path=database) as engine:
        for path in sorted(texts.iterdir()):
            engine.ingest_file(path)
    return database


@pytest.fixture
def shoal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, library: Path) -> Shoal:
    """Run a command on the library, on a terminal wide enough that no line is broken."""
    monkeypatch.setenv("COLUMNS", "300")

    def run_shoal(*arguments: object) -> Ran:
        capsys.readouterr()
        assert run(["--db", str(library), *map(str, arguments)]) == 0
        captured = capsys.readouterr()
        return Ran(captured.out, captured.err)

    return run_shoal


def answer(shoal: Shoal, *arguments: object) -> Any:
    return json.loads(shoal(*arguments, "--json").out)


def numbers_after(text: str, names: list[str]) -> list[float]:
    """The last number of the first line that has each name and one."""
    found = []
    for name in names:
        match = re.search(rf"{re.escape(name)}[ █▉▊▋▌▍▎▏]+(-?\d+\.\d)", text)
        assert match is not None, (name, text)
        found.append(float(match[1]))
    return found


def test_search_scores_and_explain_tell_of_one_profile(shoal: Shoal) -> None:
    searched = answer(shoal, "search", QUERY)
    reefs = searched["query_info"]["top_reefs"][:4]
    names, expected = [r["reef_name"] for r in reefs], [round(r["z_score"], 1) for r in reefs]
    assert any(r["own_z"] < r["z_score"] for r in reefs)
    printed = shoal("search", QUERY, "--top-k", "1", "--scores").out
    line = next(line for line in printed.splitlines() if line.startswith("The query is about:"))
    assert numbers_after(line, names) == expected
    explained = shoal("explain", QUERY).out
    assert numbers_after(explained.split("the query is about")[1], names) == expected
    compared = {reef["reef_name"]: reef["query_z"] for reef in searched["results"][0]["shared_reefs"]}
    assert names[0] in compared
    assert all(
        round(compared[name], 1) == z for name, z in zip(names, expected, strict=True) if name in compared
    )
    lead = reefs[0]["z_score"] - reefs[1]["z_score"]
    assert f"the first reef leads by {lead:.1f}" in explained


def test_what_the_query_has_of_its_company_is_told_where_its_profile_is(shoal: Shoal) -> None:
    printed = shoal("search", QUERY).out
    assert re.search(r"best: [^\n]*Bees and Pollination", printed)
    assert "by its words and by the passages that match them best" in printed
    explained = shoal("explain", QUERY).out
    assert "by its words" in explained
    assert "the rest is what the passages that match its words best are about: " in explained
    without = shoal("explain", QUERY, "--mode", "lexical").out
    assert "by its words" not in without
    assert "the passages that match" not in without


def test_a_hopeless_query_does_not_look_good(shoal: Shoal) -> None:
    ran = shoal("search", HOPELESS, "--top-k", "1")
    assert ran.err.splitlines()[0] == "warning: in no passage of this library: Obadiah, Quenby"
    assert "spelling" not in ran.err
    assert re.search(r"holds \d\d?% of the query's words", ran.out)
    assert "In no passage of this library: Obadiah, Quenby" in ran.out
    best = answer(shoal, "search", HOPELESS)["results"][0]
    assert best["term_coverage"] < 0.5 < best["match_score"]
    explained = shoal("explain", HOPELESS, "--document", "1")
    assert "warning: in no passage of this library" in explained.err
    assert f"It holds {best['term_coverage']:.0%} of the query's words." in explained.out


def test_results_say_whether_they_hold_all_or_none_of_the_words(shoal: Shoal) -> None:
    assert "holds all of the query's words" in shoal("search", "bees", "--top-k", "1").out
    assert (
        "holds none of the query's words"
        in shoal("search", "eruption of insects", "--mode", "reef", "--top-k", "20").out
    )


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("Zorblax", "not in the vocabulary; found by spelling alone"),
        ("Quenby", "in no passage and not in the vocabulary"),
        ("vulcano", "in no passage and not in the vocabulary; did you mean volcano, vulcan?"),
        ("of", "too common to say anything"),
        ("1987", "numbers are found by spelling alone"),
        ("1988", "in no passage"),
    ],
)
def test_every_word_says_what_becomes_of_it(shoal: Shoal, word: str, said: str) -> None:
    (line,) = (
        line for line in shoal("explain", f"bees {word}").out.splitlines() if line.startswith(f"{word} ")
    )
    assert line.rstrip().endswith(said)


def test_in_a_search_by_reefs_nothing_is_said_to_be_found_by_spelling(shoal: Shoal) -> None:
    explained = shoal("explain", "bees Zorblax 1987", "--mode", "reef").out
    assert "spelling" not in explained
    assert "not in the vocabulary; without effect on a search by reefs" in explained
    assert "numbers are without effect on a search by reefs" in explained
