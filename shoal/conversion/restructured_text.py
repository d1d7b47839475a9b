"""Converter of reStructuredText to Markdown, without docutils: no directive is run and no file included."""

from __future__ import annotations

import csv
import re
from collections.abc import Generator, Iterator
from itertools import islice, pairwise

from shoal.conversion.converted import ConversionError, Converted, escaped, fence, heading, one_line, table
from shoal.conversion.main_content import RemovedTexts
from shoal.conversion.texts import decode_text
from shoal.models.documents import DocFormat
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
_REMOVED = words_of(
    "contents toctree index meta raw include literalinclude highlight currentmodule module sectnum "
    "default-role role container-class automodule autoclass autofunction autosummary automethod title "
    "header footer class image sectionauthor codeauthor py:currentmodule only-html bibliography plot "
    "testsetup testcleanup tabularcolumns"
)


def convert_rst(data: bytes, name: str) -> Converted:
    """Convert reStructuredText: headings by the order of their underlines, directives as their text."""
    reader = _Reader()
    lines = [line.expandtabs(8).rstrip() for line in decode_text(data).split("\n")]
    reader.find_substitutions(lines)
    blocks = [block for block in reader.blocks(lines, 0) if block]
    if not blocks:
        raise ConversionError("no_text", "the file has no text")
    return Converted("\n\n".join(blocks), DocFormat.markdown, reader.title, removed=reader.removed.listed())


