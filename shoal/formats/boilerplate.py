"""Boilerplate: lines that belong to the page, the site or the edition, not to the text.

Every rule is one that hardly any line of real text fits: boilerplate that is kept costs little, but text
that is left out is lost to search. A rule reads one line of limited length, so the time is linear in the
text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_LINE_CHARS = 600
# The licences at both ends of a book of Project Gutenberg have up to 20,000 characters.
MAX_LICENCE_CHARS = 25_000
MIN_LEADER_LINES = 3
MAX_LEADER_CHARS = 200
MIN_NAVIGATION_WORDS = 2
MAX_ITEM_CHARS = 30
# A longer line of a section of links is text.
MAX_LINK_CHARS = 100
# A longer line that ends with "[edit]" is a paragraph, not a heading that lost its markup.
MAX_HEADING_CHARS = 100

# Lines that begin like boilerplate, after marks of quotes, headings, emphasis, tables and links. The first
# test of a line only saves time.
_CANDIDATE = re.compile(
    r"""\n(?=[ \t\f>:*_\#=|\[«‹←<©(–—\-\dabcefghijlmnprst])[ \t\f]*+([>:*_\#=|\[«‹←<©(–—-]*+[ \t*_|\[]*+(?:
          (?:main|see|further|for|this|not|all|end|from|retrieved|category|copyright|page|pg)\b
        | (?:table[ ]of[ ])?contents\b | (?:back|return|go|jump|skip)[ ]to\b
        | (?:home|about|contact|log|sign|register|subscribe|search|help|faq|site|privacy|terms|cookie)
        | next | prev
        | edit | illustration\] | attribution[ ]this | c\)[ ] | \d{1,4}\b
    )[^\n]*+)""",
    re.VERBOSE | re.IGNORECASE,
)
# These lines are boilerplate wherever they are.
_LINE = re.compile(
    r"""(?:[>:][ \t]?)*[*_]*(?:
        (?-i:[MFS])(?:ain[ ]articles?|urther[ ]information|ee[ ]also):[*_]*[ \t]\S.{0,299}
      | (?:for|not[ ]to[ ]be[ ]confused[ ]with|this[ ]article[ ]is[ ]about)[ ].{1,250}
        \(disambiguation\)[.)*_]*
      | \[(?:edit(?:[ ](?:\|[ ]edit[ ])?source)?|illustration)\]
      | from[ ]wikipedia,[ ]the[ ]free[ ]encyclopedia
      | this[ ]page[ ]was[ ]last[ ](?:edited|modified|updated)[ ]on[ ].{1,150}
      | retrieved[ ]from[ ]["“]?https?://\S+
      | (?-i:Category:)[^\s].{0,100}
      | (?:attribution[ ])?this[ ]article[ ]incorporates[ ]
        (?:text|(?:public[ ]domain[ ])?material)[ ]from[ ].+
      | (?:©|\(c\)|copyright[ ](?:©|\(c\)))[ ]*(?:copyright[ ])?\d{4}\b.{0,150}
      | end[ ]of[ ](?:the[ ]|this[ ])?project[ ]gutenberg.{0,150}
    )[*_]*""",
    re.VERBOSE | re.IGNORECASE,
)
# These only if no line of text is directly above or below.
_LINE_ALONE = re.compile(
    r"""\[?(?:back|return|go)[ ]to[ ](?:the[ ])?top(?:[ ]of[ ](?:the[ ])?page)?\]?(?:\([^()]*\))?[ .↑^]*
      | \[?(?:jump|skip)[ ]to:?[ ](?:the[ ])?(?:main[ ])?(?:content|navigation|menu)s?\]?(?:\([^()]*\))?
        (?:,?[ ](?:jump[ ]to[ ])?search)?
      | all[ ]rights[ ]reserved\.?
      | \[?(?:page|pg\.?)[ ]\d{1,4}(?:[ ]of[ ]\d{1,4})?\]?
      | [-–—][ ]?\d{1,4}[ ]?[-–—]
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NEWLINE = re.compile(r"\r\n|\n|\r")
# White space beside a line is read this far.
_SPACE_WINDOW = 200
_NUMBER = re.compile(r"\d{1,4}")
_BAR = re.compile(r"[|·•]")
_NAVIGATION = re.compile(
    r"""home(?:[ ]?page)? | (?:about|contact)(?:[ ]us)? | log[ ]?in | sign[ ](?:in|up) | register | subscribe
      | search | help | faq | site[ ]?map | (?:privacy|cookie)[ ]policy | privacy | cookies
      | terms(?:[ ]of[ ](?:use|service))? | (?:next|prev|previous)(?:[ ](?:page|chapter))?""",
    re.VERBOSE | re.IGNORECASE,
)
_ITEM_MARKS = " \t\xa0[](){}<>|*_`~«»‹›←→"
_CONTENTS = re.compile(r"[#=*_ \t]*(?:table of )?contents[#=*_: \t]*", re.IGNORECASE)
_FOLLOWING_LINE = re.compile(r"\s*+([^\r\n]*+)")
# A line of a table of contents, backwards: the page, then the dots.
_REVERSED_LEADER = re.compile(r"(?:\d{1,4}|[ivxlc]{1,7})[ \t]*(?:(?:\.[ \t]?){3}|…)", re.IGNORECASE)
_EDIT_AT_END = re.compile(r"\[edit(?:[ ](?:\|[ ]edit[ ])?source)?\](?=[ \t]*+(?:[\r\n]|\Z))", re.IGNORECASE)
_GUTENBERG = re.compile(
    r"\*\*\*[ ]?(START|END) OF TH(?:E|IS) PROJECT GUTENBERG E(?:BOOK|TEXT)\b[^*]{0,300}\*\*\*", re.IGNORECASE
)
# Works are cited in other sections, such as "References" and "Further reading". Their lines are text.
_LINKS_HEADING = re.compile(r"(?:see[ ]also|external[ ]links?)[.:]?", re.VERBOSE | re.IGNORECASE)
# The end of a sentence, at the end of the line or inside it.
_STOP = re.compile(r"[.!?:;,][\"”’')\]]*\Z | [^\W\d_]{3}[.!?:;][ ]", re.VERBOSE)
_PUBLISHER = "project gutenberg"
# Where the licence must name the publisher.
_PUBLISHER_WINDOW = 1000


