"""The structure of a PDF from its lines: headings, paragraphs, lists, tables, and what every page repeats.

A PDF says where letters stand, not what they are. The rules here are those of typesetting: larger letters
and the file's own outline make headings; an indent, a gap or a line that ends early ends a paragraph; text
in equal places of three pages belongs to the page and not to the document.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from shoal.conversion.pdf_lines import Cell, Line

_EDGE_LINES = 3  # at the top and bottom of a page that may be a header or footer
_MIN_REPEATS = 3
_MAX_NUMBERS = 4
_NUMBER = re.compile(r"\d{1,9}")
_ROMAN = re.compile(r"[ivxlcdm]{1,8}", re.IGNORECASE)
_BARE_PAGE_NUMBER = re.compile(r"(?:page |p\. ?)?[-–—\[(]? ?(\d{1,6}) ?[-–—\])]?(?: ?(?:/|of) ?\d{1,6})?", re.IGNORECASE)
_LEADER = re.compile(r"(?:\. ?){4,}[\s\divxlc]{0,12}\Z|…{2,}[\s\divxlc]{0,12}\Z", re.IGNORECASE)
_BULLET = re.compile(r"[•‣◦▪▫●○■□◆◇➢➤✓❖⁃·\uf0b7\uf0a7]\s*(?=\S)|[-*–] (?=\S)")
_NUMBERED = re.compile(r"\(?(\d{1,3})[.)] (?=\S)")
_STOP = re.compile(r"[.!?:;…。！？][\"”’»')\]]*\Z")
_WORDS = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_LETTERS = re.compile(r"[^\W_]+")
_SECTION_NUMBER = re.compile(r"(?:\d+\.)*\d+\.?\s+|[IVXLC]+\.\s+|[A-Z]\.\s+")

# Sizes of letters as multiples of that of the body.
_HEADING_SIZE = 1.15
_NOTE_SIZE = 0.92
_MAX_HEADING_CHARS = 200
_MAX_HEADING_LINES = 4
_MAX_LEVELS = 5
# More large lines than this share of all are no headings, but text in large letters.
_MAX_HEADING_SHARE = 0.25
# Lengths as multiples of the size of the letters.
_INDENT = 0.8
_MAX_INDENT = 6.0
_PARAGRAPH_GAP = 1.25  # of the usual distance between lines
_TABLE_GAP = 2.5
_MIN_TABLE_ROWS = 3
_TEXT_CELL_CHARS = 24  # cells that are longer on average are columns of text


class BlockKind(Enum):
    heading = "heading"
    paragraph = "paragraph"
    item = "item"
    table = "table"


class OutlineItem(NamedTuple):
    """An entry of the file's outline (bookmarks); `level` from 1, `page` from 0."""

    level: int
    title: str
    page: int


class Piece(NamedTuple):
    """Text of a block on one page; `joiner` stands between it and the piece before."""

    page: int
    text: str
    joiner: str = " "


@dataclass(slots=True)
class PdfBlock:
    kind: BlockKind
    pieces: list[Piece] = field(default_factory=list)
    level: int = 0  # of a heading from 1, of an item from 0
    number: int | None = None  # of an item in a numbered list
    rows: list[list[str]] = field(default_factory=list)


class Repeated(NamedTuple):
    reason: str
    text: str


# What every page repeats


def split_repeated(
    pages: Sequence[Sequence[Line]], labels: Sequence[str]
) -> tuple[list[list[Line]], list[Repeated]]:
    """Return the lines of each page without headers, footers and page numbers, and those that were taken out.

    A line at the edge of a page is one of them if the same text is at the same edge of two other pages,
    where its numbers may grow with the pages; or if it is the number of the page.
    """
    edges = [_edge_lines(page) for page in pages]
    counts: Counter[tuple[str, str]] = Counter()
    for number, lines in enumerate(edges):
        counts.update({key for edge, line in lines for key in _signatures(edge, line, number)})
    least = min(_MIN_REPEATS, max(len(pages), 2))
    kept: list[list[Line]] = []
    removed: list[Repeated] = []
    for number, (page, lines) in enumerate(zip(pages, edges, strict=True)):
        out: set[int] = set()
        for edge, line in lines:
            reason = ""
            if _is_page_number(line.text, number, labels[number]):
                reason = "page number"
            elif any(counts[key] >= least for key in _signatures(edge, line, number)):
                bare = _ROMAN.fullmatch(line.text) or not any(map(str.isalpha, line.text))
                reason = "page number" if bare else f"repeated {edge}"
            if reason:
                out.add(id(line))
                removed.append(Repeated(reason, line.text))
        kept.append([line for line in page if id(line) not in out])
    return kept, removed