class _Reader:
    def __init__(self) -> None:
        self.removed = RemovedTexts()
        self.title = ""
        self._styles: list[tuple[str, bool]] = []
        self._substitutions: dict[str, str] = {}

    def find_substitutions(self, lines: list[str]) -> None:
        for line in lines:
            match = _DIRECTIVE.match(line) if line.startswith(".. |") else None
            if match and match.group(1) and match.group(2) == "replace":
                self._substitutions[match.group(1)] = (match.group(3) or "")[:_MAX_SPAN]

    def blocks(self, lines: list[str], depth: int) -> Iterator[str]:
        """Yield the blocks of Markdown of lines that are indented alike."""
        at = 0
        while at < len(lines):
            section = self._section(lines, at) if depth == 0 and lines[at] else None
            if section is not None:
                text, at = section
                yield text
            elif lines[at]:
                at = yield from self._block(lines, at, depth)
            else:
                at += 1

    def _block(self, lines: list[str], at: int, depth: int) -> Generator[str, None, int]:
        """Yield what begins at this line, which is no heading, and return the line after it."""
        line = lines[at]
        if line[0] == " ":
            end = _indented_end(lines, at)
            inner = _dedented(lines[at:end])
            yield from self._quoted(inner, depth)
            at = end
        elif line.startswith("..") and line[2:3] in ("", " "):
            end = _indented_end(lines, at + 1)
            yield from self._explicit(line, lines[at + 1 : end], depth)
            at = end
        elif _SIMPLE_RULE.match(line) or _GRID_RULE.match(line):
            end = _table_end(lines, at)
            yield self._table(lines[at:end])
            at = end
        elif line.startswith(">>> "):
            end = _paragraph_end(lines, at)
            yield fence("\n".join(lines[at:end]), "python")
            at = end
        elif _ITEM.match(line):
            end, text = self._item(lines, at, depth)
            yield text
            at = end
        elif (match := _FIELD.match(line)) is not None and match.group(1):
            end = _indented_end(lines, at + 1, blank_ends=True)
            value = one_line(" ".join([match.group(2) or "", *lines[at + 1 : end]]))
            yield f"{escaped(match.group(1))}: {self._inline(value)}"
            at = end
        else:
            end = _paragraph_end(lines, at)
            text, literal = self._paragraph(lines[at:end])
            yield text
            at = end
            if literal:
                while at < len(lines) and not lines[at]:
                    at += 1
                end = _indented_end(lines, at)
                if end > at:
                    yield fence("\n".join(_dedented(lines[at:end])))
                    at = end
        return at

    def _section(self, lines: list[str], at: int) -> tuple[str, int] | None:
        """Read a title with a line of marks below it, and perhaps above; return it and the next line."""
        line = lines[at]
        over = _ADORNMENT.fullmatch(line) is not None
        title_at = at + 1 if over else at
        if title_at + 1 >= len(lines):
            return ("", at + 1) if over and not any(lines[at + 1 :]) else None
        title, under = lines[title_at].strip(), lines[title_at + 1]
        match = _ADORNMENT.fullmatch(under)
        if over and (match is None or match.group(1) != line[0] or not title):
            # A line of marks between blank lines separates parts of the text.
            return (
                ("", at + 1)
                if not lines[at + 1] and len(line) >= 4 and not _SIMPLE_RULE.match(line)
                else None
            )
        if match is None or not title or (not over and lines[at][0] == " "):
            return None
        if len(under) < min(len(title), 4) or (_ADORNMENT.fullmatch(title) and not over):
            return None
        style = (match.group(1), over)
        if style not in self._styles:
            self._styles.append(style)
        text = one_line(self._inline(title))
        self.title = self.title or text.replace("`", "")[:500]
        return heading(self._styles.index(style) + 1, text), title_at + 2

    def _explicit(self, line: str, body: list[str], depth: int) -> Iterator[str]:
        """Write what begins with two dots: a directive, a footnote, a target or a comment."""
        directive = _DIRECTIVE.match(line)
        if directive and not directive.group(1):
            yield from self._directive(directive.group(2), directive.group(3) or "", body, depth)
            return
        note = _NOTE.match(line)
        if note:
            yield f"\\[{note.group(1)}] {self._inline(one_line(' '.join([note.group(2), *body])))}"
        elif not _TARGET.match(line) and not directive:
            self.removed.add("comment", " ".join([line[2:], *body[:20]]))

    def _directive(self, name: str, argument: str, body: list[str], depth: int) -> Iterator[str]:
        name = name.lower()
        options, inner = _options(_dedented(body))
        text = "\n".join(inner).strip("\n")
        if name in _REMOVED or name.startswith("auto"):
            if name == "image" and options.get("alt"):
                yield escaped(options["alt"])
            else:
                self.removed.add("directive", f"{name} {argument} {text}")
        elif name in _CODE:
            language = argument.split(None, 1)[0].lower() if argument.strip() else ""
            yield fence(text, language if re.fullmatch(r"[\w+#-]{1,30}", language) else "") if text else ""
        elif name == "math":
            yield fence("\n".join(filter(None, [argument, text])), "math")
        elif name in ("list-table", "csv-table"):
            yield escaped(self._inline(argument))
            is_list = name == "list-table"
            yield self._list_table(inner) if is_list else self._csv_table(options.get("header", ""), inner)
        elif depth >= _MAX_DEPTH:
            yield fence(text) if text else ""
        elif name in _VERSIONS:
            version, _, rest = argument.partition(" ")
            yield from self.blocks([f"{_VERSIONS[name]} {version}: {rest}".rstrip(" :"), *inner], depth + 1)
        elif name in _TITLED:
            yield escaped(self._inline(argument))
            yield from self.blocks(inner, depth + 1)
        elif name in _ADMONITIONS:
            label = name.capitalize() if name != "seealso" else "See also"
            first = [argument] if argument else inner[:1]
            yield from self.blocks([f"{label}: {' '.join(first)}", *inner[0 if argument else 1 :]], depth + 1)
        else:
            # A directive of a domain documents what its argument names; of a figure that is a file.
            if name == "table":
                yield escaped(self._inline(argument))
            elif argument and name not in _UNNAMED:
                yield f"`{argument.replace('`', '')}`"
            yield from self.blocks(inner, depth + 1)

    def _quoted(self, inner: list[str], depth: int) -> Iterator[str]:
        """Write an indented part: a quote, or the text below a term."""
        if depth >= _MAX_DEPTH:
            yield fence("\n".join(inner))
            return
        yield from self.blocks(inner, depth + 1)

    def _item(self, lines: list[str], at: int, depth: int) -> tuple[int, str]:
        """Write one item of a list with what is indented below it."""
        match = _ITEM.match(lines[at])
        assert match is not None, "it has just matched"
        end = _indented_end(lines, at + 1)
        mark = match.group(1)
        digits = mark.strip("().")
        marker = f"{digits}. " if digits.isdigit() else "1. " if digits == "#" else "- "
        first = lines[at][match.end() :]
        if digits.isalpha() or digits in ("i", "v", "x"):
            first = f"{mark} {first}"
        inner = [first, *_dedented(lines[at + 1 : end])]
        if depth >= _MAX_DEPTH:
            return end, f"{marker}{one_line(' '.join(inner))}"
        text = "\n\n".join(block for block in self.blocks(inner, depth + 1) if block)
        indent = " " * len(marker)
        shown = "\n".join(f"{indent}{line}" if line else "" for line in text.split("\n"))
        return end, marker + shown[len(indent) :]

    def _paragraph(self, lines: list[str]) -> tuple[str, bool]:
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

    def _table(self, lines: list[str]) -> str:
        rows = _grid_rows(lines) if lines[0][0] == "+" else _simple_rows(lines)
        if rows is None:
            return fence("\n".join(lines))
        return table([[self._inline(cell) for cell in row] for row in rows])

    def _list_table(self, lines: list[str]) -> str:
        rows: list[list[str]] = []
        for line in lines:
            text = line.strip()
            if re.match(r"[*-][ \t]+[*-](?:[ \t]|$)", text):
                rows.append([text[1:].strip()[1:].strip()])
            elif re.match(r"[*-](?:[ \t]|$)", text) and rows:
                rows[-1].append(text[1:].strip())
            elif text and rows:
                rows[-1][-1] += f" {text}"
        return table([[self._inline(cell) for cell in row] for row in rows])

    def _csv_table(self, header: str, lines: list[str]) -> str:
        try:
            rows = list(
                csv.reader(
                    [*([header] if header else []), *(line for line in lines if line)], skipinitialspace=True
                )
            )
        except csv.Error:
            return fence("\n".join(lines))
        return table([[self._inline(cell) for cell in row] for row in rows])