class Boilerplate(NamedTuple):
    """A span of boilerplate, without white space at its ends.

    `is_passage`: it may contain headings and blocks; otherwise it is within a paragraph.
    """

    start: int
    end: int
    is_passage: bool


def find_boilerplate(content: str, masked: str) -> list[Boilerplate]:
    """Return the boilerplate of a text, in order and disjoint. `masked` is the text for the scorer."""
    found = sorted([*_licences(content), *_lines(content, masked), *_edit_marks(content)])
    disjoint: list[Boilerplate] = []
    for span in found:
        last = disjoint[-1] if disjoint else None
        if last is not None and span.start < last.end:
            continue
        if (
            last is not None
            and last.is_passage == span.is_passage
            and not content[last.end : span.start].strip()
        ):
            disjoint[-1] = last._replace(end=span.end)
        else:
            disjoint.append(span)
    return disjoint


def is_list_of_links(heading: str, masked_body: str) -> bool:
    """Whether a section points to other pages only: by its heading, and because each line is a bare title."""
    if not _LINKS_HEADING.fullmatch(heading):
        return False
    lines = [line for line in map(str.strip, masked_body.splitlines()) if line]
    return all(
        len(line) <= MAX_LINK_CHARS and not line[0].islower() and not _STOP.search(line) for line in lines
    )


def _licences(content: str) -> Iterator[Boilerplate]:
    """Yield the licences that surround the text of a book of Project Gutenberg."""
    at = 0
    marks = list(_GUTENBERG.finditer(content)) if "***" in content else []
    for i, mark in enumerate(marks):
        start, end = mark.span()
        if mark.group(1).upper() == "START":
            if start - at <= MAX_LICENCE_CHARS and _names_publisher(content, at, start):
                start = at
        else:
            following = marks[i + 1].start() if i + 1 < len(marks) else len(content)
            if following - end <= MAX_LICENCE_CHARS and _names_publisher(content, end, following):
                end = following
        at = end
        text = content[start:end]
        yield Boilerplate(start + len(text) - len(text.lstrip()), start + len(text.rstrip()), True)