def _edge_lines(page: Sequence[Line]) -> list[tuple[str, Line]]:
    from_top = sorted(page, key=lambda line: -line.bottom)
    top = from_top[:_EDGE_LINES]
    bottom = from_top[max(_EDGE_LINES, len(page) - _EDGE_LINES) :]
    return [("header", line) for line in top] + [("footer", line) for line in bottom]


def _signatures(edge: str, line: Line, page: int) -> Iterator[tuple[str, str]]:
    """Yield the keys that a line shares with its repetitions: its text, and its text with one number as a
    distance from the page."""
    if len(line.text) > _MAX_HEADING_CHARS:
        return
    yield edge, line.text
    for number in list(_NUMBER.finditer(line.text))[:_MAX_NUMBERS]:
        distance = int(number.group()) - page
        yield edge, f"{line.text[: number.start()]}<{distance}>{line.text[number.end() :]}"
    if _ROMAN.fullmatch(line.text):
        yield edge, f"<{_roman(line.text) - page}>"


def _roman(text: str) -> int:
    values = [{"i": 1, "v": 5, "x": 10, "l": 50, "c": 100, "d": 500, "m": 1000}[char] for char in text.lower()]
    return sum(-a if a < b else a for a, b in zip(values, [*values[1:], 0], strict=True))


def _is_page_number(text: str, page: int, label: str) -> bool:
    match = _BARE_PAGE_NUMBER.fullmatch(text)
    return (match is not None and int(match.group(1)) == page + 1) or (bool(label) and text == label)


