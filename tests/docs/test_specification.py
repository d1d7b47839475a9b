"""The page that says what the specification asks, requirement by requirement."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "specification.md").read_text(encoding="utf-8")
REQUIREMENTS = {"O": 19, "000": 85, "001": 43, "002": 33, "003": 27, "004": 27}
"""How many requirements the outline and each document have."""
STATES = ("works", "better", "differs", "worse", "missing")
MAX_WORSE = 10


class Row(NamedTuple):
    id: str
    section: str
    requirement: str
    state: str
    where: str
    reason: str


ROWS = [
    Row(*cells)
    for line in PAGE.splitlines()
    if len(cells := [cell.strip() for cell in line.strip("|").split(" | ")]) == len(Row._fields)
    and re.match(r"\w+-\d", cells[0])
]


def test_every_requirement_has_a_row() -> None:
    assert [row.id for row in ROWS] == [
        f"{document}-{number}" for document, n in REQUIREMENTS.items() for number in range(1, n + 1)
    ]
    assert all(row.section and row.requirement for row in ROWS)


def test_counts_at_the_head_are_those_of_the_rows() -> None:
    counts = Counter(row.state for row in ROWS)
    assert counts.keys() <= set(STATES)
    for name, expected in {**{state: counts[state] for state in STATES}, "all": len(ROWS)}.items():
        assert re.findall(rf"^\| {name} \| (\d+) \|", PAGE, re.MULTILINE) == [str(expected)]
    assert counts["worse"] <= MAX_WORSE
    assert counts["missing"] == 0


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_names_files_that_exist_and_the_reason_of_a_departure(row: Row) -> None:
    paths = re.findall(r"`([^`]+)`", row.where)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert bool(row.reason) == (row.state != "works")
    assert row.reason.endswith(".") == bool(row.reason)
