"""Blocks, the output of the format readers, and their conversion to sections and sentences."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from lagoon.sentences import sentence_spans
from shoal.errors import DocumentTooLargeError
from shoal.formats.boilerplate import Boilerplate, find_boilerplate, is_list_of_links
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
    separate section with level 0 and an empty path. Raises DocumentTooLargeError beyond MAX_SECTIONS or
    MAX_SENTENCES.
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
        section = len(sections) - 1
        sentences += [SentenceSpan(start, end, section) for start, end in spans]
        if len(sentences) > MAX_SENTENCES:
            raise DocumentTooLargeError(
                f"the document has more than {MAX_SENTENCES:,} sentences, which is the limit; split it"
            )
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
