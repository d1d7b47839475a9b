"""Acronyms with their expansions in a text."""

from __future__ import annotations

import pytest
from growth import FACTOR, assert_not_quadratic
from hypothesis import given
from hypothesis import strategies as st

from shoal.learning.acronyms import MAX_PER_TEXT, find_definitions, is_short_form


def pairs(text: str) -> list[tuple[str, str]]:
    return [(found.acronym, found.expansion) for found in find_definitions(text)]


@pytest.mark.parametrize(
    ("text", "acronym", "expansion"),
    [
        ("The World Health Organization (WHO) met.", "WHO", "World Health Organization"),
        ("The WHO (World Health Organization) met.", "WHO", "World Health Organization"),
        ("He measured deoxyribonucleic acid (DNA).", "DNA", "deoxyribonucleic acid"),
        ("A charge-coupled device (CCD) sees.", "CCD", "charge-coupled device"),
        ('It is "very-large-scale integration" (VLSI).', "VLSI", "very-large-scale integration"),
        ("The Royal Society for Birds (RSB; founded 1900) met.", "RSB", "Royal Society for Birds"),
        ("Some personal digital assistants (PDAs) sold.", "PDAs", "personal digital assistants"),
        ("In Public–private partnerships (PPPs) they share.", "PPPs", "Public–private partnerships"),
        (
            "The International Institute of Refrigeration (IIR).",
            "IIR",
            "International Institute of Refrigeration",
        ),
        ("A low-pressure (LP) cylinder.", "LP", "low-pressure"),
        ("They used TOTO (the TOtable Tornado Observatory).", "TOTO", "TOtable Tornado Observatory"),
        (
            "The Diagnostic and Statistical Manual of Mental Disorders (DSM).",
            "DSM",
            "Diagnostic and Statistical Manual of Mental Disorders",
        ),
        ("Bread, salt and the heat shock protein (HSP).", "HSP", "heat shock protein"),
    ],
)
def test_definitions_are_found(text: str, acronym: str, expansion: str) -> None:
    assert pairs(text) == [(acronym, expansion)]
    (found,) = find_definitions(text)
    assert acronym in text[found.start : found.end]
    assert expansion in text[found.start : found.end]


@pytest.mark.parametrize(
    "text",
    [
        "The president (Obama) spoke.",
        "Chapter four of the third volume (IV) is lost.",
        "It was cold in the north (NASA said so).",
        "An additive in the EU (E175 in the Codex Alimentarius).",
        "The town of York (YORK) is old.",
        "A word (2010).",
        "(WHO)",
        "World Health. Organization (WHO)",
        "in (IN)",
        "the nitride cyanogen molecule ((CN)2)",
    ],
)
def test_other_brackets_are_not_definitions(text: str) -> None:
    assert pairs(text) == []


def test_short_forms_have_capitals() -> None:
    assert is_short_form("WHO")
    assert is_short_form("D&E")
    assert is_short_form("PfP")
    assert not is_short_form("Who")
    assert not is_short_form("2010")
    assert not is_short_form("A")
    assert not is_short_form("ABCDEFGHIJK")
    assert not is_short_form("two words")


def test_definitions_of_a_text_are_limited_and_distinct() -> None:
    text = "The World Health Organization (WHO). " * 50
    assert len(find_definitions(text)) == 1
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    many = "".join(f"A {a}x {b}x {c}x ({a}{b}{c}). " for a in letters for b in letters for c in "ABC")
    assert len(find_definitions(many)) == MAX_PER_TEXT


@given(st.text(alphabet="ABab ()-.,;\n\u0130ß", max_size=200))
def test_any_text_is_read(text: str) -> None:
    for found in find_definitions(text):
        assert 0 <= found.start < found.end <= len(text)


@pytest.mark.parametrize("piece", ["(", ")", "(A", "AB (", "a (AB) ", "A" * 50 + " (AB)", "-a", "(a;"])
def test_time_is_linear(piece: str) -> None:
    small, large = (piece * (n // len(piece)) for n in (12_500, 12_500 * FACTOR))
    assert_not_quadratic(lambda: find_definitions(small), lambda: find_definitions(large))
