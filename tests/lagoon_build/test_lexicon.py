"""Lemmas that become words, and the mapping of inflections to them."""

import pytest

from lagoon.build.counting import count_texts, count_windows, hash_table, vocabulary_model
from lagoon.build.lexicon import (
    Sense,
    Synset,
    WordNet,
    build_lexicon,
    comparison_bases,
    lemma_ids,
    misled_inflections,
    regular_bases,
    scorable,
    sense_links,
)
from lagoon.vocabulary import BaseVocabulary

LEMMAS = [
    ("animal", 9), ("animation", 12), ("animate", 3), ("heart", 9), ("attack", 4), ("heart_attack", 1),
    ("goose", 2), ("well-known", 1), ("well_known", 2), ("in", 7), ("1000", 1), ("at_all", 6), ("saw", 1),
    ("see", 50), ("Café".lower(), 1),
]  # fmt: skip


@pytest.fixture(scope="module")
def wordnet() -> WordNet:
    synsets = [Synset("n", number, (lemma,), f"gloss {number}") for number, (lemma, _) in enumerate(LEMMAS)]
    senses = [Sense(lemma, "n", 1, number, count) for number, (lemma, count) in enumerate(LEMMAS)]
    senses.append(Sense("heart", "n", 2, 4, 0))
    exceptions = (("n", "geese", "goose"), ("v", "saw", "see"), ("v", "seen", "see"), ("n", "in", "goose"))
    return WordNet(tuple(synsets), tuple(senses), exceptions)


def test_singles_come_first_and_each_part_is_sorted(wordnet: WordNet) -> None:
    lexicon = build_lexicon(wordnet)
    assert lexicon.words[: lexicon.n_singles] == (
        "animal", "animate", "animation", "attack", "cafe", "goose", "heart", "saw", "see",
    )  # fmt: skip
    assert lexicon.words[lexicon.n_singles :] == ("heart attack", "well known")


def test_spellings_of_a_word_share_an_id_and_their_counts_add_up(wordnet: WordNet) -> None:
    lexicon = build_lexicon(wordnet)
    assert lexicon.lemmas["well-known"] == lexicon.lemmas["well_known"]
    assert lexicon.counts[lexicon.lemmas["well_known"]] == 3


@pytest.mark.parametrize(
    ("form", "expected"), [("in", False), ("1000", False), ("at all", False), ("at sea", True)]
)
def test_forms_without_a_scorable_token_are_not_words(form: str, expected: bool) -> None:
    assert scorable(form) is expected


def test_irregular_forms_map_to_their_lemma_unless_they_are_lemmas(wordnet: WordNet) -> None:
    lexicon = build_lexicon(wordnet)
    matched = [lexicon.words[word] for word in lexicon.lookup(["geese", "saw", "seen"])]
    assert matched == ["goose", "saw", "see"]
    assert "in" not in lexicon.forms


def test_a_stem_maps_to_its_most_frequent_word(wordnet: WordNet) -> None:
    lexicon = build_lexicon(wordnet)
    assert lexicon.words[lexicon.lookup(["animals"])[0]] == "animation"


def test_inflections_with_a_misleading_stem_get_their_own_entry(wordnet: WordNet) -> None:
    lexicon = build_lexicon(wordnet)
    matched = misled_inflections(lexicon, ["animals", "animates", "hearts", "geese", "unheard"])
    assert {form: lexicon.words[word] for form, word in matched.items()} == {
        "animals": "animal",
        "animates": "animate",
    }


@pytest.mark.parametrize(
    ("form", "base"),
    [
        ("cities", "city"),
        ("boxes", "box"),
        ("noses", "nose"),
        ("stopped", "stop"),
        ("making", "make"),
        ("tried", "try"),
        ("women", "woman"),
        ("workmen", "workman"),
    ],
)
def test_regular_inflections_are_undone(form: str, base: str) -> None:
    assert base in regular_bases(form)


@pytest.mark.parametrize(
    ("form", "base"), [("largest", "large"), ("highest", "high"), ("biggest", "big"), ("happier", "happy")]
)
def test_comparatives_and_superlatives_map_to_their_adjective(form: str, base: str) -> None:
    assert base in comparison_bases(form)


@pytest.mark.parametrize("form", ["her", "best", "west"])
def test_short_words_are_not_comparatives(form: str) -> None:
    assert comparison_bases(form) == []


@pytest.mark.parametrize("form", ["glass", "virus", "basis", "bed", "sing"])
def test_endings_that_only_look_like_inflections_are_kept(form: str) -> None:
    assert regular_bases(form) == []


def test_shares_of_senses_add_up_to_one_and_follow_the_counts(wordnet: WordNet) -> None:
    lexicon = build_lexicon(wordnet)
    links = sense_links(lexicon, wordnet.senses)
    shares = links.shares[links.words == lexicon.lemmas["heart"]]
    assert shares.sum() == pytest.approx(1.0)
    assert shares[0] == pytest.approx(10 / 10.5)


def test_words_are_counted_like_the_scorer_matches_them(wordnet: WordNet) -> None:
    lexicon = build_lexicon(wordnet)
    vocabulary = BaseVocabulary(vocabulary_model(lexicon))
    texts = ["Heart attacks and hearts; in the well-known cafe's heart", "", "heart, attack", "the heart"]
    counts = count_texts(vocabulary, texts).toarray()
    rows = [{lexicon.words[w]: int(row[w]) for w in row.nonzero()[0]} for row in counts]
    assert rows == [
        {"heart attack": 1, "heart": 2, "well known": 1, "cafe": 1},
        {},
        {"heart": 1, "attack": 1},
        {"heart": 1},
    ]


def test_a_short_remainder_is_added_to_the_last_window(wordnet: WordNet) -> None:
    vocabulary = BaseVocabulary(vocabulary_model(build_lexicon(wordnet)))
    texts = ["heart goose " * 5 + "heart", "", "goose"]
    counts = count_windows(vocabulary, texts, 5)
    assert counts.sum(axis=1).ravel().tolist()[0] == [5.0, 6.0, 1.0]


def test_lemmas_of_a_synset_are_its_words(wordnet: WordNet) -> None:
    lexicon = build_lexicon(wordnet)
    synset = Synset("n", 1, ("Heart", "heart_attack", "in"), "gloss")
    assert [lexicon.words[word] for word in lemma_ids(lexicon, synset)] == ["heart", "heart attack"]


def test_hash_tables_are_sorted() -> None:
    hashes, words = hash_table({"b": 1, "a": 0, "c": 2})
    assert (hashes[1:] > hashes[:-1]).all()
    assert sorted(words.tolist()) == [0, 1, 2]


def test_short_form_that_is_its_own_stem_is_not_looked_up_by_it(wordnet: WordNet) -> None:
    senses = [*wordnet.senses, Sense("williams", "n", 1, 0, 1), Sense("crystalline", "n", 1, 0, 1)]
    lexicon = build_lexicon(WordNet(wordnet.synsets, tuple(senses), wordnet.exceptions))
    forms = ["william", "william's", "crystallin", "goose's"]
    expected = [-1, -1, lexicon.lemmas["crystalline"], lexicon.lemmas["goose"]]
    assert lexicon.lookup(forms) == expected
    assert BaseVocabulary(vocabulary_model(lexicon)).resolve(forms).words.tolist() == expected
