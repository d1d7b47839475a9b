"""Reads transcripts of coding agents: JSON Lines, to which the agent appends while it works.

Agents write different objects; these forms are known: `message` with `role` and `content`, `payload` with the
same, and `role` or `type` with `content` at the top. Content is a text or a list of blocks. Lines of other
forms are skipped, so a file that is no transcript has no text.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from shoal.errors import NoteError
from shoal.notes.hook_input import without_secrets
from shoal.support.regular_files import open_file

SUFFIX = ".jsonl"
MAX_NEW_BYTES = 4 * 1024 * 1024
"""Bytes that are read at a time."""
MAX_NEW_CHARS = 16_000
"""Characters of new text at a time; a longer transcript is read in several parts."""
CONTEXT_CHARS = 2_000
"""Characters of the text before a part (002)."""
CONTEXT_BYTES = 64 * 1024
"""Bytes before a part in which that text is looked for."""
MAX_MESSAGE_CHARS = 3_000
MAX_TOOL_CHARS = 600
"""Longest text of a message, and of a tool's use or result; of a longer one, the middle is left out."""
HEAD_BYTES = 64 * 1024
"""Bytes at the start of a transcript that say where its session works."""

_MAX_BLOCKS = 200
_SPEAKERS = {
    "user": "USER",
    "human": "USER",
    "assistant": "ASSISTANT",
    "gemini": "ASSISTANT",
    "model": "ASSISTANT",
}
_NOTES_START, _NOTES_END = "<shoal-notes>", "</shoal-notes>"


@dataclass(frozen=True, slots=True)
class TranscriptPart:
    """A part of a transcript.

    text     what was said and done, a paragraph for each message, without secrets
    context  the end of the text before it
    start    offset of its first byte
    end      offset of the byte after its last complete line
    size     bytes of the whole transcript
    """

    text: str
    context: str
    start: int
    end: int
    size: int


@dataclass(frozen=True, slots=True)
class TranscriptHead:
    """What the first lines of a transcript say about its session; empty if they do not."""

    session_id: str
    cwd: str


def read_part(path: Path, offset: int, *, only_own: bool = False) -> TranscriptPart:
    """Read the next part of a transcript from `offset`, or from its start if it has become shorter.

    `only_own`: refuse a file of another user than the one of this process. Raises OSError, and NoteError for
    another kind of file.
    """
    with _open(path, only_own=only_own) as file:
        size = os.fstat(file.fileno()).st_size
        start = offset if offset <= size else 0
        context = _context_before(file, start)
        file.seek(start)
        data = file.read(MAX_NEW_BYTES)
    text, n_bytes = _text_of(data, is_all=start + len(data) >= size)
    return TranscriptPart(text, context, start, start + n_bytes, size)


def read_head(path: Path) -> TranscriptHead:
    """Read what a transcript says about its session. Raises OSError, NoteError."""
    with _open(path, only_own=False) as file:
        lines = file.read(HEAD_BYTES).splitlines()
    session_id = cwd = ""
    for line in lines:
        entry = _object(line)
        payload = entry["payload"] if isinstance(entry.get("payload"), dict) else {}
        session_id = session_id or _line(entry.get("sessionId")) or _line(payload.get("id"))
        cwd = cwd or _line(entry.get("cwd")) or _line(payload.get("cwd"))
    return TranscriptHead(session_id, cwd)


def _open(path: Path, *, only_own: bool) -> IO[bytes]:
    if path.suffix != SUFFIX:
        raise NoteError("transcript", f"must be a file {SUFFIX}: JSON Lines, as coding agents write them")
    file = open_file(path)
    if only_own and os.fstat(file.fileno()).st_uid != os.geteuid():
        file.close()
        raise NoteError("transcript", "belongs to another user")
    return file


