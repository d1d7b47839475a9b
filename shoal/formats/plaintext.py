"""Plain text to blocks: paragraphs, and the headings that are beyond doubt.

A heading is a chapter line (CHAPTER I, Part One: The Island, BOOK THE FIRST), a roman numeral in a row of
them, a word like PREFACE, an underlined line, each alone between blank lines; or the `== Heading ==` of
encyclopedia pages. Everything else is text: a wrong heading costs more than a missing one.
"""

from __future__ import annotations

import re

from shoal.formats.blocks import MAX_BLOCK_CHARS, Block, BlockKind, assemble
from shoal.formats.headings import MAX_HEADING_CHARS, NUMBER, plain_heading
from shoal.formats.masking import PARAGRAPH_SEPARATOR, mask, mask_formulas
from shoal.models import ParsedDocument

MAX_CHAPTER_LINE_CHARS = 100
# Lines longer than hard-wrapped text has. Where most of a text is in such lines, a newline ends a paragraph.
LONG_LINE_CHARS = 150

_LONG_LINE = re.compile(rf"[^\r\n]{{{LONG_LINE_CHARS},}}+")
_BLANK_BELOW = re.compile(r"[ \t]*+(?:\Z|(?:\r\n|\n|\r)[ \t]*+(?:\Z|[\r\n\f]))")
_TITLE_BELOW = re.compile(r"(?:[ \t]*+(?:\r\n|\n|\r)){1,3}+[ \t]*+(\w[^\r\n]*)")
# Lines worth a look: those that begin as a heading or a rule may.
_CANDIDATE = re.compile(
    r"""[\r\n][ \t]*+(?=
          [=*_~-]
        | (?:chapter|book|part|volume|vol\.|act|scene|canto|section|letter|appendix)[ \t]
        | (?:preface|prologue|epilogue|foreword|introduction|conclusion|afterword|contents|appendix|glossary)\b
        | [IVXLCDM]+\.?[ \t]*[\r\n]
    )([^\r\n]+)""",
    re.VERBOSE | re.IGNORECASE,
)
_WIKI = re.compile(r"(={2,6})[ \t]*([^=\s](?:.*[^=\s])?)[ \t]*(={2,6})[ \t]*\Z")
_CHAPTER = re.compile(
    rf"""(?:chapter|book|part|volume|vol\.|act|scene|canto|section|letter|appendix)[ \t]+
         (?:the[ \t]+)?(?:{NUMBER}|[A-Z])
         (?: [ \t]*+\Z | [ \t]*+[.:—–-]++[ \t]*+(?P<marked>\S.*)?\Z | [ \t]++(?P<bare>\S.*)\Z )""",
    re.VERBOSE | re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?:preface|prologue|epilogue|foreword|introduction|conclusion|afterword|contents|appendix|glossary)[.:]?\Z",
    re.IGNORECASE,
)
_ROMAN = re.compile(r"([IVXLCDM]+)\.?\Z")
_UNDERLINE = re.compile(r"(?:={3,}|-{3,}|~{3,})\Z")
_RULE_MARKS = "-*_=~"
# How far an underline may be longer or shorter than its heading.
_UNDERLINE_SLACK = 3
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def parse_plaintext(content: str, *, max_block_chars: int = MAX_BLOCK_CHARS) -> ParsedDocument:
    """Sections, sentences and left-out spans of any plain text. Raises DocumentTooLargeError."""
    masked = mask(mask_formulas(content))
    if _newline_ends_paragraph(content):
        # White space like the newline it replaces, but one that ends a sentence.
        masked = masked.replace("\n", PARAGRAPH_SEPARATOR).replace("\r", PARAGRAPH_SEPARATOR)
    return assemble(content, masked, read_blocks(content), max_block_chars=max_block_chars)


def read_blocks(content: str) -> list[Block]:
    """Headings and rules, and the prose between them."""
    blocks: list[Block] = []
    at = 0
    for block in _marked_lines(content):
        if at < block.start:
            blocks.append(Block(BlockKind.prose, at, block.start))
        blocks.append(block)
        at = block.end
    if at < len(content):
        blocks.append(Block(BlockKind.prose, at, len(content)))
    return blocks


def _newline_ends_paragraph(content: str) -> bool:
    """Whether the text is not wrapped: every paragraph is one line, as copies of web pages have it."""
    return 2 * sum(line.end() - line.start() for line in _LONG_LINE.finditer(content)) > len(content)


def _marked_lines(content: str) -> list[Block]:
    """The headings and rules, in order."""
    found: list[Block] = []
    numerals: list[tuple[int, int]] = []  # (index into found, value)
    # The pattern wants the newline before a line; the first line has none.
    shifted = "\n" + content
    for match in _CANDIDATE.finditer(shifted):
        start = match.start(1) - 1
        line = match.group(1).rstrip()
        block = _read(content, start, start + len(line), line)
        if block is None or (found and block.start < found[-1].end):
            continue
        numeral = _ROMAN.fullmatch(line)
        if numeral and block.kind is BlockKind.heading:
            numerals.append((len(found), _roman_value(numeral.group(1))))
        found.append(block)
    return _without_lone_numerals(found, numerals)


