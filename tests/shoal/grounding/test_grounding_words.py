"""Tokens of a text: what it states exactly, and which notations state the same."""

from __future__ import annotations

import itertools
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.grounding.notations import MAX_DIGITS
from shoal.grounding.words import Kind, Token, read_tokens, same


def exact(text: str) -> list[Token]:
    return [token for token in read_tokens(text) if token.is_exact]


def values(text: str) -> set[Decimal]:
    return {value for token in read_tokens(text) for value in token.values}


@pytest.mark.parametrize(
    ("text", "expected"),
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
        ("the twenty-third, the third", {23, 3}),
        ("1, 2 and 3", {1, 2, 3}),
        ("no numbers, hundreds of them, thousands even", set()),
        ("nineteen. Two", {19, 2}),
        ("1,700–1,800 degrees", {1700, 1800}),
        ("Louis XIV, chapter IV and World War II", {14, 4, 2}),
        ("I saw him. MIX it, Vic", set()),
        ("7 700 and 7'700", {7700}),
        ("1.234.567,89 or 1,234,567.89", {Decimal("1234567.89")}),
        ("12,34,567 rupees", {1_234_567}),
        ("minus 5 and −6", {-5, -6}),
        ("½", {Decimal("0.5")}),
        ("", set()),
    ],
)
def test_numbers_are_read_as_values(text: str, expected: set[int | Decimal]) -> None:
    assert values(text) == {Decimal(number) for number in expected}


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("version 3.1.2 at 192.168.10.25:8080", [Kind.version, Kind.address]),
        ("2024-03-15, 9:30–17:45", [Kind.date, Kind.time, Kind.time]),
        ("2024-15-03", [Kind.code]),
        ("commit 9f86d08, KB5001330, CO₂ and exit 12A", [Kind.code] * 4),
        ("hepatitis B in a T-cell", [Kind.letter] * 2),
        ("C++, C#, F#, .NET, AT&T, node.js", [Kind.code] * 6),
        ("user_profile or getUserProfile()", [Kind.code] * 2),
        ("tar -xzf with --force in $PATH", [Kind.code] * 3),
        ("fe80::1, 00:1A:2B:3C:4D:5E, x@y.org, http://a.b/c", [Kind.address] * 4),
        ("COVID-19, GPT-4, ISBN 978-3-16-148410-0", [Kind.code] * 3),
        ("a 12-year-old in the mid-1990s", [Kind.number] * 2),
        ("Python 3.10 of version 3.10", [Kind.version] * 2),
        ("It is I. A dog and a cat.", []),
        ("this and/or that, don't, o'clock", []),
    ],
)
def test_exact_tokens_have_kinds(text: str, kinds: list[Kind]) -> None:
    assert [token.kind for token in exact(text)] == kinds


SAME = [
    ("12 km", "12,000 metres"), ("7,700", "7700"), ("5 %", "five per cent"), ("$5", "5 dollars"),
    ("US$5 million", "5,000,000 USD"), ("20°C", "20 °C"), ("15 March 2024", "March 15th, 2024"),
    ("2024-03-15", "15 March 2024"), ("15. März 2024", "15 mars 2024"), ("15 de marzo de 2024", "15.03.2024"),
    ("2024年3月15日", "2024-03-15"), ("v2.0.0", "2.0.0"), ("XR-300", "XR300"), ("9:30 p.m.", "21:30"),
    ("9am", "09:00"), ("user_profile", "userProfile"), ("3rd", "third"), ("World War II", "2"), ("1815", "18 June 1815"),
    ("12 litres", "12 l"), ("fifty", "50"), ("March 2024", "15 March 2024"), ("10 to 12 km", "10 km"),
]  # fmt: skip
DIFFERENT = [
    ("12 km", "12 m"), ("5 %", "5 dollars"), ("3.10.0", "3.1.0"), ("Python 3.10", "Python 3.1"), ("-5", "5"),
    ("2024-03-15", "2024-03-16"), ("15 March 2024", "March 2024"), ("C#", "C++"), ("12A", "12B"),
    ("9:30 a.m.", "9:30 p.m."), ("192.168.10.25", "192.168.25.10"), ("€5", "$5"), ("third", "fourth"),
    ("vitamin B", "vitamin C"), ("--force", "force_it"),
]  # fmt: skip
OPEN = [("7.700 t", "7700 t"), ("03/04/2024", "3 April 2024"), ("3.125", "3125")]


def first_same(one: str, other: str) -> bool | None:
    return same(exact(one)[0], exact(other)[0])


@pytest.mark.parametrize(("one", "other"), SAME)
def test_notations_of_the_same_are_the_same(one: str, other: str) -> None:
    assert first_same(one, other) is True


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_values_are_different(one: str, other: str) -> None:
    assert first_same(one, other) is False


@pytest.mark.parametrize(("one", "other"), OPEN)
def test_an_ambiguous_notation_leaves_it_open(one: str, other: str) -> None:
    assert first_same(one, other) is None
    assert first_same(one, one) is True


def test_a_long_run_of_digits_is_cut() -> None:
    assert values("9" * 1_000_000) == {Decimal("9" * MAX_DIGITS)}


_SMALL = "zero one two three four five six seven eight nine ten eleven twelve"
SMALL = _SMALL.split()


@given(st.integers(0, 999_999_999))
def test_digits_with_and_without_separators_are_equal(number: int) -> None:
    assert values(f"about {number:,} of them") == values(f"{number}") == {Decimal(number)}


@given(st.sampled_from(range(2, 13)), st.sampled_from(["hundred", "thousand", "million"]))
def test_words_equal_digits(number: int, scale: str) -> None:
    value = number * {"hundred": 100, "thousand": 1000, "million": 1_000_000}[scale]
    assert values(f"{SMALL[number]} {scale} bees") == {Decimal(value)}


@given(st.text(max_size=60) | st.text(alphabet="0123456789.,- andhuredtousi:/ABC#+", max_size=60))
def test_tokens_are_parts_of_the_text_in_order(text: str) -> None:
    tokens = read_tokens(text)
    assert all(text[token.start : token.end] == token.text for token in tokens)
    assert all(one.end <= other.start for one, other in itertools.pairwise(tokens))
    assert all(value.is_finite() for token in tokens for value in token.values)
