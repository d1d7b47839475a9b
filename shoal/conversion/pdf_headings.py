"""Which lines of a PDF are headings: the titles of the outline, and lines that a style sets apart.

A style is a size, a font, and whether all letters are capitals. It is one of headings if the numbers of its
lines go on as those of sections do. It is also one if its letters are larger than those of the text, or bold
or capitals, where its lines stand apart and lead to text: not if they are mostly prose, or labels in figures.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from shoal.conversion.pdf_lines import SECTION_NUMBER, Line

MAX_LEVEL = 6
_MAX_STYLE_LEVEL = 5
# Sizes of letters as multiples of that of the body.
_LARGE = 1.15
_SMALLEST = 0.95
_MAX_HEADING_CHARS = 200
_MAX_HEADING_LINES = 4
# More large lines than this share of all are no headings, but text in large letters, as on slides.
_MAX_HEADING_SHARE = 0.25
_LEAST_PURITY = 0.5
"""Share of the lines of a style that may be headings."""
_LEAST_LEADING = 0.5
"""Share of the headings of a style that have text below them."""
_TEXT_CHARS = 25  # a line with fewer is no text, unless others follow it
_MAX_GAP_BELOW = 4  # usual distances between lines, or sizes of the letters
_LEAST_ORDER = 0.8
"""Share of the numbers of a style that follow the one before them."""
# Distances between lines, of the usual one of the body, and of the size of the letters.
_GAP_ABOVE = 1.25
_GAP_WITHIN = 1.6
_MIN_WORDS = 0.5
"""Share of a heading's characters that are in words of three letters, or two of writing without capitals."""
_START_CHARS = 4
_NUMBER_CHARS = 6  # letters and digits of the number of a section
_LETTERS = re.compile(r"[^\W_]+")
_WORDS = re.compile(r"[^\W\d_]{3,}|[\u0590-\uffff]{2,}")
_SECTION_NUMBER = re.compile(r"\A(?:\d++(?:\.\d++)*+\.?\s++|[IVXLC]++\.\s++|[A-Z]\.\s++)")
_NUMBERED_TITLE = re.compile(r" *(?:[^\W\d_a-zà-ÿ]|[^\W\d_]-|\d+[^\W\d_])")
_CAPTION = re.compile(r"[^\W\d_]{2,20}\.? ?\d{1,4}\b")
_PROSE_END = re.compile(r"[.;:,…。]['\"”’)\]]*\Z")
_SENTENCE_BEGIN = re.compile(r"[^\W\d_]{3}[.;] (?![a-z])")


class OutlineItem(NamedTuple):
    """An entry of the file's outline (bookmarks); `level` from 1, `page` from 0."""

    level: int
    title: str
    page: int


class _Style(NamedTuple):
    size: float
    font: str
    is_capitals: bool


class _Group(NamedTuple):
    """Lines of one style below each other. `number`: that of a section, empty without one."""

    lines: Sequence[Line]
    style: _Style
    number: str
    stands_apart: bool
    leads_to_text: bool


def find_headings(
    pages: Sequence[Sequence[Line]], outline: Sequence[OutlineItem], body: float, leading: float
) -> dict[int, tuple[int, int]]:
    """Return the level of each heading line, from 1, by the line's id, with a number that lines of the same
    heading share.

    `body`, `leading`: size of the letters and distance between lines in most of the text.
    """
    headings = _outline_headings(pages, outline)
    trusts_outline = 2 * len({number for _, number in headings.values()}) >= len(outline) > 0
    groups, n_lines = _candidates(pages, headings, body, leading)
    large = _LARGE * body
    largest = _least_large_size(groups, large, max(_MAX_HEADING_SHARE * sum(map(len, pages)), 2 * len(pages)))
    groups = [group for group in groups if not large <= group.style.size < largest]
    by_style: dict[_Style, list[_Group]] = defaultdict(list)
    for group in groups:
        by_style[group.style].append(group)
    kept: list[_Group] = []
    for style, members in by_style.items():
        kept += _headings_of_style(style, members, n_lines[style], largest, body)
    order = {id(line): i for i, line in enumerate(line for page in pages for line in page)}
    kept.sort(key=lambda group: order[id(group.lines[0])])
    kept = [*_title(groups, kept, largest), *kept]
    levels = _levels(kept, headings, pages)
    for number, group in enumerate(kept, len(outline)):
        level = levels[group.style, _depth(group.number)]
        if not (trusts_outline and level > 1):
            headings.update((id(line), (level, number)) for line in group.lines)
    return headings


