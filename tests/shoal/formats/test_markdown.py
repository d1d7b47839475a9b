"""Markdown is parsed into the sections, sentences and left-out spans that people expect."""

from __future__ import annotations

import pytest

from shoal.formats.markdown import parse_markdown
from shoal.models.documents import ParsedDocument


def paths(content: str) -> list[str]:
    return [" > ".join(section.path) for section in parse_markdown(content).sections]


def sentences(content: str, parsed: ParsedDocument | None = None) -> list[str]:
    parsed = parsed or parse_markdown(content)
    return [content[s.start_char : s.end_char] for s in parsed.sentences]


def scored(content: str) -> list[str]:
    """Return the masked text of every sentence, as the scorer reads it."""
    parsed = parse_markdown(content)
    return [" ".join(parsed.masked[s.start_char : s.end_char].split()) for s in parsed.sentences]


def left_out(content: str) -> list[tuple[str, str]]:
    parsed = parse_markdown(content)
    return [(span.reason, content[span.start_char : span.end_char]) for span in parsed.left_out]


# Headings


def test_headings_nest_by_level() -> None:
    content = "Intro.\n# A\na.\n## B\nb.\n### C\n## D\nd.\n# E\ne."
    assert paths(content) == ["", "A", "A > B", "A > B > C", "A > D", "E"]
    parsed = parse_markdown(content)
    assert [(parsed.sections[s.section].heading, content[s.start_char]) for s in parsed.sentences] == [
        ("", "I"),
        ("A", "a"),
        ("B", "b"),
        ("D", "d"),
        ("E", "e"),
    ]


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("##  CHAPTER 1. Loomings. \r", "CHAPTER 1. Loomings."),
        ("# Title: Les Misérables", "Title: Les Misérables"),
        ("## Closed ##", "Closed"),
        ("## Closed ####   ", "Closed"),
        ("# C#", "C#"),
        ("   # Indented", "Indented"),
        ("# **Bold** and `code` and _em_", "Bold and code and em"),
        ("# A [link](http://x.org/a_(b)) here", "A link here"),
        ("# Named {#anchor .class}", "Named"),
        ("# Q&amp;A <a name='x'></a>", "Q&A"),
        ("# History[edit]", "History"),
        ("# snake_case_name", "snake_case_name"),
    ],
)
def test_a_heading_is_reduced_to_its_words(line: str, heading: str) -> None:
    content = f"{line}\n\nText.\n"
    parsed = parse_markdown(content)
    assert parsed.sections[0].path == (heading,)
    span = slice(parsed.sections[0].heading_start, parsed.sections[0].heading_end)
    assert content[span].strip() == line.strip()


def test_an_empty_heading_opens_a_section_without_a_name() -> None:
    assert paths("# A\n\n##\n\nText.\n\n## B\n") == ["A", "A", "A > B"]


@pytest.mark.parametrize("line", ["#hashtag", "####### seven", "\\# escaped", "    # code", "text # not"])
def test_lines_that_resemble_headings_are_text(line: str) -> None:
    parsed = parse_markdown(f"{line}\n\nText.\n")
    assert [section.path for section in parsed.sections] == [()]
    assert len(parsed.sentences) == 2


def test_a_very_long_heading_line_stays_searchable_text() -> None:
    content = "# " + "word " * 200 + "\n"
    assert paths(content) == [""]
    assert sentences(content)[0].startswith("# word")


def test_underlined_lines_open_sections() -> None:
    content = "The Sea\n=======\n\nText.\n\nWaves\n-----\nMore.\n"
    assert paths(content) == ["The Sea", "The Sea > Waves"]
    assert sentences(content) == ["Text.", "More."]


def test_only_a_paragraph_of_one_line_can_be_underlined() -> None:
    content = "First line of a paragraph\nand its second line.\n---\nAfter.\n"
    assert paths(content) == [""]
    assert sentences(content) == ["First line of a paragraph\nand its second line.", "After."]
    assert left_out(content) == [("rule", "---")]


def test_dashes_after_a_blank_line_are_a_rule() -> None:
    content = "## Year: 1866\r\n\r\n-------\r\n_Translated by Constance Garnett_\r\n\r\n##  PART I \r\n"
    assert paths(content) == ["Year: 1866", "PART I"]
    assert sentences(content) == ["_Translated by Constance Garnett_"]
    assert ("rule", "-------") in left_out(content)


def test_a_list_item_is_not_underlined_but_the_paragraph_after_a_list_is() -> None:
    assert paths("- item\n---\ntext\n") == [""]
    assert paths("- item\n\nHeading\n===\ntext\n") == ["", "Heading"]