def _read(content: str, start: int, end: int, line: str) -> Block | None:
    if line[0] == "=" and len(line) <= MAX_HEADING_CHARS:
        wiki = _WIKI.match(line)
        if wiki and wiki.group(1) == wiki.group(3):
            return _heading(start, end, len(wiki.group(1)) - 1, wiki.group(2))
    if line[0] in _RULE_MARKS:
        return _underlined(content, start, end, line) or _rule(start, end, line)
    if len(line) > MAX_CHAPTER_LINE_CHARS or not _blank_above(content, start):
        return None
    chapter = _CHAPTER.match(line)
    if chapter is None:
        named = (_NAMED.match(line) or _ROMAN.match(line)) and _blank_below(content, end)
        return _heading(start, end, 1, line) if named else None
    title = chapter.group("bare")
    if title is None and chapter.group("marked") is None:
        below = _title_below(content, end)
        if below is not None:
            joint = ". " if line[-1].isalnum() else " "
            return _heading(start, below[1], 1, line + joint + content[slice(*below)])
    elif title is not None and not _is_title(title):
        return None
    return _heading(start, end, 1, line) if _blank_below(content, end) else None


def _heading(start: int, end: int, level: int, source: str) -> Block:
    return Block(BlockKind.heading, start, end, level, plain_heading(source))


def _rule(start: int, end: int, line: str) -> Block | None:
    """`* * *`, `-----` and their like."""
    marks = line.replace(" ", "").replace("\t", "")
    if len(marks) < 3 or marks.strip(marks[0]):
        return None
    return Block(BlockKind.left_out, start, end, text="rule")


def _underlined(content: str, start: int, end: int, line: str) -> Block | None:
    """The heading that this line underlines."""
    if not _UNDERLINE.match(line):
        return None
    above_end = _line_break_before(content, start)
    if above_end is None:
        return None
    low = max(0, above_end - MAX_CHAPTER_LINE_CHARS - 2)
    above_start = max(content.rfind("\n", low, above_end), content.rfind("\r", low, above_end)) + 1
    if above_start == 0 and low > 0:
        return None
    heading = content[above_start:above_end].strip()
    if not heading or not heading[0].isalnum() or heading[-1] in ".,;":
        return None
    if abs(len(heading) - len(line)) > _UNDERLINE_SLACK:
        return None
    if not _blank_above(content, above_start):
        return None
    return _heading(above_start, end, 1 if line[0] == "=" else 2, heading)


def _is_title(text: str) -> bool:
    """Whether words read as a title and not as a sentence."""
    if text[-1] in ".,;:" or not (text[0].isupper() or text[0] in "\"'“‘("):
        return False
    long_words = [word for word in text.split() if len(word) > 3 and word[0].isalpha()]
    return sum(word[0].isupper() for word in long_words) * 2 >= len(long_words)


def _title_below(content: str, end: int) -> tuple[int, int] | None:
    """The title that stands between a bare "CHAPTER I", which ends at `end`, and a blank line: a short line
    that no full stop or comma ends, unless it is all in capitals."""
    below = _TITLE_BELOW.match(content, end, end + 3 * MAX_CHAPTER_LINE_CHARS)
    if below is None:
        return None
    title = below.group(1).rstrip()
    start = below.start(1)
    if len(title) > MAX_CHAPTER_LINE_CHARS or title[0].islower() or _CHAPTER.match(title):
        return None
    if title[-1] in ".,;:!" and not title.isupper():
        return None
    return (start, start + len(title)) if _blank_below(content, start + len(title)) else None


def _line_break_before(content: str, start: int) -> int | None:
    """Where the newline before this line begins, if only blanks stand between; None on the first line."""
    at = start
    while at > 0 and content[at - 1] in " \t":
        at -= 1
    if at == 0 or content[at - 1] not in "\r\n":
        return None
    return at - 2 if content[at - 2 : at] == "\r\n" else at - 1


def _blank_above(content: str, start: int) -> bool:
    """Whether a blank line, or the start of the text, is above the line of this position."""
    at = _line_break_before(content, start)
    if at is None:
        return True
    while at > 0 and content[at - 1] in " \t":
        at -= 1
    return at == 0 or content[at - 1] in "\r\n\f"


def _blank_below(content: str, end: int) -> bool:
    return _BLANK_BELOW.match(content, end) is not None


def _without_lone_numerals(found: list[Block], numerals: list[tuple[int, int]]) -> list[Block]:
    """Numerals stay headings only where they count up from one: "I" alone is a word as well."""
    expected = 1
    counted: set[int] = set()
    for index, value in numerals:
        if value == expected or value == 1:
            expected = value + 1
            counted.add(index)
    lone = {index for index, _ in numerals} - (counted if len(counted) > 1 else set())
    return [block for index, block in enumerate(found) if index not in lone]


def _roman_value(numeral: str) -> int:
    values = [_ROMAN_VALUES[letter] for letter in numeral]
    return sum(
        -value if value < following else value
        for value, following in zip(values, [*values[1:], 0], strict=True)
    )
