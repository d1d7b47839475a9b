"""Bytes are decoded correctly or refused."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import DocumentTooLargeError, UndecodableDocumentError
from shoal.formats.decoding import clean, decode

ENGLISH = "It was a “smart” day — a café in naïve old England, where nobody was in a hurry.\r\n"
GERMAN = "Über allen Gipfeln ist Ruh, in allen Wipfeln spürest du kaum einen Hauch; die Vögel schweigen.\n"


def text_of(data: bytes, max_bytes: int = 1 << 20) -> str:
    return decode(data, max_bytes=max_bytes, min_confidence=0.8).text


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff\ufffe"), max_size=200)
)
def test_utf8_is_decoded_unchanged(text: str) -> None:
    if not text.startswith(("PK", "%PDF-", "GIF8", "{\\rtf")):
        assert text_of(text.encode()) == text


def test_newlines_are_unchanged() -> None:
    assert text_of(b"a\r\nb\nc\rd\r\n") == "a\r\nb\nc\rd\r\n"


def test_a_byte_order_mark_is_dropped() -> None:
    assert text_of(b"\xef\xbb\xbfabc") == "abc"
    assert text_of("naïve".encode("utf-16")) == "naïve"
    assert text_of("naïve".encode("utf-32")) == "naïve"


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", [ENGLISH, ENGLISH * 40, GERMAN * 5])
def test_text_in_other_encodings_is_recognised(text: str, encoding: str) -> None:
    assert text_of(text.encode(encoding)) == text


@pytest.mark.parametrize(
    "text", ["Über Größe, Äpfel und Öl: „süß“, heißt es. ", "Füße größer, Bäume höher. "]
)
@pytest.mark.parametrize("times", [1, 8, 60])
def test_windows_1252_is_named_among_equivalent_encodings(text: str, times: int) -> None:
    data = (text * times).encode("cp1252")
    assert data.decode("cp1250") == text * times
    decoded = decode(data, max_bytes=1 << 20, min_confidence=0.5)
    assert decoded == (text * times, "cp1252")


def test_cyrillic_text_is_recognised() -> None:
    text = "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему. " * 5
    assert text_of(text.encode("cp1251")) == text


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"%PDF-1.7\n1 0 obj", "PDF"),
        (b"PK\x03\x04\x14\x00", "ZIP"),
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "PNG"),
        (random.Random(1).randbytes(5000), "not a text file"),
        (bytes(1000), "not a text file"),
    ],
)
def test_binary_files_are_refused_with_their_type(data: bytes, words: str) -> None:
    with pytest.raises(UndecodableDocumentError, match=words):
        text_of(data)


def test_random_bytes_without_control_characters_are_refused() -> None:
    letters = bytes([*range(32, 127), *range(128, 256)])
    data = bytes(random.Random(2).choices(letters, k=4000))
    with pytest.raises(UndecodableDocumentError):
        text_of(data)


def test_a_stray_nul_does_not_make_a_text_binary() -> None:
    assert text_of(b"one\x00two " + b"words " * 10) == "one\x00two " + "words " * 10


def test_too_many_bytes_are_refused_before_decoding() -> None:
    with pytest.raises(DocumentTooLargeError, match="limit is 10"):
        text_of(b"12345678901", max_bytes=10)


def test_cleaning_replaces_each_control_character_by_one_space() -> None:
    dirty = "a\x00b\x0bc\x1fd\x7fe\x85f\ud800g\t\r\n\fh é\u2028"
    assert clean(dirty) == "a b c d e f g\t\r\n\fh é\u2028"


@given(st.text(st.characters(codec=None, categories=None)))
def test_cleaning_keeps_the_length_and_gives_valid_utf8(text: str) -> None:
    cleaned = clean(text)
    assert len(cleaned) == len(text)
    assert cleaned.encode().decode() == cleaned
    assert "\x00" not in cleaned
    assert clean(cleaned) == cleaned


@pytest.mark.parametrize(
    "text",
    [
        "The na\xefve visitor saw it.",
        "Temperatures rise to 30\xa0\xb0C (86\xa0\xb0F) in the dry season \u2013 and sometimes above it.",
        "He said \u201cit\u2019s the best caf\xe9 in town\u201d \u2013 and left without another word.",
        "Ole R\xf8mer measured the speed of light, and the \xc5land islands lie in the Baltic Sea.",
    ],
)
def test_english_with_few_accents_is_decoded_as_windows_1252(text: str) -> None:
    decoded = decode(text.encode("cp1252"), max_bytes=10_000, min_confidence=0.8)
    assert decoded == (text, "cp1252")


def test_text_that_is_implausible_as_windows_1252_gets_another_encoding() -> None:
    text = (
        "He said \u201cit\u2019s a na\xefve caf\xe9\u201d \u2014 and left. "
        "The fa\xe7ade of the h\xf4tel was grey, and nobody knew why."
    )
    assert text_of(text.encode("mac_roman")) == text
