"""Properties of parsing for any text: every character is used exactly once, and time is linear in the
length."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from examples import examples
from growth import FACTOR, assert_not_quadratic
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.formats.decoding import clean
from shoal.formats.markdown import parse_markdown
from shoal.formats.plaintext import parse_plaintext
from shoal.models.documents import ParsedDocument

Parser = Callable[[str], ParsedDocument]
PARSERS = pytest.mark.parametrize("parse", [parse_markdown, parse_plaintext])
LIMIT = 8000

# Pieces of markup that occur in files, combined with arbitrary text.
PIECES = [
    "# ", "## A\n", "###\n", "word", "Word. ", "two words", "\n", "\n\n", "\r\n", "\r", " ", "    ", "\t", "-", "---\n",
    "--\n", "===\n", "* ", "*", "**", "_", "- ", "+ ", "1. ", "2) ", "> ", ">\n", "`", "```\n", "~~~\n", "|", "| a | b |\n",
    "|---|---|\n", "[", "]", "(", ")", "[a](b)", "](", "![x](y)", "[1]: u\n", "[^1]", "[edit]", "[12]", "<!--", "-->",
    "<b>", "</b>", "<", ">", "&amp;", "http://x.org/y", "CHAPTER I\n", "CHAPTER II. Title\n", "I\n", "== H ==\n", "PREFACE\n",
    "+++\n", "---\ntitle: x\n---\n", "Main article: X\n", "\u2029", "\u2028", "\x0c", "\x1c", "\x85", "\u00a0", "é", "。", "\\",
    "[edit]\n", "Back to top\n", "Home | About\n", "See also: Y\n", "Page 3\n", "12\n", "Contents\n", "A .... 1\n",
    "*** START OF THE PROJECT GUTENBERG EBOOK X ***\n", "*** END OF THE PROJECT GUTENBERG EBOOK X ***\n",
    "Project Gutenberg\n", "(c) 1999 X\n", "All rights reserved.\n", "Mr. ", "?", "!", "Lead text here", "x" * 300, "• ",
]  # fmt: skip
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=40).map("".join)


def check(content: str, parsed: ParsedDocument) -> None:
    assert len(parsed.masked) == len(content)
    spans = sorted(
        [(s.start_char, s.end_char) for s in parsed.sentences]
        + [(span.start_char, span.end_char) for span in parsed.left_out]
    )
    at = 0
    for start, end in spans:
        assert at <= start < end, "spans are disjoint and not empty"
        assert not content[at:start].strip(), "between spans there is only white space"
        at = end
    assert not content[at:].strip()
    for sentence in parsed.sentences:
        text = content[sentence.start_char : sentence.end_char]
        assert text == text.strip()
        assert len(text) <= LIMIT
        section = parsed.sections[sentence.section]
        assert section.start_char <= sentence.start_char
        assert sentence.end_char <= section.end_char
    assert [s.start_char for s in parsed.sentences] == sorted(s.start_char for s in parsed.sentences)
    for before, after in zip(parsed.sections, parsed.sections[1:], strict=False):
        assert before.end_char == after.heading_start
    for i, character in enumerate(parsed.masked):
        assert character == content[i] or character.isspace(), "masking only replaces by blanks"


@PARSERS
@given(content=TEXTS)
@settings(max_examples=examples(300), deadline=None)
def test_every_character_is_in_one_sentence_or_left_out_span(parse: Parser, content: str) -> None:
    check(content, parse(content))


@PARSERS
@given(content=TEXTS)
@settings(max_examples=examples(100), deadline=None)
def test_every_character_of_cleaned_text_is_used_once(parse: Parser, content: str) -> None:
    stored = clean(content)
    check(stored, parse(stored))


@PARSERS
@given(content=TEXTS)
@settings(max_examples=examples(100), deadline=None)
def test_only_known_kinds_of_spans_are_left_out(parse: Parser, content: str) -> None:
    """Comments, rules, link definitions, front matter, headings and boilerplate are left out, nothing else."""
    reasons = {span.reason for span in parse(content).left_out}
    assert reasons <= {"heading", "rule", "comment", "link definition", "front matter", "boilerplate"}


HARD = [
    "#", "# ", "#\n", "`", "```\n", "~~~ x\n", "[", "](", "[a](", "[a]: ", "*", "* ", "- ", "- - ", "_ ", "<!--", "<!-- ", "<a ",
    "\n---", "a\n---\n", "a\n===\n", "|", "|-", "| a |\n|---|\n", "> ", ">\n", "> ```\n", "1. ", "1986. a\n", "    a\n",
    "\n", " ", "\r", "\t", "a", "a ", "a. ", "[12]", "[[", "&a", "http://", "]( \"", "- ```\n", "CHAPTER I\n\n", "I\n\n", "== a ==\n",
    "x\n---|---\n", "[a]:" + " " * 50, "![", "Main article: ", "\u2029", "a\r", "1.", "1", "=", "\n=", "a\n\n\n", "**a** ", "`a` ",
    "[edit", "[edit]", "[edit]\n", "[edit] ", "Main article: x\n", "Home | ", "Home | About\n", "Contents\n", "Contents\n\n", "x ... 1\n",
    "Contents\nx ... 1\n", "Page 1\n\n", "1\n\f", "\f", "***", "*** START OF THE PROJECT GUTENBERG EBOOK", "For x(disambiguation) ",
    "*** START OF THE PROJECT GUTENBERG EBOOK ***\n", "*** END OF THE PROJECT GUTENBERG EBOOK ***\nProject Gutenberg\n",
    "(c) 1999 ", ">", "> : ", "this article incorporates text from ",
]  # fmt: skip


@PARSERS
@pytest.mark.parametrize("piece", HARD, ids=repr)
def test_parsing_time_is_linear_in_the_length(parse: Parser, piece: str) -> None:
    """A regular expression that backtracks would take quadratic time or worse."""
    short_text = piece * (2_000 // len(piece))
    long_text = short_text * FACTOR
    assert_not_quadratic(lambda: parse(short_text), lambda: parse(long_text))
    assert all(s.end_char - s.start_char <= LIMIT for s in parse(long_text).sentences)


@pytest.mark.parametrize(
    "line",
    ["[a]: b{}x", "| - |{}x", "-{}x", "={}x", "#{}x", "- {}x", ">{}x", "*{}x", "`{}x", "1.{}x", "a{}x"],
)
def test_parsing_time_is_linear_in_the_spaces_of_a_line(line: str) -> None:
    def parse_both(spaces: int) -> None:
        parse_markdown("text | y\n" + line.format(" " * spaces))
        parse_plaintext("text\n\n" + line.format(" " * spaces))

    assert_not_quadratic(lambda: parse_both(6_000), lambda: parse_both(6_000 * FACTOR))


CORPORA = os.environ.get("SHOAL_TEST_CORPORA", "")


@pytest.mark.skipif(not CORPORA, reason="SHOAL_TEST_CORPORA is not set to a folder of real texts")
def test_every_character_of_real_files_is_used() -> None:
    files = sorted(path for path in Path(CORPORA).rglob("*") if path.suffix in (".md", ".txt"))
    assert files
    for path in files:
        content = path.read_bytes().decode()
        check(content, (parse_markdown if path.suffix == ".md" else parse_plaintext)(content))
