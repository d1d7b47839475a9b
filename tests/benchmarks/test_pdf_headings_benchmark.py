"""The benchmark of headings counts each label once, and leaves out what outlines do not list."""

from __future__ import annotations

from benchmarks.pdf_headings import score

LABELS = [(1, "Arrivals"), (2, "Pilots"), (1, "Departures")]


def test_headings_are_compared_without_their_numbers() -> None:
    found = score("# 1 Arrivals\n\ntext\n\n## 1.1 Pilots\n\n# Tugs\n\n# Pilots\n", LABELS)
    assert (found.recall, found.precision) == (2 / 3, 1 / 2)
    assert found.missed == ["Departures"]
    assert found.wrong == ["Tugs", "Pilots"]


def test_what_outlines_do_not_list_does_not_count() -> None:
    found = score("# Of Harbours\n\n# Arrivals\n\n### 1.1.1 Boats\n\n# References\n", LABELS)
    assert (found.n_right, found.n_headings, found.wrong) == (1, 1, [])
