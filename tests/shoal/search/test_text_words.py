"""The words of texts that are shown, and the terms of tokens: cached, bounded, and in their places."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.search.matched_terms import TextWords
from shoal.words import analysis
from shoal.words.analysis import folded, stems_of, words_of
from shoal.words.terms import TERMS

texts = st.text(st.sampled_from("abEé ́'’.-_ß1\n") | st.characters(), max_size=40)


@given(st.lists(texts, max_size=4))
def test_words_are_found_where_they_are(drawn: list[str]) -> None:
    forms = {word.form for text in drawn for word in words_of(text)}
    found = TextWords(drawn).find(TERMS.of_forms(sorted(forms)))
    for text, by_term in zip(drawn, found, strict=True):
        places = {(each.form, each.start, each.end) for words in by_term.values() for each in words}
        assert places == {(word.form, word.start, word.end) for word in words_of(text)}


@given(st.lists(st.lists(texts.map(str.lower), max_size=3), max_size=3))
def test_groups_have_the_words_that_they_have_alone(groups: list[list[str]]) -> None:
    terms = TERMS.of_forms(
        sorted({word.form for group in groups for text in group for word in words_of(text)})
    )
    for group, words in zip(groups, TextWords(*groups).by_group(), strict=True):
        for by_term, alone in zip(words.find(terms), TextWords(group).find(terms), strict=True):
            assert {term: [each[2:] for each in places] for term, places in by_term.items()} == {
                term: [each[2:] for each in places] for term, places in alone.items()
            }


@given(st.lists(texts, max_size=20))
def test_terms_are_the_same_with_and_without_the_cache(tokens: list[str]) -> None:
    expected = tuple(TERMS.of_forms([folded(token) for token in tokens]))
    assert stems_of(tokens) == expected
    assert stems_of(tokens) == expected


def test_the_cache_of_terms_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "MAX_TERMS", 5)
    monkeypatch.setattr(analysis, "_TERMS", {})
    for n in range(20):
        assert stems_of([f"{n}", "whales"]) == (f"{n}", "whale")
        assert len(analysis._TERMS) <= 5
    assert stems_of([f"{n}" for n in range(9)]) == tuple(f"{n}" for n in range(9))
    assert len(analysis._TERMS) <= 5
    stems_of(["x" * (analysis.MAX_KEPT_CHARS + 1)])
    assert not any(len(token) > analysis.MAX_KEPT_CHARS for token in analysis._TERMS)
