"""The project uses no retired name, and the program that checks it finds one."""

from __future__ import annotations

import pytest

from benchmarks.language import (
    RETIRED,
    count_lines,
    count_syllables,
    occurrences,
    prose,
    reading_ease,
    retired_names,
)


def test_project_contains_no_retired_name() -> None:
    assert occurrences() == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.md", f"One.\nThe {RETIRED[0]} end.", [f"a.md:2: {RETIRED[0]}"]),
        ("a.md", f"{RETIRED[0]}hip", []),
        ("shoal/doubts.py", "", ["shoal/doubts.py:0: doubts.py"]),
        ("docs/doubts.md", "", []),
    ],
)
def test_retired_name_is_found_as_a_whole_word_or_module(name: str, text: str, expected: list[str]) -> None:
    assert list(retired_names(name, text)) == expected


def test_lines_of_code_comments_and_docstrings_are_counted() -> None:
    source = '"""Module.\n\nMore."""\n\n# reason\nx = (  # why\n    1,\n)\n'
    assert count_lines(source) == (3, 1, 3)


@pytest.mark.parametrize(
    ("word", "syllables"),
    [
        ("the", 1),
        ("make", 1),
        ("stored", 1),
        ("wanted", 2),
        ("uses", 2),
        ("table", 2),
        ("passage", 2),
        ("query", 2),
    ],
)
def test_syllables_are_groups_of_vowels_without_a_silent_e(word: str, syllables: int) -> None:
    assert count_syllables(word) == syllables


def test_reading_ease_follows_its_formula() -> None:
    # Two sentences of three words, seven syllables.
    assert reading_ease("The cat sat. It was happy.") == pytest.approx(206.835 - 1.015 * 3 - 84.6 * 7 / 6)


def test_prose_of_a_page_has_no_blocks_tables_headings_and_targets() -> None:
    page = "---\na: b\n---\n# Head\n\nSee [the *page*](x.md).\n\n| a |\n|---|\n\n```\ncode\n```\n- Item\n"
    assert prose(page).split() == ["See", "the", "page.", "Item"]
