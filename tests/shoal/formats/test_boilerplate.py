"""Boilerplate is left out of sentences, with its reason, and text that resembles it stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shoal.formats.markdown import parse_markdown
from shoal.formats.plaintext import parse_plaintext
from shoal.models.documents import ParsedDocument

Parser = Callable[[str], ParsedDocument]
PARSERS = pytest.mark.parametrize("parse", [parse_markdown, parse_plaintext])
HEADER = (
    "The Project Gutenberg eBook of Foo\n\nTitle: Foo\n\n*** START OF THE PROJECT GUTENBERG EBOOK FOO ***"
)
FOOTER = (
    "*** END OF THE PROJECT GUTENBERG EBOOK FOO ***\n\nUpdated editions replace the old ones.\n\n"
    "Section 1. General Terms of Project Gutenberg\n\nThese are the terms."
)


def boilerplate(parse: Parser, content: str) -> list[str]:
    spans = parse(content).left_out
    return [content[span.start_char : span.end_char] for span in spans if span.reason == "boilerplate"]


def sentences(parse: Parser, content: str) -> list[str]:
    return [content[s.start_char : s.end_char] for s in parse(content).sentences]


LINES = [
    "Main article: History of whales",
    "Main Article: [Whales](http://x.org/y)",
    "*See also: Dolphins*",
    "Further information: Krill",
    "For other uses, see Whale (disambiguation).",
    "[edit]",
    "[edit source]",
    "[edit | edit source]",
    "[Illustration]",
    "Home | About | Contact",
    "[Home](/) | [About us](/about) | [News](/news) | [Log in](/in)",
    "« Previous | Next »",
    "From Wikipedia, the free encyclopedia",
    "This page was last edited on 3 March 2021, at 10:12 (UTC).",
    'Retrieved from "https://x.org/w?title=Whale"',
    "Category:Marine mammals",
    "This article incorporates text from a publication now in the public domain.",
    "© 2019 The Whale Company",
    "Copyright (c) 2004 by A. Author. All rights reserved.",
    "End of Project Gutenberg's Whales, by A. Author",
]
ALONE = [
    "Back to top",
    "Return to the top of the page ↑",
    "Jump to navigation Jump to search",
    "Jump to: navigation, search",
    "Skip to main content",
    "All rights reserved.",
    "Page 12",
    "Page 12 of 300",
    "[Pg 12]",
    "- 12 -",
]


@PARSERS
@pytest.mark.parametrize("line", [*LINES, *ALONE])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_line_of_boilerplate_is_left_out(parse: Parser, line: str, newline: str) -> None:
    gap = 2 * newline
    content = f"Whales sing.{gap}{line}{gap}They dive."
    assert boilerplate(parse, content) == [line]
    assert sentences(parse, content) == ["Whales sing.", "They dive."]
    assert boilerplate(parse, f"{line}{gap}They dive.") == [line]
    assert boilerplate(parse, f"They dive.{gap}{line}") == [line]


@PARSERS
@pytest.mark.parametrize("line", LINES)
def test_most_lines_need_no_blank_lines_around(parse: Parser, line: str) -> None:
    assert sentences(parse, f"Whales sing.\n{line}\nThey dive.") == ["Whales sing.", "They dive."]


@PARSERS
@pytest.mark.parametrize("line", ALONE)
def test_some_lines_are_boilerplate_only_between_blank_lines(parse: Parser, line: str) -> None:
    assert boilerplate(parse, f"Whales go\n{line}\nand dive.") == []


@PARSERS
@pytest.mark.parametrize(
    "text",
    [
        "See also the songs of Whales.",
        "The main article: a whale.",
        "He said: See also: nothing.",
        "Home | Away | Draw",
        "Calais | dep. | 3:45 p.m.",
        "Home",
        "About whales",
        "Next they dived.",
        "Back to top form, the whale dived.",
        "Page 12 is missing.",
        "12",
        "xii",
        "Category: a class of things",
        "For whales, see below.",
        "[Illustration: a whale]",
        "Whale .... 3",
        "Retrieved 12 May 2011.",
        '"Whales". MIT. Retrieved 2009-05-13.',
        "Melville (1851). Moby-Dick. ISBN 978-0-500-25146-1.",
        "Works by Melville at Project Gutenberg",
        "Copyright is a right of authors.",
        "He wrote *** START OF THE PROJECT GUTENBERG EBOOK and stopped.",
        "Sold.[12]",
        "He saw it.[edit]",
    ],
)
def test_text_that_resembles_boilerplate_stays(parse: Parser, text: str) -> None:
    assert boilerplate(parse, f"Whales sing.\n\n{text}\n\nThey dive.") == []


@PARSERS
def test_a_mark_behind_a_line_is_left_out_alone(parse: Parser) -> None:
    content = "Whales sing.\n\nEarly life[edit]\nThey dive (as of 2019[edit]) deep."
    assert boilerplate(parse, content) == ["[edit]"]
    assert sentences(parse, content)[1:] == ["Early life", "They dive (as of 2019[edit]) deep."]


@PARSERS
def test_the_licences_of_a_book_are_left_out_with_their_headings(parse: Parser) -> None:
    content = f"{HEADER}\n\nWhales sing.\n\n{FOOTER}\n"
    assert boilerplate(parse, content) == [HEADER, FOOTER]
    assert sentences(parse, content) == ["Whales sing."]
    assert len(parse(content).sections) == 1


@PARSERS
def test_only_a_licence_that_names_its_publisher_is_left_out(parse: Parser) -> None:
    mark = "*** START OF THE PROJECT GUTENBERG EBOOK FOO ***"
    assert boilerplate(parse, f"Whales sing.\n\n{mark}\n\nThey dive.") == [mark]
    far = f"Project Gutenberg\n\n{'Whales sing. ' * 2500}"
    assert boilerplate(parse, f"{far}\n\n{mark}\n\nThey dive.") == [mark]


@PARSERS
def test_dot_leaders_below_the_word_contents_are_left_out(parse: Parser) -> None:
    leaders = "Whales ........ 1\n\nDolphins . . . . 12\nKrill … 30"
    assert boilerplate(parse, f"Table of Contents\n\n{leaders}\n\nWhales sing.") == [leaders]
    assert boilerplate(parse, f"Price list\n\n{leaders}\n\nWhales sing.") == []


@PARSERS
def test_a_number_beside_a_page_break_is_a_page_number(parse: Parser) -> None:
    assert boilerplate(parse, "Whales sing.\n\n12\n\fThey dive.") == ["12"]
    assert boilerplate(parse, "Whales sing.\n12\n\fThey dive.") == []


@PARSERS
def test_adjacent_lines_are_one_span(parse: Parser) -> None:
    content = "Whales sing.\n\nBack to top\n\nHome | About\nSee also: Krill\n\nThey dive."
    assert boilerplate(parse, content) == ["Back to top\n\nHome | About\nSee also: Krill"]


LINKS = "Dolphin\nList of whales (extinct)\nU.S. Whaling Museum"


@PARSERS
@pytest.mark.parametrize("heading", ["See also", "External links", "SEE ALSO"])
def test_a_section_of_bare_titles_is_left_out_below_its_heading(parse: Parser, heading: str) -> None:
    mark = "##" if parse is parse_markdown else "=="
    content = f"Whales sing.\n\n{mark} {heading} {mark}\n\n{LINKS}\n\n{mark} Krill {mark}\n\nThey dive.\n"
    assert boilerplate(parse, content) == [LINKS]
    assert sentences(parse, content) == ["Whales sing.", "They dive."]
    assert [section.heading for section in parse(content).sections] == ["", heading, "Krill"]


def test_a_markdown_list_of_links_is_left_out() -> None:
    links = "- [Dolphin](dolphin.md)\n- [Whales](https://x.org/whales)"
    assert boilerplate(parse_markdown, f"Whales sing.\n\n## See also\n\n{links}\n") == [links]


@pytest.mark.parametrize(
    ("heading", "body"),
    [
        ("See also", "Dolphin\nThe dolphin is a whale."),
        ("See also", "ssh, which forwards the agent"),
        ("See also", "Dolphin\n\n| Home | About |\n|---|---|\n"),
        ("External links", f"Dolphin\n{'Whales ' * 15}"),
        ("External links", "Dolphin: a whale of the sea"),
        ("References", LINKS),
        ("Further reading", LINKS),
    ],
)
def test_a_section_with_sentences_or_works_stays(heading: str, body: str) -> None:
    content = f"Whales sing.\n\n## {heading}\n\n{body}\n"
    assert boilerplate(parse_markdown, content) == []


@PARSERS
def test_a_text_of_nothing_but_links_stays(parse: Parser) -> None:
    heading = "# See also" if parse is parse_markdown else "== See also =="
    content = f"{heading}\n\n{LINKS}\n"
    assert boilerplate(parse, content) == []
    assert sentences(parse, content) != []


def test_code_and_tables_keep_their_lines() -> None:
    content = "Whales.\n\n```\nHome | About\n```\n\n| Home | About |\n|---|---|\n| Next | Previous |\n"
    assert boilerplate(parse_markdown, content) == []
