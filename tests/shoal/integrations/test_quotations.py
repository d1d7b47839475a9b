"""Quotations are found in a document, and only where they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.integrations.quotations import find_quotation

CONTENT = (
    "Bees and flowers\n\n"
    "A flower is an invitation: “come here”,\nit says. The bee's wage — a sweet\r\nliquid — is nectar.\n"
    "Party parts are art."
)


@pytest.mark.parametrize(
    ("quotation", "text", "lines"),
    [
        ("A flower is an invitation", "A flower is an invitation", (3, 3)),
        ("a  flower is\nan invitation", "A flower is an invitation", (3, 3)),
        ('"come here", it says.', "come here”,\nit says.", (3, 4)),
        ("The bee’s wage - a sweet liquid - is nectar", "The bee's wage — a sweet\r\nliquid — is nectar", (4, 5)),
        ("“A flower … it says”", "A flower is an invitation: “come here”,\nit says", (3, 4)),
        ("... is an invitation ... is nectar ...", None, (3, 5)),
        ("art", "art", (6, 6)),
        ("Party parts are art.", "Party parts are art.", (6, 6)),
    ],
)  # fmt: skip
def test_quotation_is_found_despite_typography(
    quotation: str, text: str | None, lines: tuple[int, int]
) -> None:
    place = find_quotation(quotation, CONTENT)
    assert place is not None
    assert text is None or CONTENT[place.start_char : place.end_char] == text
    assert (place.start_line, place.end_line) == lines
    assert place.lines == (f"line {lines[0]}" if lines[0] == lines[1] else f"lines {lines[0]}-{lines[1]}")


@pytest.mark.parametrize(
    "quotation",
    [
        "A flower is no invitation",
        "A flower is an invite",
        "flower is invitation",
        "it says … A flower is",
        "lower is an",
        "",
        " … ",
        '""',
    ],
)
def test_altered_quotation_is_not_found(quotation: str) -> None:
    assert find_quotation(quotation, CONTENT) is None


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.integers(0, 20), st.integers(1, 20))
def test_any_run_of_whole_words_is_found_in_its_text(content: str, first: int, n_words: int) -> None:
    quotation = " ".join(content.split()[first : first + n_words])
    if not any(character.isalnum() for character in quotation) or ".." in quotation or "…" in quotation:
        return
    place = find_quotation(quotation, content)
    assert place is not None
    assert 0 <= place.start_char < place.end_char <= len(content)
    assert find_quotation(content[place.start_char : place.end_char], content) == place
