"""The days that texts name."""

from __future__ import annotations

from datetime import date

import pytest
from examples import examples
from growth import FACTOR, assert_not_quadratic
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.notes.dates import find_dates

WEDNESDAY = date(2025, 3, 12)


def days(text: str, said: date = WEDNESDAY) -> list[tuple[str, str, str]]:
    return [
        (each.first.isoformat(), each.last.isoformat(), text[each.start : each.end])
        for each in find_dates(text, said)
    ]


def test_day_and_its_words_are_found() -> None:
    assert days("I moved last Tuesday.") == [("2025-03-11", "2025-03-11", "last Tuesday")]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("We met on 8 May 2023.", "2023-05-08", "2023-05-08"),
        ("We met on May 8th, 2023.", "2023-05-08", "2023-05-08"),
        ("Due 2024-02-29.", "2024-02-29", "2024-02-29"),
        ("Due in 2024-02 or so.", "2024-02-01", "2024-02-29"),
        ("It began in October.", "2024-10-01", "2024-10-31"),
        ("It has been so since June.", "2024-06-01", "2024-06-30"),
        ("It begins next May.", "2025-05-01", "2025-05-31"),
        ("It happened yesterday.", "2025-03-11", "2025-03-11"),
        ("the day before yesterday", "2025-03-10", "2025-03-10"),
        ("two weeks ago", "2025-02-26", "2025-02-26"),
        ("a couple of days ago", "2025-03-10", "2025-03-10"),
        ("three months ago", "2024-12-01", "2024-12-31"),
        ("last week", "2025-03-03", "2025-03-09"),
        ("last weekend", "2025-03-08", "2025-03-09"),
        ("this month", "2025-03-01", "2025-03-31"),
        ("next year", "2026-01-01", "2026-12-31"),
        ("last night", "2025-03-11", "2025-03-11"),
        ("last summer", "2024-06-01", "2024-08-31"),
        ("in winter 2023", "2023-12-01", "2024-02-29"),
        ("since 2019", "2019-01-01", "2019-12-31"),
        ("We leave on Friday, I will drive.", "2025-03-14", "2025-03-14"),
        ("since New Year's Day", "2025-01-01", "2025-01-01"),
    ],
)
def test_forms_of_dates(text: str, first: str, last: str) -> None:
    assert [(each[0], each[1]) for each in days(text)] == [(first, last)]


@pytest.mark.parametrize(
    "text",
    ["I may march on.", "On Tuesdays I swim.", "At 10:15.", "Room 2019.", "May I ask?", "31 February", "now",
     "He has 12 apples.", "the second day", "every Friday"],
)  # fmt: skip
def test_what_is_no_date(text: str) -> None:
    assert days(text) == []


@given(
    words=st.lists(
        st.sampled_from(
            [
                "last",
                "next",
                "in",
                "on",
                "May",
                "8",
                "2023",
                "of",
                "the",
                "31",
                "ago",
                "two",
                "weeks",
                "since",
                "Monday",
                "year",
                "99999999",
            ]
        ),
        max_size=30,
    ),
    said=st.dates(),
)
@settings(max_examples=examples(300))
def test_words_of_found_days_are_in_the_text(words: list[str], said: date) -> None:
    text = " ".join(words)
    end = 0
    for each in find_dates(text, said):
        assert each.first <= each.last
        assert end <= each.start < each.end <= len(text)
        end = each.end


def test_time_grows_with_the_text() -> None:
    small = "in the last two of May " * 20
    assert_not_quadratic(lambda: find_dates(small, WEDNESDAY), lambda: find_dates(small * FACTOR, WEDNESDAY))