def _least_large_size(groups: Sequence[_Group], large: float, max_lines: float) -> float:
    """Return the least size from `large` on that has at most `max_lines` lines with those of larger sizes."""
    n_lines: Counter[float] = Counter()
    for group in groups:
        if group.style.size >= large:
            n_lines[group.style.size] += len(group.lines)
    least = float("inf")
    for size in sorted(n_lines, reverse=True):
        max_lines -= n_lines[size]
        if max_lines < 0:
            return least
        least = size
    return large


def _title(groups: Sequence[_Group], kept: Sequence[_Group], large: float) -> list[_Group]:
    """Return the largest lines of the first page, if they are large, not kept yet, and above all that is."""
    title = max(groups, key=lambda group: (-group.lines[0].page, group.style.size), default=None)
    if title is None or title.style.size < large:
        return []
    first, top = title.lines[0], kept[0].lines[0] if kept else None
    if top is not None and (top is first or (top.page == first.page and top.bottom > first.bottom)):
        return []
    return [title]


def _headings_of_style(
    style: _Style, groups: Sequence[_Group], n_lines: int, large: float, body: float
) -> list[_Group]:
    """Return those groups of a style that are headings."""
    numbers: dict[int, list[str]] = defaultdict(list)
    for group in groups:
        if group.number:
            numbers[_depth(group.number)].append(group.number)
    in_order = {depth for depth, members in numbers.items() if _are_in_order(members)}
    if in_order:
        in_order |= {depth for depth, members in numbers.items() if len(members) == 1}
    is_large = style.size >= large
    is_heavy = style.size >= body and (style.is_capitals or groups[0].lines[0].bold)
    alone = [group for group in groups if is_large or group.stands_apart]
    is_pure = sum(len(group.lines) for group in alone) >= _LEAST_PURITY * n_lines
    leads = sum(group.leads_to_text for group in alone) >= _LEAST_LEADING * len(alone)
    if not is_pure or not (in_order or ((is_large or is_heavy) and leads)):
        alone = []
    kept = {id(group) for group in alone}
    return [group for group in groups if id(group) in kept or _depth(group.number) in in_order]


def _candidates(
    pages: Sequence[Sequence[Line]], headings: dict[int, tuple[int, int]], body: float, leading: float
) -> tuple[list[_Group], Counter[_Style]]:
    """Return the groups of lines that may be headings, and the number of lines of each style."""
    fonts: Counter[str] = Counter()
    for page in pages:
        for line in page:
            if line.size == body:
                fonts[line.font] += len(line.text)
    text_font = fonts.most_common(1)[0][0] if fonts else ""
    groups: list[_Group] = []
    n_lines: Counter[_Style] = Counter()
    for page in pages:
        runs = list(_runs(page, leading))
        for lines in runs:
            n_lines[_style(lines[0])] += len(lines)
        may_be = [
            _style(lines[0]) != (body, text_font, False)
            and id(lines[0]) not in headings
            and lines[0].size >= _SMALLEST * body
            and _may_be_heading(lines, body)
            for lines in runs
        ]
        leads = False
        of_page: list[_Group] = []
        for i in range(len(runs) - 1, -1, -1):
            first, last = runs[i][0], runs[i][-1]
            if i + 1 < len(runs):
                below = runs[i + 1]
                is_below = (
                    0.1 * last.size < last.bottom - below[0].bottom < _MAX_GAP_BELOW * max(leading, last.size)
                )
                is_smaller = not may_be[i + 1] or below[0].size < last.size
                is_text = is_smaller and (len(below) > 1 or len(below[0].text) >= _TEXT_CHARS)
                leads = is_below and (is_text or (may_be[i + 1] and leads))
            if not may_be[i]:
                continue
            gap = runs[i - 1][-1].bottom - first.bottom if i else 0.0
            follows_heading = i > 0 and (may_be[i - 1] or id(runs[i - 1][-1]) in headings)
            is_spaced = gap <= 0.1 * first.size or gap > _GAP_ABOVE * leading
            number = SECTION_NUMBER.match(first.text)
            of_page.append(
                _Group(
                    runs[i],
                    _style(first),
                    number.group() if number else "",
                    is_spaced or follows_heading,
                    leads,
                )
            )
        groups += reversed(of_page)
    return groups, n_lines


