"""Commands on stored documents: listing, references to a document, tags."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fake_scorer import FakeScorer

from shoal.cli.app import run
from shoal.engine import Engine


class CommandResult(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Shoal = Callable[..., CommandResult]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four documents with relative paths, two with the same title, and one with a number as title."""
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
    library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shoal:
    shutil.copy(library, tmp_path / "shoal.db")
    monkeypatch.chdir(tmp_path)

    def run_shoal(*arguments: object) -> CommandResult:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return CommandResult(code, captured.out, captured.err)

    return run_shoal


def test_list_shows_number_size_title_tags_and_path(shoal: Shoal) -> None:
    lines = shoal("list").out.splitlines()
    assert lines[0].split() == ["document", "passages", "bytes", "title", "tags", "path"]
    assert lines[5].split() == ["5", "1", "26", "Tides", "sea", "/far/tides.md"]
    assert len(lines) == 8


def test_list_filters_by_text_and_tag_and_has_pages(shoal: Shoal) -> None:
    def ids(*options: object) -> list[int]:
        return [document["id"] for document in shoal("list", *options, "--json").json["documents"]]

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
def test_document_is_found_by_number_path_or_title(shoal: Shoal, reference: str, number: int) -> None:
    assert shoal("show", reference, "--json").json["document"]["id"] == number
    assert shoal("tags", reference, "new").out == f"document {number}: tags new\n"
    assert shoal("delete", reference).out == f"document {number} is deleted\n"


@pytest.mark.parametrize("what", [["Weather"], ["--filter", "title = Weather"]])
def test_deletion_asks_at_a_terminal_alone(
    shoal: Shoal, monkeypatch: pytest.MonkeyPatch, what: list[str]
) -> None:
    def total() -> int:
        number: int = shoal("list", "--json").json["total"]
        return number

    monkeypatch.setattr("shoal.cli.stored.may_ask", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    refused = shoal("delete", *what)
    assert refused.code != 0
    assert refused.err.startswith("Delete ")
    assert total() == 7
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert shoal("delete", *what).code == 0
    assert total() == 6
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert shoal("delete", "Tides", "--yes").code == 1, "nothing is asked; two have this title"
    assert shoal("delete", "5", "--yes").code == 0
    monkeypatch.setattr("shoal.cli.stored.may_ask", lambda: False)
    assert shoal("delete", "6").code == 0
    assert total() == 4


def test_document_is_found_by_a_path_relative_to_the_working_directory(
    shoal: Shoal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("# Bees\n\nA bee gathers nectar from the flowers.\n")
    assert shoal("ingest", "notes/a.md").code == 0
    monkeypatch.chdir(tmp_path / "notes")
    assert shoal("--db", "../shoal.db", "show", "a.md", "--json").json["document"]["id"] == 8


def test_ambiguous_title_is_refused_with_the_candidates(shoal: Shoal) -> None:
    result = shoal("delete", "Tides")
    assert result.code == 1
    assert "2 documents are called 'Tides'" in result.err
    assert "5  Tides  /far/tides.md\n  6  Tides  /far/other.md" in result.err
    assert shoal("list", "--json").json["total"] == 7


@pytest.mark.parametrize("reference", ["tide", "99", str(2**70), "²", "-1x"])
def test_unknown_document_is_an_error(shoal: Shoal, reference: str) -> None:
    result = shoal("delete", "--", reference)
    assert result.code == 1
    assert "there is no document" in result.err
    assert "internal" not in result.err


def test_tags_are_added_and_removed(shoal: Shoal) -> None:
    assert shoal("tags", 5, "--add", "moon", "--add", "tide,  high  water", "--remove", "sea").out == (
        "document 5: tags high water, moon, tide\n"
    )
    assert shoal("tags", 5, "--remove", "tide", "--remove", "moon", "--json").json == {
        "id": 5,
        "tags": ["high water"],
    }
    assert shoal("tags", 5, "--add", "high water").out == "document 5: tags high water\n"
    assert shoal("tags", 5, "--remove", "high water").out == "document 5: no tags\n"
    assert shoal("tags", 5, "sea,moon").out == "document 5: tags moon, sea\n", "A,B replaces all tags"


def test_removing_a_tag_that_a_document_does_not_have_prints_a_warning(shoal: Shoal) -> None:
    result = shoal("tags", 5, "--remove", "salt", "--add", "moon")
    assert (result.code, result.out) == (0, "document 5: tags moon, sea\n")
    assert result.err == "warning: document 5 has no tag 'salt'\n"


def test_unchanged_tags_do_not_update_the_document(shoal: Shoal) -> None:
    before = shoal("show", 5, "--json").json["document"]
    assert shoal("tags", 5, "--add", "sea", "--remove", "salt").code == 0
    assert shoal("show", 5, "--json").json["document"] == before


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "name the new tags, or use --add or --remove"),
        (["sea", "--add", "moon"], "cannot be combined with --add and --remove"),
        (["", "--remove", "sea"], "cannot be combined with --add and --remove"),
        (["--add", "moon", "--remove", "moon"], "'moon' is also in --add"),
    ],
)
def test_contradictory_tag_arguments_are_wrong_usage(shoal: Shoal, arguments: list[str], reason: str) -> None:
    result = shoal("tags", 5, *arguments)
    assert (result.code, result.out) == (2, "")
    assert reason in result.err
    assert shoal("show", 5, "--json").json["document"]["tags"] == ["sea"]


def test_tags_that_break_the_limits_are_refused(shoal: Shoal) -> None:
    result = shoal("tags", 5, "--add", "x" * 65)
    assert result.code == 1
    assert "tags" in result.err
    assert shoal("tags", 99, "--add", "x").code == 1
    assert shoal("show", 5, "--json").json["document"]["tags"] == ["sea"]


@pytest.mark.parametrize(
    ("word", "suggestion"), [("serch", "search"), ("ls", "list"), ("docs", "list"), ("rm", "delete")]
)
def test_unknown_command_suggests_a_command(shoal: Shoal, word: str, suggestion: str) -> None:
    result = shoal(word, "1")
    assert result.code == 2
    assert f"'{suggestion}'" in result.err


def test_printed_passage_numbers_work_in_show_and_explain(shoal: Shoal, tmp_path: Path) -> None:
    sections = ("The bees gather nectar.", "The volcano throws lava.", "The jury hears a witness.")
    text = "".join(f"# Part {i}\n\n{sentence}\n\n" for i, sentence in enumerate(sections))
    (tmp_path / "parts.md").write_text(text)
    assert shoal("ingest", "parts.md").code == 0
    assert "document 8, passage #1\n" in shoal("search", "volcano lava").out
    passages = shoal("show", "8", "--chunk", 1, "--json").json["chunks"]
    assert [passage["text"] for passage in passages] == [sections[1]]
    by_number = ["explain", "volcano lava", "--document", "parts.md", "--chunk", 1]
    assert "(document 8, passage #1)\nNumber 1 of the results" in shoal(*by_number).out
    by_id = ["explain", "volcano lava", "--chunk-id", passages[0]["id"], "--json"]
    assert shoal(*by_number, "--json").json["target"] == shoal(*by_id).json["target"]
    missing = shoal(*by_number[:-1], 3)
    assert (missing.code, missing.err) == (
        1, "error: document 8 has 3 passages, counted from #0; there is no #3\n",
    )  # fmt: skip
    assert shoal("explain", "volcano", "--chunk", 1).code == 2
    assert shoal("explain", "volcano", "--document", 8, "--chunk", 1, "--chunk-id", 1).code == 2
