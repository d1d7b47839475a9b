"""Output of `search` and `explain` about the analyzed query: its profile, coverage and missing words."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shoal.cli.app import run
from shoal.declared.search import LIKELY
from shoal.engine import Engine

SAMPLES = Path(__file__).parents[3] / "shoal" / "sample_corpus"
QUERY = "how bees help flowers"
HOPELESS = "Obadiah Quenby bees"


class CommandOutput(NamedTuple):
    out: str
    err: str


Shoal = Callable[..., CommandOutput]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of three articles and a note with an unknown word."""
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
    """Run a command on the library, on a terminal that is wide enough for unbroken lines."""
    monkeypatch.setenv("COLUMNS", "300")

    def run_shoal(*arguments: object) -> CommandOutput:
        capsys.readouterr()
        assert run(["--db", str(library), *map(str, arguments)]) == 0
        captured = capsys.readouterr()
        return CommandOutput(captured.out, captured.err)

    return run_shoal


def json_of(shoal: Shoal, *arguments: object) -> Any:
    return json.loads(shoal(*arguments, "--json").out)


def numbers_after(text: str, names: list[str]) -> list[float]:
    """The first number after each name, with nothing but a bar between them."""
    numbers = []
    for name in names:
        match = re.search(rf"{re.escape(name)}[ █▉▊▋▌▍▎▏]+(-?\d+\.\d)", text)
        assert match is not None, (name, text)
        numbers.append(float(match[1]))
    return numbers


def test_search_scores_and_explain_show_the_same_profile(shoal: Shoal) -> None:
    response = json_of(shoal, "search", QUERY)
    reefs = response["query_info"]["top_reefs"][:4]
    names, expected = [r["reef_name"] for r in reefs], [round(r["z_score"], 1) for r in reefs]
    assert any(r["own_z"] < r["z_score"] for r in reefs)
    printed = shoal("search", QUERY, "--top-k", "1", "--scores").out
    line = next(line for line in printed.splitlines() if line.startswith("Reefs searched for:"))
    assert numbers_after(line, names) == expected
    explained = shoal("explain", QUERY).out
    assert numbers_after(explained.split("reefs searched for")[1], names) == expected
    shared = {reef["reef_name"]: reef["query_z"] for reef in response["results"][0]["shared_reefs"]}
    assert names[0] in shared
    assert all(round(shared[name], 1) == z for name, z in zip(names, expected, strict=True) if name in shared)
    lead = reefs[0]["z_score"] - reefs[1]["z_score"]
    assert f"the first reef leads by {lead:.1f}" in explained


def test_feedback_passages_are_named_with_the_profile(shoal: Shoal) -> None:
    assert "match them best" not in shoal("search", QUERY).out
    printed = shoal("search", QUERY, "--scores").out
    assert re.search(r"best: [^\n]*Bees and Pollination", printed)
    assert "from its words, and the passages that match them best" in printed
    explained = shoal("explain", QUERY).out
    assert "by its words" in explained
    assert "the rest comes from the passages that match its words best: " in explained
    without = shoal("explain", QUERY, "--mode", "lexical").out
    assert "by its words" not in without
    assert "the passages that match" not in without


def test_query_without_good_results_shows_low_coverage_and_a_warning(shoal: Shoal) -> None:
    output = shoal("search", HOPELESS, "--top-k", "1", "--scores")
    assert output.err.splitlines()[0] == "warning: in no passage of this library: Obadiah, Quenby"
    assert "spelling" not in output.err
    assert re.search(r"holds \d\d?% of the query's words", output.out)
    best = json_of(shoal, "search", HOPELESS)["results"][0]
    assert best["term_coverage"] < 0.5 < best["match_score"]
    explained = shoal("explain", HOPELESS, "--document", "1")
    assert "warning: in no passage of this library" in explained.err
    assert f"It holds {best['term_coverage']:.0%} of the query's words." in explained.out
    assert "warning: nothing here seems to answer this" in output.err
    assert f"{best['relevance']:.0%} relevant" in output.out
    assert f"Its relevance is {best['relevance']:.0%}" in explained.out
    assert re.search(r"-5\.26 +what speaks against", explained.out)
    assert "nowhere in this library: Obadiah, Quenby" in explained.out
    assert "relevant" not in shoal("search", HOPELESS, "--min-relevance", "0.9").out


