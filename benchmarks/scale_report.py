"""The table and the growth curves of benchmarks/scale.py, from its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

Numbers = Mapping[str, Any]
"""Numbers of one library. A latency is an object with `p50_ms`, `p95_ms`, `n` and `failed`."""
Cell = Callable[[Numbers], str]

PANEL_WIDTH, PANEL_HEIGHT, EDGE, COLUMNS = 300, 210, 46, 3
TOP = 46
"""Height of the title and the labels of the curves."""
LABEL_WIDTH = 120
COLORS = ("#1f6f8b", "#c2571a", "#5a7d2a")


def number(key: str, digits: int = 0, unit: str = "") -> Cell:
    return lambda numbers: f"{numbers[key]:,.{digits}f}{unit}"


def latency(key: str) -> Cell:
    """Median and 95th percentile, milliseconds."""
    return lambda numbers: _latency(numbers[key])


def p95(*keys: str) -> Cell:
    """The largest 95th percentile of several, milliseconds."""
    return lambda numbers: f"{max(numbers[key]['p95_ms'] for key in keys):,.0f}"


PAGES = {
    "page_start": "/",
    "page_search": "/?q=…",
    "page_library": "/library",
    "page_reefs": "/reefs",
    "page_vocabulary": "/vocabulary",
    "page_document": "the largest document",
    "page_jobs": "/jobs",
    "page_status": "/api/v1/status",
    "page_metrics": "/metrics",
}
"""Title of each measured page."""

ROWS: tuple[tuple[str, Cell], ...] = (
    ("chunks", number("chunks")),
    ("documents", number("documents")),
    ("text, MB", number("text_mb", 1)),
    ("processor seconds per MB, two passes, all processes", number("processor_s_per_mb", 2)),
    ("… of these, the API", number("api_processor_s_per_mb", 2)),
    ("bulk upload, 2 workers, MB/s", number("mb_per_s", 2)),
    ("database and index, times the text", number("size_ratio", 2)),
    ("chunks stale after the upload", number("stale_chunks")),
    ("start to ready, s", number("ready_s", 2)),
    ("first search, ms", number("first_search_ms")),
    ("first page, ms", number("first_page_ms")),
    ("hybrid, p50 / p95 ms", latency("hybrid")),
    ("… processor ms of the API for a search", number("hybrid_processor_ms", 1)),
    ("reef, p50 / p95 ms", latency("reef")),
    ("lexical, p50 / p95 ms", latency("lexical")),
    ("… processor ms of the API for a search", number("lexical_processor_ms", 1)),
    ("lexical without filters, p50 / p95 ms", latency("lexical_unfiltered")),
    ("tantivy on the same, p50 / p95 ms", latency("tantivy")),
    ("lexical p95 / tantivy p95", number("lexical_to_tantivy", 1, "×")),
    ("tantivy: indexing, s", number("tantivy_index_s", 1)),
    ("tantivy: index, times the text", number("tantivy_size_ratio", 2)),
    ("filter by tag, p50 / p95 ms", latency("filter_tag")),
    ("filter by metadata, p50 / p95 ms", latency("filter_metadata")),
    ("filter by document, p50 / p95 ms", latency("filter_document")),
    ("filter by confidence, p50 / p95 ms", latency("filter_confidence")),
    ("phrases, p50 / p95 ms", latency("phrase")),
    ("excluded words, p50 / p95 ms", latency("excluded")),
    ("similar passages (page of a chunk), p50 / p95 ms", latency("similar")),
    ("hybrid, 8 clients, requests a second", number("requests_per_s", 1)),
    ("hybrid, 8 clients, p50 / p95 ms", latency("clients")),
    ("… with two processes of the API, requests a second", number("requests_per_s_2", 1)),
    ("… with two processes of the API, p50 / p95 ms", latency("clients_2")),
    ("hybrid while a bulk job runs, p50 / p95 ms", latency("hybrid_while_uploading")),
    ("API memory, private, after the start, MB", number("memory_start_mb")),
    ("API memory, private, after the searches, MB", number("memory_mb")),
    ("… and mapped files, which processes share, MB", number("mapped_mb")),
    ("`shoal search` from a cold start, s", number("cli_search_s", 2)),
    ("`shoal explain` from a cold start, s", number("cli_explain_s", 2)),
    ("`shoal status` from a cold start, s", number("cli_status_s", 2)),
    *((f"page {title}, p95 ms", p95(key)) for key, title in PAGES.items()),
    ("any page, p95 ms", p95(*PAGES)),
    ("load of the machine before, runnable processes a core", number("load_per_core", 1)),
)

CURVES: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("processor seconds per MB", (("all processes", "processor_s_per_mb"),)),
    ("bulk upload, MB/s", (("2 workers", "mb_per_s"),)),
    (
        "bytes, times the text",
        (("database and index", "size_ratio"), ("tantivy, words only", "tantivy_size_ratio")),
    ),
    ("hybrid search, ms", (("p95", "hybrid.p95_ms"), ("p50", "hybrid.p50_ms"))),
    (
        "search by words, p95 ms",
        (("lexical over HTTP", "lexical_unfiltered.p95_ms"), ("tantivy in process", "tantivy.p95_ms")),
    ),
    (
        "hybrid p95, ms",
        (("while a bulk job runs", "hybrid_while_uploading.p95_ms"), ("8 clients", "clients.p95_ms")),
    ),
    (
        "API memory, private, MB",
        (("after the searches", "memory_mb"), ("after the start", "memory_start_mb")),
    ),
    ("commands from a cold start, s", (("search", "cli_search_s"), ("status", "cli_status_s"))),
    ("pages, p95 ms", (("/vocabulary", "page_vocabulary.p95_ms"), ("/library", "page_library.p95_ms"))),
)
"""Title of each panel, and the label and key of its curves."""


def table(sizes: Sequence[Numbers]) -> str:
    """A Markdown table with a column for each library. Lines that none has are left out."""
    lines = []
    for label, cell in ROWS:
        cells = [_optional(cell, numbers) for numbers in sizes]
        if any(cells):
            lines.append(f"| {label} | {' | '.join(cells)} |")
    head = " | ".join(f"{numbers['size']:,}" for numbers in sizes)
    return "\n".join([f"| library of about … chunks | {head} |", "|---|" + "---:|" * len(sizes), *lines])


def draw(sizes: Sequence[Numbers]) -> str:
    """Growth curves over the number of chunks, as SVG."""
    width, height = COLUMNS * PANEL_WIDTH, math.ceil(len(CURVES) / COLUMNS) * PANEL_HEIGHT
    frame = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-size="11"'
    parts = [
        f'<svg {frame} font-family="sans-serif">',
        "<title>Costs of a library by its number of chunks</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for place, (title, curves) in enumerate(CURVES):
        row, column = divmod(place, COLUMNS)
        parts.append(f'<g transform="translate({column * PANEL_WIDTH} {row * PANEL_HEIGHT})">')
        parts += _panel(title, [(label, _points(sizes, key)) for label, key in curves])
        parts.append("</g>")
    return "\n".join([*parts, "</svg>\n"])


def _panel(title: str, curves: Sequence[tuple[str, list[tuple[float, float]]]]) -> list[str]:
    right, bottom = PANEL_WIDTH - 16, PANEL_HEIGHT - 30
    points = [point for _, curve in curves for point in curve]
    parts = [
        f'<text x="{EDGE}" y="18" font-size="13">{escape(title)}</text>',
        f'<path d="M{EDGE} {TOP}V{bottom}H{right}" fill="none" stroke="#999"/>',
    ]
    if not points:
        return [*parts, f'<text x="{EDGE + 10}" y="{bottom - 10}" fill="#777">not measured</text>']
    # A fifth of a decade on both sides, so that a single size has a place in the middle.
    first = math.log10(min(x for x, _ in points)) - 0.2
    last = math.log10(max(x for x, _ in points)) + 0.2
    highest = max(y for _, y in points) * 1.15 or 1.0

    def at(x: float, y: float) -> tuple[float, float]:
        share = (math.log10(x) - first) / (last - first)
        return EDGE + share * (right - EDGE), bottom - y / highest * (bottom - TOP)

    for share in (0.0, 0.5, 1.0):
        y = highest * share
        parts.append(
            f'<text x="{EDGE - 6}" y="{at(points[0][0], y)[1] + 4:.1f}" text-anchor="end">{_tick(y)}</text>'
        )
    parts += [
        f'<text x="{at(x, 0)[0]:.1f}" y="{bottom + 16}" text-anchor="middle">{x / 1000:,.0f}k</text>'
        for x in sorted({x for x, _ in points})
    ]
    for line, ((label, curve), color) in enumerate(zip(curves, COLORS, strict=False)):
        places = [at(*point) for point in curve]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in places]
        parts.append(f'<text x="{EDGE + LABEL_WIDTH * line}" y="34" fill="{color}">{escape(label)}</text>')
    return parts


def _tick(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def _points(sizes: Sequence[Numbers], key: str) -> list[tuple[float, float]]:
    """Number of chunks and value of a key, where there is one. A dot leads into an object."""
    points = []
    for numbers in sizes:
        value: Any = numbers
        for name in key.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        if value is not None:
            points.append((float(numbers["chunks"]), float(value)))
    return sorted(points)


def _latency(numbers: Numbers) -> str:
    failed = f" ({numbers['failed']} of {numbers['n']} failed)" if numbers["failed"] else ""
    return f"{numbers['p50_ms']:,.1f} / {numbers['p95_ms']:,.1f}{failed}"


def _optional(cell: Cell, numbers: Numbers) -> str:
    try:
        return cell(numbers)
    except KeyError:
        return ""
