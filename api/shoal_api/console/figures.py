"""Small figures inside the pages, texts cut into pieces for marking, and numbers for people."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from shoal.models import SearchResult, SharedReef
from shoal.settings import KIB, MIB
from shoal_api.console.layout import blueprint

BAR_WIDTH = 100
"""Bars are drawn in per cent of their width and stretched by the page."""
GAP = 0.6
"""Between the parts of a bar, so that they are told apart by more than colour."""
EXCERPT_CHARS = 420
"""Of a passage on the page of results; about seven lines of a wide window."""
SNAP_CHARS = 40
"""How far the ends of an excerpt move to begin and end with whole words."""

_SPACE = re.compile(r"\s+")

PART_NAMES = {"lexical": "words", "reef": "reefs", "field_boost": "title and tags"}


class Share(NamedTuple):
    """A part of a score: its kind (a class of the style sheet), its name, and 0..1 of the whole bar."""

    kind: str
    name: str
    value: float
    title: str = ""
    """Told where it is pointed at; name and value if empty."""


class Run(NamedTuple):
    """A stretch of text; `is_mark` where it is a word of the query."""

    text: str
    is_mark: bool


def bar(shares: Sequence[Share]) -> Markup:
    """Shares side by side; what is missing to 1 stays empty."""
    parts, left = [], 0.0
    for share in shares:
        width = max(0.0, min(share.value, 1.0)) * BAR_WIDTH
        drawn = max(width - GAP, width / 2)
        parts.append(
            Markup(
                '<rect class="{}" x="{:.2f}" y="0" width="{:.2f}" height="8"><title>{}</title></rect>'
            ).format(share.kind, left, drawn, share.title or f"{share.name} {share.value:.2f}")
        )
        left += width
    return Markup(
        '<svg class="bar" viewBox="0 0 {} 8" preserveAspectRatio="none" aria-hidden="true">{}</svg>'
    ).format(BAR_WIDTH, Markup().join(parts))


@blueprint.app_template_global("score_parts")
def score_shares(result: SearchResult, weights: Mapping[str, float]) -> list[Share]:
    """What each part adds to a result's score; `weights` are those of the answer."""
    scores = result.scores
    parts = {"lexical": scores.lexical, "reef": scores.reef, "field_boost": scores.field_boost}
    found = [
        Share(kind, PART_NAMES[kind], (value or 0.0) * weights.get(kind, 0.0))
        for kind, value in parts.items()
    ]
    return [part for part in found if part.value > 0]


@blueprint.app_template_global()
def score_bar(result: SearchResult, weights: Mapping[str, float], best: float) -> Markup:
    """A result's score split by signal, as long as it is beside `best`."""
    shares = score_shares(result, weights)
    total = sum(share.value for share in shares)
    if not total or best <= 0:
        return bar([])
    scale = result.match_score / best / total
    return bar([share._replace(value=share.value * scale) for share in shares])


@blueprint.app_template_global()
def greatest(shared: Sequence[SharedReef]) -> float:
    """The largest z-score of either side."""
    return max((z for reef in shared for z in (reef.chunk_z, reef.query_z)), default=0.0)


@blueprint.app_template_global("length_bar")
def length(value: float, greatest: float, kind: str) -> Markup:
    """One bar as long as a value is large, beside the greatest of its kind."""
    return bar([Share(kind, "", value / greatest if greatest > 0 else 0.0)])


@blueprint.app_template_global()
def query_bar(own_z: float, z: float, greatest: float) -> Markup:
    """A reef of the query beside its greatest: what its own words say of it, and what its company adds."""
    own = max(0.0, min(own_z, z))
    parts = [("query", "by its words", own), ("feedback", "by its company", z - own)]
    return bar(
        [
            Share(kind, name, value / greatest, f"{name}: z-score {value:.1f}")
            for kind, name, value in parts
            if value > 0 < greatest
        ]
    )


@blueprint.app_template_global("pair_bar")
def pair(query: float, chunk: float, greatest: float) -> Markup:
    """Two bars, the query's above the passage's."""
    scale = BAR_WIDTH / greatest if greatest > 0 else 0.0
    return Markup(
        '<svg class="bar pair" viewBox="0 0 {} 13" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="query" y="0" width="{:.2f}" height="6"/>'
        '<rect class="chunk" y="7" width="{:.2f}" height="6"/></svg>'
    ).format(BAR_WIDTH, max(0.0, query) * scale, max(0.0, chunk) * scale)


@blueprint.app_template_global()
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


@blueprint.app_template_global()
def excerpt(text: str, highlights: Sequence[Sequence[int]]) -> list[Run]:
    """The part of a text that holds most of what is marked, in runs; the whole text where that is hardly
    longer."""
    if len(text) <= EXCERPT_CHARS + 2 * SNAP_CHARS:
        return runs(text, highlights)
    start, end = _window(text, highlights)
    inside = [(a - start, b - start) for a, b in highlights if start <= a and b <= end]
    found = runs(text[start:end], inside)
    before, after = "… " if start else "", " …" if end < len(text) else ""
    return [*([Run(before, False)] if before else []), *found, *([Run(after, False)] if after else [])]


def _window(text: str, highlights: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Where the excerpt begins and ends: it holds as much of what is marked as it can, in its middle, and
    whole words."""
    ends = [end for _, end in highlights]
    first, last = 0, 0
    most = 0
    for i, (start, end) in enumerate(highlights):
        n = bisect_right(ends, start + EXCERPT_CHARS) - i
        if n > most:
            first, last, most = start, max(end, ends[i + n - 1]), n
    begin = max(0, min((first + last - EXCERPT_CHARS) // 2, len(text) - EXCERPT_CHARS)) if most else 0
    end = begin + EXCERPT_CHARS
    if begin and (space := _SPACE.search(text, begin, min(begin + SNAP_CHARS, max(begin, first)))):
        begin = space.end()
    if space := _SPACE.search(text, end, end + SNAP_CHARS):
        end = space.start()
    return begin, min(end, len(text))


@blueprint.app_template_global()
def place(title: str, path: Sequence[str]) -> Sequence[str]:
    """Headings above a passage, without a first one that only repeats the title."""
    return path[1:] if path and path[0] == title else path


@blueprint.app_template_global()
def citation(result: SearchResult) -> str:
    """A result as a line that says where it is from."""
    where = " › ".join((result.document_title, *place(result.document_title, result.section_path)))
    source = f" ({result.source_path})" if result.source_path else ""
    return f"{where}, {lines(result.start_line, result.end_line)}{source}"


@blueprint.app_template_global()
def lines(first: int, last: int) -> str:
    """Where a passage stands."""
    return f"line {first:,}" if first == last else f"lines {first:,}–{last:,}"


@blueprint.app_template_global()
def counted(n: int, noun: str, many: str | None = None) -> str:
    """A number with its noun."""
    return f"{n:,} {noun if n == 1 else many or noun + 's'}"


@blueprint.app_template_filter()
def readable_bytes(n_bytes: int) -> str:
    """A size for people."""
    if n_bytes < KIB:
        return f"{n_bytes} B"
    if n_bytes < MIB:
        return f"{n_bytes / KIB:.0f} KiB"
    return f"{n_bytes / MIB:.1f} MiB".replace(".0 ", " ")


@blueprint.app_template_filter()
def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
