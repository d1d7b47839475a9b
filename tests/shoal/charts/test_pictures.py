"""Charts are well-formed, escape titles, and are proportional to their data."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from fake_scorer import REEF_WORDS, FakeScorer
from hypothesis import given
from hypothesis import strategies as st

import lagoon
from shoal.charts.reef_map import (
    CHAR_WIDTH,
    HEADING,
    HEIGHT,
    OTHER,
    UNKNOWN,
    WIDTH,
    Area,
    island_colours,
    lay_out,
    luminance,
    map_svg,
    squarified,
)
from shoal.charts.ribbon import (
    GAP_OPACITY,
    N_BINS,
    N_COLUMNS,
    N_LEVELS,
    UNSCORED_OPACITY,
    Piece,
    Ribbon,
    levels,
    presence_by_reef,
    read_ribbon,
    ribbon_svg,
    row_svg,
    strip_svg,
)
from shoal.charts.ribbon import WIDTH as STRIP_WIDTH
from shoal.engine import Engine
from shoal.errors import NotFoundError

Fill = tuple[str | None, str | None]
"""Colour and opacity of a path."""

HOSTILE = '<script>alert("&")</script>'
TEXT = "Lava rose in the volcano and ash fell. " * 12 + "\n\n" + "The judge read the law to the court. " * 12


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(db_path=tmp_path / "shoal.db", scorer=FakeScorer())


@pytest.fixture(scope="module")
def scorer() -> lagoon.Scorer:
    return lagoon.load()


def test_every_island_has_its_own_colour(scorer: lagoon.Scorer) -> None:
    colours = island_colours(scorer.islands)
    assert len(set(colours.values())) == len(scorer.islands) == len(colours)
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in colours.values())


@pytest.mark.parametrize("ground", ["#fbfcfc", "#11171a"], ids=["light", "dark"])
def test_island_colours_contrast_with_both_backgrounds(scorer: lagoon.Scorer, ground: str) -> None:
    for colour in [*island_colours(scorer.islands).values(), UNKNOWN, OTHER]:
        light, dark = sorted([luminance(colour), luminance(ground)], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3, colour


def test_neighbouring_islands_differ_in_luminance(scorer: lagoon.Scorer) -> None:
    colours = island_colours(scorer.islands)
    for archipelago in range(4):
        shades = [
            luminance(colours[island.id]) for island in scorer.islands if island.archipelago_id == archipelago
        ]
        assert all(abs(a - b) > 0.08 for a, b in itertools.pairwise(shades))


def test_a_ribbon_covers_the_document_and_names_its_islands(engine: Engine) -> None:
    stored = engine.ingest(content=TEXT, title="Fire and law")
    with engine.database.snapshot() as snapshot:
        ribbon = read_ribbon(snapshot, stored.id or 0, engine.scorer, 0.5)
    chunks = engine.documents.chunks(stored.id or 0).chunks
    assert [(p.start_char, p.end_char) for p in ribbon.pieces] == [(c.start_char, c.end_char) for c in chunks]
    assert sum(entry.share for entry in ribbon.legend) == pytest.approx(1.0)
    islands = [entry.share for entry in ribbon.legend if entry.colour != UNKNOWN]
    assert islands == sorted(islands, reverse=True)
    main = ribbon.rows[0]
    first, second = sum(main.levels[: N_BINS // 2]), sum(main.levels[N_BINS // 2 :])
    assert max(first, second) > 3 * min(first, second), "one half is about fire, the other about law"


SVG = "{http://www.w3.org/2000/svg}"


def fills(element: ET.Element) -> set[tuple[str | None, str]]:
    """The colours and opacities of the paths below an element."""
    return {(path.get("fill"), path.get("fill-opacity", "1.0")) for path in element.iter(f"{SVG}path")}


def long_document() -> str:
    """Chunks of every island, unknown words, and headings."""
    texts = [f"# Part\n\n{(words.capitalize() + '. ') * 4}" for words in REEF_WORDS.values()]
    return "\n\n".join([*texts, "# Part", "Xq zv. " * 12])


@pytest.mark.parametrize("n_islands", [12, 1])
def test_every_colour_of_a_strip_is_in_the_legend(
    engine: Engine, n_islands: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.charts.ribbon.N_ISLANDS", n_islands)
    monkeypatch.setattr("shoal.charts.ribbon.N_ROWS", 1)
    stored = engine.ingest(content=long_document(), title="All", format="markdown")
    ribbon = engine.documents.ribbon(stored.id or 0)
    assert fills(ET.fromstring(strip_svg(ribbon))) == {
        (entry.colour, str(entry.opacity)) for entry in ribbon.legend
    }
    names = [entry.name for entry in ribbon.legend]
    assert names[-2:] == ["no clear subject", "headings and space between passages"]
    assert any(name.endswith("other islands") for name in names) == (n_islands == 1)
    assert sum(entry.share for entry in ribbon.legend) == pytest.approx(1.0)
    labels = [text.text for text in ET.fromstring(ribbon_svg(ribbon)).iter(f"{SVG}text")]
    assert labels[-len(names) :] == [entry.label for entry in ribbon.legend]


def test_islands_of_a_strip_divide_the_hues_among_them(engine: Engine) -> None:
    stored = engine.ingest(content=TEXT, title="Fire and law")
    ribbon = engine.documents.ribbon(stored.id or 0)
    shown = {*ribbon.colours, *(row_island(engine, row.reef_id) for row in ribbon.rows)}
    islands = [island for island in engine.scorer.islands if island.id in shown]
    assert {**island_colours(islands), **ribbon.colours} == island_colours(islands)


def row_island(engine: Engine, reef_id: int) -> int:
    return next(reef.island_id for reef in engine.scorer.reefs if reef.id == reef_id)


def test_columns_of_a_long_strip_show_the_passage_at_their_left_edge() -> None:
    rng = random.Random(3)
    pieces, at, colours = [], 0, {0: "#000000", 1: "#111111"}
    for _ in range(6000):
        start = at + rng.choice((0, 1, 400))
        at = start + rng.randint(1, 900)
        pieces.append(Piece(start, at, rng.choice((0, 1, None)), rng.random() < 0.5))
    ribbon = Ribbon("Long", at + 5, tuple(pieces), colours, (), ())
    strip = strip_svg(ribbon)
    assert len(strip) < 25 * N_COLUMNS
    shown: dict[int, list[Fill]] = {}
    for path in ET.fromstring(strip).iter(f"{SVG}path"):
        fill = path.get("fill"), path.get("fill-opacity")
        for left, right in re.findall(r"M(\S+) 0H(\S+?)v", str(path.get("d"))):
            for column in range(int(float(left) * 2), int(float(right) * 2)):
                shown.setdefault(column, []).append(fill)
    for column in range(N_COLUMNS):
        char = column * ribbon.n_chars / N_COLUMNS
        under = [piece for piece in pieces if piece.start_char <= char < piece.end_char]
        assert shown[column] == [expected_fill(under, colours)], column


def expected_fill(pieces: Sequence[Piece], colours: Mapping[int, str]) -> Fill:
    """The fill of a column whose left edge is in one of `pieces` or in none."""
    if not pieces:
        return UNKNOWN, str(GAP_OPACITY)
    [piece] = pieces
    if piece.island_id is not None:
        return colours[piece.island_id], None
    return UNKNOWN, str(UNSCORED_OPACITY) if piece.awaits_rescore else None


def test_strip_and_rows_of_the_file_have_the_same_edges(engine: Engine) -> None:
    stored = engine.ingest(content=TEXT, title="Fire and law")
    ribbon = engine.documents.ribbon(stored.id or 0)
    strip, *rows = ET.fromstring(ribbon_svg(ribbon)).iter(f"{SVG}g")
    assert len(rows) == len(ribbon.rows) > 1
    lefts = {str(group.get("transform")).split("(")[1].split()[0] for group in [strip, *rows]}
    assert len(lefts) == 1
    assert {row[0].get("width") for row in rows} == {str(STRIP_WIDTH)}
    ends = [float(end) for path in strip for end in re.findall(r"M(\S+) 0", path.get("d", ""))]
    assert min(ends) == 0
    assert max(ends) < STRIP_WIDTH
    for alone in (strip_svg(ribbon), *map(row_svg, ribbon.rows)):
        root = ET.fromstring(alone)
        assert str(root.get("viewBox")).split()[:3] == ["0", "0", str(STRIP_WIDTH)]
        assert root.get("preserveAspectRatio") == "none"


def test_charts_are_well_formed_and_escape_titles(engine: Engine) -> None:
    stored = engine.ingest(content=TEXT, title=HOSTILE)
    with engine.database.snapshot() as snapshot:
        ribbon = read_ribbon(snapshot, stored.id or 0, engine.scorer, 0.5)
    for svg in (strip_svg(ribbon), ribbon_svg(ribbon), *map(row_svg, ribbon.rows)):
        tree = ET.fromstring(svg)
        assert not [element for element in tree.iter() if element.tag.endswith("script")]
        assert "style=" not in svg
    assert ET.fromstring(strip_svg(ribbon)).get("aria-label") == f"The topics of {HOSTILE}"


def test_text_of_unknown_words_has_its_own_colour(engine: Engine) -> None:
    stored = engine.ingest(content="Xq zv. " * 3, title="?")
    with engine.database.snapshot() as snapshot:
        ribbon = read_ribbon(snapshot, stored.id or 0, engine.scorer, 0.5)
    assert UNKNOWN in strip_svg(ribbon)
    assert ribbon.rows == ()


def test_the_ribbon_of_a_missing_document_raises_not_found(engine: Engine) -> None:
    with engine.database.snapshot() as snapshot, pytest.raises(NotFoundError):
        read_ribbon(snapshot, 7, engine.scorer, 0.5)


def test_presence_is_divided_by_characters() -> None:
    n_chars = N_BINS * 10
    labels = [
        np.array(column) for column in ([0, 15, n_chars - 25], [15, 15, n_chars], [3, 3, 3], [2.0, 9, 1])
    ]
    presence = presence_by_reef(*labels, n_chars)[3]
    assert presence[:3] == pytest.approx([20.0, 10.0, 0.0])
    assert presence[-4:] == pytest.approx([0.0, 5.0, 10.0, 10.0])
    assert sum(presence) == pytest.approx(15 * 2.0 + 25)


def test_levels_keep_the_least_presence_visible() -> None:
    assert levels(np.array([0.0, 0.001, 5.0, 10.0])) == (0, 1, round(N_LEVELS / 2), N_LEVELS)
    assert levels(np.array([0.0, 0.0])) == (0, 0)


def test_the_map_is_filled_and_areas_follow_chunk_counts(scorer: lagoon.Scorer) -> None:
    busy = scorer.reefs[5].id
    reefs = lay_out(scorer, {busy: 900, scorer.reefs[6].id: 30})
    assert sum(box.width * box.height for box in reefs.boxes) == pytest.approx(WIDTH * (HEIGHT - HEADING))
    assert len(reefs.boxes) == len(scorer.reefs)
    area = {box.reef_id: box.width * box.height for box in reefs.boxes}
    assert area[busy] == max(area.values())
    assert area[busy] == pytest.approx(area[scorer.reefs[6].id] * 30)


@given(st.lists(st.floats(0.01, 1000), min_size=1, max_size=40), st.floats(5, 900), st.floats(5, 900))
def test_a_treemap_divides_its_area_without_gap_or_overlap(
    weights: list[float], width: float, height: float
) -> None:
    weights = sorted(weights, reverse=True)
    whole = Area(10, 20, width, height)
    placed = squarified(weights, whole)
    for weight, area in zip(weights, placed, strict=True):
        assert area.width * area.height == pytest.approx(width * height * weight / sum(weights), rel=1e-6)
        assert area.x >= whole.x - 1e-6
        assert area.y >= whole.y - 1e-6
        assert area.x + area.width <= whole.x + width + 1e-6
        assert area.y + area.height <= whole.y + height + 1e-6
    for left, right in itertools.combinations(placed, 2):
        across = min(left.x + left.width, right.x + right.width) - max(left.x, right.x)
        down = min(left.y + left.height, right.y + right.height) - max(left.y, right.y)
        assert across < 1e-6 or down < 1e-6


def test_names_on_the_map_fit_into_their_boxes(scorer: lagoon.Scorer) -> None:
    reefs = lay_out(scorer, {reef.id: 1 + reef.id % 50 for reef in scorer.reefs})
    tree = ET.fromstring(map_svg(reefs, "/reefs/{}"))
    boxes = {f"/reefs/{box.reef_id}": box for box in reefs.boxes}
    n_whole = 0
    for link in tree.iter("{http://www.w3.org/2000/svg}a"):
        box = boxes[link.get("href", "")]
        lines = list(link.iter("{http://www.w3.org/2000/svg}tspan"))
        for line in lines:
            assert box.y < float(line.get("y", 0)) < box.y + box.height
            assert len(line.text or "") * CHAR_WIDTH <= box.width
        n_whole += " ".join(line.text or "" for line in lines) == box.name
    assert n_whole > len(boxes) / 2, "most names can be read"


def test_the_map_of_an_empty_library_has_equal_boxes_with_links(scorer: lagoon.Scorer) -> None:
    reefs = lay_out(scorer, {})
    areas = {round(box.width * box.height, 3) for box in reefs.boxes}
    assert len(areas) == 1
    links = re.findall(r'href="/reefs/(\d+)"', map_svg(reefs, "/reefs/{}"))
    assert sorted(map(int, links)) == [reef.id for reef in scorer.reefs]
