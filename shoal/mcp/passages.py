"""Passages in the answers of tools: quoted under their places, as many as fit in a budget of tokens."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from shoal.formats.headings import headings_below
from shoal.mcp.results import CUT, Budget, Citation, start_of, tokens_of
from shoal.models.recordings import Modality, ShownEvidence
from shoal.models.search import SearchResult
from shoal.search.answer_texts import best_window
from shoal.support.plain_text import INDENT, clean, in_line, indented


class ShownPassages(NamedTuple):
    """The passages of an answer that fit: their quotations under their places, and these places as data."""

    texts: list[str]
    citations: list[Citation]


def shown_passages(results: Sequence[SearchResult], budget: Budget) -> ShownPassages:
    """Return the first results that fit in a budget, numbered from 1; the first in any case.

    A long passage is cut to the lines with the most words of the query, so that it leaves room for others. A
    passage of a recording is evidence once.
    """
    evidence, texts, citations = ShownEvidence(), list[str](), list[Citation]()
    most = budget.limit if len(results) == 1 else int(MOST_OF_BUDGET * budget.limit)
    for number, result in enumerate(results, start=1):
        citation = Citation(
            chunk_id=result.chunk_id,
            document_id=result.document_id,
            start_line=result.start_line,
            end_line=result.end_line,
            time_start=result.time_start,
            time_end=result.time_end,
            relevance=round(result.relevance, 2),
            score=round(result.match_score, 3),
        )
        top = f"[{number}] {_head_of_result(result)}, passage {result.chunk_id}"
        top += f"\n{INDENT}why: {in_line(result.why)}"
        room = min(budget.left, most) - tokens_of(top, citation)
        # The first is always there, however long its path and headings are.
        text = _quotation(number, result, room if texts else max(room, LEAST_OF_PASSAGE), evidence)
        if text is None or (not budget.fits(top, citation, text) and texts):
            break
        texts.append(f"{top}\n{text}")
        citations.append(citation)
    return ShownPassages(texts, citations)


MOST_OF_BUDGET = 0.4
"""Largest part of a budget that one of several passages takes."""
LEAST_OF_PASSAGE = 40
"""Tokens of a passage below which a part of it is of no use."""


def _quotation(number: int, result: SearchResult, room: int, evidence: ShownEvidence) -> str | None:
    """A passage in at most `room` tokens, its lines indented; None if that is too little."""
    if result.evidence:
        lines = evidence.lines(number, (chunk.shown(clean(chunk.text)) for chunk in result.evidence.chunks))
        if room < LEAST_OF_PASSAGE:
            return None
        return "\n".join(INDENT + line for line in fitting_lines(lines, room))
    if tokens_of(whole := indented(dedented(result.text))) <= room:
        return whole
    if room < LEAST_OF_PASSAGE:
        return None
    n_chars = len(result.text)
    while n_chars := n_chars * 3 // 4:
        start, end = whole_lines(result.text, *best_window(result.text, result.highlights, n_chars))
        first = result.start_line + result.text.count("\n", 0, start)
        last = first + result.text.count("\n", start, end)
        is_line = not start or result.text[start - 1] == "\n"
        part = dedented(result.text[start:end], is_whole_line=start > 0 and is_line)
        if not is_line:
            part = CUT + part
        if end < len(result.text) and result.text[end] != "\n":
            part += CUT
        shown = f"{INDENT}{line_range(first, last)} of it:\n{indented(part)}"
        if tokens_of(shown) <= room:
            return shown
    return None


def whole_lines(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the part of `text[start:end]` that has whole lines; all of it within a line."""
    first = start if start == 0 or text[start - 1] == "\n" else text.find("\n", start, end) + 1
    last = end if end == len(text) else text.rfind("\n", start, end)
    return (first, last) if first >= start and last > first else (start, end)


def dedented(text: str, *, is_whole_line: bool = False) -> str:
    """Return a text without the blanks that all of its lines begin with, such as those of code in Markdown.

    The first line of a passage begins with its first letter. `is_whole_line`: it has its blanks. Without
    them, it stands as deep as the least indented line below, or a step above that if it opens a block.
    """
    first, *rest = text.split("\n")
    if is_whole_line:
        return textwrap.dedent(text)
    least = min((line for line in rest if line.strip()), key=_depth, default="")
    is_below = first.rstrip().endswith(OPENERS) and not least.lstrip().startswith(CLOSERS)
    n_blanks = _depth(least) - (CODE_STEP if is_below else 0)
    if n_blanks <= 0:
        return text
    return "\n".join([first, *(line[n_blanks:] for line in rest)])


OPENERS, CLOSERS = (":", "(", "[", "{", ",", "\\"), (")", "]", "}")
CODE_STEP = 4
"""Blanks of a level of code."""


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def fitting_lines(lines: Iterable[str], room: int) -> list[str]:
    """Return the first lines that fit in `room` tokens, the start of the first in any case, and a sign that
    others follow."""
    fitting: list[str] = []
    for line in lines:
        cost = tokens_of(line)
        if cost > room:
            return [*fitting, CUT] if fitting else [start_of(line, max(room, LEAST_OF_PASSAGE))]
        room -= cost
        fitting.append(line)
    return fitting


def _head_of_result(result: SearchResult) -> str:
    return head(
        result.document_title,
        result.source_path,
        result.section_path,
        lines=(result.start_line, result.end_line),
        place=result.place.beside_lines if result.place else None,
        modality=result.modality,
    )


def head(
    title: str,
    source_path: str | None,
    section_path: Sequence[str],
    *,
    lines: tuple[int, int],
    place: str | None = None,
    modality: Modality = Modality.text,
) -> str:
    """Return the first line of a citation without its number.

    It begins with the path of the document, or its title if it has none. A recording has its kind there,
    because the times are with its passages.
    """
    name = in_line(source_path or "") or in_line(title)
    kind = "" if modality is Modality.text else modality.replace("_", " ")
    if is_recording(modality):
        return f"{name} — {kind}"
    headings = " > ".join(map(in_line, headings_below(name_of(title, source_path), section_path)))
    described = ", ".join(part for part in (headings, kind) if part)
    locator = f"{in_line(place)}, {line_range(*lines)}" if place else line_range(*lines)
    return f"{name} — {described} ({locator})" if described else f"{name} ({locator})"


def name_of(title: str, source_path: str | None) -> str:
    """Return the file name of a document, or its title if it has no path."""
    return in_line(PurePosixPath(source_path or "").name) or in_line(title)


def line_range(first: int, last: int) -> str:
    """Return lines for a citation, as `lines 120–170`."""
    return f"line {first}" if first == last else f"lines {first}–{last}"


def is_recording(modality: Modality) -> bool:
    """Whether passages of this kind have times."""
    return modality in (Modality.audio_transcript, Modality.video_transcript, Modality.video_frame)
