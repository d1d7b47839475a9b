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
DAYS_OF_WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


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


FRIDAY, LEAP_DAY, YEAR_END = date(2025, 3, 14), date(2024, 2, 29), date(2024, 12, 31)


@pytest.mark.parametrize(
    ("text", "said", "first", "last"),
    [
        # A day of the week said on that day.
        ("I saw her last Friday.", FRIDAY, "2025-03-07", "2025-03-07"),
        ("I saw her on Friday.", FRIDAY, "2025-03-07", "2025-03-07"),
        ("We meet this Friday.", FRIDAY, "2025-03-14", "2025-03-14"),
        ("We meet next Friday.", FRIDAY, "2025-03-21", "2025-03-21"),
        ("It has hurt since Friday.", FRIDAY, "2025-03-07", "2025-03-07"),
        # The tense decides.
        ("The report is due by Friday.", WEDNESDAY, "2025-03-14", "2025-03-14"),
        ("The shop is closed until Monday.", WEDNESDAY, "2025-03-17", "2025-03-17"),
        ("I'll call her on Monday.", WEDNESDAY, "2025-03-17", "2025-03-17"),
        ("I called her on Monday. I will write, too.", WEDNESDAY, "2025-03-10", "2025-03-10"),
        ("I'm excited to see you on Monday.", WEDNESDAY, "2025-03-17", "2025-03-17"),
        ("I visited Rome in May.", WEDNESDAY, "2024-05-01", "2024-05-31"),
        ("I will visit Rome in January.", WEDNESDAY, "2026-01-01", "2026-01-31"),
        ("We got married on 20 April.", WEDNESDAY, "2024-04-20", "2024-04-20"),
        ("My birthday is on 20 February.", WEDNESDAY, "2025-02-20", "2025-02-20"),
        ("The deadline has been moved to 30 June.", WEDNESDAY, "2025-06-30", "2025-06-30"),
        ("We met in March.", WEDNESDAY, "2025-03-01", "2025-03-31"),
        ("She came last March.", WEDNESDAY, "2024-03-01", "2024-03-31"),
        ("This May I travel.", WEDNESDAY, "2025-05-01", "2025-05-31"),
        ("We celebrated Christmas.", date(2025, 12, 20), "2024-12-25", "2024-12-25"),
        ("We will celebrate Christmas.", date(2025, 12, 27), "2026-12-25", "2026-12-25"),
        # Months of different lengths, leap years, turns of the year.
        ("a month ago", date(2025, 3, 31), "2025-02-01", "2025-02-28"),
        ("next month", date(2024, 1, 31), "2024-02-01", "2024-02-29"),
        ("a year ago", LEAP_DAY, "2023-01-01", "2023-12-31"),
        ("I was born on 29 February.", WEDNESDAY, "2024-02-29", "2024-02-29"),
        ("tomorrow", YEAR_END, "2025-01-01", "2025-01-01"),
        ("last month", date(2025, 1, 15), "2024-12-01", "2024-12-31"),
        ("last week", date(2025, 1, 2), "2024-12-23", "2024-12-29"),
        # Beside another date.
        ("We left two days before Christmas.", date(2025, 1, 9), "2024-12-23", "2024-12-23"),
        ("It was the day after 8 May 2023.", WEDNESDAY, "2023-05-09", "2023-05-09"),
        ("It was the week before 9 June 2023.", WEDNESDAY, "2023-06-02", "2023-06-08"),
    ],
)  # fmt: skip
def test_days_by_what_is_said_when(text: str, said: date, first: str, last: str) -> None:
    assert [(each[0], each[1]) for each in days(text, said)] == [(first, last)]


@pytest.mark.parametrize(
    "text",
    ["30 February 2025", "on 31 April", "April 31st, 2024", "on the 31st of June 2024", "2025-02-29", "2025-13-01",
     "in 2025-00"],
)  # fmt: skip
def test_days_that_no_calendar_has_are_no_dates(text: str) -> None:
    assert days(text) == []


@given(
    said=st.dates(min_value=date(1900, 1, 1), max_value=date(2100, 1, 1)), day=st.sampled_from(DAYS_OF_WEEK)
)
@settings(max_examples=examples(300))
def test_days_of_the_week_are_within_a_week_of_their_side(said: date, day: str) -> None:
    for text, least, most in (
        ("I ran last {}.", -7, -1),
        ("I will run on {}.", 0, 6),
        ("I run next {}.", 1, 7),
    ):
        [found] = find_dates(text.format(day), said)
        assert found.first == found.last
        assert found.first.strftime("%A") == day
        assert least <= (found.first - said).days <= most


@given(said=st.dates(min_value=date(1900, 1, 1), max_value=date(2100, 1, 1)), month=st.integers(1, 12))
@settings(max_examples=examples(300))
def test_months_without_a_year_are_of_the_tense(said: date, month: int) -> None:
    name = date(2000, month, 1).strftime("%B")
    [past] = find_dates(f"I moved in {name}.", said)
    [ahead] = find_dates(f"I will move in {name}.", said)
    assert past.first <= said <= ahead.last
    assert past.first.month == ahead.first.month == month
    assert (said - past.first).days <= 366
    assert (ahead.last - said).days <= 397


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
