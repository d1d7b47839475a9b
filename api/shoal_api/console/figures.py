"""Template functions of the console: small figures, excerpts with highlights, and formatted numbers."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from shoal.formats.headings import headings_below
from shoal.models.files import how_cut
from shoal.models.scores import NearestSentence, SharedReef, pieces_of
from shoal.models.search import SearchResult
from shoal.support.byte_units import KIB, MIB
from shoal_api.console.layout import blueprint
from shoal_api.console.rendered import Run, render_markdown, whole_blocks

BAR_WIDTH = 100
"""Bars are drawn in per cent of their width; the page scales them."""
GAP = 0.6
"""Gap between the parts of a bar, so that they differ by more than colour."""
EXCERPT_CHARS = 420
"""Length of a passage on the results page: about seven lines of a wide window."""
SNAP_CHARS = 40
"""How far the ends of an excerpt move to begin and end with whole words."""

# Formulas that lost their layout are mostly blank lines.
_BLANK_LINES = re.compile(r"\n(?:[ \t]*+\n){2,}+[ \t]*+")
_SPACE = re.compile(r"\s+")

_HIDDEN = re.compile(
    # Format characters, blank letters, tags and direction marks. Not the joiners of Persian and of emoji.
    "(?:[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
    # One selects the form of the character before it; further ones select nothing.
    "|(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f])+"
)
MAX_NAMED = 3
"""Most hidden characters in a row that are named one by one; there can be thousands."""

MAX_BOOST_CHARS = 60
"""Of the filter of a boost in a legend."""
PART_NAMES = {"lexical": "words", "reef": "reefs", "field_boost": "title and tags", "dense": "meaning"}
"""The signals of a score. A decay and boosts add further parts."""


class Share(NamedTuple):
    """A part of a score: its kind (a class of the style sheet), its name, and 0..1 of the whole bar."""

    kind: str
    name: str
    value: float
    title: str = ""
    """The tooltip; name and value if empty."""


def bar(shares: Sequence[Share]) -> Markup:
    """Draw shares side by side; the bar stays empty up to 1."""
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


blueprint.add_app_template_global(pieces_of, "reason_pieces")


@blueprint.app_template_global("score_parts")
def score_shares(result: SearchResult, weights: Mapping[str, float]) -> list[Share]:
    """Return what each signal adds to a result's score; `weights` are those of the response."""
    scores = result.scores
    parts = {
        "lexical": scores.lexical,
        "reef": scores.reef,
        "field_boost": scores.field_boost,
        "dense": scores.dense,
    }
    shares = [
        Share(kind, PART_NAMES[kind], (value or 0.0) * weights.get(kind, 0.0))
        for kind, value in parts.items()
    ]
    shares.append(Share("decay", "date", scores.decay or 0.0))
    shares.append(Share("exact_name", "name", scores.exact_name))
    shares.append(Share("identifiers", "identifiers", scores.identifiers))
    shares += [
        Share("boost", f"boost {boost.filter[:MAX_BOOST_CHARS]}", boost.value)
        for boost in scores.boosts or ()
    ]
    return [share for share in shares if share.value > 0]


@blueprint.app_template_global()
def score_bar(result: SearchResult, weights: Mapping[str, float], best: float) -> Markup:
    """Draw a result's score split by signal, in proportion to `best`."""
    shares = score_shares(result, weights)
    total = sum(share.value for share in shares)
    if not total or best <= 0:
        return bar([])
    scale = result.match_score / best / total
    return bar([share._replace(value=share.value * scale) for share in shares])


@blueprint.app_template_global()
def greatest(shared: Sequence[SharedReef]) -> float:
    """Return the largest z-score of the query or the passage."""
    return max((z for reef in shared for z in (reef.chunk_z, reef.query_z)), default=0.0)


@blueprint.app_template_global("length_bar")
def length(value: float, greatest: float, kind: str) -> Markup:
    """Draw a bar for a value, in proportion to the greatest of its kind."""
    return bar([Share(kind, "", value / greatest if greatest > 0 else 0.0)])


@blueprint.app_template_global()
def query_bar(own_z: float, z: float, greatest: float) -> Markup:
    """Draw a reef of the query: the part from its own words and the part from pseudo-relevance feedback."""
    own = max(0.0, min(own_z, z))
    parts = [("query", "from the query's words", own), ("feedback", "from the best matches", z - own)]
    return bar(
        [
            Share(kind, name, value / greatest, f"{name}: z-score {value:.1f}")
            for kind, name, value in parts
            if value > 0 < greatest
        ]
    )


@blueprint.app_template_global("pair_bar")
def pair(query: float, chunk: float, greatest: float) -> Markup:
    """Draw two bars, the query's above the passage's."""
    scale = BAR_WIDTH / greatest if greatest > 0 else 0.0
    return Markup(
        '<svg class="bar pair" viewBox="0 0 {} 13" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="query" y="0" width="{:.2f}" height="6"/>'
        '<rect class="chunk" y="7" width="{:.2f}" height="6"/></svg>'
    ).format(BAR_WIDTH, max(0.0, query) * scale, max(0.0, chunk) * scale)


