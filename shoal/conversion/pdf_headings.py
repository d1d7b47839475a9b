"""The headings of a PDF: the titles in its outline, and lines in larger or bold letters."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from shoal.conversion.pdf_lines import Line, ends_sentence

MAX_LEVEL = 6
# Sizes of letters as multiples of that of the body.
_HEADING_SIZE = 1.15
_MAX_HEADING_CHARS = 200
_MAX_HEADING_LINES = 4
_MAX_SIZE_LEVELS = 5
# More large lines than this share of all are no headings, but text in large letters.
_MAX_HEADING_SHARE = 0.25
# Distances between lines as multiples of the size of the letters.
_GAP_AROUND = 1.25
_GAP_WITHIN = 1.6
_START_CHARS = 4
_NUMBER_CHARS = 6  # letters and digits of the number of a section
_LETTERS = re.compile(r"[^\W_]+")
_SECTION_NUMBER = re.compile(r"\A(?:\d++(?:\.\d++)*+\.?\s++|[IVXLC]++\.\s++|[A-Z]\.\s++)")


class OutlineItem(NamedTuple):
    """An entry of the file's outline (bookmarks); `level` from 1, `page` from 0."""

    level: int
    title: str
    page: int


def find_headings(
    pages: Sequence[Sequence[Line]], outline: Sequence[OutlineItem], body: float
) -> dict[int, tuple[int, int]]:
    """Return the level of each heading line, from 1, by the line's id, with a number that lines of the same
    heading share."""
    by_outline = _outline_headings(pages, outline)
    headings = dict(by_outline)
    n_lines = sum(map(len, pages))
    sizes: Counter[float] = Counter()
    for page in pages:
        sizes.update(line.size for line in page if _may_be_heading(line, body))
    if sum(sizes.values()) > max(_MAX_HEADING_SHARE * n_lines, 2 * len(pages)):
        return headings
    levels = _levels_of_sizes(sizes, headings, pages)
    trusts_outline = 2 * len({number for _, number in by_outline.values()}) >= len(outline) > 0
    bold_level = max(levels.values(), default=0) + 1
    number = len(outline)
    for page in pages:
        for i, line in enumerate(page):
            if id(line) in headings:
                continue
            level = levels.get(line.size) if _may_be_heading(line, body) else None
            if level is None and not trusts_outline and _stands_out_bold(page, i, body):
                level = bold_level
            if level is None or (trusts_outline and level > 1):
                continue
            above = page[i - 1] if i else None
            goes_on = (
                above is not None
                and headings.get(id(above), (0, 0))[0] == level
                and above.size == line.size
                and 0 < above.bottom - line.bottom <= _GAP_WITHIN * line.size
            )
            if not goes_on:
                number += 1
            headings[id(line)] = (min(level, MAX_LEVEL), number)
    return headings


def _may_be_heading(line: Line, body: float) -> bool:
    return (
        line.size >= _HEADING_SIZE * body
        and len(line.text) <= _MAX_HEADING_CHARS
        and sum(map(str.isalpha, line.text)) >= 2
    )


def _stands_out_bold(page: Sequence[Line], i: int, body: float) -> bool:
    """Whether a bold line in letters of the body is a heading: short, alone, and no end of a sentence."""
    line = page[i]
    if (
        not line.bold
        or line.size < body
        or len(line.text) > _MAX_HEADING_CHARS // 2
        or ends_sentence(line.text)
        or line.cells
        or not (line.text[0].isupper() or line.text[0].isdigit())
    ):
        return False
    above, below = (page[i - 1] if i else None), (page[i + 1] if i + 1 < len(page) else None)
    return (
        below is not None
        and not below.bold
        and (above is None or not above.bold)
        and (above is None or abs(above.bottom - line.bottom) > _GAP_AROUND * line.size)
    )


def _levels_of_sizes(
    sizes: Counter[float], headings: dict[int, tuple[int, int]], pages: Sequence[Sequence[Line]]
) -> dict[float, int]:
    """Return the level of each size of letters: as the outline says for most lines of that size, otherwise
    by rank."""
    votes: dict[float, Counter[int]] = defaultdict(Counter)
    for page in pages:
        for line in page:
            if id(line) in headings:
                votes[line.size][headings[id(line)][0]] += 1
    levels: dict[float, int] = {}
    rank = 0
    for size in sorted(sizes, reverse=True):
        voted = votes.get(size)
        rank = max(voted.most_common(1)[0][0], rank) if voted else rank + 1
        levels[size] = min(rank, _MAX_SIZE_LEVELS)
    return levels


def _outline_headings(
    pages: Sequence[Sequence[Line]], outline: Sequence[OutlineItem]
) -> dict[int, tuple[int, int]]:
    """Find the lines of the titles in the outline, on their page or the one after it."""
    found: dict[int, tuple[int, int]] = {}
    keys = [[_key(line.text) for line in page] for page in pages]
    starts = [_starts(page) for page in pages]
    for number, item in enumerate(outline):
        title = _key(item.title)
        if not title:
            continue
        for page in (item.page, item.page + 1):
            if page >= len(pages):
                continue
            lines = pages[page]
            match = _match_title(title, item.title, lines, keys[page], starts[page], found)
            if match is not None:
                for i in range(*match):
                    found[id(lines[i])] = (item.level, number)
                break
    return found


def _match_title(
    title: str,
    source: str,
    lines: Sequence[Line],
    keys: Sequence[str],
    starts: dict[str, list[int]],
    found: dict[int, tuple[int, int]],
) -> tuple[int, int] | None:
    """Return the range of lines that are a title; the number of its section may be in only one of them."""
    bare = _key(_SECTION_NUMBER.sub("", source, count=1))
    both = {title[:_START_CHARS], bare[:_START_CHARS]}
    for first in sorted(i for start in both for i in starts.get(start, ())):
        if id(lines[first]) in found:
            continue
        text = ""
        for last in range(first, min(first + _MAX_HEADING_LINES, len(lines))):
            if lines[last].size != lines[first].size:
                break
            text += keys[last]
            if any(
                text.endswith(end) and len(text) <= len(end) + _NUMBER_CHARS for end in (title, bare) if end
            ):
                return first, last + 1
            if len(text) > len(title) + _NUMBER_CHARS:
                break
    return None


def _starts(page: Sequence[Line]) -> dict[str, list[int]]:
    """Return the lines of a page by their first letters without the number of a section."""
    found: dict[str, list[int]] = defaultdict(list)
    for i, line in enumerate(page):
        found[_key(_SECTION_NUMBER.sub("", line.text, count=1))[:_START_CHARS]].append(i)
    return found


def _key(text: str) -> str:
    return "".join(_LETTERS.findall(text.casefold()))
