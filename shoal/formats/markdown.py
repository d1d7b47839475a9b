"""Reader of Markdown: text to blocks, line by line.

It implements the blocks of CommonMark that matter for retrieval, with three deliberate differences. Only a
single line can be underlined into a heading (a paragraph before `---` stays text). An unclosed comment is
text. Headings inside quotes and list items are text.
"""

from __future__ import annotations

import re

from shoal.formats.blocks import MAX_BLOCK_CHARS, Block, BlockKind, assemble
from shoal.formats.headings import MAX_HEADING_CHARS, atx_heading, find_front_matter, plain_heading
from shoal.formats.masking import mask
from shoal.models.documents import ParsedDocument

# A longer line above `---` is a paragraph, and the dashes are a rule.
MAX_UNDERLINED_CHARS = 200
CODE_INDENT = 4

_NEWLINE = r"(?:\r\n|\n|\r)"
# Lines that can only be part of a paragraph, and blank lines: whole chapters match in one step.
_PLAIN_LINE = r"(?:[^\s#`~<\-*_+=>|\[:\d]|\d++(?![.)\d]))[^\r\n]*+"
_PLAIN_LINES = re.compile(rf"(?:(?:{_PLAIN_LINE}|[ \t]*+){_NEWLINE})*+")
_LINE = re.compile(r"([ \t]*+)([^\r\n]*+)(\r\n|\n|\r|\Z)")
_ATX = re.compile(r"(#{1,6})(?:[ \t]++(.*))?\Z")
_FENCE = re.compile(r"(`{3,}+)[^`]*\Z|(~{3,}+)")
_FENCE_END = re.compile(r"[\r\n][ \t]*+(`{3,}+|~{3,}+)[ \t]*+(?=[\r\n]|\Z)")
_INDENTED = re.compile(rf"(?:(?: {{4}}| {{0,3}}\t)[^\r\n]*+(?:{_NEWLINE}|\Z)|[ \t]*+{_NEWLINE})++")
_ITEM = re.compile(r"([-*+]|\d{1,9}[.)])(?:([ \t]+)(\[[ xX]\](?=[ \t]))?|\Z)")
_QUOTE = re.compile(rf"(?: {{0,3}}>[^\r\n]*+(?:{_NEWLINE}|\Z))++")
_QUOTE_MARKS = re.compile(r"[ ]{0,3}>(?:[ \t]*>)*")
_DEFINITION = re.compile(
    r"""\[(?!\^)[^\[\]]{1,999}\]:[ \t]*+(?:<[^<>]*+>|\S++)
        (?:[ \t]++(?:"[^"]*+"|'[^']*+'|\([^()]*+\)))?[ \t]*+\Z""",
    re.VERBOSE,
)
_TABLE_RULE = re.compile(r"\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+\Z")
_UNDERLINE = re.compile(r"(?:=++|--++)[ \t]*+\Z")
_RULE_MARKS = "-*_="
_TABLE_ENDERS = "#`~><"


def parse_markdown(
    content: str, *, max_block_chars: int = MAX_BLOCK_CHARS, keep_boilerplate: bool = False
) -> ParsedDocument:
    """Parse any Markdown text into sections, sentences and left-out spans. Raises DocumentTooLargeError."""
    blocks, marks = read_blocks(content)
    return assemble(
        content,
        mask(content, marks),
        blocks,
        max_block_chars=max_block_chars,
        keep_boilerplate=keep_boilerplate,
    )


def read_blocks(content: str) -> tuple[list[Block], list[tuple[int, int]]]:
    """Return the blocks in order, and the spans of list and quote markers, which must be masked."""
    reader = _Reader(content)
    reader.read()
    return reader.blocks, reader.marks


