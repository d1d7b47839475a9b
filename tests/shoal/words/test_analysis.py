"""The analysis of words: parts, wholes and names, in their places, for any text."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.words import analysis
from shoal.words.analysis import (
    MAX_PIECE,
    analyze_texts,
    analyze_words,
    folded,
    names_of,
    stems_of,
    tokens_of,
    words_of,
)
from shoal.words.terms import TERMS

texts = st.text(
    st.sampled_from("aBé1 .'’-_/&@#$%+,:°×\n\u0301日本ไทย🚀()C") | st.characters(exclude_categories=["Cs"]),
    max_size=60,
)


numbers = st.lists(
    st.sampled_from(["1", "23", "4", "5678", "٣", "²", "AB12"])
    | st.sampled_from([*" \u00a0\u202f.,/-()x×a", ") ", " x "])
    | st.tuples(st.sampled_from([*"5 \u202f", "7 "]), st.sampled_from(analysis._UNITS.split())).map("".join)
    | st.sampled_from(["DE89 3704 0044 0532 0130 00", "+49 30 901820", "12(a)", "M8 x 40"]),
    max_size=8,
).map("".join)


def shared(text: str) -> list[str]:
    """The words that share the position of another."""
    return [word.form for word in words_of(text) if not word.advances]


def parts(text: str) -> list[str]:
    return [word.form for word in words_of(text) if word.advances]


@pytest.mark.parametrize(
    ("text", "advancing", "others"),
    [
        ("a well-known fact", ["a", "well", "known", "fact"], ["wellknown"]),
        ("e-mail and E-Mail", ["e", "mail", "and", "e", "mail"], ["email", "email"]),
        ("GPT-4 or GPT4", ["gpt", "4", "or", "gpt", "4"], ["gpt4", "gpt4"]),
        ("Node.js.", ["node", "js"], ["nodejs"]),
        ("user_profile", ["user", "profile"], ["userprofile"]),
        ("getUserProfile()", ["get", "user", "profile"], ["getuserprofile"]),
        ("HTTPServer and PCs", ["http", "server", "and", "pcs"], ["httpserver"]),
        ("v3.1.2", ["v", "3", "1", "2"], ["3.1.2"]),
        ("1,234.50", ["1", "234", "50"], ["1234.50"]),
        ("on 2024-03-15 at 9:45", ["on", "2024", "03", "15", "at", "9", "45"], ["2024-03-15", "9:45"]),
        ("978-3-16-148410-0", ["978", "3", "16", "148410", "0"], ["9783161484100"]),
        ("+49 30 901820", ["49", "30", "901820"], ["4930901820"]),
        ("a 230 V plug", ["a", "230", "v", "plug"], ["230v", "V"]),
        ("M8 x 40", ["m", "8", "x", "40"], ["m8", "m8x40"]),
        ("AT&T's R&D", ["at", "t", "s", "r", "d"], ["at&t", "r&d"]),
        ("C++, C#!", ["c++", "c#"], []),
        ("C/C++", ["c", "c++"], ["C"]),
        (".NET @user #tag $PATH", ["net", "user", "tag", "path"], [".net", "@user", "#tag", "$path"]),
        ("tar -xzf --all", ["tar", "xzf", "all"], ["-xzf", "--all"]),
        ("U.S. law", ["u", "s", "law"], ["US"]),
        ("20°C or 20 °C", ["20", "c", "or", "20", "c"], ["20°c", "20°c"]),
        ("CO₂", ["co", "2"], ["co2"]),
        ("the 19th", ["the", "19th"], []),
        ("9f86d081e4", ["9f86d081e4"], []),
        ("don't, cat's", ["don", "t", "cat", "s"], []),
        ("The WHO says who", ["the", "who", "says", "who"], ["WHO"]),
        ("WHO IS WHO", ["who", "is", "who"], []),
        ("A vitamin A, and I", ["a", "vitamin", "a", "and", "i"], ["A"]),
        ("北京大学", ["北京", "京大", "大学", "学"], ["北", "京", "大"]),
        ("用Docker部署", ["用", "docker", "部署", "署"], ["部"]),
        ("a && b 🚀", ["a", "b"], ["&&", "🚀"]),
        ("- * — ...", [], ["*"]),
    ],
)
def test_words_are_parts_and_wholes(text: str, advancing: list[str], others: list[str]) -> None:
    assert parts(text) == advancing
    assert shared(text) == others


@given(texts)
def test_every_word_is_in_its_place(text: str) -> None:
    stream = analyze_words(text)
    words = list(stream.words())
    assert all(0 <= word.start < word.end <= len(text) for word in words)
    advancing = [word for word in words if word.advances]
    assert all(a.start <= b.start for a, b in itertools.pairwise(advancing))
    assert stream.anchors.tolist() == sorted(stream.anchors.tolist())
    assert all(word.form for word in words)


@given(st.lists(texts.filter(lambda text: "\n" not in text), max_size=4))
def test_texts_have_the_same_words_together_and_alone(drawn: list[str]) -> None:
    stream, starts = analyze_texts(drawn)
    together = [
        [stream.forms[number] for number in stream.ids[start:end].tolist()]
        for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    ]
    alone = [[word.form for word in words_of(text)] for text in drawn]
    assert [sorted(forms) for forms in together] == [sorted(forms) for forms in alone]


@given(texts)
def test_a_folded_word_is_itself(text: str) -> None:
    for token in tokens_of(text):
        assert stems_of([folded(token)]) == tuple(TERMS.of_forms([folded(folded(token))]))


@given(st.text(st.sampled_from('aBc ,;:!?()"\n'), max_size=30))
def test_plain_words_are_those_of_the_analysis(text: str) -> None:
    assert words_of(text) == list(analyze_words(text).words())


def test_a_name_is_one_token_if_it_is_a_code() -> None:
    assert names_of("AT&T network") == ["AT&T", "network"]
    assert names_of("well-known GPT-4 🚀 WHO") == ["well", "known", "GPT-4", "🚀", "WHO"]


def test_long_pieces_are_encoded_data_or_have_no_spaces() -> None:
    assert shared("a-" * MAX_PIECE) == []
    assert len(parts("京" * 2 * MAX_PIECE)) == 2 * MAX_PIECE


@given(numbers)
def test_no_number_with_more_is_passed_over(text: str) -> None:
    words = list(analyze_words(text).words())
    with pytest.MonkeyPatch.context() as patch:
        anything = np.ones((256, 256), dtype=np.bool_)
        patch.setattr(analysis, "_FOLLOW", anything)
        assert words == list(analyze_words(text).words())