def _runs(page: Sequence[Line], leading: float) -> Iterator[Sequence[Line]]:
    """Divide the lines of a page where the style changes, after a gap, and at the numbers of sections."""
    start = 0
    for i in range(1, len(page) + 1):
        if i < len(page):
            above, line = page[i - 1], page[i]
            goes_on = (
                0 < above.bottom - line.bottom <= max(_GAP_WITHIN * line.size, _GAP_ABOVE * leading)
                and _style(above) == _style(line)
                and not SECTION_NUMBER.match(line.text)
            )
            if goes_on:
                continue
        if start < i:
            yield page[start:i]
        start = i


def _style(line: Line) -> _Style:
    return _Style(line.size, line.font, line.text.isupper())


def _may_be_heading(lines: Sequence[Line], body: float) -> bool:
    if len(lines) > _MAX_HEADING_LINES:
        return False
    text = " ".join(line.text for line in lines)
    n_chars = len(text) - text.count(" ")
    if len(text) > _MAX_HEADING_CHARS:
        return False
    number = SECTION_NUMBER.match(text)
    bare = text[number.end() :] if number else text
    if sum(map(len, _WORDS.findall(bare))) < _MIN_WORDS * (n_chars - (number.end() if number else 0)):
        return False
    if _SENTENCE_BEGIN.search(bare) or (number and not _NUMBERED_TITLE.match(bare)):
        return False
    if lines[0].size >= _LARGE * body:
        return True
    has_columns = any(line.cells for line in lines) and not (
        number and len(lines[0].cells) == 2 and len(lines[0].cells[0].text) <= number.end()
    )
    return not (
        has_columns
        or not lines[0].font
        or text[0].islower()
        or (_PROSE_END.search(text) and not number)
        or _CAPTION.match(text)
    )


def _are_in_order(numbers: Sequence[str]) -> bool:
    """Whether numbers of sections go on: each is the next one, or begins or ends a deeper level."""
    if len(numbers) < 2:
        return False
    n_in_order = sum(_follows(before, number) for before, number in pairwise(numbers))
    return n_in_order >= _LEAST_ORDER * (len(numbers) - 1)


def _follows(before: str, number: str) -> bool:
    a, b = before.rstrip(".").split("."), number.rstrip(".").split(".")
    if a[0].isdigit() and b[0].isdigit():
        return [*map(int, a)] < [*map(int, b)] and int(b[0]) - int(a[0]) <= 2
    if len(a) == len(b) == 1 and not (a[0].isdigit() or b[0].isdigit()):
        roman = set(a[0] + b[0]) <= set("IVXL") and 1 <= roman_value(b[0]) - roman_value(a[0]) <= 2
        return roman or b[0] == "A" or (len(a[0]) == len(b[0]) == 1 and 1 <= ord(b[0]) - ord(a[0]) <= 2)
    return True  # an appendix, or the sections of one


def roman_value(text: str) -> int:
    values = [
        {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100, "d": 500, "m": 1000}[char] for char in text.lower()
    ]
    return sum(-a if a < b else a for a, b in zip(values, [*values[1:], 0], strict=True))


def _depth(number: str) -> int:
    """Return the depth of a section's number in the file; 0 without one."""
    return len(number.rstrip(".").split(".")) if number else 0


def _levels(
    groups: Sequence[_Group], headings: dict[int, tuple[int, int]], pages: Sequence[Sequence[Line]]
) -> dict[tuple[_Style, int], int]:
    """Return the level of each style and depth of numbers.

    It is that which the outline gives to most lines of the style. Otherwise styles rank by size, and numbers
    of equal depth share a level.
    """
    votes: dict[_Style, Counter[int]] = defaultdict(Counter)
    for page in pages:
        for line in page:
            if id(line) in headings:
                votes[_style(line)][headings[id(line)][0]] += 1
    depths: dict[_Style, set[int]] = defaultdict(set)
    for group in groups:
        depths[group.style].add(_depth(group.number))
    levels: dict[tuple[_Style, int], int] = {}
    of_depth: dict[int, int] = {}
    rank, size = 0, 0.0
    for style in sorted(depths, key=lambda each: (-each.size, min(depths[each] - {0}, default=0))):
        for depth in sorted(depths[style], key=lambda depth: depth or MAX_LEVEL):
            if style in votes:
                level = max(votes[style].most_common(1)[0][0], rank)
            elif depth in of_depth:
                level = of_depth[depth]
            elif depth - 1 in of_depth:
                level = of_depth[depth - 1] + 1
            elif not depth and len(depths[style]) > 1:
                level = levels[style, min(depths[style] - {0})]
            else:
                level = rank + (style.size != size)
            if depth:
                of_depth.setdefault(depth, level)
            rank, size = max(rank, level), style.size
            levels[style, depth] = min(level, _MAX_STYLE_LEVEL)
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
