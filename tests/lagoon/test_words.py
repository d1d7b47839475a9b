from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lagoon.model import BLOCK, StoredWords, encode_words

# Words of few letters often share prefixes; long runs reach the maximum shared length of a line.
WORDS = st.lists(st.text("ab é日", max_size=6) | st.integers(70, 90).map("a".__mul__), max_size=3 * BLOCK)


@given(WORDS, st.data())
def test_every_word_is_decoded_alone_and_with_all(
    tmp_path_factory: object, words: list[str], data: st.DataObject
) -> None:
    path = Path(tmp_path_factory.getbasetemp()) / "words.txt"  # type: ignore[attr-defined]
    for words_in_file in (words, sorted(words)):
        path.write_bytes(encode_words(words_in_file))
        assert list(StoredWords(path, len(words_in_file))) == words_in_file
        stored = StoredWords(path, len(words_in_file))
        assert [stored[index] for index in range(len(words_in_file))] == words_in_file
        assert [stored[index - len(words_in_file)] for index in range(len(words_in_file))] == words_in_file
        first, last = data.draw(st.integers(-5, 99)), data.draw(st.integers(-5, 99))
        assert stored[first:last] == words_in_file[first:last]


def test_the_line_number_is_the_word_id() -> None:
    lines = encode_words(["war", "ware", "warm", "zoo"]).decode().splitlines()
    assert lines == ["0war", "3e", "3m", "0zoo"]
