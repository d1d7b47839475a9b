"""No regular expression of the code is slow on any text: time grows with length, and no faster."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest
from linear_time import Work, excessive_growth
from regex_catalogue import MadePattern, Use, catalogue
from regex_fragments import Hostile, hostile_texts

from shoal.integrations import quotations

LONG = bool(os.environ.get("SHOAL_TEST_LONG"))
TEXTS = 10_000 if LONG else 1_200
REPETITIONS = 2_000 if LONG else 500
CHARS = 3_000
"""Of a text at least: on fewer a pattern that takes their square may be too quick to be noticed."""

USES, MADE = catalogue()

MADE_HERE = {
    # The words of a quotation, each to the letter. The longest that a program looks for decides what a place costs.
    MadePattern("shoal.integrations.quotations", "_pattern"): quotations._pattern('a "quoted" word - a'),
    # Looks at MAX_PADDING bytes and a boundary at a time.
    MadePattern("shoal_api.multipart", "_pieces"): re.compile(rb"--a-(?:-|[^\S\r\n]{1,64})\Z"),
}
"""Patterns that are made while the program runs, with an example of each."""

SLOW = {
    "a comment that may end anywhere": (r"\s*(?:#[^\r\n]*\s+)*[\w\"'][\w .\"'-]{0,64}:(?=\s)", "match"),
    "the same before a table": (r"\s*(?:#[^\r\n]*\s+)*(?:[\w\"'][\w .\"'-]{0,64}=|\[)", "match"),
    "blanks shared by two parts": (r"(?:\A|[\r\n]) {0,3}#{1,6}[ \t]+([^\r\n]*[^\s#][^\r\n]*)", "finditer"),
    "a run that is tried from each of its places": (r"[*`~]+|(?<!\w)_+|_+(?!\w)", "finditer"),
    "white space before what may be missing": (r"[ \t]*\{[#.:][^{}]*\}[ \t]*$", "finditer"),
    "white space in three places": (r"\s*(?:\[?\s*(?:\.{3,}|…|\. \. \.)\s*\]?)\s*", "finditer"),
    "nested repetition": (r"(?:a|b|ab)*c", "match"),
}
"""Patterns that are slow, some of which this code once had, and how they were used."""


def first_slow(pattern: re.Pattern[Any], way: str) -> tuple[Hostile, float] | None:
    """The first text on which a pattern's time grows faster than length, and how much it grows."""
    work = _work(pattern, way)
    is_bytes = isinstance(pattern.pattern, bytes)
    for hostile in hostile_texts(pattern.pattern, pattern.flags, TEXTS):

        def text_of(n: int, hostile: Hostile = hostile) -> Any:
            text = hostile.text(n)
            return text.encode("utf-8", "replace") if is_bytes else text

        grown = excessive_growth(work, text_of, max(REPETITIONS, CHARS // len(hostile.fragment)))
        if grown is not None:
            return hostile, grown
    return None


def _work(pattern: re.Pattern[Any], way: str) -> Work:
    if way == "finditer":
        return lambda text: sum(1 for _ in pattern.finditer(text))
    work: Work = getattr(pattern, way)
    return work


@pytest.mark.parametrize("use", USES, ids=lambda use: use.name)
def test_a_pattern_takes_time_in_proportion_to_its_text(use: Use) -> None:
    for way in use.ways:
        assert first_slow(use.pattern, way) is None


def test_no_pattern_is_made_in_a_place_that_is_not_known_here() -> None:
    assert set(MADE) == set(MADE_HERE)


@pytest.mark.parametrize("pattern", MADE_HERE.values(), ids=[made.module for made in MADE_HERE])
def test_a_pattern_that_is_made_takes_time_in_proportion_to_its_text(pattern: re.Pattern[Any]) -> None:
    assert first_slow(pattern, "finditer") is None


@pytest.mark.parametrize(("pattern", "way"), SLOW.values(), ids=list(SLOW))
def test_the_search_finds_what_is_slow(pattern: str, way: str) -> None:
    assert first_slow(re.compile(pattern), way) is not None


def test_patterns_of_every_package_are_found_however_they_are_written() -> None:
    names = {use.name for use in USES}
    assert names >= {
        "shoal.formats.headings._MARKS",  # of a module
        "shoal.formats.front_matter._FIRST_KEY",  # in a mapping
        "shoal.formats.drafts._title_of_path",  # in a call inside of a function
        "shoal_api.wait_limits._PREFERENCE",
        "lagoon.sentences._STOP",
    }
