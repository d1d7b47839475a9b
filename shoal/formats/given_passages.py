"""Passages that the caller of an upload has cut: checked, found in the text, and kept as they are.

Each is an object with the fields of `shoal.declared.documents.Passage`. All but `text` may be missing.
An upload without `content` is stored as its passages with a blank line between them. Passages do not overlap:
the passages of a document are its text, which is stored once.
"""

from __future__ import annotations

import dataclasses
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from shoal.declared.documents import MAX_HEADINGS
from shoal.declared.documents import Passage as PassageFields
from shoal.errors import DocumentTooLargeError, InvalidFieldError
from shoal.formats.decoding import clean
from shoal.formats.headings import MAX_HEADING_CHARS
from shoal.models.documents import LeftOut, ParsedDocument, Passage, Section, SentenceSpan
from shoal.settings import Settings

MAX_PASSAGES = 65_536
"""Limit for one document; a chunk takes 12 KiB of memory while it is scored."""
MAX_PLACE = 2**31 - 1
UNITS = ("page", "line")
FIELDS = tuple(PassageFields.__annotations__)
NO_PASSAGE = "no passage"
"""Why the text between two passages is in no chunk."""
SEPARATOR = "\n\n"

_TEXT = re.compile(r"\S(?:.*\S)?", re.DOTALL)


def read_passages(chunks: object, content: str | None, settings: Settings) -> tuple[str, tuple[Passage, ...]]:
    """Return the content and the spans of the passages of an upload in it.

    Raises InvalidFieldError, which names the passage and what to do, and DocumentTooLargeError.
    """
    objects = _checked_objects(chunks)
    texts = [_checked_text(number, each, settings) for number, each in enumerate(objects)]
    # The places are found in the text as it is stored.
    content = SEPARATOR.join(texts) if content is None else clean(content)
    passages: list[Passage] = []
    end = 0
    for number, (fields, text) in enumerate(zip(objects, texts, strict=True)):
        start = _start(number, fields, text, content, end)
        end = start + len(text)
        passages.append(Passage(start, end, _headings(number, fields), *_place(number, fields)))
    return content, tuple(passages)


def parse_passages(parsed: ParsedDocument, content: str, passages: Sequence[Passage]) -> ParsedDocument:
    """The structure of a text that its caller has cut. `parsed`: as the text would be read otherwise.

    A passage has its own section if its headings differ from those of the one before. It begins and ends with
    a sentence.
    """
    sections: list[Section] = []
    sentences: list[SentenceSpan] = []
    starts = [sentence.start_char for sentence in parsed.sentences]
    for passage in passages:
        if not sections or sections[-1].path != passage.headings:
            at = passage.start_char
            sections.append(Section(passage.headings, len(passage.headings), at, at, at, passage.end_char))
        sections[-1] = dataclasses.replace(sections[-1], end_char=passage.end_char)
        inner = starts[bisect_left(starts, passage.start_char + 1) : bisect_left(starts, passage.end_char)]
        for start, end in pairwise((passage.start_char, *inner, passage.end_char)):
            length = len(content[start:end].rstrip())
            sentences.append(SentenceSpan(start, start + length, len(sections) - 1))
    left_out = tuple(_between(content, passages))
    return ParsedDocument(tuple(sections), tuple(sentences), left_out, parsed.masked)


def fields_of(passage: Passage, content: str) -> dict[str, Any]:
    """The object that an upload names a passage of a text with. Raises ValueError if it is not
    in the text."""
    start, end, headings, unit, first, last = passage
    if not 0 <= start < end <= len(content):
        raise ValueError("a passage is outside of the text")
    place = {unit: first, f"{unit}_end": last} if unit else {}
    return {"text": content[start:end], "start": start, "heading": list(headings), **place}


def _between(content: str, passages: Sequence[Passage]) -> Iterator[LeftOut]:
    ends = (0, *(passage.end_char for passage in passages))
    starts = (*(passage.start_char for passage in passages), len(content))
    for start, end in zip(ends, starts, strict=True):
        if text := _TEXT.search(content, start, end):
            yield LeftOut(text.start(), text.end(), NO_PASSAGE)


