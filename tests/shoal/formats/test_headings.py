"""Headings in citations, and labels of titles."""

from __future__ import annotations

import pytest

from shoal.formats.headings import headings_below, without_title_label


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ((), ()),
        (("Walden",), ()),
        (("WALDEN", "Economy"), ("Economy",)),
        (("Title: Walden", "Economy"), ("Economy",)),
        (("title:walden",), ()),
        (("Walden", "Walden"), ("Walden",)),
        (("*Walden.*", "Economy"), ("Economy",)),
        (("Economy", "Walden"), ("Economy", "Walden")),
        (("Author: Walden",), ("Author: Walden",)),
        (("Title: Walden Pond",), ("Title: Walden Pond",)),
    ],
)
def test_first_heading_is_left_out_if_it_repeats_the_title(
    path: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert headings_below("Walden", path) == expected


@pytest.mark.parametrize(
    ("text", "title"),
    [("Title: Walden", "Walden"), ("Subtitle: Ponds", "Subtitle: Ponds"), ("Title:", "Title:")],
)
def test_label_is_removed_only_at_the_start_of_a_title(text: str, title: str) -> None:
    assert without_title_label(text) == title
