"""Converter of reStructuredText to Markdown, without docutils: no directive is run and no file included.

Each line of the Markdown has the number of the line of the file that it comes from, so that a passage is
cited by the lines of its file.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from shoal.conversion.converted import (
    ConversionError,
    Converted,
    TextBuilder,
    escaped,
    fence,
    heading,
    one_line,
    table,
)
from shoal.conversion.main_content import RemovedTexts
from shoal.conversion.texts import decode_text
from shoal.models.documents import DocFormat
from shoal.models.files import Locator, LocatorKind
from shoal.support.plain_text import words_of

_MAX_DEPTH = 12
"""Directives within directives; what is nested deeper is written as code."""
_MAX_SPAN = 10_000
_MAX_TABLE_LINES = 2000
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}[ \t]*")
_DIRECTIVE = re.compile(r"\.\.[ \t]+(?:\|([^|]{1,100})\|[ \t]+)?([A-Za-z][\w:.+-]{0,60})::(?:[ \t]+(.*))?$")
_NOTE = re.compile(r"\.\.[ \t]+\[([^\[\]]{1,60})\][ \t]*(.*)$")
_TARGET = re.compile(r"(?:\.\.[ \t]+_(?:[^:\\]|\\.){0,200}:|__[ \t]).*$")
_OPTION = re.compile(r":([\w -]{1,60}):(?:[ \t]+(.*))?$")
_FIELD = re.compile(r":([^:\s][^:]{0,100}):(?:[ \t]+(.*))?$")
_ITEM = re.compile(
    r"([-*+•]|(?:\d{1,5}|#|[A-Za-z]|[ivxlIVXL]{1,6})[.)]|\((?:\d{1,5}|#|[A-Za-z])\))[ \t]+(?=\S)"
)
_SIMPLE_RULE = re.compile(r"=+(?:[ \t]+=+)+[ \t]*$")
_GRID_RULE = re.compile(r"\+(?:[-=]+\+)+[ \t]*$")
_ROLE = re.compile(r":(?:[A-Za-z][\w.+-]{0,40}:)?([A-Za-z][\w.+-]{0,40}):`([^`]{1,1000})`")
_LINK = re.compile(r"`([^`<>]{1,1000}?)[ \t\n]*<[^<>`]{1,1000}>`_{0,2}")
_REFERENCE = re.compile(r"`([^`]{1,1000})`_{1,2}")
_WORD_REFERENCE = re.compile(r"(?<![\w`*_])([A-Za-z0-9](?:[\w.-]{0,60}[A-Za-z0-9])?)_{1,2}(?![\w`])")
_NOTE_REFERENCE = re.compile(r"\[([^\[\]\s]{1,60})\]_(?!\w)")
_SUBSTITUTION = re.compile(r"\|([^|\s][^|\n]{0,100})\|_{0,2}")
_TITLE_IN_ROLE = re.compile(r"(.+?)<[^<>]{1,1000}>$", re.DOTALL)
_CODE_SPAN = re.compile(r"(``[^\n]{1,1000}?``)")

_CODE = words_of(
    "code code-block sourcecode parsed-literal doctest testcode testoutput ipython prompt highlight"
)
_ADMONITIONS = words_of("note warning tip important hint caution danger attention error seealso todo")
_TITLED = words_of("admonition topic sidebar rubric")
_VERSIONS = {
    "versionadded": "Added in version",
    "versionchanged": "Changed in version",
    "versionremoved": "Removed in version",
    "deprecated": "Deprecated since version",
}
_UNNAMED = words_of("figure only tab container epigraph")
_PROSE_ROLES = words_of(
    "ref doc term numref any download strong emphasis title title-reference sup sub superscript subscript "
    "abbr pep rfc guilabel menuselection index eq keyword dfn program manpage cite"
)
_NAMING = frozenset({"include", "literalinclude"})
_MAX_NAMES = 1000
_REMOVED = words_of(
    "contents toctree index meta raw include literalinclude highlight currentmodule module sectnum "
    "default-role role container-class automodule autoclass autofunction autosummary automethod title "
    "header footer class image sectionauthor codeauthor py:currentmodule only-html bibliography plot "
    "testsetup testcleanup tabularcolumns"
)


MAX_PLACES = 20_000
"""Places of a file. Those of a longer one have several lines each."""


class _Lines(NamedTuple):
    """Lines that are indented alike, without their indentation, and their numbers in the file, from 1."""

    texts: Sequence[str]
    numbers: Sequence[int]

    def part(self, start: int, end: int | None = None) -> _Lines:
        return _Lines(self.texts[start:end], self.numbers[start:end])

    def after(self, text: str, number: int) -> _Lines:
        """Return these lines after another one."""
        return _Lines([text, *self.texts], [number, *self.numbers])

    def dedented(self) -> _Lines:
        """Return the lines without the indentation that all have."""
        indents = (len(text) - len(text.lstrip(" ")) for text in self.texts if text)
        indent = min(indents, default=0)
        return _Lines([text[indent:] for text in self.texts], self.numbers)

    def stripped(self) -> _Lines:
        """Return the lines without empty ones at the ends."""
        filled = [at for at, text in enumerate(self.texts) if text]
        return self.part(filled[0], filled[-1] + 1) if filled else self.part(0, 0)

    def block(self, text: str) -> _Lines:
        """Return a block of Markdown that was made of these lines, with their numbers: line by line, and the
        last for all that are left."""
        shown = text.split("\n")
        last = len(self.numbers) - 1
        return _Lines(shown, [self.numbers[min(at, last)] for at in range(len(shown))])

    def fenced(self, language: str = "") -> _Lines:
        """Return these lines as a block of code."""
        first, *shown = fence("\n".join(self.texts), language).split("\n")
        return _Lines([first, *shown], [self.numbers[0], *self.numbers, self.numbers[-1]])


def convert_rst(data: bytes, name: str) -> Converted:
    """Convert reStructuredText: headings by the order of their underlines, directives as their text."""
    reader = _Reader()
    lines = [line.expandtabs(8).rstrip() for line in decode_text(data).split("\n")]
    reader.find_substitutions(lines)
    builder = TextBuilder()
    places: list[Locator] = []
    for block in _filled(reader.blocks(_Lines(lines, range(1, len(lines) + 1)), 0)):
        start = builder.block("\n".join(block.texts))
        for text, number in zip(block.texts, block.numbers, strict=True):
            end = start + len(text)
            if text:
                places.append(Locator(start, end, LocatorKind.line, "", number, number))
            start = end + 1
    if not places:
        # A page of directives alone is what they name.
        start = builder.block("\n\n".join(map(escaped, reader.names)))
        builder.locate(start, LocatorKind.line, "", 1, len(lines))
        places = builder.locators
    if not places:
        raise ConversionError("no_text", "the file has no text")
    return Converted(
        builder.content(),
        DocFormat.markdown,
        reader.title,
        tuple(_joined(places)),
        removed=reader.removed.listed(),
    )


def _joined(places: list[Locator]) -> Sequence[Locator]:
    """Return MAX_PLACES places at most: neighbours share one, if there are more."""
    if len(places) <= MAX_PLACES:
        return places
    size = -(-len(places) // MAX_PLACES)
    groups = (places[at : at + size] for at in range(0, len(places), size))
    return [
        Locator(
            *(near[0].start_char, near[-1].end_char, LocatorKind.line, ""),
            *(min(each.first for each in near), max(each.last for each in near)),
        )
        for near in groups
    ]


def _filled(blocks: Iterable[_Lines]) -> Iterator[_Lines]:
    return (block for block in blocks if any(block.texts))


class _Reader:
    def __init__(self) -> None:
        self.removed = RemovedTexts()
        self.names: list[str] = []  # of what removed directives include or document
        self.title = ""
        self._styles: list[tuple[str, bool]] = []
        self._substitutions: dict[str, str] = {}

    def find_substitutions(self, lines: list[str]) -> None:
        for line in lines:
            match = _DIRECTIVE.match(line) if line.startswith(".. |") else None
            if match and match.group(1) and match.group(2) == "replace":
                self._substitutions[match.group(1)] = (match.group(3) or "")[:_MAX_SPAN]

    def blocks(self, lines: _Lines, depth: int) -> Iterator[_Lines]:
        """Yield the blocks of Markdown of lines that are indented alike."""
        at, texts = 0, lines.texts
        while at < len(texts):
            section = self._section(lines, at) if depth == 0 and texts[at] else None
            if section is not None:
                block, at = section
                yield block
            elif texts[at]:
                at = yield from self._block(lines, at, depth)
            else:
                at += 1

    def _block(self, lines: _Lines, at: int, depth: int) -> Generator[_Lines, None, int]:
        """Yield what begins at this line, which is no heading, and return the line after it."""
        texts = lines.texts
        line = texts[at]
        if line[0] == " ":
            end = _indented_end(texts, at)
            yield from self._quoted(lines.part(at, end).dedented(), depth)
        elif line.startswith("..") and line[2:3] in ("", " "):
            end = _indented_end(texts, at + 1)
            yield from self._explicit(lines.part(at, end), depth)
        elif _SIMPLE_RULE.match(line) or _GRID_RULE.match(line):
            end = _table_end(texts, at)
            yield self._table(lines.part(at, end))
        elif line.startswith(">>> "):
            end = _paragraph_end(texts, at)
            yield lines.part(at, end).fenced("python")
        elif _ITEM.match(line):
            end = _indented_end(texts, at + 1)
            yield self._item(lines.part(at, end), depth)
        elif (match := _FIELD.match(line)) is not None and match.group(1):
            end = _indented_end(texts, at + 1, blank_ends=True)
            value = one_line(" ".join([match.group(2) or "", *texts[at + 1 : end]]))
            yield lines.part(at, end).block(f"{escaped(match.group(1))}: {self._inline(value)}")
        else:
            end = _paragraph_end(texts, at)
            text, literal = self._paragraph(texts[at:end])
            yield lines.part(at, end).block(text)
            if literal:
                while end < len(texts) and not texts[end]:
                    end += 1
                start, end = end, _indented_end(texts, end)
                if end > start:
                    yield lines.part(start, end).dedented().fenced()
        return end

    def _section(self, lines: _Lines, at: int) -> tuple[_Lines, int] | None:
        """Read a title with a line of marks below it, and perhaps above; return it and the next line."""
        texts = lines.texts
        line = texts[at]
        over = _ADORNMENT.fullmatch(line) is not None
        title_at = at + 1 if over else at
        if title_at + 1 >= len(texts):
            return (lines.part(0, 0), at + 1) if over and not any(texts[at + 1 :]) else None
        title, under = texts[title_at].strip(), texts[title_at + 1]
        match = _ADORNMENT.fullmatch(under)
        if over and (match is None or match.group(1) != line[0] or not title):
            # A line of marks between blank lines separates parts of the text.
            return (
                (lines.part(0, 0), at + 1)
                if not texts[at + 1] and len(line) >= 4 and not _SIMPLE_RULE.match(line)
                else None
            )
        if match is None or not title or (not over and texts[at][0] == " "):
            return None
        if len(under) < min(len(title), 4) or (_ADORNMENT.fullmatch(title) and not over):
            return None
        style = (match.group(1), over)
        if style not in self._styles:
            self._styles.append(style)
        text = one_line(self._inline(title))
        self.title = self.title or text.replace("`", "")[:500]
        block = lines.part(title_at, title_at + 1).block(heading(self._styles.index(style) + 1, text))
        return block, title_at + 2

    def _explicit(self, lines: _Lines, depth: int) -> Iterator[_Lines]:
        """Write what begins with two dots: a directive, a footnote, a target or a comment."""
        line, *body = lines.texts
        directive = _DIRECTIVE.match(line)
        if directive and not directive.group(1):
            yield from self._directive(directive.group(2), directive.group(3) or "", lines, depth)
            return
        note = _NOTE.match(line)
        if note:
            text = self._inline(one_line(" ".join([note.group(2), *body])))
            yield lines.block(f"\\[{note.group(1)}] {text}")
        elif not _TARGET.match(line) and not directive:
            self.removed.add("comment", " ".join([line[2:], *body[:20]]))

    def _directive(self, name: str, argument: str, lines: _Lines, depth: int) -> Iterator[_Lines]:
        name, first, number = name.lower(), lines.part(0, 1), lines.numbers[0]
        options, inner = _options(lines.part(1).dedented())
        stripped = inner.stripped()
        if name in _REMOVED or name.startswith("auto"):
            if name == "image" and options.get("alt"):
                yield first.block(escaped(options["alt"]))
            else:
                text = "\n".join(stripped.texts)
                self.removed.add("directive", f"{name} {argument} {text}")
                if argument and len(self.names) < _MAX_NAMES and (name in _NAMING or name.startswith("auto")):
                    self.names.append(f"{name} {argument}")
        elif name in _CODE:
            language = argument.split(None, 1)[0].lower() if argument.strip() else ""
            if stripped.texts:
                yield stripped.fenced(language if re.fullmatch(r"[\w+#-]{1,30}", language) else "")
        elif name == "math":
            formula = stripped.after(argument, number) if argument else stripped
            yield (formula if formula.texts else first.block("")).fenced("math")
        elif name in ("list-table", "csv-table"):
            yield first.block(escaped(self._inline(argument)))
            if name == "list-table":
                yield self._list_table(inner)
            else:
                header = options.get("header", "")
                yield self._csv_table(inner.after(header, number) if header else inner)
        elif depth >= _MAX_DEPTH:
            if stripped.texts:
                yield stripped.fenced()
        else:
            yield from self._explained(name, argument, inner, depth, number)

    def _explained(
        self, name: str, argument: str, inner: _Lines, depth: int, number: int
    ) -> Iterator[_Lines]:
        """Write a directive whose content is text; `number`: that of its first line."""
        if name in _VERSIONS:
            version, _, rest = argument.partition(" ")
            inner = inner.after(f"{_VERSIONS[name]} {version}: {rest}".rstrip(" :"), number)
        elif name in _ADMONITIONS:
            label = name.capitalize() if name != "seealso" else "See also"
            if not argument and inner.texts:
                argument, number, inner = inner.texts[0], inner.numbers[0], inner.part(1)
            inner = inner.after(f"{label}: {argument}", number)
        elif name in _TITLED or name == "table":
            yield _Lines([escaped(self._inline(argument))], [number])
        elif argument and name not in _UNNAMED:
            # A directive of a domain documents what its argument names; of a figure that is a file.
            yield _Lines([f"`{argument.replace('`', '')}`"], [number])
        yield from self.blocks(inner, depth + 1)

    def _quoted(self, inner: _Lines, depth: int) -> Iterator[_Lines]:
        """Write an indented part: a quote, or the text below a term."""
        if depth >= _MAX_DEPTH:
            yield inner.fenced()
            return
        yield from self.blocks(inner, depth + 1)

    def _item(self, lines: _Lines, depth: int) -> _Lines:
        """Write one item of a list with what is indented below it."""
        match = _ITEM.match(lines.texts[0])
        assert match is not None, "it has just matched"
        mark = match.group(1)
        digits = mark.strip("().")
        marker = f"{digits}. " if digits.isdigit() else "1. " if digits == "#" else "- "
        first = lines.texts[0][match.end() :]
        if digits.isalpha() or digits in ("i", "v", "x"):
            first = f"{mark} {first}"
        inner = lines.part(1).dedented().after(first, lines.numbers[0])
        if depth >= _MAX_DEPTH:
            return inner.block(f"{marker}{one_line(' '.join(inner.texts))}")
        texts: list[str] = []
        numbers: list[int] = []
        for block in _filled(self.blocks(inner, depth + 1)):
            if texts:
                texts.append("")
                numbers.append(block.numbers[0])
            texts += block.texts
            numbers += block.numbers
        indent = " " * len(marker)
        shown = [f"{indent}{text}" if text else "" for text in texts] or [indent]
        return _Lines([marker + shown[0][len(indent) :], *shown[1:]], numbers or lines.numbers[:1])

    def _paragraph(self, lines: Sequence[str]) -> tuple[str, bool]:
        """Return a paragraph, and whether a literal block follows it."""
        if lines[0].startswith("| "):
            return "\n".join(escaped(self._inline(line.lstrip("| "))) for line in lines), False
        text = "\n".join(lines)
        literal = text.endswith("::")
        if literal:
            text = text[:-2].rstrip() if text[:-2].endswith((" ", "\n")) or len(text) == 2 else text[:-1]
        return escaped(self._inline(text)), literal

    def _inline(self, text: str) -> str:
        """Return text with the marks of Markdown: links as their words, roles as code."""
        pieces = _CODE_SPAN.split(text)
        for number, piece in enumerate(pieces):
            if number % 2:
                pieces[number] = f"`{piece[2:-2].replace('`', '')}`"
            elif "`" in piece or "_" in piece or "|" in piece:
                pieces[number] = self._without_marks(piece)
        return "".join(pieces)

    def _without_marks(self, text: str) -> str:
        text = _ROLE.sub(_role_text, text)
        text = _LINK.sub(r"\1", text)
        text = _REFERENCE.sub(r"\1", text)
        text = _NOTE_REFERENCE.sub(r"[\1]", text)
        text = _WORD_REFERENCE.sub(r"\1", text)
        return _SUBSTITUTION.sub(lambda match: self._substitutions.get(match.group(1), match.group(0)), text)

    def _table(self, lines: _Lines) -> _Lines:
        rows = _grid_rows(lines) if lines.texts[0][0] == "+" else _simple_rows(lines)
        return lines.fenced() if rows is None else self._shown(rows)

    def _list_table(self, lines: _Lines) -> _Lines:
        rows: list[_Row] = []
        for line, number in zip(*lines, strict=True):
            text = line.strip()
            if re.match(r"[*-][ \t]+[*-](?:[ \t]|$)", text):
                rows.append(_Row([text[1:].strip()[1:].strip()], number))
            elif re.match(r"[*-](?:[ \t]|$)", text) and rows:
                rows[-1].cells.append(text[1:].strip())
            elif text and rows:
                rows[-1].cells[-1] += f" {text}"
        return self._shown(rows)

    def _csv_table(self, lines: _Lines) -> _Lines:
        filled = [(text, number) for text, number in zip(*lines, strict=True) if text]
        reader = csv.reader((text for text, _ in filled), skipinitialspace=True)
        rows: list[_Row] = []
        n_read = 0
        try:
            for cells in reader:
                rows.append(_Row(cells, filled[n_read][1]))
                n_read = reader.line_num
        except csv.Error:
            return lines.fenced()
        return self._shown(rows)

    def _shown(self, rows: Sequence[_Row]) -> _Lines:
        """Return a table of Markdown; the line below its head has the number of the head."""
        shown = table([[self._inline(cell) for cell in row.cells] for row in rows]).split("\n")
        numbers = [row.number for row in rows]
        return _Lines(shown, [*numbers[:1], *numbers] if any(shown) else [0])


class _Row(NamedTuple):
    """The cells of a row of a table, and the number of its first line."""

    cells: list[str]
    number: int


def _options(lines: _Lines) -> tuple[dict[str, str], _Lines]:
    """Split the lines of a directive into its options and its content."""
    options: dict[str, str] = {}
    for at, line in enumerate(lines.texts):
        match = _OPTION.match(line)
        if match is None:
            return options, lines.part(at)
        options[match.group(1)] = match.group(2) or ""
    return options, lines.part(len(lines.texts))


def _role_text(role: re.Match[str]) -> str:
    """Return the words of a role: names of code as code."""
    match = _TITLE_IN_ROLE.match(role.group(2))
    text = one_line(match.group(1) if match else role.group(2)).lstrip("~!")
    return text if role.group(1) in _PROSE_ROLES else f"`{text}`"


def _indented_end(lines: Sequence[str], at: int, *, blank_ends: bool = False) -> int:
    """Return the end of the indented lines from `at`, without blank lines after them."""
    end = at
    while at < len(lines) and (not lines[at] or lines[at][0] == " "):
        if lines[at]:
            end = at + 1
        elif blank_ends:
            break
        at += 1
    return end


def _paragraph_end(lines: Sequence[str], at: int) -> int:
    at += 1
    while at < len(lines) and lines[at] and lines[at][0] != " ":
        at += 1
    return at


def _table_end(lines: Sequence[str], at: int) -> int:
    """Return the end of a table; a simple one may have blank lines inside, and ends with its last rule."""
    if lines[at][0] == "+":
        return _paragraph_end(lines, at)
    numbers = (
        number
        for number in range(at + 1, min(len(lines), at + _MAX_TABLE_LINES))
        if _SIMPLE_RULE.match(lines[number])
    )
    rules = list(islice(numbers, 2))
    return rules[-1] + 1 if rules else _paragraph_end(lines, at)


def _simple_rows(lines: _Lines) -> list[_Row] | None:
    starts = [match.start() for match in re.finditer("=+", lines.texts[0])]
    bounds = list(zip(starts, [*starts[1:], None], strict=True))
    rows: list[_Row] = []
    for line, number in zip(*lines.part(1), strict=True):
        if not line or set(line) <= {"=", " ", "-"}:
            continue
        cells = [line[start:end].strip() for start, end in bounds]
        if not cells[0] and rows:
            _continue(rows[-1], cells)
        else:
            rows.append(_Row(cells, number))
    return rows or None


def _grid_rows(lines: _Lines) -> list[_Row] | None:
    """Return the rows of a table drawn with lines; None if cells span others."""
    bounds = [at for at, mark in enumerate(lines.texts[0]) if mark == "+"]
    rows: list[_Row] = []
    is_new = True
    for line, number in zip(*lines.part(1), strict=True):
        if _GRID_RULE.match(line):
            is_new = True
        elif line[:1] != "|" or any(line[bound : bound + 1] not in ("|", "+") for bound in bounds):
            return None
        else:
            cells = [line[start + 1 : end].strip() for start, end in pairwise(bounds)]
            if is_new:
                rows.append(_Row(cells, number))
                is_new = False
            else:
                _continue(rows[-1], cells)
    return rows or None


def _continue(row: _Row, cells: Sequence[str]) -> None:
    """Add the cells of another line of the same row."""
    row.cells[:] = [f"{old} {new}".strip() for old, new in zip(row.cells, cells, strict=True)]