def test_divisions_of_the_same_level_nest_by_their_names() -> None:
    content = (
        "# Title: Tale\n## VOLUME I.--ONE\n## BOOK FIRST\n## CHAPTER I--A\nx.\n## CHAPTER II--B\nx.\n"
        "## BOOK SECOND\n## CHAPTER I--C\nx.\n## VOLUME II.\n## BOOK FIRST\nx.\n"
    )
    assert paths(content)[3:] == [
        "Title: Tale > VOLUME I.--ONE > BOOK FIRST > CHAPTER I--A",
        "Title: Tale > VOLUME I.--ONE > BOOK FIRST > CHAPTER II--B",
        "Title: Tale > VOLUME I.--ONE > BOOK SECOND",
        "Title: Tale > VOLUME I.--ONE > BOOK SECOND > CHAPTER I--C",
        "Title: Tale > VOLUME II.",
        "Title: Tale > VOLUME II. > BOOK FIRST",
    ]


def test_parts_of_chapters_stay_in_their_chapter() -> None:
    content = (
        "## BOOK I\n## CHAPTER I\nx.\n## CHAPTER II\n## PART I\nx.\n## PART II\nx.\n## CHAPTER III\nx.\n"
    )
    assert paths(content)[-3:] == [
        "BOOK I > CHAPTER II > PART I",
        "BOOK I > CHAPTER II > PART II",
        "BOOK I > CHAPTER III",
    ]


def test_two_divisions_of_the_same_kind_never_nest() -> None:
    assert paths("# PART ONE\n### CHAPTER I\n## PART TWO\n### CHAPTER I\n")[-1] == "PART TWO > CHAPTER I"
    assert paths("# Section 1\n## Section 1.1\n") == ["Section 1", "Section 1 > Section 1.1"]


def test_other_headings_of_the_same_level_are_siblings() -> None:
    assert paths("## Memory\n## Chapter 1\n## Dreams\n") == ["Memory", "Chapter 1", "Dreams"]


def test_all_three_newline_styles_end_a_line() -> None:
    for newline in ("\n", "\r\n", "\r"):
        content = newline.join(["# A", "", "One.", "", "Title", "---", "Two.", "", "- x", "- y", ""])
        assert paths(content) == ["A", "A > Title"]
        assert sentences(content) == ["One.", "Two.", "- x", "- y"]


# Code


def test_a_fenced_block_is_one_sentence_without_headings() -> None:
    content = "Before.\n\n```python\n# not a heading\n\nx = 1. Then. More.\n---\n```\n\nAfter.\n"
    assert paths(content) == [""]
    assert sentences(content) == [
        "Before.",
        "```python\n# not a heading\n\nx = 1. Then. More.\n---\n```",
        "After.",
    ]


def test_a_fence_is_closed_by_at_least_as_many_of_the_same_marks() -> None:
    content = "````\n```\n# in\n~~~~~\n# in\n````\n# out\n"
    assert paths(content) == ["", "out"]


def test_an_unclosed_fence_runs_to_the_end() -> None:
    assert len(sentences("Text.\n\n~~~\ncode. code. code.\n\n# still code\n")) == 2


def test_fenced_blocks_in_lists_and_quotes_are_sentences() -> None:
    content = (
        "1. Do this:\n\n    ```sh\n    # comment\n    ```\n2. Then.\n\n> ```\n> # quoted\n> ```\n> Text.\n"
    )
    assert paths(content) == [""]
    texts = sentences(content)
    assert "```sh\n    # comment\n    ```" in texts
    assert "> ```\n> # quoted\n> ```" in texts


def test_an_indented_block_is_one_sentence_only_after_a_blank_line() -> None:
    content = "Text\n    still the paragraph. Yes.\n\n    code one. Two.\n\n    code three.\n\nEnd.\n"
    assert sentences(content) == [
        "Text\n    still the paragraph.",
        "Yes.",
        "code one. Two.\n\n    code three.",
        "End.",
    ]


def test_a_block_too_long_for_a_chunk_is_cut_at_a_line() -> None:
    content = "```\n" + "a line of code\n" * 2000 + "```\n"
    parsed = parse_markdown(content, max_block_chars=3000)
    lengths = [s.end_char - s.start_char for s in parsed.sentences]
    assert max(lengths) <= 3000
    assert min(lengths[:-1]) > 2900
    assert all(part.endswith(("a line of code", "```")) for part in sentences(content, parsed))


# Left-out spans


def test_front_matter_is_left_out() -> None:
    content = "---\ntitle: X\ntags: [a]\n---\n# H\n\nText.\n"
    assert left_out(content)[0] == ("front matter", "---\ntitle: X\ntags: [a]\n---")
    assert sentences(content) == ["Text."]


def test_text_between_rules_is_not_front_matter() -> None:
    content = "---\nOnce upon a time.\n---\nThe end.\n"
    assert any("The end." in sentence for sentence in sentences(content))
    assert all(reason != "front matter" for reason, _ in left_out(content))


def test_front_matter_may_begin_with_comments_and_blank_lines() -> None:
    head = "---\r\n# a comment: with a colon\r\n\r\n  # another\r\n  title: X\r\n---"
    assert left_out(head + "\r\nText.\r\n") == [("front matter", head)]


def test_a_comment_with_a_colon_is_not_a_key() -> None:
    content = "---\n# Part one: the sea\nOnce upon a time\nthere was a sea.\n---\nThe end.\n"
    assert paths(content) == ["Part one: the sea"]
    assert all(reason != "front matter" for reason, _ in left_out(content))


