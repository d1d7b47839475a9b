"""Reader of plain text: text to blocks, with only unambiguous headings.

A heading is a chapter line (CHAPTER I, Part One: The Island, BOOK THE FIRST), one of a sequence of roman
numerals, a word like PREFACE or an underlined line, each alone between blank lines; or the `== Heading ==` of
encyclopedia pages. Everything else is text: a wrong heading costs more than a missing one.
"""

from __future__ import annotations

import re

from shoal.formats.blocks import MAX_BLOCK_CHARS, Block, BlockKind, assemble
from shoal.formats.headings import MAX_HEADING_CHARS, NUMBER, plain_heading
from shoal.formats.masking import PARAGRAPH_SEPARATOR, mask, mask_formulas
from shoal.models.documents import ParsedDocument

MAX_CHAPTER_LINE_CHARS = 100
# Longer than the lines of hard-wrapped text. If most of a text is in such lines, a newline ends a paragraph.
LONG_LINE_CHARS = 150

_BLANK_BELOW = re.compile(r"[ \t]*+(?:\Z|(?:\r\n|\n|\r)[ \t]*+(?:\Z|[\r\n\f]))")
_TITLE_BELOW = re.compile(r"(?:[ \t]*+(?:\r\n|\n|\r)){1,3}+[ \t]*+(\w[^\r\n]*)")
# Candidate lines: they begin like a heading or a rule.
_CANDIDATE = re.compile(
    r"""[\r\n][ \t]*+(?=
          [=*_~-]
        | (?:chapter|book|part|volume|vol\.|act|scene|canto|section|letter|appendix)[ \t]
        | (?:preface|prologue|epilogue|foreword|introduction|conclusion|afterword|contents|appendix
            |glossary)\b
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
    r"(?:preface|prologue|epilogue|foreword|introduction|conclusion|afterword|contents|appendix|glossary)"
    r"[.:]?\Z",
    re.IGNORECASE,
)
_ROMAN = re.compile(r"([IVXLCDM]+)\.?\Z")
_UNDERLINE = re.compile(r"(?:={3,}|-{3,}|~{3,})\Z")
_RULE_MARKS = "-*_=~"
# Largest difference in length between an underline and its heading.
_UNDERLINE_SLACK = 3
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def parse_plaintext(
    content: str, *, max_block_chars: int = MAX_BLOCK_CHARS, keep_boilerplate: bool = False
) -> ParsedDocument:
    """Parse any plain text into sections, sentences and left-out spans. Raises DocumentTooLargeError."""
    masked = mask(mask_formulas(content))
    if _newline_ends_paragraph(content):
        # White space, like the newline that it replaces, but it ends a sentence.
        masked = masked.replace("\n", PARAGRAPH_SEPARATOR).replace("\r", PARAGRAPH_SEPARATOR)
    return assemble(
        content,
        masked,
        read_blocks(content),
        max_block_chars=max_block_chars,
        keep_boilerplate=keep_boilerplate,
    )


def read_blocks(content: str) -> list[Block]:
    """Return the headings and rules, and the prose between them."""
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
    """Whether the text is not wrapped: every paragraph is one line, as in copies of web pages."""
    lengths = map(len, content.replace("\r", "\n").split("\n"))
    return 2 * sum(length for length in lengths if length >= LONG_LINE_CHARS) > len(content)


def _marked_lines(content: str) -> list[Block]:
    """Return the headings and rules in order."""
    marked: list[Block] = []
    numerals: list[tuple[int, int]] = []  # (index into marked, value)
    # The pattern requires a newline before a line; the first line has none.
    shifted = "\n" + content
    for match in _CANDIDATE.finditer(shifted):
        start = match.start(1) - 1
        line = match.group(1).rstrip()
        block = _read(content, start, start + len(line), line)
        if block is None or (marked and block.start < marked[-1].end):
            continue
        numeral = _ROMAN.fullmatch(line)
        if numeral and block.kind is BlockKind.heading:
            numerals.append((len(marked), _roman_value(numeral.group(1))))
        marked.append(block)
    return _without_lone_numerals(marked, numerals)


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
    """Return the block of a rule such as `* * *` or `-----`."""
    marks = line.replace(" ", "").replace("\t", "")
    if len(marks) < 3 or marks.strip(marks[0]):
        return None
    return Block(BlockKind.left_out, start, end, text="rule")


def _underlined(content: str, start: int, end: int, line: str) -> Block | None:
    """Return the heading that this line underlines, or None."""
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
    """Whether a text looks like a title, not like a sentence."""
    if text[-1] in ".,;:" or not (text[0].isupper() or text[0] in "\"'“‘("):
        return False
    long_words = [word for word in text.split() if len(word) > 3 and word[0].isalpha()]
    return sum(word[0].isupper() for word in long_words) * 2 >= len(long_words)


def _title_below(content: str, end: int) -> tuple[int, int] | None:
    """Find the title between a bare "CHAPTER I", which ends at `end`, and a blank line.

    It is a short line that does not end with a full stop or comma, unless it is all in capitals.
    """
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
    """Return the start of the newline before this line, if only blanks are between; None on the first
    line."""
    at = start
    while at > 0 and content[at - 1] in " \t":
        at -= 1
    if at == 0 or content[at - 1] not in "\r\n":
        return None
    return at - 2 if content[at - 2 : at] == "\r\n" else at - 1


def _blank_above(content: str, start: int) -> bool:
    """Whether the line above this position is blank, or the text starts here."""
    at = _line_break_before(content, start)
    if at is None:
        return True
    while at > 0 and content[at - 1] in " \t":
        at -= 1
    return at == 0 or content[at - 1] in "\r\n\f"


def _blank_below(content: str, end: int) -> bool:
    return _BLANK_BELOW.match(content, end) is not None


def _without_lone_numerals(marked: list[Block], numerals: list[tuple[int, int]]) -> list[Block]:
    """Remove numeral headings that do not count up from one: "I" alone may be a word."""
    expected = 1
    counted: set[int] = set()
    for index, value in numerals:
        if value == expected or value == 1:
            expected = value + 1
            counted.add(index)
    lone = {index for index, _ in numerals} - (counted if len(counted) > 1 else set())
    return [block for index, block in enumerate(marked) if index not in lone]


def _roman_value(numeral: str) -> int:
    values = [_ROMAN_VALUES[letter] for letter in numeral]
    return sum(
        -value if value < following else value
        for value, following in zip(values, [*values[1:], 0], strict=True)
    )
