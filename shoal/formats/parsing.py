"""Parsing of a draft into sections, sentences and left-out spans."""

from __future__ import annotations

from shoal.formats.blocks import MAX_BLOCK_CHARS
from shoal.formats.markdown import parse_markdown
from shoal.formats.plaintext import parse_plaintext
from shoal.formats.windows import find_windows, join_windows
from shoal.models.documents import DocFormat, DocumentDraft, ParsedDocument


def parse(
    draft: DocumentDraft, *, max_block_chars: int = MAX_BLOCK_CHARS, keep_boilerplate: bool = False
) -> ParsedDocument:
    """Parse a draft according to its format. No sentence is longer than `max_block_chars`.

    Each window of a recording is one sentence.
    """
    reader = parse_markdown if draft.format is DocFormat.markdown else parse_plaintext
    parsed = reader(draft.content, max_block_chars=max_block_chars, keep_boilerplate=keep_boilerplate)
    locators = draft.file.locators if draft.file else ()
    return join_windows(parsed, find_windows(draft.content, locators), max_block_chars)
