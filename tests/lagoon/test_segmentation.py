import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lagoon import LagoonError
from lagoon.segmentation import (
    SegmentationOptions,
    gap_cosines,
    segment_starts,
    topic_boundaries,
)


@st.composite
def documents(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(cosines, section starts, sentence starts, sentence ends)."""
    n = draw(st.integers(1, 60))
    cosines = np.array(draw(st.lists(st.integers(-10, 10), min_size=n - 1, max_size=n - 1)), dtype=float) / 10
    sections = sorted({0, *draw(st.lists(st.integers(0, n - 1), max_size=5))})
    lengths = np.array(draw(st.lists(st.integers(1, 2000), min_size=n, max_size=n)))
    starts = np.cumsum(lengths + 1) - lengths - 1
    return cosines, np.array(sections), starts, starts + lengths


OPTIONS = st.builds(
    SegmentationOptions,
    sensitivity=st.floats(-1, 2),
    min_chunk_sentences=st.integers(1, 6),
    max_chunk_sentences=st.integers(0, 20),
    max_chunk_chars=st.sampled_from([0, 2000, 3000, 8000]),
)


@given(documents(), OPTIONS)
def test_segments_respect_size_limits(document: tuple, options: SegmentationOptions) -> None:
    cosines, sections, starts, ends = document
    n = len(starts)
    cuts = segment_starts(cosines, sections, starts, ends, options)
    assert cuts == sorted(set(cuts))
    assert set(sections.tolist()) <= set(cuts)
    limit_broken_by_minimum = False
    for first, last in zip(cuts, [*cuts[1:], n], strict=True):
        if options.max_chunk_sentences:
            assert last - first <= options.max_chunk_sentences
        if options.max_chunk_chars:
            assert ends[last - 1] - starts[first] <= options.max_chunk_chars
        section_end = min([*sections[sections > first].tolist(), n])
        section_start = int(sections[sections <= first].max())
        if last - first < options.min_chunk_sentences <= section_end - section_start:
            limit_broken_by_minimum = True
    no_limits = options.max_chunk_sentences == options.max_chunk_chars == 0
    assert not (no_limits and limit_broken_by_minimum)


def split_literally(cosines: np.ndarray, first: int, last: int, limit: int, margin: int) -> list[int]:
    """Cut an oversize piece at its lowest cosine, and its parts likewise."""
    positions = range(first + margin, last - margin + 1)
    if last - first <= limit or not positions:
        return []
    cut = min(positions, key=lambda position: cosines[position - 1])
    return sorted(
        [
            cut,
            *split_literally(cosines, first, cut, limit, margin),
            *split_literally(cosines, cut, last, limit, margin),
        ]
    )


@given(st.integers(2, 60), st.integers(1, 4), st.integers(4, 10), st.randoms(use_true_random=False))
def test_oversize_segments_are_split_at_their_lowest_cosine(
    n: int, margin: int, limit: int, random: object
) -> None:
    cosines = np.arange(n - 1) / n
    random.shuffle(cosines)  # type: ignore[attr-defined]
    assume(limit >= 2 * margin)
    options = SegmentationOptions(
        sensitivity=1e9, min_chunk_sentences=margin, max_chunk_sentences=limit, max_chunk_chars=0
    )
    spans = np.arange(n)
    cuts = segment_starts(cosines, np.array([0]), spans, spans + 1, options)
    assert cuts == [0, *split_literally(cosines, 0, n, limit, margin)]


def test_a_text_with_constant_cosines_is_split_evenly() -> None:
    n = 1000
    spans = np.arange(n)
    cuts = segment_starts(np.ones(n - 1), np.array([0]), spans, spans + 1, SegmentationOptions())
    sizes = np.diff([*cuts, n])
    assert sizes.min() >= 8
    assert sizes.max() <= 30


@given(
    st.lists(st.integers(0, 6), min_size=2, max_size=40),
    st.floats(0, 2),
    st.lists(st.integers(1, 40), max_size=3),
    st.integers(1, 4),
)
def test_boundaries_are_deep_local_minima(
    values: list[int], sensitivity: float, more: list[int], margin: int
) -> None:
    cosines = np.array(values, dtype=float) / 6
    n = len(values) + 1
    sections = sorted({0, *(start for start in more if start < n)})

    def value(gap: int) -> float:
        """Infinite where no boundary is allowed: too near an end of the section."""
        first = max(start for start in sections if start <= gap + 1)
        last = min([start for start in sections if start > gap + 1] or [n])
        return cosines[gap] if gap + 1 - first >= margin and last - gap - 1 >= margin else np.inf

    candidates = [gap for gap in range(n - 1) if value(gap) < np.inf]
    threshold = cosines[candidates].mean() - sensitivity * cosines[candidates].std() if candidates else 0
    expected = [
        gap + 1
        for gap in candidates
        if cosines[gap] < threshold
        and (gap == 0 or cosines[gap] < value(gap - 1))
        and (gap == n - 2 or cosines[gap] <= value(gap + 1))
    ]
    assert topic_boundaries(cosines, np.array(sections), sensitivity, margin).tolist() == expected


@given(
    st.integers(1, 30),
    st.integers(0, 5),
    st.lists(st.integers(1, 29), max_size=3),
    st.integers(0, 2**32 - 1),
)
def test_cosines_compare_averages_within_sections(n: int, window: int, more: list[int], seed: int) -> None:
    z = np.random.default_rng(seed).normal(size=(n, 5))
    z[np.random.default_rng(seed).random(n) < 0.3] = 0
    sections = sorted({0, *(start for start in more if start < n)})

    def average(sentences: range) -> np.ndarray:
        units = [z[i] / np.linalg.norm(z[i]) for i in sentences if z[i].any()]
        return np.mean(units, axis=0) if units else np.zeros(5)

    def cosine(gap: int, size: int) -> float:
        first = max(start for start in sections if start <= gap)
        last = min([start for start in sections if start > gap + 1] or [n])
        a = average(range(max(gap + 1 - size, first), gap + 1))
        b = average(range(gap + 1, min(gap + 1 + size, last)))
        norms = np.linalg.norm(a) * np.linalg.norm(b)
        return float(a @ b / norms) if norms > 1e-12 else float(not a.any() and not b.any())

    cosines_of_gaps = gap_cosines(lambda first, last: z[first:last], np.array(sections), n, window)
    assert len(cosines_of_gaps) == n - 1
    for gap, value in enumerate(cosines_of_gaps.tolist()):
        assert value == pytest.approx((cosine(gap, window + 1) + cosine(gap, 2 * window + 2)) / 2, abs=1e-5)


def test_block_borders_do_not_affect_cosines() -> None:
    z = np.random.default_rng(1).normal(size=(2500, 4))
    sections = np.array([0, 1000, 1024, 2047])
    cosines_of_gaps = gap_cosines(lambda first, last: z[first:last], sections, len(z), 3)
    for first in (900, 1020, 1500, 2040):
        part = sections[sections > first] - first
        tail = gap_cosines(
            lambda a, b, first=first: z[first + a : first + b], np.array([0, *part]), len(z) - first, 3
        )
        reach = 2 * (3 + 1)
        assert cosines_of_gaps[first + reach :] == pytest.approx(tail[reach:], abs=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"sensitivity": float("nan")},
        {"smooth_window": -1},
        {"smooth_window": 10**6},
        {"min_chunk_sentences": 0},
        {"max_chunk_sentences": -1},
        {"max_chunk_chars": -1},
    ],
)
def test_invalid_options_are_rejected(options: dict) -> None:
    with pytest.raises(LagoonError):
        SegmentationOptions(**options)
