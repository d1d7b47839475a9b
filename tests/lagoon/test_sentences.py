import pytest
from growth import FACTOR, assert_not_quadratic
from hypothesis import given
from hypothesis import strategies as st

from lagoon import split_sentences
from lagoon.sentences import MAX_SENTENCE_CHARS, _pieces, stops_in_long, stops_in_short
from lagoon.tokens import ABBREVIATIONS

PROSE_LIKE = st.text(st.sampled_from("aB1.!?…。\"”)('- \n\r\t\u2029\u00a0#*|=I,"), max_size=200)


STOPPED_WORDS = st.lists(
    st.sampled_from(
        [*sorted(ABBREVIATIONS), "dog", "Dog", "understanding", "I", "J", "don't", "IV", "7", "é", "x_y"]
    ),
    max_size=8,
).flatmap(
    lambda words: st.lists(
        st.sampled_from([". ", ". ", ". “", "! ", ".) ", "... ", "?\n", ". (", " ", ".\n1", ". é"]),
        min_size=len(words),
        max_size=len(words),
    ).map(lambda gaps: "".join(word + gap for word, gap in zip(words, gaps, strict=True)))
)


def texts(text: str) -> list[str]:
    return [sentence.text for sentence in split_sentences(text)]


@given(PROSE_LIKE | st.text(max_size=200))
def test_every_character_that_is_not_white_space_is_in_exactly_one_sentence(text: str) -> None:
    position = 0
    for sentence in split_sentences(text):
        assert text[sentence.start : sentence.end] == sentence.text
        assert not text[position : sentence.start].strip()
        assert sentence.text == sentence.text.strip() != ""
        assert len(sentence.text) <= MAX_SENTENCE_CHARS
        position = sentence.end
    assert not text[position:].strip()


@given(PROSE_LIKE | STOPPED_WORDS)
def test_long_texts_are_split_like_short_ones(text: str) -> None:
    assert stops_in_long(text).tolist() == stops_in_short(text)


def test_long_runs_are_split_like_short_ones() -> None:
    for gap in (" " * 1000, ")" * 1000 + " ", "." * 1000 + " ", " \n" * 500 + "“"):
        text = f"One dog.{gap}Two dogs.{gap}"
        assert stops_in_long(text).tolist() == stops_in_short(text)
        assert stops_in_long(text).size


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Mr. Smith met Dr. J. R. R. Tolkien in St. Louis.", 1),
        ("It was, e.g. here, fine. So it was, i.e. there.", 2),
        ("Pi is 3.14 or so. It is not 22/7.", 2),
        ("She waited... and left. Then… nothing", 2),
        ("“Really?” he said. “Yes!” She left.", 3),
        ("(He left.) She stayed. [All of it.] End.", 4),
        ("The U.S. Army left. In the U.S. The end.", 3),
        ("So did I. Then we met no. 5 of vol. III. No. It was No. 6.", 4),
        ("At 5 p.m. we ate. It was 6 p.m. We slept.", 3),
        ("i like dogs. they are nice.", 2),
        ("日本語です。次の文。", 2),
        ("One\n\nTwo\r\n\r\nThree\n \t\nFour", 4),
        ("wrapped\nlines. Next\none", 2),
        ("# Title\nText here\n## Next\nMore", 4),
        ("Title\n=====\nText", 2),
        ("A list:\n- one\n- two\n* three\n1. four\n2) five", 6),
        ("| a | b |\n| c | d |", 2),
        ("1. First thing. Second thing.", 2),
        ("old\r\rMac", 2),
        ("", 0),
        (" \n ", 0),
    ],
)
def test_number_of_sentences(text: str, count: int) -> None:
    assert len(texts(text)) == count, texts(text)


def test_long_sentences_are_cut_at_white_space() -> None:
    pieces = texts("word " * 1000)
    assert len(pieces) == 3
    assert all(set(piece.split()) == {"word"} for piece in pieces)
    assert [len(piece) for piece in texts("x" * 4500)] == [2000, 2000, 500]


@pytest.mark.parametrize(
    "unit",
    [".", ". ", "A. ", ".)", "(", " ", "\n", " \n", "#", "\n# ", "\n- ", "\n=", "a", "。", "Mr. ", "..x"],
)
def test_time_is_not_quadratic(unit: str) -> None:
    assert_not_quadratic(
        lambda: split_sentences(unit * 5_000), lambda: split_sentences(unit * 5_000 * FACTOR)
    )


def test_a_text_without_a_full_stop_is_cut_without_repeated_copies() -> None:
    class CountingText(str):
        """A string that counts the characters copied from it."""

        __slots__ = ()
        n_copied = 0

        def __getitem__(self, place: object) -> str:
            part = super().__getitem__(place)  # type: ignore[index]
            CountingText.n_copied += len(part)
            return part

    text = CountingText("lava and ash \n" * 20_000)
    pieces = list(_pieces(text, 0, len(text)))
    assert len(pieces) > 100
    assert " ".join(str(text)[start:end] for start, end in pieces).split() == str(text).split()
    assert CountingText.n_copied < 3 * len(text)
