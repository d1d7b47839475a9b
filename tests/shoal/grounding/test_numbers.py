"""The numbers of a text."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.grounding.numbers import MAX_DIGITS, find_numbers


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("7,700 years", {7700}),
        ("7700 and 7,700.0", {7700}),
        ("seven thousand seven hundred", {7700}),
        ("350 million years, 350,000,000", {350_000_000}),
        ("1.5 billion", {1_500_000_000}),
        ("twenty-three people, 253 pairs", {23, 253}),
        ("two hundred and fifty thousand", {250_000}),
        ("a hundred and two", {2}),
        ("ten to two", {10, 2}),
        ("three hundred and six papers", {306}),
        ("the 1990s and the 20th century", {1990, 20}),
        ("1, 2 and 3", {1, 2, 3}),
        ("12.03.1999", {12, 3, 1999}),
        ("no numbers, hundreds of them, thousands even, the third", set()),
        ("nineteen. Two", {19, 2}),
        ("one two three", {1, 2, 3}),
        ("B-17", {17}),
        ("1,700–1,800 degrees", {1700, 1800}),
        ("", set()),
    ],
)
def test_numbers_are_read_as_values(text: str, numbers: set[int]) -> None:
    assert find_numbers(text) == {Decimal(number) for number in numbers}


def test_a_long_run_of_digits_is_cut() -> None:
    assert find_numbers("9" * 1_000_000) == {Decimal("9" * MAX_DIGITS)}


_SMALL = "zero one two three four five six seven eight nine ten eleven twelve"
SMALL = _SMALL.split()


@given(st.integers(0, 999_999_999))
def test_digits_with_and_without_separators_are_equal(number: int) -> None:
    assert find_numbers(f"about {number:,} of them") == find_numbers(f"{number}") == {Decimal(number)}


@given(st.sampled_from(range(2, 13)), st.sampled_from(["hundred", "thousand", "million"]))
def test_words_equal_digits(number: int, scale: str) -> None:
    value = number * {"hundred": 100, "thousand": 1000, "million": 1_000_000}[scale]
    assert find_numbers(f"{SMALL[number]} {scale} bees") == {Decimal(value)}


@given(st.text(max_size=60) | st.text(alphabet="0123456789.,- andhuredtousi", max_size=60))
def test_every_text_has_finite_numbers(text: str) -> None:
    assert all(number.is_finite() and number >= 0 for number in find_numbers(text))
