"""The structure of a PDF from its lines: headings, paragraphs, lists, tables, and what every page repeats.

A PDF says where letters stand, not what they are. The rules here are those of typesetting: larger letters
and the file's own outline make headings; an indent, a gap or a line that ends early ends a paragraph; text
in equal places of three pages belongs to the page and not to the document.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from shoal.conversion.converted import report
from shoal.conversion.pdf_headings import OutlineItem, find_headings
from shoal.conversion.pdf_lines import Break, Cell, Line, ends_sentence, is_cjk

# Tried only where a run of dots begins.
_LEADER = re.compile(
    r"(?<!\.)(?<!\. )(?:\. ?){4,}+[\s\divxlc]{0,12}\Z|(?<!…)…{2,}+[\s\divxlc]{0,12}\Z", re.IGNORECASE
)
_END_NUMBER = re.compile(r"\d{1,5}\Z")
_MAX_ENTRY_LINES, _MIN_ENTRIES = 3, 3
_BULLET = re.compile(r"[•‣◦▪▫●○■□◆◇➢➤✓❖⁃·\uf0b7\uf0a7]\s*(?=\S)|[-*–] (?=\S)")
_NUMBERED = re.compile(r"\(?(\d{1,3})[.)] (?=\S)")
_WORDS = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")

_BEFORE_BLOCKS = 0.75
"""Share of the conversion that is done before blocks are found."""

# Sizes of letters as multiples of that of the body.
_NOTE_SIZE = 0.92
# Lengths as multiples of the size of the letters.
_INDENT = 0.8
_MAX_INDENT = 6.0
_PARAGRAPH_GAP = 1.25  # of the usual distance between lines
_TABLE_GAP = 2.5
_MIN_TABLE_ROWS = 3
_TEXT_CELL_CHARS = 24  # cells that are longer on average are columns of text
# So are shorter ones, if no column is narrower, and so many cells begin with a small letter.
_TEXT_COLUMN_CHARS, _GOING_ON = 14, 0.4
_VALUE_AT_END = re.compile(r" ([-–+(]?[$€£¥]? ?\d[\d.,'’]*(?: ?%)?\)?)\Z")
_SAME_LEFT = 1.0  # points between the lefts of values in a column
_WIDER = 1.3  # of the other spaces of a label
_LEAST_LABEL_GAP = 0.35  # of the size of the letters
_VALUE_GAP = 0.5  # points before a value close to the label of its row: no column begins there


class BlockKind(Enum):
    heading = "heading"
    paragraph = "paragraph"
    item = "item"
    table = "table"
    contents = "table of contents"


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


class _Flow(NamedTuple):
    """Lines that follow each other downwards in one column."""

    lines: list[Line]
    left: float
    right: float


def read_blocks(
    pages: Sequence[Sequence[Line]], asides: Sequence[Sequence[str]], outline: Sequence[OutlineItem]
) -> list[PdfBlock]:
    """Return the blocks of the document in reading order.

    `asides`: texts of each page that stand outside its lines, such as comments; they follow its paragraphs.
    """
    body = body_size(pages)
    distances = _usual_distances(pages)
    headings = find_headings(pages, outline, body, distances.get(body, 1.2 * body))
    builder = _BlockBuilder(pages, headings, body)
    for number, page in enumerate(pages):
        builder.add_page(page)
        builder.add_asides(number, asides[number])
        report(_BEFORE_BLOCKS * len(pages) + (1 - _BEFORE_BLOCKS) * number, len(pages))
    return builder.finish()


def body_size(pages: Sequence[Sequence[Line]]) -> float:
    """Return the size in which most characters are set."""
    sizes: Counter[float] = Counter()
    for page in pages:
        for line in page:
            sizes[line.size] += len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 0.0


def _contents_entries(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of a table of contents: several with dots before a number of a page, which rises."""
    found: list[Line] = []
    run: list[Line] = []
    last = run_page = 0
    for i, line in enumerate(lines):
        if not _is_leader(line.text):
            continue
        number = _END_NUMBER.search(line.text)
        page = int(number.group()) if number else run_page
        if i - last > _MAX_ENTRY_LINES or page < run_page:
            found += run if len(run) >= _MIN_ENTRIES else ()
            run = []
        run.append(line)
        last, run_page = i, page
    return found + (run if len(run) >= _MIN_ENTRIES else [])


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
        entries = _contents_entries([line for line in page if id(line) not in self._headings])
        if entries:
            pieces = [Piece(entry.page, entry.text) for entry in entries]
            self._notes.append(PdfBlock(BlockKind.contents, pieces))
        dropped = set(map(id, entries))
        lines = [line for line in page if id(line) not in dropped]
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

    def add_asides(self, page: int, texts: Sequence[str]) -> None:
        self._notes += [PdfBlock(BlockKind.paragraph, [Piece(page, text)]) for text in texts]

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
            end, strips = _table_end(lines, at, self._headings)
            if end > at:
                self._add_table(lines[at:end], strips)
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
        if above.hyphenated or line.text[0].islower() or not ends_sentence(above.text):
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
            if returns or ends_sentence(above.text):
                return None
        if shift < -_INDENT * size and self._open is not None and len(self._open.pieces) > 1 and is_item:
            return None
        if self._ends_early(above, line, flow):
            return None if ends_sentence(above.text) else "\n"
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
        elif is_cjk(text[-1:]) and is_cjk(line.text[:1]):
            joiner = ""
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

    def _add_table(self, lines: Sequence[Line], strips: Sequence[_Strip]) -> None:
        rows = [_cells_in(line, strips) for line in lines]
        if _are_columns_of_text(rows):
            # Columns of text, drawn line by line across the page.
            for column in range(len(strips) + 1):
                part = [
                    line._replace(
                        text=row[column].text, left=row[column].left, right=row[column].right, cells=()
                    )
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


def _is_leader(text: str) -> bool:
    """Whether a line ends with dots before the number of a page."""
    return (".." in text or ". ." in text or "……" in text) and _LEADER.search(text) is not None


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


class _Strip(NamedTuple):
    """A space between two columns, as high as `n_lines` lines."""

    left: float
    right: float
    n_lines: int


def _table_end(
    lines: Sequence[Line], start: int, headings: dict[int, tuple[int, int]]
) -> tuple[int, list[_Strip]]:
    """Return the end of the table that begins at a line, and the spaces between its columns.

    A table is three lines or more, and most of them have gaps in equal places. The end is `start` if there is
    none.
    """
    if not lines[start].cells:
        return start, []
    strips: list[_Strip] = []
    solid: list[_Strip] = []
    end = start
    while end < len(lines):
        line = lines[end]
        cells = _divided(line, solid)
        is_item = _BULLET.match(line.text) or _NUMBERED.match(line.text)
        if len(cells) < 2 or is_item or id(line) in headings:
            break
        if end > start and lines[end - 1].bottom - line.bottom > _TABLE_GAP * line.size:
            break
        gaps = [_Strip(left.right, right.left, 1) for left, right in pairwise(cells)]
        strips, n_common = _common(strips, gaps)
        if end > start and 2 * n_common < max(min(len(gaps), len(solid)), 1):
            break
        end += 1
        solid = [strip for strip in strips if 2 * strip.n_lines >= end - start]
        strips = [strip for strip in strips if 4 * strip.n_lines >= end - start]
    if end - start < _MIN_TABLE_ROWS or not solid:
        return start, []
    return end, solid


def _common(strips: Sequence[_Strip], gaps: Sequence[_Strip]) -> tuple[list[_Strip], int]:
    """Return strips and the gaps of one more line, narrowed where they meet, and how many do."""
    merged: list[_Strip] = []
    i = j = n_common = 0
    while i < len(strips) and j < len(gaps):
        strip, gap = strips[i], gaps[j]
        left, right = max(strip.left, gap.left), min(strip.right, gap.right)
        narrower = min(strip.right - strip.left, gap.right - gap.left)
        if right - left > max(1.0, narrower / 2):
            merged.append(_Strip(left, right, strip.n_lines + 1))
            i, j, n_common = i + 1, j + 1, n_common + 1
        elif strip.right < gap.right:
            merged.append(strip)
            i += 1
        else:
            merged.append(gap)
            j += 1
    return [*merged, *strips[i:], *gaps[j:]], n_common


def _divided(line: Line, strips: Sequence[_Strip]) -> list[Cell]:
    """Return the cells of a line; one that goes on over a strip into the next column is two.

    The label of a row may leave less space before its first value than divides cells. The value is a number
    at the end, or begins at the left of the column after a space that is wider than those of the label.
    """
    cells: list[Cell] = []
    for cell in line.cells or (Cell(line.left, line.right, line.text),):
        crossed = [strip for strip in strips if cell.left < strip.left and strip.right < cell.right]
        value = _VALUE_AT_END.search(cell.text) if crossed else None
        if value is not None and any(map(str.isalpha, cell.text[: value.start()])):
            place = cell.right - (cell.right - cell.left) * len(value.group(1)) / len(cell.text)
            cells.append(Cell(cell.left, place - _VALUE_GAP, cell.text[: value.start()]))
            cells.append(Cell(place, cell.right, value.group(1)))
            continue
        at = next((each for strip in crossed for each in cell.breaks if _begins_column(each, strip)), None)
        wide = _WIDER * max((each.gap for each in cell.breaks if each is not at), default=0.0)
        if at is None or at.gap <= max(wide, _LEAST_LABEL_GAP * line.size):
            cells.append(cell)
        else:
            cells.append(Cell(cell.left, at.begins - at.gap, cell.text[: at.at]))
            cells.append(Cell(at.begins, cell.right, cell.text[at.at + 1 :]))
    return cells


def _begins_column(space: Break, strip: _Strip) -> bool:
    return abs(space.begins - strip.right) < _SAME_LEFT


def _cells_in(line: Line, strips: Sequence[_Strip]) -> list[Cell]:
    """Return the cells of a line between the spaces that divide columns."""
    places = [(strip.left + strip.right) / 2 for strip in strips]
    parts: list[list[Cell]] = [[] for _ in range(len(strips) + 1)]
    for cell in _divided(line, strips):
        parts[bisect_right(places, cell.left)].append(cell)
    return [
        Cell(part[0].left, part[-1].right, " ".join(cell.text for cell in part))
        if part
        else Cell(0.0, 0.0, "")
        for part in parts
    ]


def _are_columns_of_text(rows: Sequence[Sequence[Cell]]) -> bool:
    """Whether the cells of lines are columns of running text: long, or in the middle of sentences."""
    cells = [cell for row in rows for cell in row if cell.text]
    if sum(len(cell.text) for cell in cells) > _TEXT_CELL_CHARS * len(cells):
        return True
    columns = [[cell for cell in column if cell.text] for column in zip(*rows, strict=True)]
    n_lower = sum(cell.text[0].islower() for cell in cells)
    return n_lower >= _GOING_ON * len(cells) and all(
        sum(len(cell.text) for cell in column) >= _TEXT_COLUMN_CHARS * len(column) for column in columns
    )