# Headings


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
                and 0 < above.bottom - line.bottom <= 1.6 * line.size
            )
            if not goes_on:
                number += 1
            headings[id(line)] = (min(level, _MAX_LEVELS + 1), number)
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
        or _STOP.search(line.text)
        or line.cells
        or not (line.text[0].isupper() or line.text[0].isdigit())
    ):
        return False
    above, below = (page[i - 1] if i else None), (page[i + 1] if i + 1 < len(page) else None)
    return (
        below is not None
        and not below.bold
        and (above is None or not above.bold)
        and (above is None or abs(above.bottom - line.bottom) > _PARAGRAPH_GAP * line.size)
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
        levels[size] = min(rank, _MAX_LEVELS)
    return levels


def _outline_headings(
    pages: Sequence[Sequence[Line]], outline: Sequence[OutlineItem]
) -> dict[int, tuple[int, int]]:
    """Find the lines of the titles in the outline, on their page or the one after it."""
    found: dict[int, tuple[int, int]] = {}
    keys = [[_key(line.text) for line in page] for page in pages]
    starts: list[dict[str, list[int]]] = []
    for page_keys in keys:
        by_word: dict[str, list[int]] = defaultdict(list)
        for i, key in enumerate(page_keys):
            by_word[key[:4]].append(i)
        starts.append(by_word)
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
    candidates = [*starts.get(title[:4], ()), *(starts.get(bare[:4], ()) if bare != title else ())]
    if not candidates:
        candidates = [i for i, line in enumerate(lines) if _SECTION_NUMBER.match(line.text)]
    for first in candidates:
        if id(lines[first]) in found:
            continue
        text = ""
        for last in range(first, min(first + _MAX_HEADING_LINES, len(lines))):
            if lines[last].size != lines[first].size:
                break
            text += keys[last]
            if text in (title, bare) or (
                text.endswith(title) and text[: -len(title)].isdecimal() and title
            ):
                return first, last + 1
            if len(text) > len(title) + _MAX_LEVELS:
                break
    return None


def _key(text: str) -> str:
    return "".join(_LETTERS.findall(text.casefold()))


# Paragraphs, lists and tables


class _Flow(NamedTuple):
    """Lines that follow each other downwards in one column."""

    lines: list[Line]
    left: float
    right: float


def read_blocks(pages: Sequence[Sequence[Line]], outline: Sequence[OutlineItem]) -> list[PdfBlock]:
    """Return the blocks of the document in reading order."""
    body = body_size(pages)
    headings = find_headings(pages, outline, body)
    builder = _BlockBuilder(pages, headings, body)
    for page in pages:
        builder.add_page(page)
    return builder.finish()


def body_size(pages: Sequence[Sequence[Line]]) -> float:
    """Return the size in which most characters are set."""
    sizes: Counter[float] = Counter()
    for page in pages:
        for line in page:
            sizes[line.size] += len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 0.0


class _BlockBuilder:
    def __init__(
        self, pages: Sequence[Sequence[Line]], headings: dict[int, tuple[int, int]], body: float
    ) -> None:
        self._headings, self._body = headings, body
        self._words = Counter(
            word for page in pages for line in page for word in _WORDS.findall(line.text.casefold())
        )
        self._leading = _usual_distances(pages)
        self._indents = _uses_indents(pages)
        self._blocks: list[PdfBlock] = []
        self._open: PdfBlock | None = None
        self._above: Line | None = None
        self._notes: list[PdfBlock] = []
        self._item_lefts: list[float] = []

    def finish(self) -> list[PdfBlock]:
        self._end_block()
        self._blocks += self._notes
        return self._blocks

    def add_page(self, page: Sequence[Line]) -> None:
        lines = [line for line in page if not (_LEADER.search(line.text) and id(line) not in self._headings)]
        notes_from = self._notes_start(lines)
        text, notes = lines[:notes_from], lines[notes_from:]
        for flow in _flows(text):
            self._add_flow(flow)
        if notes:
            # The last paragraph may go on over the page: its notes come behind it.
            outer = _BlockBuilder([notes], {}, notes[0].size)
            outer._words = self._words
            for flow in _flows(notes):
                outer._add_flow(flow)
            self._notes += outer.finish()

    def _notes_start(self, lines: Sequence[Line]) -> int:
        """Return the index of the first footnote: the small lines at the end of a page."""
        i = len(lines)
        while i and lines[i - 1].size <= _NOTE_SIZE * self._body:
            i -= 1
        below = all(line.bottom < lines[i - 1].bottom for line in lines[i:]) if i else False
        return i if below else len(lines)

    def _add_flow(self, flow: _Flow) -> None:
        lines = flow.lines
        at = 0
        while at < len(lines):
            end, columns = _table_end(lines, at, self._headings)
            if end > at:
                self._add_table(lines[at:end], columns, flow)
                at = end
                continue
            line = lines[at]
            following = lines[at + 1] if at + 1 < len(lines) else None
            if id(line) in self._headings:
                self._add_heading(line)
            else:
                self._add_text(line, following, flow, is_first=at == 0)
            at += 1

    def _add_heading(self, line: Line) -> None:
        level, number = self._headings[id(line)]
        above = self._above
        if above is not None and self._headings.get(id(above)) == (level, number) and self._open:
            self._append(line, " ")
        else:
            self._begin(PdfBlock(BlockKind.heading, level=level), line, line.text)
        self._above = line

    def _add_text(self, line: Line, following: Line | None, flow: _Flow, *, is_first: bool) -> None:
        above = self._above
        opened = self._open
        if (
            opened is None
            or above is None
            or opened.kind in (BlockKind.heading, BlockKind.table)
            or abs(above.size - line.size) > 0.1 * self._body
        ):
            self._begin_text(line)
        elif is_first:
            if self._goes_on(above, line, flow):
                self._append(line, " ")
            else:
                self._begin_text(line)
        else:
            joiner = self._joiner(above, line, following, flow)
            if joiner is None:
                self._begin_text(line)
            else:
                self._append(line, joiner)
        self._above = line

    def _goes_on(self, above: Line, line: Line, flow: _Flow) -> bool:
        """Whether a paragraph goes on at the top of a column or page."""
        if _BULLET.match(line.text) or self._item_number(line) is not None:
            return False
        if above.hyphenated or line.text[0].islower() or not _STOP.search(above.text):
            return True
        return self._indents and line.left - flow.left < _INDENT * line.size

    def _joiner(self, above: Line, line: Line, following: Line | None, flow: _Flow) -> str | None:
        """Return what is between two lines of a column; None if a new paragraph begins."""
        size = line.size
        distance = above.bottom - line.bottom
        if distance > _PARAGRAPH_GAP * self._leading.get(size, 1.2 * size) + 0.5:
            return None
        if _BULLET.match(line.text) or self._item_number(line) is not None:
            return None
        if above.hyphenated:
            return " "
        shift = line.left - above.left
        is_item = self._open is not None and self._open.kind is BlockKind.item
        if _INDENT * size < shift < _MAX_INDENT * size and not is_item:
            returns = following is None or following.left < line.left - _INDENT * size / 2
            if returns or _STOP.search(above.text):
                return None
        if shift < -_INDENT * size and self._open is not None and len(self._open.pieces) > 1 and is_item:
            return None
        if self._ends_early(above, line, flow):
            return None if _STOP.search(above.text) else "\n"
        return " "

    def _ends_early(self, above: Line, line: Line, flow: _Flow) -> bool:
        """Whether the next word would have found room on the line above."""
        word = line.text.partition(" ")[0]
        letter = (line.right - line.left) / max(len(line.text), 1)
        return above.right + letter * (len(word) + 1) < flow.right - 0.5 * line.size

    def _begin_text(self, line: Line) -> None:
        bullet = _BULLET.match(line.text)
        number = self._item_number(line)
        if bullet or number is not None:
            mark = bullet or _NUMBERED.match(line.text)
            assert mark is not None
            depth = self._depth(line)
            block = PdfBlock(BlockKind.item, level=depth, number=number)
            self._begin(block, line, line.text[mark.end() :])
        else:
            self._begin(PdfBlock(BlockKind.paragraph), line, line.text)

    def _item_number(self, line: Line) -> int | None:
        """Return the number of an item: 1, or one more than that of the item before."""
        match = _NUMBERED.match(line.text)
        if match is None:
            return None
        number = int(match.group(1))
        last = self._open or (self._blocks[-1] if self._blocks else None)
        before = last.number if last is not None and last.kind is BlockKind.item else None
        return number if number == 1 or (before is not None and number == before + 1) else None

    def _depth(self, line: Line) -> int:
        if self._open is None or self._open.kind is not BlockKind.item:
            self._item_lefts = []
        lefts = self._item_lefts
        while lefts and line.left < lefts[-1] - _INDENT * line.size / 2:
            lefts.pop()
        if not lefts or line.left > lefts[-1] + _INDENT * line.size:
            lefts.append(line.left)
        return len(lefts) - 1

    def _begin(self, block: PdfBlock, line: Line, text: str) -> None:
        self._end_block()
        block.pieces.append(Piece(line.page, text))
        self._open = block
        self._hyphenated = line.hyphenated

    def _append(self, line: Line, joiner: str) -> None:
        assert self._open is not None
        pieces = self._open.pieces
        last = pieces[-1]
        text = last.text
        if self._hyphenated or (text.endswith("-") and text[-2:-1].isalpha()):
            joiner = self._at_hyphen(text.removesuffix("-"), line.text)
            text = text.removesuffix("-")
        if joiner == "-":
            text, joiner = text + "-", ""
        if line.page == last.page:
            pieces[-1] = last._replace(text=text + joiner + line.text)
        else:
            pieces[-1] = last._replace(text=text)
            pieces.append(Piece(line.page, line.text, " " if joiner == "\n" else joiner))
        self._hyphenated = line.hyphenated

    def _at_hyphen(self, before: str, after: str) -> str:
        """Return what is between the halves of a word at the end of a line: a hyphen if the word has one
        elsewhere in the document, or cannot do without."""
        left = (_WORDS.findall(before[-60:].casefold()) or [""])[-1]
        right = (_WORDS.findall(after[:60].casefold()) or [""])[0]
        is_capitals = before[-2:].isupper() and after[:2].isupper()
        if not (after[:1].islower() or is_capitals):
            return "-"
        hyphened, joined = self._words[f"{left}-{right}"], self._words[left + right]
        return "-" if hyphened > joined else ""

    def _end_block(self) -> None:
        if self._open is not None:
            self._blocks.append(self._open)
            self._open = None
            self._blocks += self._notes
            self._notes = []

    def _add_table(self, lines: Sequence[Line], columns: Sequence[float], flow: _Flow) -> None:
        rows = [_cells_in(line, columns) for line in lines]
        cells = [cell for row in rows for cell in row if cell.text]
        if sum(len(cell.text) for cell in cells) > _TEXT_CELL_CHARS * len(cells) and len(lines) > 2:
            # Columns of text, drawn line by line across the page.
            for column in range(len(columns) + 1):
                part = [
                    line._replace(text=row[column].text, left=row[column].left, right=row[column].right, cells=())
                    for line, row in zip(lines, rows, strict=True)
                    if row[column].text
                ]
                for inner in _flows(part):
                    self._add_flow(inner)
            return
        self._end_block()
        block = PdfBlock(BlockKind.table, rows=[[cell.text for cell in row] for row in rows])
        block.pieces.append(Piece(lines[0].page, ""))
        self._open, self._hyphenated = block, False
        self._above = lines[-1]


def _flows(lines: Sequence[Line]) -> Iterator[_Flow]:
    """Divide lines where the next is not below the one before it."""
    start = 0
    for i in range(1, len(lines) + 1):
        if i == len(lines) or lines[i].bottom > lines[i - 1].bottom - 0.1 * lines[i].size:
            part = list(lines[start:i])
            rights = sorted(line.right for line in part)
            # Single lines may be longer than the column.
            yield _Flow(part, min(line.left for line in part), rights[(len(rights) - 1) * 9 // 10])
            start = i


def _usual_distances(pages: Sequence[Sequence[Line]]) -> dict[float, float]:
    """Return the most frequent distance between lines for each size of letters."""
    counts: dict[float, Counter[float]] = defaultdict(Counter)
    for page in pages:
        for above, line in pairwise(page):
            distance = above.bottom - line.bottom
            if above.size == line.size and 0.8 * line.size < distance < 1.9 * line.size:
                counts[line.size][round(2 * distance) / 2] += 1
    return {size: distances.most_common(1)[0][0] for size, distances in counts.items()}


def _uses_indents(pages: Sequence[Sequence[Line]]) -> bool:
    """Whether paragraphs begin with an indent, rather than after a gap."""
    indents = gaps = 0
    for page in pages:
        for above, line in pairwise(page):
            if above.size != line.size:
                continue
            distance = above.bottom - line.bottom
            if _INDENT * line.size < line.left - above.left < _MAX_INDENT * line.size:
                indents += 1
            elif distance > 1.6 * line.size:
                gaps += 1
    return indents > gaps


def _table_end(
    lines: Sequence[Line], start: int, headings: dict[int, tuple[int, int]]
) -> tuple[int, list[float]]:
    """Return the end of the table that begins at a line, and the places between its columns.

    A table is three lines or more with gaps in equal places. The end is `start` if there is none.
    """
    strips: list[tuple[float, float]] = []
    end = start
    while end < len(lines):
        line = lines[end]
        if not line.cells or id(line) in headings:
            break
        gaps = [(left.right, right.left) for left, right in pairwise(line.cells)]
        if end == start:
            common = gaps
        else:
            if lines[end - 1].bottom - line.bottom > _TABLE_GAP * line.size:
                break
            common = [
                (max(a, c), min(b, d)) for a, b in strips for c, d in gaps if min(b, d) - max(a, c) > 1.0
            ]
        if not common or len(common) < (len(strips) + 1) // 2:
            break
        strips = common
        end += 1
    if end - start < _MIN_TABLE_ROWS:
        return start, []
    return end, [(left + right) / 2 for left, right in strips]


def _cells_in(line: Line, columns: Sequence[float]) -> list[Cell]:
    """Return the cells of a line between the places that divide columns."""
    parts: list[list[Cell]] = [[] for _ in range(len(columns) + 1)]
    for cell in line.cells:
        parts[sum(cell.left >= place for place in columns)].append(cell)
    return [
        Cell(part[0].left, part[-1].right, " ".join(cell.text for cell in part)) if part else Cell(0.0, 0.0, "")
        for part in parts
    ]
