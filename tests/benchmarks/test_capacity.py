"""The model of capacity agrees with what was measured, and its page with the program."""

from __future__ import annotations

import re

import pytest

from benchmarks import capacity
from benchmarks.capacity import (
    SCALE,
    Demand,
    check,
    fit,
    largest_part,
    lines,
    measured,
    plan,
    report,
    shards_for,
)

PAGE = SCALE.with_name("capacity.md")
TERABYTE = Demand(text_mb=1e6, p95_ms=250.0, cores=64, memory_gb=256.0, searches=10.0)


@pytest.fixture(scope="module")
def rows() -> dict[str, list[float]]:
    return measured(SCALE.read_text(encoding="utf-8"))


def test_lines_predict_two_sizes_from_the_others(rows: dict[str, list[float]]) -> None:
    for title, pairs in check(rows):
        for predicted, found in pairs:
            assert predicted == pytest.approx(found, rel=0.2), title


def test_lines_pass_through_what_was_measured(rows: dict[str, list[float]]) -> None:
    for key, line in lines(rows).items():
        sizes = rows["text"] if line.is_logarithmic else [n / 1e6 for n in rows["chunks"]]
        for size, cost in zip(sizes, rows[key], strict=True):
            assert line.at(size) == pytest.approx(cost, rel=0.2), key


def test_exact_line_is_found() -> None:
    line = fit([1, 2, 5], [7, 9, 15], is_logarithmic=False)
    assert (line.a, line.b) == pytest.approx((5, 2))


def test_parts_are_fast_enough_and_one_fewer_are_not(rows: dict[str, list[float]]) -> None:
    n = shards_for(rows, TERABYTE)
    assert (
        plan(rows, TERABYTE, n).search_p95_ms <= TERABYTE.p95_ms < plan(rows, TERABYTE, n - 1).search_p95_ms
    )
    assert plan(rows, TERABYTE, n).chunks_millions / n <= largest_part(rows, TERABYTE.p95_ms)


def test_small_library_takes_one_part_and_one_machine(rows: dict[str, list[float]]) -> None:
    small = Demand(text_mb=700, p95_ms=250.0, cores=64, memory_gb=256.0, searches=10.0)
    assert shards_for(rows, small) == 1
    planned = plan(rows, small, 1)
    assert (planned.memory_machines, planned.search_machines) == (1, 1)
    # The numbers of the library of a million passages, which it is almost.
    assert planned.search_p95_ms == pytest.approx(rows["p95"][-1], rel=0.2)
    assert planned.core_hours == pytest.approx(700 * rows["processor"][-1] / 3600, rel=0.2)


def test_page_has_the_present_tables(rows: dict[str, list[float]]) -> None:
    shown = re.search(
        r"<!-- benchmarks.capacity -->\n(.*?)\n<!-- end -->", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    assert shown is not None
    assert shown[1] == report(rows, TERABYTE)


def test_missing_row_is_named() -> None:
    with pytest.raises(ValueError, match="no row 'chunks'"):
        capacity.measured("| something | 1 | 2 | 3 |\n")