def _context_before(file: IO[bytes], start: int) -> str:
    first = max(0, start - CONTEXT_BYTES)
    file.seek(first)
    lines = file.read(start - first).splitlines()
    if first:
        lines = lines[1:]  # it begins in the middle
    context = ""
    for line in reversed(lines):
        paragraph = _paragraph(line)
        if paragraph:
            context = f"{paragraph}\n\n{context}"
        if len(context) >= CONTEXT_CHARS:
            break
    return context.strip()[-CONTEXT_CHARS:]


def _text_of(data: bytes, *, is_all: bool) -> tuple[str, int]:
    """Return the text of the complete lines at the start of `data`, and their bytes."""
    paragraphs: list[str] = []
    position = n_chars = 0
    while position < len(data) and n_chars < MAX_NEW_CHARS:
        end = data.find(b"\n", position) + 1
        if not end and not (is_all and _object(data[position:])):
            # The agent is still writing this line; one as long as all that is read is skipped.
            position = position if position or is_all else len(data)
            break
        end = end or len(data)
        paragraph = _paragraph(data[position:end])
        if paragraph:
            paragraphs.append(paragraph)
            n_chars += len(paragraph) + 2
        position = end
    return "\n\n".join(paragraphs), position


def _paragraph(line: bytes) -> str:
    """Return what a line of a transcript says, as a paragraph; empty if that is nothing."""
    entry = _object(line)
    if entry.get("isMeta") is True or entry.get("isSidechain") is True:
        return ""
    for name in ("message", "payload"):
        if isinstance(entry.get(name), dict):
            entry = {"type": entry.get("type"), **entry[name]}
    return _short("\n".join(_said(entry)), MAX_NEW_CHARS)


def _said(entry: Mapping[str, Any]) -> Iterator[str]:
    kind = entry.get("type")
    if kind == "function_call":
        yield _tool_use(entry.get("name"), entry.get("arguments"))
        return
    if kind == "function_call_output":
        yield f"RESULT: {_short(_flat(entry.get('output')), MAX_TOOL_CHARS)}"
        return
    role = entry.get("role", kind)
    speaker = _SPEAKERS.get(role) if isinstance(role, str) else None
    content = entry.get("content")
    if speaker is None or content is None:
        return
    for block in (
        [content] if isinstance(content, str) else content[:_MAX_BLOCKS] if isinstance(content, list) else []
    ):
        said = _block(block, speaker)
        if said:
            yield said


def _block(block: object, speaker: str) -> str:
    if isinstance(block, str):
        block = {"type": "text", "text": block}
    if not isinstance(block, dict):
        return ""
    kind = block.get("type")
    if kind == "tool_use":
        return _tool_use(block.get("name"), block.get("input"))
    if kind == "tool_result":
        state = " (error)" if block.get("is_error") is True else ""
        return f"RESULT{state}: {_short(_flat(block.get('content')), MAX_TOOL_CHARS)}"
    text = block.get("text")
    if not isinstance(text, str) or kind not in (None, "text", "input_text", "output_text"):
        return ""
    own = _without_notes(text).strip()
    return f"{speaker}: {_short(own, MAX_MESSAGE_CHARS)}" if own else ""


def _tool_use(name: object, given: object) -> str:
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return f"TOOL {_line(name)}: {_short(text, MAX_TOOL_CHARS)}"


def _flat(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content[:_MAX_BLOCKS] if isinstance(content, list) else [content]
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _without_notes(text: str) -> str:
    """Return a text without the notes that a hook put before the agent: they are no news."""
    parts = []
    while (start := text.find(_NOTES_START)) >= 0 and (end := text.find(_NOTES_END, start)) >= 0:
        parts.append(text[:start])
        text = text[end + len(_NOTES_END) :]
    return "".join([*parts, text])


def _short(text: str, limit: int) -> str:
    """Return a text without secrets; of one that is longer than the limit, the start and the end."""
    # Before the middle is left out: what names a secret may be there.
    text = without_secrets(text)
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half]} […] {text[-half:]}"


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _line(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= 4096 and value.isprintable() else ""