@blueprint.app_template_global()
def runs(text: str, highlights: Sequence[Sequence[int]], nearest: NearestSentence | None = None) -> list[Run]:
    """Split text into runs. `highlights`: (start, end) in order; overlapping ones are skipped."""
    spans: list[Run] = []
    at = 0
    for start, end in highlights:
        if not at <= start < end <= len(text):
            continue
        if start > at:
            spans.append(Run(text[at:start], False))
        spans.append(Run(text[start:end], True))
        at = end
    if at < len(text):
        spans.append(Run(text[at:], False))
    return spans if nearest is None else list(_with_nearest(spans, nearest.start, nearest.end))


def _with_nearest(spans: Sequence[Run], start: int, end: int) -> Iterator[Run]:
    """Split runs at the ends of the nearest sentence."""
    at = 0
    for run in spans:
        first, last = (min(max(place - at, 0), len(run.text)) for place in (start, end))
        pieces = ((run.text[:first], False), (run.text[first:last], True), (run.text[last:], False))
        yield from (Run(text, run.is_mark, is_near) for text, is_near in pieces if text)
        at += len(run.text)


@blueprint.app_template_global()
def excerpt(
    text: str,
    highlights: Sequence[Sequence[int]],
    nearest: NearestSentence | None = None,
    is_markdown: bool = False,
) -> list[Run]:
    """The part of a text that holds most of what is marked, in runs; the whole text where that is hardly
    longer. Of Markdown, it cuts no table and no code."""
    return [
        run._replace(text=_BLANK_LINES.sub("\n\n", run.text))
        for run in _excerpt(text, highlights, nearest, is_markdown)
    ]


def _excerpt(
    text: str, highlights: Sequence[Sequence[int]], nearest: NearestSentence | None, is_markdown: bool
) -> list[Run]:
    if len(text) <= EXCERPT_CHARS + 2 * SNAP_CHARS:
        return runs(text, highlights, nearest)
    # Without a word of the query, the excerpt shows the nearest sentence.
    around = highlights if highlights or nearest is None else [(nearest.start, nearest.end)]
    start, end = _window(text, around)
    if is_markdown:
        start, end = whole_blocks(text, start, end)
    inside = [(a - start, b - start) for a, b in highlights if start <= a and b <= end]
    near = nearest and nearest._replace(start=nearest.start - start, end=nearest.end - start)
    spans = runs(text[start:end], inside, near)
    before = "" if not start else "…\n\n" if is_markdown and text[start - 1] == "\n" else "… "
    after = "" if end >= len(text) else "\n\n…" if is_markdown and "\n" in text[end - 1 : end + 1] else " …"
    return [*([Run(before, False)] if before else []), *spans, *([Run(after, False)] if after else [])]


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


blueprint.add_app_template_global(headings_below)
blueprint.add_app_template_global(render_markdown)


@blueprint.app_template_global()
def citation(result: SearchResult) -> str:
    """Return the citation of a result: title, headings, place in its file or lines, and source path."""
    where = " › ".join((result.document_title, *headings_below(result.document_title, result.section_path)))
    source = f" ({result.source_path})" if result.source_path else ""
    place = result.place.label if result.place else lines(result.start_line, result.end_line)
    return f"{where}, {place}{source}"


@blueprint.app_template_global()
def lines(first: int, last: int) -> str:
    """Return the line numbers of a passage as text."""
    return f"line {first:,}" if first == last else f"lines {first:,}–{last:,}"


@blueprint.app_template_global()
def counted(n: int, noun: str, many: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{n:,} {noun if n == 1 else many or noun + 's'}"


@blueprint.app_template_filter()
def visible(text: str) -> str:
    """Return a text that nothing is hidden in: characters without a glyph, and those that change the
    direction of reading, are named, such as `[U+202E]`."""
    return _HIDDEN.sub(_name_hidden, text)


def _name_hidden(hidden: re.Match[str]) -> str:
    characters = hidden.group()
    names = " ".join(f"U+{ord(character):04X}" for character in characters[:MAX_NAMED])
    more = len(characters) - MAX_NAMED
    return f"[{names} and {more:,} more hidden characters]" if more > 0 else f"[{names}]"


blueprint.add_app_template_filter(how_cut)


@blueprint.app_template_filter()
def readable_bytes(n_bytes: int) -> str:
    """Return a size as text."""
    if n_bytes < KIB:
        return f"{n_bytes} B"
    if n_bytes < MIB:
        return f"{n_bytes / KIB:.0f} KiB"
    return f"{n_bytes / MIB:.1f} MiB".replace(".0 ", " ")


@blueprint.app_template_filter()
def duration(seconds: float) -> str:
    """Return a duration as text."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
