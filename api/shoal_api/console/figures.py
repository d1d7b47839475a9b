"""Small figures inside the pages, and text cut into pieces for marking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from shoal.models import SearchResult, SharedReef

BAR_WIDTH = 100
"""Bars are drawn in per cent of their width and stretched by the page."""


PART_NAMES = {"lexical": "words", "reef": "reefs", "bonus": "title and tags"}


class Share(NamedTuple):
    """A part of a score: its kind (a class of the style sheet), its name, and 0..1 of the whole bar."""

    kind: str
    name: str
    value: float


class Run(NamedTuple):
    """A stretch of text; `is_mark` where it is a word of the query."""

    text: str
    is_mark: bool


def bar(shares: Sequence[Share]) -> Markup:
    """Shares side by side; what is missing to 1 stays empty."""
    parts, left = [], 0.0
    for share in shares:
        width = max(0.0, min(share.value, 1.0)) * BAR_WIDTH
        parts.append(
            Markup(
                '<rect class="{}" x="{:.2f}" y="0" width="{:.2f}" height="8"><title>{}</title></rect>'
            ).format(share.kind, left, width, f"{share.name} {share.value:.2f}")
        )
        left += width
    return Markup(
        '<svg class="bar" viewBox="0 0 {} 8" preserveAspectRatio="none" aria-hidden="true">{}</svg>'
    ).format(BAR_WIDTH, Markup().join(parts))


def score_shares(result: SearchResult, weights: Mapping[str, float]) -> list[Share]:
    """What each part adds to a result's score; `weights` are those of the answer."""
    scores = result.scores
    parts = {"lexical": scores.lexical, "reef": scores.reef, "bonus": scores.bonus}
    found = [
        Share(kind, PART_NAMES[kind], (value or 0.0) * weights.get(kind, 0.0))
        for kind, value in parts.items()
    ]
    return [part for part in found if part.value > 0]


def score_bar(result: SearchResult, weights: Mapping[str, float], best: float) -> Markup:
    """A result's score split by signal, as long as it is beside `best`."""
    shares = score_shares(result, weights)
    total = sum(share.value for share in shares)
    if not total or best <= 0:
        return bar([])
    scale = result.match_score / best / total
    return bar([share._replace(value=share.value * scale) for share in shares])


def greatest(shared: Sequence[SharedReef]) -> float:
    """The largest z-score of either side."""
    return max((z for reef in shared for z in (reef.chunk_z, reef.query_z)), default=0.0)


def length(value: float, greatest: float, kind: str) -> Markup:
    """One bar as long as a value is large, beside the greatest of its kind."""
    return bar([Share(kind, "", value / greatest if greatest > 0 else 0.0)])


def runs(text: str, highlights: Sequence[Sequence[int]]) -> list[Run]:
    """Text in runs. `highlights`: (start, end) in order, not overlapping; others are passed over."""
    found: list[Run] = []
    at = 0
    for start, end in highlights:
        if not at <= start < end <= len(text):
            continue
        if start > at:
            found.append(Run(text[at:start], False))
        found.append(Run(text[start:end], True))
        at = end
    if at < len(text):
        found.append(Run(text[at:], False))
    return found


def citation(result: SearchResult) -> str:
    """A result as a line that says where it is from."""
    place = " › ".join((result.document_title, *result.section_path))
    lines = (
        f"line {result.start_line}"
        if result.start_line == result.end_line
        else f"lines {result.start_line}–{result.end_line}"
    )
    source = f" ({result.source_path})" if result.source_path else ""
    return f"{place}, {lines}{source}"
