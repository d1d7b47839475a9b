"""Parsing of a draft into sections, sentences and left-out spans, and of recordings into windows.

A window is the paragraphs of about a minute, or a frame; it becomes a chunk.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import groupby

from shoal.formats.blocks import MAX_BLOCK_CHARS
from shoal.formats.given_passages import parse_passages
from shoal.formats.markdown import parse_markdown
from shoal.formats.plaintext import parse_plaintext
from shoal.models.documents import DocFormat, DocumentDraft, ParsedDocument, SentenceSpan
from shoal.models.files import Locator, LocatorKind


def parse(
    draft: DocumentDraft, *, max_block_chars: int = MAX_BLOCK_CHARS, keep_boilerplate: bool = False
) -> ParsedDocument:
    """Parse a draft according to its format. No sentence is longer than `max_block_chars`.

    Each window of a recording is one sentence. A text that its caller has cut is read within the passages.
    """
    reader = parse_markdown if draft.format is DocFormat.markdown else parse_plaintext
    is_given = bool(draft.passages)
    parsed = reader(
        draft.content, max_block_chars=max_block_chars, keep_boilerplate=keep_boilerplate or is_given
    )
    if is_given:
        return parse_passages(parsed, draft.content, draft.passages)
    return join_windows(parsed, find_windows(draft.content, draft.locators), max_block_chars)


def find_windows(content: str, locators: Sequence[Locator]) -> list[tuple[int, int]]:
    """Return the windows of a text, `[start_char, end_char)` each, in order.

    A window is a run of passages with times that no blank line parts. Other locators give none.
    """
    windows: list[tuple[int, int]] = []
    for locator in locators:
        if locator.kind is not LocatorKind.time:
            continue
        if windows and "\n\n" not in content[windows[-1][1] : locator.start_char]:
            windows[-1] = (windows[-1][0], locator.end_char)
        else:
            windows.append((locator.start_char, locator.end_char))
    return windows


def windows_of(sentences: Sequence[SentenceSpan], windows: Sequence[tuple[int, int]]) -> Iterator[int | None]:
    """Yield the number of the window that each sentence begins in; None outside of all."""
    at = 0
    for sentence in sentences:
        while at < len(windows) and windows[at][1] <= sentence.start_char:
            at += 1
        is_inside = at < len(windows) and windows[at][0] < sentence.end_char
        yield at if is_inside else None


def join_windows(
    parsed: ParsedDocument, windows: Sequence[tuple[int, int]], max_chars: int
) -> ParsedDocument:
    """Make one block of the sentences of each window, so that no chunk begins within it.

    The sentences of a window of more than `max_chars` characters stay as they are.
    """
    if not windows:
        return parsed
    sentences: list[SentenceSpan] = []
    numbered = zip(parsed.sentences, windows_of(parsed.sentences, windows), strict=True)
    for (section, window), pairs in groupby(numbered, lambda pair: (pair[0].section, pair[1])):
        members = [sentence for sentence, _ in pairs]
        start, end = members[0].start_char, members[-1].end_char
        if window is None or end - start > max_chars:
            sentences += members
        else:
            sentences.append(SentenceSpan(start, end, section))
    return dataclasses.replace(parsed, sentences=tuple(sentences))
