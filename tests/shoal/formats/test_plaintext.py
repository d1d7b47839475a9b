"""Plain text has only unambiguous headings."""

from __future__ import annotations

import pytest

from shoal.formats.plaintext import parse_plaintext


def paths(content: str) -> list[str]:
    return [" > ".join(section.path) for section in parse_plaintext(content).sections]


def sentences(content: str) -> list[str]:
    return [content[s.start_char : s.end_char] for s in parse_plaintext(content).sentences]


def scored(content: str) -> list[str]:
    """Return the masked text of every sentence, as the scorer reads it."""
    parsed = parse_plaintext(content)
    return [" ".join(parsed.masked[s.start_char : s.end_char].split()) for s in parsed.sentences]


@pytest.mark.parametrize(
    "line",
    [
        "CHAPTER I",
        "Chapter 12. Of Whales.",
        "CHAPTER TWO: The Sea",
        "BOOK THE FIRST",
        "PART ONE--The Old Buccaneer",
        "Part 3 The Return",
        "VOLUME II.",
        "ACT IV",
        "PREFACE",
        "Introduction",
        "EPILOGUE.",
    ],
)
def test_chapter_lines_between_blank_lines_are_headings(line: str) -> None:
    content = f"Before it.\r\n\r\n{line}\r\n\r\nAfter it, there is text.\r\n"
    assert paths(content) == ["", line]
    assert sentences(content) == ["Before it.", "After it, there is text."]


@pytest.mark.parametrize(
    "content",
    [
        "Some text.\nCHAPTER I\n\nMore.",
        "Some text.\n\nCHAPTER I\nis the first one of this book.\n\nMore.",
        "\n\nChapter 3 of the book was hard to read\n\n",
        "\n\nPart of the trouble\n\n",
        "\n\nBook a table\n\n",
        "\n\nI\n\nwas there.\n\n",
        "\n\nTHE END\n\n",
        "\n\nIntroduction of the euro was slow\n\n",
        "CHAPTER I. The start\nCHAPTER II. The end\nCHAPTER III. Notes\n",
        "\n\nMIX\n\nand stir.\n\nDIM\n\nthe light.\n",
    ],
)
def test_lines_that_resemble_headings_are_text(content: str) -> None:
    assert paths(content) == [""]


def test_the_title_under_a_bare_chapter_line_is_part_of_the_heading() -> None:
    content = (
        "CHAPTER I\nThe wind that turns\n\nText.\n\nCHAPTER II.\n\nDOWN THE HOLE.\n\nText.\n\n"
        "CHAPTER III\n\nCall me Ishmael.\n\nText.\n"
    )
    assert paths(content) == ["CHAPTER I. The wind that turns", "CHAPTER II. DOWN THE HOLE.", "CHAPTER III"]
    assert sentences(content) == ["Text.", "Text.", "Call me Ishmael.", "Text."]


def test_numerals_that_count_up_are_headings() -> None:
    content = "I\n\nOne.\n\nII.\n\nTwo.\n\nIII\n\nThree.\n\nI\n\nAgain.\n"
    assert paths(content) == ["I", "II.", "III", "I"]


def test_encyclopedia_headings_nest() -> None:
    content = "Lead.\n\n== History ==\nOld.\n=== Modern times ===\nNew.\n== See also ==\n== x =\n"
    assert paths(content) == ["Lead."[:0], "History", "History > Modern times", "See also"]


@pytest.mark.parametrize("inside", ["word " * 200, "a" + "_" * 1_000 + "b", "&#" + "1" * 5_000])
def test_a_long_line_with_the_marks_of_a_heading_is_text(inside: str) -> None:
    line = f"== {inside.strip()} =="
    content = f"Lead.\n\n{line}\n\nText.\n"
    assert paths(content) == [""]
    assert "".join(sentences(content)).replace(" ", "") == f"Lead.{line}Text.".replace(" ", "")


def test_underlined_lines_are_headings() -> None:
    assert paths("Usage\n=====\n\nText.\n\nOptions\n-------\n\nText.\n") == ["Usage", "Usage > Options"]
    assert paths("A line of a paragraph\nUsage\n=====\n\nText.\n") == [""]


def test_divisions_nest_by_their_names() -> None:
    content = "PART ONE\n\nCHAPTER I\n\nx.\n\nCHAPTER II\n\nx.\n\nPART TWO\n\nCHAPTER I\n\nx.\n"
    assert paths(content)[-1] == "PART TWO > CHAPTER I"


def test_rules_are_left_out() -> None:
    parsed = parse_plaintext("One.\n\n* * *\n\nTwo.\n-----\nThree.\n")
    assert [span.reason for span in parsed.left_out] == ["rule", "rule"]


def test_wrapped_lines_are_one_sentence() -> None:
    assert sentences("A sentence goes\nover three\nlines\n\nNext\n") == [
        "A sentence goes\nover three\nlines",
        "Next",
    ]


def test_a_newline_ends_a_sentence_if_lines_are_paragraphs() -> None:
    long = "This is a paragraph on one line, as copies of web pages have them. " * 4
    content = f"{long}\nHead of a common raven\nAustralian raven\n{long}\n"
    assert "Head of a common raven" in sentences(content)
    assert "Australian raven" in sentences(content)


def test_a_formula_in_a_column_is_part_of_its_sentence() -> None:
    formula = "\n  \n    \n      a\n      +\n      b\n    \n    {\\displaystyle a+b}\n  "
    content = f"The sum {formula} is a number, as in{formula}\n\nThis is another paragraph.\n"
    assert scored(content) == ["The sum is a number, as in", "", "This is another paragraph."]
    assert "a\n      +" in sentences(content)[0]


def test_short_lines_of_words_are_not_a_formula() -> None:
    content = "Yes.\nNo.\nYes.\nWhy?\nSo.\nNow.\nOh.\n\n\n\n\n\n\nEnd.\n"
    assert "Why?" in " ".join(scored(content))


def test_masking_keeps_the_length() -> None:
    content = "Sold.[12] See http://x.org/a.\r\nNext [edit]\r\n"
    parsed = parse_plaintext(content)
    assert len(parsed.masked) == len(content)
    assert parsed.masked.split() == ["Sold.", "See", ".", "Next"]


def test_markdown_is_not_interpreted_in_plain_text() -> None:
    assert paths("# not a heading\n\n- text\n") == [""]