def test_explain_names_what_keeps_a_passage_from_the_page(shoal: Shoal) -> None:
    page = json_of(shoal, "search", QUERY, "--top-k", "1")
    later = json_of(shoal, "search", QUERY, "--offset", "1", "--top-k", "1")["results"][0]["chunk_id"]

    def reasons(*options: object) -> list[str]:
        target = json_of(shoal, "explain", QUERY, "--chunk-id", later, "--top-k", "1", *options)["target"]
        return [why["reason"] for why in target["kept_out"]]

    assert reasons() == ["top_k"]
    assert reasons("--offset", "1") == []
    assert reasons("--cursor", page["next_cursor"]) == []
    assert reasons("--min-relevance", "1") == ["top_k", "min_relevance"]


def test_search_suggests_the_spelling_of_a_word_that_no_passage_holds(shoal: Shoal) -> None:
    typed = shoal("search", "bees vulcano", "--typos", "off").err.splitlines()
    assert "did you mean volcanoes instead of vulcano?" in typed
    assert "searched for vulcano, which stands nowhere, as volcanoes" in shoal("search", "bees vulcano").err
    assert "did you mean" not in shoal("search", "bees Quenby").err
    assert "did you mean" not in shoal("search", "bees vulcano", "--json").err


def test_weaker_results_get_a_line_each_after_the_others(shoal: Shoal) -> None:
    query = ("search", "eruption of insects", "--mode", "reef", "--top-k", "20")
    results = json.loads(shoal(*query, "--json").out)["results"]
    weak = [number for number, each in enumerate(results, start=1) if each["relevance"] < LIKELY]
    assert 0 < len(weak) < len(results)
    shown, _, folded = shoal(*query).out.partition(f"{len(weak)} weaker result")
    numbers = [int(number) for number in re.findall(r"(?m)^ {0,3}(\d+)\. ", folded)]
    assert numbers == weak
    assert not {int(number) for number in re.findall(r"(?m)^(\d+)\. ", shown)} & set(weak)
    assert "weaker result" not in shoal(*query, "--scores").out


def test_results_say_whether_they_hold_all_or_none_of_the_words(shoal: Shoal) -> None:
    assert "holds all of the query's words" in shoal("search", "bees", "--top-k", "1", "--scores").out
    assert (
        "holds none of the query's words"
        in shoal("search", "eruption of insects", "--mode", "reef", "--top-k", "20", "--scores").out
    )


@pytest.mark.parametrize(
    ("word", "note"),
    [
        ("Zorblax", "not in the vocabulary; matched by spelling only"),
        ("Quenby", "in no passage and not in the vocabulary"),
        ("vulcano", "in no passage and not in the vocabulary; did you mean volcanoes?"),
        ("of", "too common to carry meaning"),
        ("1987", "numbers are matched by spelling only"),
        ("1988", "in no passage"),
    ],
)
def test_every_word_has_a_note_how_it_is_searched(shoal: Shoal, word: str, note: str) -> None:
    (line,) = (
        line
        for line in shoal("explain", f"bees {word}", "--typos", "off").out.splitlines()
        if line.startswith(f"{word} ")
    )
    assert line.rstrip().endswith(note)


def test_reef_mode_does_not_mention_spelling(shoal: Shoal) -> None:
    explained = shoal("explain", "bees Zorblax 1987", "--mode", "reef").out
    assert "spelling" not in explained
    assert "not in the vocabulary; no effect on a search by reefs" in explained
    assert "numbers have no effect on a search by reefs" in explained
