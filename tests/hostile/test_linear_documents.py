"""Parsing, chunking, scoring and learning take time linear in the length of a document, whatever its
content."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from linear_time import GROWTH, MOST, assert_linear, seconds

import lagoon
from lagoon import ReefScorer
from shoal.chunking.analysis import analyze, scored_document
from shoal.engine import Engine
from shoal.errors import EmptyDocumentError
from shoal.formats.drafts import make_draft
from shoal.formats.parsing import parse
from shoal.learning.observations import discover
from shoal.models.documents import DocFormat
from shoal.settings import Settings

LONG = bool(os.environ.get("SHOAL_TEST_LONG"))
MB = 1_000_000
SIZE = 75_000 if LONG else 12_000
ACCENTS = "\u0301\u0327"

FORMATS = pytest.mark.parametrize("form", list(DocFormat), ids=str)


def words(n_chars: int, n_different: int) -> list[str]:
    """Make words of seven letters that no vocabulary contains."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    spelled = [
        "x" + "".join(letters[i * 7919 // 26**place % 26] for place in range(6)) for i in range(n_different)
    ]
    return [spelled[i % n_different] for i in range(n_chars // 8)]


REPEATED = [
    "a", "a ", "a. ", "a.b.", "A. B. ", "a'b", "a-", "Sea is a. ", "the sea is wide and old ", "heart attack ",
    "a\u0301\u0327 ", "é", "字", "字。", "\U0001f600", "a\r", "a\u2029", "a\n\n", "\x00a", ". ", ".) ", "...", "1. ", "1.\n",
    "- ", "- a\n", "- - ", "* a\n\n", "- ```\n", "> ", ">", "> > a\n", ">\n", "> ```\n", "```\n", "```\na\n```\n", "~~~~\n```\n",
    "# a\n", "# a\nb\n", "#\n", "# ", "== a ==\n", "\n\nAbc\n===\n\n", "\n\nCHAPTER I\n\nTitle\n\n", "I\n\n", "CHAPTER I\n\n",
    "***\n", "\n---", "a\n---\n", "a|b\n-|-\n", "|-", "| a |\n", "    a\n\n", "[a]: b\n", "[a](b)", "[a](b ", "[a](", "](", "[", "![",
    "<!-- ", "<!-- a -->\n", "<a ", "<b>", "&a", "http://", "Main article: ", "_ ", "**a** ", "`a` ", "\n", " ", "\t", "[12]",
    "[edit", "[edit]", "[edit]\n", "Home | ", "Home | About\n", "Contents\n", "Contents\nx ... 1\n", "Page 1\n\n",
    "*** END OF THE PROJECT GUTENBERG EBOOK ***\n",
]  # fmt: skip
"""Pieces repeated to fill a document. The short run parses them in
tests/shoal/formats/test_parsing_properties.py."""

WHOLE: dict[str, Callable[[int], str]] = {
    "a heading of underscores": lambda n: "== a" + "_" * n + "b ==\n\ntext",
    "headings of underscores": lambda n: ("== a" + "_" * 400 + "b ==\n\n") * (n // 410),
    "nested headings": lambda n: "".join(f"{'#' * (1 + i % 6)} a{i}\nb\n" for i in range(n // 14)),
    "a nested list": lambda n: "".join("  " * i + "- a\n" for i in range(int(n**0.5))),
    "list marks on a line": lambda n: "- " * (n // 2) + "a",
    "a long fence": lambda n: "`" * (n // 2) + "\n" + "```\n" * (n // 8),
    "fences of another kind": lambda n: "```\n" + "~~~\n" * (n // 4),
    "a letter with accents": lambda n: "a" + ACCENTS * (n // 2),
    "a row of blanks": lambda n: "a." + " " * n + "b",
    "blank lines": lambda n: "a\n" + " \n" * (n // 2) + "b",
    "brackets behind a stop": lambda n: "." + ")" * n + " b",
    "words that occur once": lambda n: " ".join(words(n, n // 8 + 1)),
    "words that occur twice": lambda n: " ".join(words(n, n // 16 + 1)),
    "sentences of words that occur once": lambda n: ". ".join(map(str.title, words(n, n // 8 + 1))),
    "headings of words that occur once": lambda n: "\nsea\n# ".join(words(n, n // 8 + 1)),
    "a table": lambda n: "a|b\n-|-\n" + "c|d\n" * (n // 4),
    "a comment": lambda n: "<!-- " * (n // 5) + "-->\n\ntext",
    "comments before a key": lambda n: "---\n" + "# " * (n // 2) + "\n!\n---\nHello world.\n",
}
DOCUMENTS = WHOLE | {repr(piece): lambda n, piece=piece: piece * (n // len(piece)) for piece in REPEATED}

THOROUGH = [
    "a heading of underscores", "nested headings", "a letter with accents", "words that occur once", "'a. '", "'- '",
    "sentences of words that occur once", "'a.b.'", "'heart attack '",
]  # fmt: skip
"""Documents that `make test` also chunks, scores and learns from."""

LARGE = [
    "'a '",
    "'a.b.'",
    "'a'",
    "list marks on a line",
    "'字'",
    "a letter with accents",
    "'a. '",
    "words that occur once",
]
"""Documents of 10 MB that the long run ingests."""


@pytest.fixture(scope="module")
def scorer() -> ReefScorer:
    return lagoon.load()


@FORMATS
@pytest.mark.parametrize("name", DOCUMENTS if LONG else WHOLE)
def test_parsing_takes_linear_time(name: str, form: DocFormat) -> None:
    settings = Settings(database_url="sqlite:///unused.db")

    def work(text: str) -> None:
        with contextlib.suppress(EmptyDocumentError):
            parse(make_draft(content=text, format=form, settings=settings))

    assert_linear(work, DOCUMENTS[name], SIZE)


@FORMATS
@pytest.mark.parametrize("name", DOCUMENTS if LONG else THOROUGH)
def test_chunking_scoring_and_learning_take_linear_time(
    name: str, form: DocFormat, scorer: ReefScorer
) -> None:
    settings = Settings(database_url="sqlite:///unused.db")

    def work(text: str) -> None:
        try:
            analyzed = analyze(make_draft(content=text, format=form, settings=settings), scorer, settings)
        except EmptyDocumentError:
            return
        scored_document(analyzed, scorer)
        discover(analyzed, settings)

    assert_linear(work, DOCUMENTS[name], SIZE)


@FORMATS
@pytest.mark.parametrize("name", LARGE)
@pytest.mark.skipif(not LONG, reason="takes minutes: SHOAL_TEST_LONG=1")
def test_ingesting_ten_megabytes_takes_linear_time(name: str, form: DocFormat, tmp_path: Path) -> None:
    with Engine(tmp_path / "shoal.db") as engine:

        def work(text: str) -> None:
            assert engine.ingest(content=text, format=form).error is None

        few, many = (seconds(work, DOCUMENTS[name](n), 1) for n in (10 * MB // GROWTH, 10 * MB))
        assert many <= MOST * few
