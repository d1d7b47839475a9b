"""Names of queries, and how passages write them."""

from __future__ import annotations

import pytest

from shoal.search.matched_terms import NamedTerm, TextWords, full_names, is_written_as_name
from shoal.words.analysis import stems_of

LIBRARY = {"steve", "jobs", "darcy", "monday", "apple"}


def occurrences(text: str, word: str) -> list[list[object]]:
    (found,) = TextWords([text]).find(stems_of([word]))
    return [[each] for each in found[stems_of([word])[0]]]


@pytest.mark.parametrize(
    ("text", "word", "name"),
    [
        ("The board asked Steve Jobs to return.", "jobs", "Steve Jobs"),
        ("They say that on Monday Jobs returned.", "jobs", "Jobs"),
        ("It belongs to Apple. Jobs said so, and Jobs knew.", "jobs", "Jobs"),
        ("She danced with Mr. Darcy all night.", "darcy", "Mr. Darcy"),
        ("Then the famous Jobs spoke.", "jobs", "Jobs"),
    ],
)
def test_a_name_is_completed_by_titles_and_other_names(text: str, word: str, name: str) -> None:
    matches = occurrences(text, word)
    assert is_written_as_name(text, matches)  # type: ignore[arg-type]
    assert full_names(text, [NamedTerm(matches)], LIBRARY.__contains__) == [name]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "is_after", "is_before", "name"),
    [
        ("Later Jobs Apple spoke of it.", False, True, None),
        ("Later Jobs spoke of it.", False, True, None),
        ("They asked Steve Jobs for it.", True, False, None),
        ("They asked the proud Jobs for it.", True, False, "Jobs"),
        ("They asked Steve Jobs, and Jobs came.", True, False, "Jobs"),
        ("They asked Jobs Apple for it.", False, False, "Jobs"),
    ],
)
def test_a_part_of_another_name_is_no_name_of_the_query(
    text: str, is_after: bool, is_before: bool, name: str | None
) -> None:
    term = NamedTerm(occurrences(text, "jobs"), is_after, is_before)  # type: ignore[arg-type]
    assert full_names(text, [term], LIBRARY.__contains__) == [name]


@pytest.mark.parametrize(
    "text",
    [
        "Jobs are scarce.",
        "It ended. Jobs are scarce.",
        "Many jobs, few Jobs, and other jobs.",
        "* Jobs\n* Wages",
    ],
)
def test_a_word_that_only_begins_sentences_or_is_mostly_small_is_no_name(text: str) -> None:
    assert not is_written_as_name(text, occurrences(text, "jobs"))  # type: ignore[arg-type]
