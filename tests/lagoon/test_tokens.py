import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagoon.tokens import is_stop_word, normalise, token_list, tokenise

# Characters that the rules depend on, and arbitrary ones.
AWKWARD = st.text(st.sampled_from("aB.'’-_ ,\n1éÉe\u0301\u00ad日ßŒ½") | st.characters(), max_size=60)

# The grammar of tokens, for ASCII.
ASCII_TOKEN = re.compile(r"(?:[a-z]\.){2,}|[a-z0-9]+(?:'[a-z0-9]+)*")


@given(st.text(st.sampled_from("abCD.''-_ ,\n12"), max_size=60))
def test_ascii_tokens_follow_the_grammar(text: str) -> None:
    assert token_list(text) == ASCII_TOKEN.findall(text.lower())


@given(st.text(st.sampled_from("ab.' -_,\n"), max_size=40))
def test_only_white_space_hyphens_and_underscores_join_tokens(text: str) -> None:
    stream = tokenise(text)
    for i in range(len(stream) - 1):
        between = text[stream.ends[i] : stream.starts[i + 1]]
        assert stream.joined[i] == bool(re.fullmatch(r"[\s_-]*", between))
    assert not stream.joined[-1:].any()


@given(AWKWARD)
def test_spans_are_ordered_and_contain_their_token(text: str) -> None:
    stream = tokenise(text)
    assert (stream.starts < stream.ends).all()
    assert (stream.ends[:-1] <= stream.starts[1:]).all()
    for index, start, end in zip(stream.ids, stream.starts, stream.ends, strict=True):
        assert token_list(text[start:end]) == [stream.forms[index]]
    covered = np.zeros(len(text), dtype=bool)
    for start, end in zip(stream.starts, stream.ends, strict=True):
        covered[start:end] = True
    assert all(covered[i] for i, char in enumerate(text) if char.isalnum())


@given(AWKWARD)
def test_narrow_and_wide_texts_have_the_same_tokens(text: str) -> None:
    # A character outside the basic plane changes the width of the text in memory.
    wide = tokenise(text + " \U0001f600 ")
    narrow = tokenise(text)
    assert [wide.forms[i] for i in wide.ids] == [narrow.forms[i] for i in narrow.ids]
    assert wide.starts.tolist() == narrow.starts.tolist()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Café’s", ["cafe's"]),
        ("cafe\u0301", ["cafe"]),
        ("co\u00adoperate", ["cooperate"]),
        ("U.S. Army", ["u.s.", "army"]),
        ("J.R.R. Tolkien", ["j.r.r.", "tolkien"]),
        ("well-known_thing", ["well", "known", "thing"]),
        ("Encyclopædia", ["encyclopaedia"]),
        ("İstanbul", ["istanbul"]),
        ("'tis o'clock dogs'", ["tis", "o'clock", "dogs"]),
        ("3.14", ["3", "14"]),
        ("हिन्दी, की किताब", ["हिन्दी", "की", "किताब"]),
        ("தமிழ் மொழி", ["தமிழ்", "மொழி"]),
        ("ภาษาไทย ที่นี่", ["ภาษาไทย", "ที่นี่"]),
        ("ភាសា\u200bខ្មែរ", ["ភាសា", "ខ្មែរ"]),
        ("बांग्ला\u200dदेश", ["बांग्लादेश"]),
        ("שָׁלוֹם مُحَمَّد", ["שלום", "محمد"]),
        ("葛\U000e0100 か\u3099", ["葛", "か\u3099"]),
        ("", []),
        ("...", []),
    ],
)
def test_tokens(text: str, tokens: list[str]) -> None:
    assert token_list(text) == [unicodedata.normalize("NFKD", token) for token in tokens]


def test_a_title_is_adjacent_to_its_name() -> None:
    assert tokenise("St. Louis").joined.tolist() == [True, False]
    assert tokenise("end. Louis").joined.tolist() == [False, False]


def test_normal_form_of_a_phrase() -> None:
    assert normalise("  Well-Known\tCAFÉ_owner ") == "well known cafe owner"
    assert normalise(normalise("U.S. O’Brien")) == normalise("U.S. O’Brien") == "u.s. o'brien"


def test_stop_words_are_recognized_with_clitics() -> None:
    assert all(map(is_stop_word, ["the", "it's", "they'll", "don't", "can't"]))
    assert not any(map(is_stop_word, ["cat's", "heart", "o'clock"]))
