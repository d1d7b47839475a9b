"""Parsing of a draft into sections, sentences and left-out spans."""

from __future__ import annotations

from shoal.formats.blocks import MAX_BLOCK_CHARS
from shoal.formats.given_passages import parse_passages
from shoal.formats.markdown import parse_markdown
from shoal.formats.plaintext import parse_plaintext
from shoal.formats.windows import find_windows, join_windows
from shoal.models.documents import DocFormat, DocumentDraft, ParsedDocument


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
