"""The WordNet reader, on small files in the format of the database."""

from pathlib import Path

import pytest

from lagoon.build.antonyms import antonyms
from lagoon.build.lexicon import (
    WordNetFormatError,
    parse_counts,
    parse_index_line,
    parse_synset,
    read_wordnet,
)

LICENCE = "  1 This software and database is being provided to you, the LICENSEE.  \n  2 Second line.  \n"
WHALE = (
    "02062744 05 n 02 whale 0 giant_whale 1 001 @ 02062430 n 0000 "
    '| any of the larger cetacean mammals; "there she blows | said he"  \n'
)
PERSON = "10000001 18 n 01 whale 1 000 | a very large person  \n"
SWIM = "01960911 38 v 02 swim 0 float 1 001 @ 01835496 v 0000 02 + 02 00 + 22 00 | travel through water  \n"
ASLEEP = "00188580 00 s 01 asleep(p) 0 000 | in a state of sleep  \n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "data.noun": LICENCE + WHALE + PERSON,
        "data.verb": SWIM,
        "data.adj": ASLEEP,
        "data.adv": "00001740 02 r 01 well 0 000 | in a good manner  \n",
        "index.noun": LICENCE + "giant_whale n 1 1 @ 1 0 02062744  \nwhale n 2 1 @ 2 1 10000001 02062744  \n",
        "index.verb": "float v 1 0 1 0 01960911  \nswim v 1 1 @ 1 1 01960911  \n",
        "index.adj": "asleep a 1 0 1 0 00188580  \n",
        "index.adv": "well r 1 0 1 0 00001740  \n",
        "cntlist.rev": "asleep%5:00:00:inactive:00 1 4\nswim%2:38:00:: 1 9\nwhale%1:05:00:: 2 3\n",
        "noun.exc": "",
        "verb.exc": "swam swim\nswum swim\n",
        "adj.exc": "worse bad ill\n",
        "adv.exc": "best well\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="latin-1")
    return tmp_path


def test_synset_keeps_words_as_written_and_the_whole_gloss() -> None:
    synset = parse_synset(WHALE)
    assert synset.words == ("whale", "giant_whale")
    assert synset.gloss == 'any of the larger cetacean mammals; "there she blows | said he"'


def test_adjective_satellites_are_adjectives_without_position_marker() -> None:
    synset = parse_synset(ASLEEP)
    assert (synset.pos, synset.words) == ("a", ("asleep",))


def test_number_of_words_is_hexadecimal() -> None:
    words = " ".join(f"w{i} 0" for i in range(10))
    assert len(parse_synset(f"00000001 03 n 0a {words} 000 | many names  ").words) == 10


@pytest.mark.parametrize(
    "line", ["", "not a data line", "00000001 03 n 05 only 0 000 | gloss", "1 2 n 01 a 0 000"]
)
def test_damaged_data_lines_are_rejected(line: str) -> None:
    with pytest.raises(WordNetFormatError):
        parse_synset(line)


def test_damaged_index_lines_are_rejected() -> None:
    with pytest.raises(WordNetFormatError):
        parse_index_line("whale n 2 1 @ 2 1 10000001")


def test_counts_of_satellites_are_counted_as_adjectives() -> None:
    assert parse_counts(["asleep%5:00:00:inactive:00 1 4", "a%b%1:03:00:: 2 1"]) == {
        ("asleep", "a", 1): 4,
        ("a%b", "n", 2): 1,
    }


def test_senses_keep_their_order_and_their_counts(folder: Path) -> None:
    wordnet = read_wordnet(folder)
    whale = [
        (s.number, wordnet.synsets[s.synset].gloss[:6], s.count) for s in wordnet.senses if s.lemma == "whale"
    ]
    assert whale == [(1, "a very", 0), (2, "any of", 3)]
    assert [s.lemma for s in wordnet.senses] == [
        "asleep",
        "float",
        "giant_whale",
        "swim",
        "well",
        "whale",
        "whale",
    ]


def test_an_exception_with_two_lemmas_gives_two_entries(folder: Path) -> None:
    exceptions = read_wordnet(folder).exceptions
    assert ("v", "swam", "swim") in exceptions
    assert [e for e in exceptions if e[1] == "worse"] == [("a", "worse", "bad"), ("a", "worse", "ill")]


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "index.verb").unlink()
    with pytest.raises(FileNotFoundError, match=r"index\.verb"):
        read_wordnet(folder)


def test_antonyms_are_read_from_the_pointers_between_two_words() -> None:
    lines = [
        "00001740 00 a 02 able 0 capable 0 002 ! 00002098 a 0101 & 00001740 a 0000 | having means  ",
        "00002098 00 a 02 unable 0 incapable 0 001 ! 00001740 a 0101 | lacking means  ",
        "00003000 00 s 01 sleeping(a) 0 001 ! 00001740 s 0102 | asleep  ",
    ]
    assert list(antonyms(lines)) == [("able", "unable"), ("unable", "able"), ("sleeping", "capable")]
