"""Blocks: what the readers of the formats find, and how blocks become sections and sentences."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from lagoon.sentences import sentence_spans
from shoal.errors import DocumentTooLargeError
from shoal.formats.headings import HeadingPath
from shoal.models import LeftOut, ParsedDocument, Section, SentenceSpan

# A sentence longer than this is cut, so that a text without a full stop is still many citations.
# lagoon cuts there too; markup that the scorer does not see can make a sentence longer afterwards.
MAX_SENTENCE_CHARS = 2000
# A block kept whole (code, a table row) is cut only where it would not fit in a chunk.
MAX_BLOCK_CHARS = 8000

MAX_SECTIONS = 65_536
MAX_SENTENCES = 1_000_000
"""Of a document. Books of 32 MiB have 48,000 chunks and 330,000 sentences; a document of nothing but headings would have
millions, at 12 KiB of memory each."""

_SPACE = re.compile(r"\s")
_NOT_SPACE = re.compile(r"\S")
_PARAGRAPH_BREAK = re.compile(r"(?:\r\n|\n|\r)[ \t]*+(?:\r\n|\n|\r)\s*+")


class BlockKind(enum.Enum):
    """What a block's characters become."""

    prose = enum.auto()  # sentences
    verbatim = enum.auto()  # one sentence
    heading = enum.auto()  # the start of a section
    left_out = enum.auto()  # nothing; `text` says why


class Block(NamedTuple):
    """A span of the content. `text` is a heading's plain text or the reason to leave the span out."""

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    text: str = ""


def assemble(
    content: str, masked: str, blocks: Sequence[Block], *, max_block_chars: int = MAX_BLOCK_CHARS
) -> ParsedDocument:
    """The document that these blocks make. They are in order, disjoint, and hold all that is not white space.

    Text before the first heading is a section of its own, at level 0 and with an empty path. Raises
    DocumentTooLargeError beyond MAX_SECTIONS or MAX_SENTENCES.
    """
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
                    f"the document has more than {MAX_SECTIONS:,} headings, which is the limit; split it into several"
                )
            continue
        spans = list(_sentences(content, masked, block, max_block_chars))
        if spans and not sections:
            sections.append(Section((), 0, 0, 0, 0, body_ends[0]))
        section = len(sections) - 1
        sentences += [SentenceSpan(start, end, section) for start, end in spans]
        if len(sentences) > MAX_SENTENCES:
            raise DocumentTooLargeError(
                f"the document has more than {MAX_SENTENCES:,} sentences, which is the limit; split it into several"
            )
    return ParsedDocument(tuple(sections), tuple(sentences), tuple(left_out), masked)


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
    for first, last in _joined(content, start, end, list(spans)):
        if last - first <= MAX_SENTENCE_CHARS:
            yield first, last
        else:
            yield from _cut(content, first, last, MAX_SENTENCE_CHARS)


def _joined(
    content: str, start: int, end: int, spans: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """The spans, grown over what was masked around them, so that together they hold all of start:end.

    Masked text belongs to the sentence that it touches ("end.[12]", "end.**"), else to the sentence after it
    (a list marker, an image); in a paragraph of its own it is a sentence of its own.
    """
    if not spans:
        yield start, end
        return
    alone, open_start = _masked_before(content, start, spans[0][0])
    if alone:
        yield alone
    for (_, span_end), (next_start, _) in pairwise(spans):
        gap = content[span_end:next_start]
        if not gap or gap.isspace():
            # Nearly always nothing was masked here.
            yield open_start, span_end
            open_start = next_start
            continue
        touching = _touching(content, span_end, next_start)
        yield open_start, touching
        alone, open_start = _masked_before(content, touching, next_start)
        if alone:
            yield alone
    touching = _touching(content, spans[-1][1], end)
    rest = _NOT_SPACE.search(content, touching, end)
    if rest and _PARAGRAPH_BREAK.search(content, touching, rest.start()):
        yield open_start, touching
        yield rest.start(), end
    else:
        yield open_start, end


def _touching(content: str, start: int, end: int) -> int:
    """Where the masked text ends that follows a sentence without white space between."""
    gap = content[start:end]
    if not gap or gap.isspace():
        return start
    space = _SPACE.search(gap)
    return start + space.start() if space else end


def _masked_before(content: str, start: int, end: int) -> tuple[tuple[int, int] | None, int]:
    """(masked paragraphs of start:end, start of the sentence that begins there or at `end`)."""
    first = _NOT_SPACE.search(content, start, end)
    if first is None:
        return None, end
    breaks = list(_PARAGRAPH_BREAK.finditer(content, first.start(), end))
    if not breaks:
        return None, first.start()
    alone_end = first.start() + len(content[first.start() : breaks[-1].start()].rstrip())
    return (first.start(), alone_end), breaks[-1].end()


def _cut(content: str, start: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
    """Pieces of at most `limit` characters without white space at their ends, cut at the last newline that
    fits, else at the last white space, else anywhere."""
    while end - start > limit:
        window = content[start : start + limit + 1]
        at = max(window.rfind("\n"), window.rfind("\r"))
        head = window[:at].rstrip() if at > 0 else ""
        if not head:
            # The last character of the window only shows whether a word ends at the limit.
            head = window[:limit] if window[limit].isspace() else window.rsplit(None, 1)[0]
            head = head.rstrip()[:limit]
        yield start, start + len(head)
        following = _NOT_SPACE.search(content, start + len(head), end)
        if following is None:
            return
        start = following.start()
    yield start, end