def test_comments_of_several_lines_are_left_out() -> None:
    content = "A.\n\n<!-- note\n\n# hidden\n-->\n\nB.\n<!-- x --> C.\n"
    assert paths(content) == [""]
    assert sentences(content) == ["A.", "B.", "C."]
    assert [reason for reason, _ in left_out(content)] == ["comment", "comment"]


def test_a_comment_inside_a_line_is_masked() -> None:
    assert scored("One <!-- secret --> two.\n") == ["One two."]


def test_an_unclosed_comment_is_text() -> None:
    assert paths("<!-- open\n\n# Heading\n") == ["", "Heading"]


def test_link_definitions_are_left_out_and_footnotes_are_not() -> None:
    content = (
        'See [it][1].\n\n[1]: http://x.org "T"\n[b]: <y>\n\n[^1]: A footnote.\n\n[Note]: this is text.\n'
    )
    assert [text for reason, text in left_out(content) if reason == "link definition"] == [
        '[1]: http://x.org "T"',
        "[b]: <y>",
    ]
    assert "[^1]: A footnote." in sentences(content)
    assert "[Note]: this is text." in sentences(content)


@pytest.mark.parametrize("line", ["---", "* * *", "_____", " - - -", "*****"])
def test_rules_are_left_out(line: str) -> None:
    assert left_out(f"One.\n\n{line}\n\nTwo.\n") == [("rule", line.strip())]


# Lists, tables, quotes


def test_list_items_are_separate_sentences() -> None:
    content = (
        "Buy:\n- milk\n- eggs and\n  flour\n* tea. And cake.\n\n1. one\n2) two\n   - [x] nested\n\nDone.\n"
    )
    assert sentences(content) == [
        "Buy:",
        "- milk",
        "- eggs and\n  flour",
        "* tea.",
        "And cake.",
        "1. one",
        "2) two",
        "- [x] nested",
        "Done.",
    ]
    assert scored(content)[1] == "milk"
    assert scored(content)[7] == "nested"


def test_a_year_at_the_start_of_a_line_is_not_a_list() -> None:
    assert sentences("It was in\n1986. a year\n") == ["It was in\n1986. a year"]


def test_table_rows_are_sentences_and_the_rule_is_left_out() -> None:
    content = "Intro:\n\n| Name | Use |\n|------|:---:|\n| Iron. Ore | Steel |\n| Tin | Cans |\n\nAfter.\n"
    assert sentences(content) == [
        "Intro:",
        "| Name | Use |",
        "| Iron. Ore | Steel |",
        "| Tin | Cans |",
        "After.",
    ]
    assert left_out(content) == [("rule", "|------|:---:|")]


def test_a_table_may_omit_the_outer_bars() -> None:
    content = "Name | Use\n--- | ---\nIron | Steel\nTin | Cans\n# H\n"
    assert sentences(content) == ["Name | Use", "Iron | Steel", "Tin | Cans"]
    assert paths(content) == ["", "H"]


def test_quote_marks_are_masked() -> None:
    content = "> A sentence over\n> two lines. Another.\n>\n> Third is\nlazy.\n"
    assert scored(content) == ["A sentence over two lines.", "Another.", "Third is lazy."]
    assert sentences(content)[0] == "> A sentence over\n> two lines."


def test_a_heading_in_a_list_or_quote_opens_no_section() -> None:
    assert paths("- # not\n> # not either\n") == [""]


# Masking


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('See [the sea](http://x.org/a_(b)?c=d "T") now.', "See the sea now."),
        ("An ![old map](map.png) here.", "An old map here."),
        ("A [link][ref] and [^1] note.", "A link and note."),
        ("Plain http://x.org/a?b=c, and <https://y.org>.", "Plain , and ."),
        ("Some <b class='x'>bold</b> and **strong** _em_ `code`.", "Some bold and strong em code ."),
        ("Sold[12] to[a] him.[citation needed] Next[edit]", "Sold to him. Next"),
        ("Less < more and 3 > 2 [sic] here.", "Less < more and 3 > 2 here."),
        ("Fish &amp; chips.", "Fish chips."),
        ("[Illustration: A ship]", "[Illustration: A ship]"),
    ],
)
def test_markup_is_masked_for_the_scorer_only(text: str, read: str) -> None:
    parsed = parse_markdown(text)
    assert " ".join(scored(text)) == read
    assert " ".join(sentences(text)) == text
    assert len(parsed.masked) == len(text)


def test_pointers_to_other_articles_are_left_out() -> None:
    content = "Main article: Coral reef\n\nReefs grow.\n"
    assert scored(content) == ["Reefs grow."]
    assert left_out(content) == [("boilerplate", "Main article: Coral reef")]


def test_marks_belong_to_the_sentence_they_touch() -> None:
    content = "**It ended.** Then.[3] ![x](y.png) Next one."
    assert sentences(content) == ["**It ended.**", "Then.[3]", "![x](y.png) Next one."]
