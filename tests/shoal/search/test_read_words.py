"""Words of texts and their stems: cached, bounded, and in pieces that make up the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.search import query_language
from shoal.search.highlights import read_words
from shoal.search.query_language import TERMS, folded, stems_of

texts = st.text(st.sampled_from("abEé ́'’.-_ß1\n") | st.characters(), max_size=40)


@given(st.lists(texts, max_size=4))
def test_pieces_make_up_the_texts(drawn: list[str]) -> None:
    words = read_words(drawn)
    assert ["".join(pieces) for pieces in words.pieces] == drawn
    in_order = [word for i in range(len(drawn)) for word in words.in_order(i)]
    assert words.stems == dict(zip(in_order, stems_of(in_order), strict=True))


@given(st.lists(texts, max_size=20))
def test_stems_are_the_same_with_and_without_the_cache(tokens: list[str]) -> None:
    expected = tuple(next(iter(terms), "") for terms in TERMS.of_forms([folded(token) for token in tokens]))
    assert stems_of(tokens) == expected
    assert stems_of(tokens) == expected


def test_the_cache_of_stems_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_language, "MAX_STEMS", 5)
    monkeypatch.setattr(query_language, "_STEMS", {})
    for n in range(20):
        assert stems_of([f"whales{n}", "whales"]) == (f"whales{n}", "whale")
        assert len(query_language._STEMS) <= 5
    assert stems_of([f"whales{n}" for n in range(9)]) == tuple(f"whales{n}" for n in range(9))
    assert len(query_language._STEMS) <= 5
    stems_of(["x" * (query_language.MAX_KEPT_CHARS + 1)])
    assert not any(len(token) > query_language.MAX_KEPT_CHARS for token in query_language._STEMS)


def test_only_words_with_a_stem_of_the_query_are_returned() -> None:
    words = read_words(["Whales swim. A whale SWAM", "swims, whaling"])
    assert words.with_stems(["whale", "none"]) == {"Whales": "whale", "whale": "whale", "whaling": "whale"}