def _names_publisher(content: str, start: int, end: int) -> bool:
    head = content[start:end].lstrip()[:_PUBLISHER_WINDOW]
    return _PUBLISHER in head.casefold()


def _lines(content: str, masked: str) -> Iterator[Boilerplate]:
    """Yield single lines, and the lines of a table of contents."""
    ends: set[int] = set()
    alone: list[tuple[int, int]] = []
    # The pattern requires a newline before a line; the first line has none.
    for match in _CANDIDATE.finditer("\n" + content.replace("\r", "\n")):
        start, end = match.start(1) - 1, match.end(1) - 1
        if end - start > MAX_LINE_CHARS:
            continue
        line = match.group(1).rstrip()
        end = start + len(line)
        if _CONTENTS.fullmatch(line):
            yield from _leaders(content, end)
        elif _LINE.fullmatch(line) or _is_navigation(masked[start:end]):
            ends.add(end)
            yield Boilerplate(start, end, False)
        elif _LINE_ALONE.fullmatch(line) or _NUMBER.fullmatch(line):
            alone.append((start, end))
    for start, end in alone:
        above, below = _space_above(content, start), _space_below(content, end)
        if _NUMBER.fullmatch(content, start, end) and "\f" not in above + below:
            continue
        begins = start - len(above)
        if (begins in ends or begins == 0 or _separates(above)) and (
            end + len(below) == len(content) or _separates(below)
        ):
            ends.add(end)
            yield Boilerplate(start, end, False)


def _leaders(content: str, end: int) -> Iterator[Boilerplate]:
    """Yield the lines with dots and a page number that follow the word "Contents", which ends at `end`."""
    first = last = n_lines = 0
    while (line := _FOLLOWING_LINE.match(content, end)) and line.end(1) - line.start(1) <= MAX_LEADER_CHARS:
        text = line.group(1).rstrip()
        if _REVERSED_LEADER.match(text[::-1]):
            first, last = first or line.start(1), line.start(1) + len(text)
            n_lines += 1
        elif n_lines or text.casefold() != "page":
            break
        end = line.end()
    if n_lines >= MIN_LEADER_LINES:
        yield Boilerplate(first, last, True)


def _is_navigation(masked_line: str) -> bool:
    """Whether a line is a row of links: short items between bars, at least half of them known by name."""
    items = [item.strip(_ITEM_MARKS) for item in _BAR.split(masked_line)]
    items = [item for item in items if item]
    n_known = sum(_NAVIGATION.fullmatch(item) is not None for item in items)
    return (
        n_known >= MIN_NAVIGATION_WORDS
        and 2 * n_known >= len(items)
        and max(map(len, items)) <= MAX_ITEM_CHARS
    )


def _edit_marks(content: str) -> Iterator[Boilerplate]:
    """Yield the marks "[edit]" behind headings that lost their markup."""
    for match in _EDIT_AT_END.finditer(content):
        start, end = match.span()
        before = content[max(0, start - MAX_HEADING_CHARS) : start]
        line = _NEWLINE.split(before)[-1]
        is_whole = len(line) < len(before) or len(before) == start
        if is_whole and not any(stop in line for stop in ".!?"):
            yield Boilerplate(start, end, False)


def _space_above(content: str, start: int) -> str:
    before = content[max(0, start - _SPACE_WINDOW) : start]
    return before[len(before.rstrip()) :]


def _space_below(content: str, end: int) -> str:
    after = content[end : end + _SPACE_WINDOW]
    return after[: len(after) - len(after.lstrip())]


def _separates(space: str) -> bool:
    """Whether white space contains a blank line or a page break."""
    return "\f" in space or len(_NEWLINE.findall(space)) >= 2
