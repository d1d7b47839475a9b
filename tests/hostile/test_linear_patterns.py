"""Every regular expression of the code takes time linear in the length of any text."""

from __future__ import annotations

import os
import re
from collections import deque
from typing import Any

import pytest
from linear_time import FEW, Work, excessive_growth, is_surely_linear
from regex_catalogue import MadePattern, Use, catalogue
from regex_fragments import Hostile, hostile_texts

from shoal.conversion.accounts import markup
from shoal.grounding import references
from shoal.words.terms import word_pattern

LONG = bool(os.environ.get("SHOAL_TEST_LONG"))
TEXTS = 10_000 if LONG else 450
REPETITIONS = 2_000 if LONG else 500
CHARS = 3_000
"""Minimum length of a text: on shorter texts a quadratic pattern may be too fast to be noticed."""

USES, MADE = catalogue()

MADE_HERE = {
    # Names of elements, which are those of the rules or at most 61 characters of the text.
    MadePattern("shoal.conversion.accounts.markup", "__init__"): markup.XmlRules((), ()).tag,
    MadePattern("shoal.conversion.accounts.markup", "_end_of"): re.compile(
        r"<(/?)a(?=[\s/>])[^<>]*>", re.IGNORECASE
    ),
    # The combining marks of a text, which are no letters.
    MadePattern("shoal.words.terms", "_pattern"): word_pattern("a\u0301\u093f\u00ad"),
    # The words of a quotation as literals. The length of the quotation determines the cost at each position.
    MadePattern("shoal.grounding.references", "_pattern"): references._pattern('a "quoted" word - a'),
    # A form of a query as literals.
    # Each place is tried once: the boundary is fixed.
    # Reads MAX_PADDING bytes and a boundary at a time.
    MadePattern("shoal_api.incoming", "_pieces"): re.compile(rb"--a-(?:-|[^\S\r\n]{1,64})\Z"),
}
"""Locations that build patterns at run time, with an example of each."""

SLOW = {
    "a comment that may end anywhere": (r"\s*(?:#[^\r\n]*\s+)*[\w\"'][\w .\"'-]{0,64}:(?=\s)", "match"),
    "the same before a table": (r"\s*(?:#[^\r\n]*\s+)*(?:[\w\"'][\w .\"'-]{0,64}=|\[)", "match"),
    "blanks shared by two parts": (r"(?:\A|[\r\n]) {0,3}#{1,6}[ \t]+([^\r\n]*[^\s#][^\r\n]*)", "finditer"),
    "a run that is tried from each of its places": (r"[*`~]+|(?<!\w)_+|_+(?!\w)", "finditer"),
    "white space before what may be missing": (r"[ \t]*\{[#.:][^{}]*\}[ \t]*$", "finditer"),
    "white space in three places": (r"\s*(?:\[?\s*(?:\.{3,}|…|\. \. \.)\s*\]?)\s*", "finditer"),
    "nested repetition": (r"(?:a|b|ab)*c", "match"),
}
"""Slow patterns, some of them from earlier versions of the code, and the methods that called them."""


def first_slow(pattern: re.Pattern[Any], way: str) -> tuple[Hostile, float] | None:
    """Find the first text on which a pattern takes more than linear time, and its growth."""
    work = _work(pattern, way)
    is_bytes = isinstance(pattern.pattern, bytes)
    # Different parts may make the same text.
    texts = {each.text(FEW): each for each in hostile_texts(pattern.pattern, pattern.flags, TEXTS)}
    for hostile in texts.values():

        def text_of(n: int, hostile: Hostile = hostile) -> Any:
            text = hostile.text(n)
            return text.encode("utf-8", "replace") if is_bytes else text

        most = max(REPETITIONS, CHARS // len(hostile.fragment))
        if is_surely_linear(work, text_of, most):
            continue
        grown = excessive_growth(work, text_of, most)
        if grown is not None:
            return hostile, grown
    return None


def _work(pattern: re.Pattern[Any], way: str) -> Work:
    if way == "finditer":
        return lambda text: deque(pattern.finditer(text), maxlen=0)
    work: Work = getattr(pattern, way)
    return work


@pytest.mark.parametrize("use", USES, ids=lambda use: use.name)
def test_a_pattern_takes_linear_time(use: Use) -> None:
    for way in use.ways:
        assert first_slow(use.pattern, way) is None


def test_all_locations_that_build_patterns_are_listed() -> None:
    assert set(MADE) == set(MADE_HERE)


@pytest.mark.parametrize("pattern", MADE_HERE.values(), ids=[made.module for made in MADE_HERE])
def test_a_pattern_built_at_run_time_takes_linear_time(pattern: re.Pattern[Any]) -> None:
    assert first_slow(pattern, "finditer") is None


@pytest.mark.parametrize(("pattern", "way"), SLOW.values(), ids=list(SLOW))
def test_slow_patterns_are_detected(pattern: str, way: str) -> None:
    assert first_slow(re.compile(pattern), way) is not None


def test_the_catalogue_finds_patterns_of_every_package() -> None:
    names = {use.name for use in USES}
    assert names >= {
        "shoal.formats.headings._MARKS",  # of a module
        "shoal.formats.headings._FIRST_KEY",  # in a mapping
        "shoal.formats.drafts._title_of_path",  # in a call inside of a function
        "shoal_api.service._PREFERENCE",
        "lagoon.sentences._STOP",
    }