def _checked_objects(chunks: object) -> Sequence[Mapping[str, Any]]:
    if isinstance(chunks, str | bytes | Mapping) or not isinstance(chunks, Sequence):
        raise InvalidFieldError("chunks", "must be a list of objects with `text`")
    if not chunks:
        raise InvalidFieldError("chunks", "is empty; leave it out, and Shoal cuts the text")
    if len(chunks) > MAX_PASSAGES:
        raise DocumentTooLargeError(
            f"chunks: there are {len(chunks):,}; the limit is {MAX_PASSAGES:,}; send several documents"
        )
    for number, each in enumerate(chunks):
        if not isinstance(each, Mapping):
            raise _invalid(number, "must be an object with `text`")
        for name in each:
            if name not in FIELDS:
                raise _invalid(number, f"has no field {str(name)[:40]!r}; fields are {', '.join(FIELDS)}")
    return chunks


def _checked_text(number: int, fields: Mapping[str, Any], settings: Settings) -> str:
    text = fields.get("text")
    if not isinstance(text, str):
        raise _invalid(number, "needs `text`, a text")
    text = clean(text)
    match = _TEXT.search(text)
    if match is None:
        raise _invalid(number, "is empty; leave it out")
    text = match.group()
    if len(text) > settings.max_chunk_chars:
        raise _invalid(
            number,
            f"has {len(text):,} characters; the limit is {settings.max_chunk_chars:,} "
            "(SHOAL_MAX_CHUNK_CHARS); cut it, because Shoal does not cut what you have cut",
        )
    return text


def _start(number: int, fields: Mapping[str, Any], text: str, content: str, end: int) -> int:
    """The offset of a passage. `end`: of the passage before."""
    given = fields.get("start")
    if given is None:
        start = content.find(text, end)
        if start >= 0:
            return start
        if text in content:
            raise _invalid(number, _OVERLAP)
        raise _invalid(number, "is not in `content`; leave `content` out, and the passages are the text")
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise _invalid(number, "`start` must be an offset in code points, 0 or more")
    start = given + _leading_space(fields["text"])
    if content[start : start + len(text)] != text:
        raise _invalid(number, f"`content` has another text at `start` {given:,}")
    if start < end:
        raise _invalid(number, _OVERLAP)
    return start


_OVERLAP = (
    "overlaps the passage before, or comes before it; send passages in order without overlap, or leave "
    "`content` and `start` out, and the repeated text is stored with each"
)


def _leading_space(text: str) -> int:
    text = clean(text)
    return len(text) - len(text.lstrip())


def _headings(number: int, fields: Mapping[str, Any]) -> tuple[str, ...]:
    given = fields.get("heading")
    if given is None:
        return ()
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise _invalid(number, "`heading` must be a text, or a list of texts")
    headings = tuple(" ".join(clean(text).split()) for text in texts)
    if len(headings) > MAX_HEADINGS or any(len(text) > MAX_HEADING_CHARS for text in headings):
        raise _invalid(
            number, f"`heading` may be {MAX_HEADINGS} texts of up to {MAX_HEADING_CHARS:,} characters"
        )
    return tuple(filter(None, headings))


def _place(number: int, fields: Mapping[str, Any]) -> tuple[str, int, int]:
    """The unit that a passage names, and the first and last of it; no unit: an empty one."""
    places: list[tuple[str, int, int]] = []
    for unit in UNITS:
        first = fields.get(unit)
        last = fields.get(f"{unit}_end")
        if first is None and last is None:
            continue
        numbers: tuple[Any, Any] = (first, first if last is None else last)
        if not all(isinstance(n, int) and not isinstance(n, bool) and 1 <= n <= MAX_PLACE for n in numbers):
            raise _invalid(number, f"`{unit}` and `{unit}_end` must be whole numbers from 1 on")
        if numbers[0] > numbers[1]:
            raise _invalid(number, f"`{unit}_end` is before `{unit}`")
        places.append((unit, *numbers))
    if len(places) > 1:
        raise _invalid(number, "may have a page or a line, not both")
    return places[0] if places else ("", 0, 0)


def _invalid(number: int, reason: str) -> InvalidFieldError:
    return InvalidFieldError("chunks", f"[{number}] {reason}")
