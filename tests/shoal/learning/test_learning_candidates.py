import pytest

from shoal.learning.candidates import candidate_words, is_candidate


@pytest.mark.parametrize(
    "form",
    [
        "darcy",
        "o'brien",
        "p53",
        "h1n1",
        "il17ra",
        "mrna",
        "covid",
        "n.a.c.a.",
        "bronte",
        "x86",
        "ipv6",
        "naïve",
    ],
)
def test_names_terms_and_acronyms_may_be_words(form: str) -> None:
    assert is_candidate(form)


@pytest.mark.parametrize(
    ("form", "what"),
    [
        ("xvii", "roman number"),
        ("lviii", "roman number"),
        ("xivth", "roman ordinal"),
        ("12th", "ordinal"),
        ("1990s", "decade"),
        ("q", "single letter"),
        ("x1", "letter with an index"),
        ("pg123", "page mark"),
        ("fig2a", "figure mark"),
        ("10mg", "quantity"),
        ("3x10", "product"),
        ("0xff", "hexadecimal"),
        ("deadbeef01", "hexadecimal"),
        ("a1b2c3d4e5", "serial number"),
        ("rs247616", "long number"),
        ("href", "markup"),
        ("https", "address"),
        ("aaargh", "stuttering"),
        ("whereas", "function word"),
        ("among", "function word"),
        ("shalt", "function word"),
        ("x" * 49, "encoded data"),
        ("", "nothing"),
    ],
)
def test_forms_that_are_not_words_are_not_candidates(form: str, what: str) -> None:
    assert not is_candidate(form), what


def test_a_genitive_maps_to_its_word() -> None:
    forms = ["darcy's", "darcy", "o'brien's", "xvii's", "the"]
    assert candidate_words(forms, [0, 1, 2, 3]) == {0: "darcy", 1: "darcy", 2: "o'brien"}
