from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lagoon.words import BLOCK, StoredWords, encode_words

# Few letters begin alike often; long runs reach the most that a line can say it shares.
WORDS = st.lists(st.text("ab é日", max_size=6) | st.integers(70, 90).map("a".__mul__), max_size=3 * BLOCK)


@given(WORDS, st.data())
def test_every_word_is_read_back_alone_and_with_all(
    tmp_path_factory: object, words: list[str], data: st.DataObject
) -> None:
    path = Path(tmp_path_factory.getbasetemp()) / "words.txt"  # type: ignore[attr-defined]
    for listed in (words, sorted(words)):
        path.write_bytes(encode_words(listed))
        assert list(StoredWords(path, len(listed))) == listed
        stored = StoredWords(path, len(listed))
        assert [stored[index] for index in range(len(listed))] == listed
        assert [stored[index - len(listed)] for index in range(len(listed))] == listed
        first, last = data.draw(st.integers(-5, 99)), data.draw(st.integers(-5, 99))
        assert stored[first:last] == listed[first:last]


def test_the_line_number_is_the_word_id() -> None:
    lines = encode_words(["war", "ware", "warm", "zoo"]).decode().splitlines()
    assert lines == ["0war", "3e", "3m", "0zoo"]