def _options(lines: list[str]) -> tuple[dict[str, str], list[str]]:
    """Split the lines of a directive into its options and its content."""
    options: dict[str, str] = {}
    for number, line in enumerate(lines):
        match = _OPTION.match(line)
        if match is None:
            return options, lines[number:]
        options[match.group(1)] = match.group(2) or ""
    return options, []


def _role_text(role: re.Match[str]) -> str:
    """Return the words of a role: names of code as code."""
    match = _TITLE_IN_ROLE.match(role.group(2))
    text = one_line(match.group(1) if match else role.group(2)).lstrip("~!")
    return text if role.group(1) in _PROSE_ROLES else f"`{text}`"


def _indented_end(lines: list[str], at: int, *, blank_ends: bool = False) -> int:
    """Return the end of the indented lines from `at`, without blank lines after them."""
    end = at
    while at < len(lines) and (not lines[at] or lines[at][0] == " "):
        if lines[at]:
            end = at + 1
        elif blank_ends:
            break
        at += 1
    return end


def _paragraph_end(lines: list[str], at: int) -> int:
    at += 1
    while at < len(lines) and lines[at] and lines[at][0] != " ":
        at += 1
    return at


def _table_end(lines: list[str], at: int) -> int:
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


def _dedented(lines: list[str]) -> list[str]:
    """Return lines without the indentation that all have."""
    indent = min((len(line) - len(line.lstrip(" ")) for line in lines if line), default=0)
    return [line[indent:] for line in lines]


def _simple_rows(lines: list[str]) -> list[list[str]] | None:
    starts = [match.start() for match in re.finditer("=+", lines[0])]
    bounds = list(zip(starts, [*starts[1:], None], strict=True))
    rows: list[list[str]] = []
    for line in lines[1:]:
        if not line or set(line) <= {"=", " ", "-"}:
            continue
        cells = [line[start:end].strip() for start, end in bounds]
        if not cells[0] and rows:
            rows[-1] = [f"{old} {new}".strip() for old, new in zip(rows[-1], cells, strict=True)]
        else:
            rows.append(cells)
    return rows or None


def _grid_rows(lines: list[str]) -> list[list[str]] | None:
    """Return the cells of a table drawn with lines; None if cells span others."""
    bounds = [number for number, mark in enumerate(lines[0]) if mark == "+"]
    rows: list[list[str]] = []
    is_new = True
    for line in lines[1:]:
        if _GRID_RULE.match(line):
            is_new = True
        elif line[:1] != "|" or any(line[bound : bound + 1] not in ("|", "+") for bound in bounds):
            return None
        else:
            cells = [line[start + 1 : end].strip() for start, end in pairwise(bounds)]
            if is_new:
                rows.append(cells)
                is_new = False
            else:
                rows[-1] = [f"{old} {new}".strip() for old, new in zip(rows[-1], cells, strict=True)]
    return rows or None
