"""Blocks, the output of the format readers, and their conversion to sections and sentences.

Boilerplate is left out: lines that belong to the page, the site or the edition, not to the text. Every rule
is one that hardly any line of real text fits: boilerplate that is kept costs little, but text that is left
out is lost to search. A rule reads one line of limited length, so the time is linear in the text.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from lagoon.sentences import sentence_spans
from shoal.errors import DocumentTooLargeError
from shoal.formats.headings import HeadingPath
from shoal.models.documents import LeftOut, ParsedDocument, Section, SentenceSpan

# Longer sentences are cut, so that a text without a full stop can still be cited in parts.
# lagoon cuts at the same length; markup that the scorer does not see can make a sentence longer afterwards.
MAX_SENTENCE_CHARS = 2000
# A verbatim block (code, a table row) is cut only if it does not fit in a chunk.
MAX_BLOCK_CHARS = 8000

MAX_SECTIONS = 65_536
MAX_SENTENCES = 1_000_000
"""Limits per document. Books of 32 MiB have 48,000 chunks and 330,000 sentences; a document of nothing but
headings would have millions of sections, at 12 KiB of memory each."""

BOILERPLATE = "boilerplate"

_SPACE = re.compile(r"\s")
_NOT_SPACE = re.compile(r"\S")
_PARAGRAPH_BREAK = re.compile(r"(?:\r\n|\n|\r)[ \t]*+(?:\r\n|\n|\r)\s*+")


class BlockKind(enum.Enum):
    """What a block becomes."""

    prose = enum.auto()  # sentences
    verbatim = enum.auto()  # one sentence
    heading = enum.auto()  # the start of a section
    left_out = enum.auto()  # nothing; `text` is the reason


class Block(NamedTuple):
    """A span of the content. `text` is a heading's plain text or the reason why the span is left out."""

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    text: str = ""


def assemble(
    content: str,
    masked: str,
    blocks: Sequence[Block],
    *,
    max_block_chars: int = MAX_BLOCK_CHARS,
    keep_boilerplate: bool = False,
) -> ParsedDocument:
    """Build a document from blocks. They must be in order, disjoint, and contain everything but white space.

    Boilerplate in the blocks is left out unless `keep_boilerplate`. Text before the first heading is a
    separate section with level 0 and an empty path. Without other text, headings are text. Raises
    DocumentTooLargeError beyond MAX_SECTIONS or MAX_SENTENCES.
    """
    if not keep_boilerplate:
        blocks = _without_lists_of_links(content, masked, _without_boilerplate(content, masked, blocks))
    sections: list[Section] = []
    sentences: list[SentenceSpan] = []
    left_out: list[LeftOut] = []
    path = HeadingPath()
    body_ends = [*(block.start for block in blocks if block.kind is BlockKind.heading), len(content)]
    n_headings = 0
    for block in blocks:
        if block.kind is BlockKind.left_out:
            left_out.append(LeftOut(block.start, block.end, block.text))
            continue
        if block.kind is BlockKind.heading:
            left_out.append(LeftOut(block.start, block.end, "heading"))
            n_headings += 1
            names = path.enter(block.level, block.text)
            body_end = body_ends[n_headings]
            sections.append(Section(names, block.level, block.start, block.end, block.end, body_end))
            if len(sections) > MAX_SECTIONS:
                raise DocumentTooLargeError(
                    f"the document has more than {MAX_SECTIONS:,} headings, which is the limit; split it"
                )
            continue
        spans = list(_sentences(content, masked, block, max_block_chars))
        if spans and not sections:
            sections.append(Section((), 0, 0, 0, 0, body_ends[0]))
        sentences += [SentenceSpan(start, end, len(sections) - 1) for start, end in spans]
        if len(sentences) > MAX_SENTENCES:
            raise DocumentTooLargeError(
                f"the document has more than {MAX_SENTENCES:,} sentences, which is the limit; split it"
            )
    if not sentences:
        sections = [dataclasses.replace(section, start_char=section.heading_start) for section in sections]
        left_out = [span for span in left_out if span.reason != "heading"]
        for i, section in enumerate(sections):
            block = Block(BlockKind.prose, section.heading_start, section.heading_end)
            sentences += [
                SentenceSpan(start, end, i)
                for start, end in _sentences(content, masked, block, max_block_chars)
            ]
    return ParsedDocument(tuple(sections), tuple(sentences), tuple(left_out), masked)


def _without_boilerplate(content: str, masked: str, blocks: Sequence[Block]) -> Sequence[Block]:
    """Cut boilerplate out of the blocks, as blocks of its own."""
    boilerplate = find_boilerplate(content, masked)
    if not boilerplate:
        return blocks
    remaining: list[Block] = []
    spans = iter(boilerplate)
    span = next(spans, None)
    for block in blocks:
        at = block.start
        while span is not None and span.start < block.end:
            start, end = max(at, span.start), min(span.end, block.end)
            if start < end and _can_cut(block, span, start, end):
                remaining += _rest(block, at, start)
                _leave_out(content, start, end, remaining)
                at = end
            if span.end > block.end:
                break
            span = next(spans, None)
        remaining += _rest(block, at, block.end)
    return remaining