class _Reader:
    """Reads the lines once; `blocks` and `marks` are the result."""

    def __init__(self, content: str) -> None:
        self.content = content
        self.blocks: list[Block] = []
        self.marks: list[tuple[int, int]] = []
        self._at = 0
        # Start of the open prose block, which may contain several paragraphs.
        self._prose: int | None = None
        self._prose_is_paragraph = True
        self._in_list = False
        self._after_blank_in_list = False
        self._comments_close = True

    def read(self) -> None:
        content = self.content
        matter = find_front_matter(content)
        if matter is not None:
            self._leave_out(0, matter.end_char, "front matter")
        while self._at < len(content):
            if not self._in_list:
                plain_end = self._end_of(_PLAIN_LINES.match(content, self._at))
                if plain_end > self._at:
                    self._gather(self._at)
                    self._at = plain_end
                    continue
            self._read_line()
        self._close(len(content))

    def _end_of(self, match: re.Match[str] | None) -> int:
        return match.end() if match else self._at

    def _read_line(self) -> None:
        line = _LINE.match(self.content, self._at)
        assert line is not None, "the pattern matches anywhere"
        indent, text = line.group(1), line.group(2)
        width = len(indent.expandtabs(CODE_INDENT))
        if not text:
            self._after_blank_in_list = self._in_list
            self._at = line.end()
        elif self._in_list and self._after_blank_in_list and width < 2 and not _ITEM.match(text):
            # Back at the margin after a blank line: the list has ended, and this line is read again.
            self._in_list = self._after_blank_in_list = False
        elif not self._begins_block(line, text, width):
            self._after_blank_in_list = False
            self._gather(self._at)
            self._at = line.end()

    def _begins_block(self, line: re.Match[str], text: str, width: int) -> bool:
        """Read a block that starts at this line; False if the line is prose."""
        if width >= CODE_INDENT and not self._in_list:
            return self._read_indented()
        match text[0]:
            case "#":
                return self._read_heading(line, text, width)
            case "`" | "~":
                return self._read_fence(line, text, self._at)
            case "<":
                return self._read_comment(line)
            case ">":
                return self._read_quote()
            case "[":
                return self._read_definition(line, text)
            case "|" | ":":
                return self._read_table(line, text)
            case "-" | "*" | "_" | "=":
                return (
                    self._read_underline(line, text)
                    or self._read_rule(line, text)
                    or self._read_table(line, text)
                    or self._read_item(line)
                )
            case _:
                return self._read_item(line)

    # Each method below reads one kind of block. It returns False if the line is of another kind; otherwise it
    # moves behind the block.

    def _read_indented(self) -> bool:
        if self._paragraph_above() is not None:
            return False
        start, end = self._at, self._end_of(_INDENTED.match(self.content, self._at))
        self._add(Block(BlockKind.verbatim, start, end))
        self._at = end
        return True

    def _read_heading(self, line: re.Match[str], text: str, width: int) -> bool:
        match = _ATX.match(text) if len(text) <= MAX_HEADING_CHARS else None
        if match is None or (self._in_list and width > 0):
            self._mark_run(line.start(2), "#")
            return False
        heading = atx_heading(match.group(2) or "")
        self._add(Block(BlockKind.heading, line.start(2), line.end(2), len(match.group(1)), heading))
        self._at = line.end()
        return True

    def _read_fence(self, line: re.Match[str], text: str, start: int) -> bool:
        """Read a fenced block. `text` is the line from the fence on, `start` the start of the block."""
        opening = _FENCE.match(text)
        if opening is None:
            return False
        fence = opening.group(1) or opening.group(2)
        end = len(self.content)
        for closing in _FENCE_END.finditer(self.content, line.end(2)):
            if closing.group(1).startswith(fence):
                end = closing.end()
                break
        in_list = self._in_list
        self._add(Block(BlockKind.verbatim, start, end))
        self._in_list = in_list
        self._at = end
        return True

    def _read_comment(self, line: re.Match[str]) -> bool:
        if not (self._comments_close and self.content.startswith("<!--", line.start(2))):
            return False
        closing = self.content.find("-->", line.start(2) + 4)
        if closing < 0:
            self._comments_close = False
            return False
        in_list = self._in_list
        self._leave_out(line.start(2), closing + 3, "comment")
        self._in_list = in_list
        return True

    def _read_quote(self) -> bool:
        end = self._end_of(_QUOTE.match(self.content, self._at))
        if end == self._at:
            return False
        self._close(self._at)
        self._in_list = False
        fence: str | None = None
        has_text = False
        at = start = self._at
        while at < end:
            line = _LINE.match(self.content, at)
            marks = _QUOTE_MARKS.match(self.content, at)
            assert line is not None, "the pattern matches anywhere"
            assert marks is not None, "every line of the quote begins with the mark"
            self.marks.append(marks.span())
            text = self.content[marks.end() : line.end(2)].strip()
            opening = _FENCE.match(text)
            if fence is None and opening:
                self._add(Block(BlockKind.prose, start, at))
                fence, start = opening.group(1) or opening.group(2), at
            elif fence is not None and text.startswith(fence):
                self._add(Block(BlockKind.verbatim, start, line.end()))
                fence, start, has_text = None, line.end(), False
            elif fence is None and not text and has_text:
                # A line with only the mark separates two paragraphs; masked, it belongs to the first.
                self._add(Block(BlockKind.prose, start, line.end()))
                start, has_text = line.end(), False
            elif text:
                has_text = True
            at = line.end()
        if fence is not None:
            self._add(Block(BlockKind.verbatim, start, end))
        elif start < end:
            # The block stays open: a line without the mark may continue the last paragraph.
            self._gather(start, paragraph=False)
        self._at = end
        return True

    def _read_definition(self, line: re.Match[str], text: str) -> bool:
        if not _DEFINITION.match(text) or self._paragraph_above() is not None:
            return False
        self._leave_out(line.start(2), line.end(2), "link definition")
        return True

    def _read_table(self, line: re.Match[str], text: str) -> bool:
        """Read a table, recognised by the rule under its first row."""
        if "|" not in text or not _TABLE_RULE.match(text):
            return False
        above = self._paragraph_above()
        if above is None or "|" not in self.content[above[0] : self._at]:
            return False
        first_row = above[0]
        self._close(first_row)
        self._add(Block(BlockKind.verbatim, first_row, self._at))
        self._leave_out(line.start(2), line.end(2), "rule")
        row = _LINE.match(self.content, line.end())
        while row is not None and row.group(2) and row.group(2)[0] not in _TABLE_ENDERS:
            self._add(Block(BlockKind.verbatim, row.start(), row.end()))
            self._at = row.end()
            row = _LINE.match(self.content, self._at)
        return True

    def _read_underline(self, line: re.Match[str], text: str) -> bool:
        if text[0] not in "=-" or not _UNDERLINE.match(text):
            return False
        above = self._paragraph_above()
        if above is None or not above[1] or self._in_list:
            return False
        start = above[0]
        if start == self._prose and not self._prose_is_paragraph:
            return False
        heading = self.content[start : self._at].strip()
        if len(heading) > MAX_UNDERLINED_CHARS:
            return False
        self._close(start)
        level = 1 if text[0] == "=" else 2
        self._add(Block(BlockKind.heading, start, line.end(2), level, plain_heading(heading)))
        self._at = line.end()
        return True

    def _read_rule(self, line: re.Match[str], text: str) -> bool:
        if text[0] not in _RULE_MARKS or text.count(text[0]) < 3:
            return False
        if text.replace(" ", "").replace("\t", "").strip(text[0]):
            return False
        self._leave_out(line.start(2), line.end(2), "rule")
        return True

    def _read_item(self, line: re.Match[str]) -> bool:
        """Read the start of a list item, and a nested list or fenced code on the same line."""
        at, end = line.span(2)
        item = _ITEM.match(self.content, at, end)
        if item is None or not (self._in_list or self._may_begin_list(item)):
            return False
        self._close(self._at)
        self._in_list, self._after_blank_in_list = True, False
        self._gather(self._at, paragraph=False)
        while item is not None:
            self.marks.append(item.span(1))
            if item.group(3):
                self.marks.append(item.span(3))
            at = item.end()
            item = _ITEM.match(self.content, at, end) if at < end else None
        inner = self.content[at:end]
        if _FENCE.match(inner):
            self._prose = None
            return self._read_fence(line, inner, line.start())
        self._mark_run(at, "#")
        self._at = line.end()
        return True

    def _may_begin_list(self, item: re.Match[str]) -> bool:
        """Whether an item can begin a list: within a paragraph, only the number 1 or a bullet, followed by
        text."""
        if self._paragraph_above() is None:
            return True
        return item.group(1) in ("-", "*", "+", "1.", "1)") and item.end() < item.endpos

    def _gather(self, start: int, *, paragraph: bool = True) -> None:
        if self._prose is None:
            self._prose, self._prose_is_paragraph = start, paragraph

    def _close(self, end: int) -> None:
        if self._prose is not None and self._prose < end:
            self.blocks.append(Block(BlockKind.prose, self._prose, end))
        self._prose = None

    def _add(self, block: Block) -> None:
        self._close(block.start)
        self._in_list = self._after_blank_in_list = False
        if block.start < block.end:
            self.blocks.append(block)

    def _leave_out(self, start: int, end: int, reason: str) -> None:
        self._add(Block(BlockKind.left_out, start, end, text=reason))
        self._at = end

    def _mark_run(self, at: int, mark: str) -> None:
        end = at
        while self.content.startswith(mark, end):
            end += len(mark)
        if end > at:
            self.marks.append((at, end))

    def _paragraph_above(self) -> tuple[int, bool] | None:
        """Return the start of the line above, and whether it is the only line of its paragraph.

        None if no paragraph is open, so that this line would begin one.
        """
        floor = self._prose
        if floor is None or floor >= self._at:
            return None
        start = self._line_start(self._line_end(self._at, floor), floor)
        if not self.content[start : self._at].strip():
            return None
        if start == floor:
            return start, True
        before_end = self._line_end(start, floor)
        before = self._line_start(before_end, floor)
        return start, not self.content[before:before_end].strip()

    def _line_end(self, next_line: int, floor: int) -> int:
        """Return the end of the line before `next_line`, without its newline of one or two characters."""
        end = next_line - 1
        pair = end > floor and self.content[end] == "\n" and self.content[end - 1] == "\r"
        return end - 1 if pair else end

    def _line_start(self, end: int, floor: int) -> int:
        """Return the start of the line that ends at `end`, not before `floor`; the time is linear in its
        length."""
        window = 256
        while True:
            low = max(floor, end - window)
            newline = max(self.content.rfind("\n", low, end), self.content.rfind("\r", low, end))
            if newline >= 0:
                return newline + 1
            if low == floor:
                return floor
            window *= 4
