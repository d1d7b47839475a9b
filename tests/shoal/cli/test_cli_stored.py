"""Which documents there are, and how a person names one of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fake_scorer import FakeScorer

from shoal.cli.app import run
from shoal.engine import Engine


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Shoal = Callable[..., Ran]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four documents with relative paths, two with the same title, and one that is called like a number."""
    path = tmp_path_factory.mktemp("library") / "shoal.db"
    with Engine(db_path=path, scorer=FakeScorer()) as engine:
        for title in ("Fire", "Weather", "Courts", "Garden"):
            engine.ingest(title=title, content=f"A text of {title}.", source_path=f"{title}.md")
        tides = {"title": "Tides", "content": "The Moon pulls at the sea.", "source_path": "/far/tides.md"}
        engine.ingest_many([{**tides, "tags": ["sea"]}])
        engine.ingest(title="Tides", content="The water rises twice a day.", source_path="/far/other.md")
        engine.ingest(title="1984", content="A book on a bad government.")
    return path


@pytest.fixture
def shoal(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shoal:
    shutil.copy(made, tmp_path / "shoal.db")
    monkeypatch.chdir(tmp_path)

    def run_shoal(*arguments: object) -> Ran:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run_shoal


def test_documents_are_listed_with_what_tells_them_apart(shoal: Shoal) -> None:
    lines = shoal("list").out.splitlines()
    assert lines[0].split() == ["document", "passages", "bytes", "title", "tags", "path"]
    assert lines[5].split() == ["5", "1", "26", "Tides", "sea", "/far/tides.md"]
    assert len(lines) == 8


def test_a_list_is_chosen_by_text_tag_and_page(shoal: Shoal) -> None:
    def ids(*options: object) -> list[int]:
        return [one["id"] for one in shoal("list", *options, "--json").json["documents"]]

    assert ids("TIDES") == [5, 6]
    assert ids("far/t") == [5]
    assert ids("--tag", "sea") == [5]
    assert ids("--limit", 2, "--offset", 3) == [4, 5]
    assert shoal("list", "--limit", 2, "--json").json["total"] == 7
    assert "2 of 7; --limit and --offset show others" in shoal("list", "--limit", 2).out
    assert shoal("list", "nothing of the kind").out == "no documents\n"


@pytest.mark.parametrize(
    ("reference", "number"),
    [("1", 1), ("Weather", 2), ("Weather.md", 2), ("/far/tides.md", 5), ("1984", 7)],
)
def test_a_document_is_named_by_number_path_or_title(shoal: Shoal, reference: str, number: int) -> None:
    assert shoal("show", reference, "--json").json["document"]["id"] == number
    assert shoal("tags", reference, "new").out == f"document {number}: tags new\n"
    assert shoal("delete", reference).out == f"document {number} is deleted\n"


def test_a_file_is_named_from_wherever_one_is(
    shoal: Shoal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("# Bees\n\nA bee gathers nectar from the flowers.\n")
    assert shoal("ingest", "notes/a.md").code == 0
    monkeypatch.chdir(tmp_path / "notes")
    assert shoal("--db", "../shoal.db", "show", "a.md", "--json").json["document"]["id"] == 8


def test_of_several_candidates_none_is_taken(shoal: Shoal) -> None:
    ran = shoal("delete", "Tides")
    assert ran.code == 1
    assert "2 documents are called 'Tides'" in ran.err
    assert "5  Tides  /far/tides.md\n  6  Tides  /far/other.md" in ran.err
    assert shoal("list", "--json").json["total"] == 7


@pytest.mark.parametrize("reference", ["tide", "99", str(2**70), "²", "-1x"])
def test_what_is_no_document_is_told(shoal: Shoal, reference: str) -> None:
    ran = shoal("delete", "--", reference)
    assert ran.code == 1
    assert "there is no document" in ran.err
    assert "internal" not in ran.err


@pytest.mark.parametrize(
    ("word", "meant"), [("serch", "search"), ("ls", "list"), ("docs", "list"), ("rm", "delete")]
)
def test_a_word_that_is_no_command_suggests_one(shoal: Shoal, word: str, meant: str) -> None:
    ran = shoal(word, "1")
    assert ran.code == 2
    assert f"'{meant}'" in ran.err


def test_a_result_is_shown_and_explained_by_the_numbers_it_is_printed_with(
    shoal: Shoal, tmp_path: Path
) -> None:
    sections = ("The bees gather nectar.", "The volcano throws lava.", "The jury hears a witness.")
    text = "".join(f"# Part {i}\n\n{sentence}\n\n" for i, sentence in enumerate(sections))
    (tmp_path / "parts.md").write_text(text)
    assert shoal("ingest", "parts.md").code == 0
    assert "document 8, passage #1\n" in shoal("search", "volcano lava").out
    passage = shoal("show", "8", "--chunk", 1, "--json").json["chunks"]
    assert [one["text"] for one in passage] == [sections[1]]
    asked = ["explain", "volcano lava", "--document", "parts.md", "--chunk", 1]
    assert "(document 8, passage #1)\nNumber 1 of the results" in shoal(*asked).out
    by_id = ["explain", "volcano lava", "--chunk-id", passage[0]["id"], "--json"]
    assert shoal(*asked, "--json").json["target"] == shoal(*by_id).json["target"]
    missing = shoal(*asked[:-1], 3)
    assert (missing.code, missing.err) == (
        1, "error: document 8 has 3 passages, counted from #0; there is no #3\n",
    )  # fmt: skip
    assert shoal("explain", "volcano", "--chunk", 1).code == 2
    assert shoal("explain", "volcano", "--document", 8, "--chunk", 1, "--chunk-id", 1).code == 2