def _without_lists_of_links(content: str, masked: str, blocks: Sequence[Block]) -> Sequence[Block]:
    """Leave out the text of sections that are lists of links; their headings stay headings.

    A text of nothing else stays whole.
    """
    headings = [i for i, block in enumerate(blocks) if block.kind is BlockKind.heading]
    remaining = list(blocks[: headings[0]] if headings else blocks)
    for first, last in pairwise([*headings, len(blocks)]):
        heading, body = blocks[first], blocks[first + 1 : last]
        remaining.append(heading)
        prose = [block for block in body if block.kind is BlockKind.prose]
        if BlockKind.verbatim not in (block.kind for block in body) and is_list_of_links(
            heading.text, "\n".join(masked[block.start : block.end] for block in prose)
        ):
            for block in body:
                _leave_out(content, block.start, block.end, remaining)
        else:
            remaining += body
    has_text = any(block.kind in (BlockKind.prose, BlockKind.verbatim) for block in remaining)
    return remaining if has_text else blocks


def _can_cut(block: Block, span: Boilerplate, start: int, end: int) -> bool:
    """Whether boilerplate can be cut out of a block: lines from prose, passages also as whole blocks."""
    if block.kind is BlockKind.prose:
        return True
    return span.is_passage and (block.kind is BlockKind.verbatim or (start, end) == (block.start, block.end))


def _leave_out(content: str, start: int, end: int, blocks: list[Block]) -> None:
    """Append a block of boilerplate without the white space at its ends, or extend the last one."""
    text = content[start:end]
    end = start + len(text.rstrip())
    start += len(text) - len(text.lstrip())
    if start >= end:
        return
    if blocks and blocks[-1].text == BOILERPLATE and not content[blocks[-1].end : start].strip():
        start = blocks.pop().start
    blocks.append(Block(BlockKind.left_out, start, end, text=BOILERPLATE))


def _rest(block: Block, start: int, end: int) -> list[Block]:
    """Return the remaining part of a block, if there is any."""
    return [block._replace(start=start, end=end)] if start < end else []


def _sentences(content: str, masked: str, block: Block, max_block_chars: int) -> Iterator[tuple[int, int]]:
    piece = content[block.start : block.end]
    body = piece.lstrip()
    start = block.end - len(body)
    end = start + len(body.rstrip())
    if start >= end:
        return
    if block.kind is BlockKind.verbatim:
        yield from _cut(content, start, end, max_block_chars)
        return
    firsts, lasts = sentence_spans(masked[start:end])
    spans = zip((firsts + start).tolist(), (lasts + start).tolist(), strict=True)
    for first, last in _extend_over_masked(content, start, end, list(spans)):
        if last - first <= MAX_SENTENCE_CHARS:
            yield first, last
        else:
            yield from _cut(content, first, last, MAX_SENTENCE_CHARS)


def _extend_over_masked(
    content: str, start: int, end: int, spans: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Extend the spans over the masked text around them, so that together they cover start:end.

    Masked text belongs to the sentence that it directly follows ("end.[12]", "end.**"), otherwise to the next
    sentence (a list marker, an image). A paragraph of masked text alone is a sentence.
    """
    if not spans:
        yield start, end
        return
    masked_paragraphs, open_start = _masked_before(content, start, spans[0][0])
    if masked_paragraphs:
        yield masked_paragraphs
    for (_, span_end), (next_start, _) in pairwise(spans):
        gap = content[span_end:next_start]
        if not gap or gap.isspace():
            # The usual case: nothing was masked here.
            yield open_start, span_end
            open_start = next_start
            continue
        masked_end = _masked_text_end(content, span_end, next_start)
        yield open_start, masked_end
        masked_paragraphs, open_start = _masked_before(content, masked_end, next_start)
        if masked_paragraphs:
            yield masked_paragraphs
    masked_end = _masked_text_end(content, spans[-1][1], end)
    rest = _NOT_SPACE.search(content, masked_end, end)
    if rest and _PARAGRAPH_BREAK.search(content, masked_end, rest.start()):
        yield open_start, masked_end
        yield rest.start(), end
    else:
        yield open_start, end


def _masked_text_end(content: str, start: int, end: int) -> int:
    """Return the end of the masked text that directly follows a sentence, without white space between."""
    gap = content[start:end]
    if not gap or gap.isspace():
        return start
    space = _SPACE.search(gap)
    return start + space.start() if space else end


def _masked_before(content: str, start: int, end: int) -> tuple[tuple[int, int] | None, int]:
    """Return the span of masked paragraphs in start:end, and the start of the sentence after them."""
    first = _NOT_SPACE.search(content, start, end)
    if first is None:
        return None, end
    breaks = list(_PARAGRAPH_BREAK.finditer(content, first.start(), end))
    if not breaks:
        return None, first.start()
    paragraphs_end = first.start() + len(content[first.start() : breaks[-1].start()].rstrip())
    return (first.start(), paragraphs_end), breaks[-1].end()


def _cut(content: str, start: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
    """Cut start:end into pieces of at most `limit` characters, without white space at their ends.

    The cut is at the last newline that fits, else at the last white space, else at the limit.
    """
    while end - start > limit:
        window = content[start : start + limit + 1]
        at = max(window.rfind("\n"), window.rfind("\r"))
        head = window[:at].rstrip() if at > 0 else ""
        if not head:
            # The last character of the window shows only whether a word ends at the limit.
            head = window[:limit] if window[limit].isspace() else window.rsplit(None, 1)[0]
            head = head.rstrip()[:limit]
        yield start, start + len(head)
        following = _NOT_SPACE.search(content, start + len(head), end)
        if following is None:
            return
        start = following.start()
    yield start, end


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
