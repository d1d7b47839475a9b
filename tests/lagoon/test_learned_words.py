import random

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from lagoon import LagoonError, ReefScorer
from lagoon.bm25 import reef_idf
from lagoon.model import Model
from lagoon.tokens import singular

LEARNED = {
    "blorg": [(2, 1.0), (3, 0.5)],
    "blorgs": [(4, 0.7)],
    "zzyzx": [(0, 0.2), (1, 0.9), (5, 1.0)],
    "blorg star": [(3, 1.0)],
    "heart zzyzx": [(0, 0.4)],
}
TEXT = "A blorg, two blorgs, the blorg's heart zzyzx and a blorg star. Zzyzx!"


def learn(scorer: ReefScorer, words: list[str]) -> ReefScorer:
    for word in words:
        scorer.add_custom_word(word, LEARNED[word])
    return scorer


def test_a_learned_word_takes_effect_immediately_with_exact_scores(
    learner: ReefScorer, small_model: Model
) -> None:
    assert learner.score("blorg").unknown_words == ["blorg"]
    info = learner.add_custom_word("Blorg", [(2, 1.0), (3, 0.5)], weight=8.0)
    result = learner.score("one blorg")
    assert result.unknown_words == ["one"]
    assert result.matched_word_ids == {info.word_id}
    assert result.coverage == 0.5
    idf = round(reef_idf(2, 6) * 51) / 51
    for reef, strength in ((2, 1.0), (3, 0.5)):
        length = 1 - 0.75 + 0.75 * int(small_model.reef_words[reef]) / small_model.bm25.avg_reef_words
        raw = 8.0 * round(idf * strength * 2.2 / (strength + 1.2 * length) * 8192) / 8192
        mean, variance = small_model.background[:, reef]
        assert result.z_scores[reef] == pytest.approx((raw - mean) / variance**0.5, abs=1e-6)


def test_a_learned_word_matches_its_inflections(learner: ReefScorer) -> None:
    word = learner.add_custom_word("blorg", [(2, 1.0)])
    for text in ("the blorg's heart", "BLORG", "blorg-like", "the blórg", "two blorgs", "blorgs' hearts"):
        assert word.word_id in learner.score(text).matched_word_ids, text
    assert learner.score("two blorgses").unknown_words == ["two", "blorgses"]


def test_a_learned_plural_keeps_its_own_meaning(learner: ReefScorer) -> None:
    singular_word = learner.add_custom_word("blorg", [(2, 1.0)])
    plural_word = learner.add_custom_word("blorgs", [(4, 1.0)])
    assert learner.score("blorg").matched_word_ids == {singular_word.word_id}
    assert learner.score("blorgs").matched_word_ids == {plural_word.word_id}


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("hobbits", "hobbit"),
        ("planaries", "planary"),
        ("microinches", "microinch"),
        ("zxes", "zx"),
        ("chorus", None),
        ("dns", None),
        ("mastosis", None),
        ("loss", None),
        ("elf's", None),
        ("hobbit", None),
    ],
)
def test_regular_plurals_are_recognized_by_spelling(form: str, expected: str | None) -> None:
    assert singular(form) == expected


def test_learned_words_count_in_documents_too(learner: ReefScorer) -> None:
    learner.add_custom_word("blorg", [(2, 1.0)])
    analysis = learner.analyze("My blorg is here. A blorg, again. It has unknown frobs.")
    assert analysis.segments[0].topic.top_reefs[0].reef_id == 2
    assert analysis.segments[-1].topic.unknown_words[-1] == "frobs"


@settings(max_examples=examples(30))
@given(st.permutations(list(LEARNED)))
def test_the_order_of_learning_changes_only_ids(small: ReefScorer, order: list[str]) -> None:
    in_order = learn(small.without_custom_words(), list(LEARNED))
    permuted = learn(small.without_custom_words(), order)
    for text in (TEXT, *LEARNED, "heart zzyzx-heart blorg stars"):
        assert np.array_equal(in_order.score_raw(text), permuted.score_raw(text))
        assert in_order.score(text).unknown_words == permuted.score(text).unknown_words
    words = {info.word for word in LEARNED if (info := in_order.lookup_word(word))}
    assert words == set(LEARNED)


def test_a_learned_compound_scores_in_addition_to_its_parts(learner: ReefScorer) -> None:
    heart = learner.lookup_word("heart")
    compound = learner.add_custom_word("heart zzyzx", [(0, 0.4)])
    assert compound.is_compound
    assert heart is not None
    result = learner.score("a heart-zzyzx")
    assert result.matched_word_ids == {heart.word_id, compound.word_id}
    assert result.unknown_words == ["zzyzx"]
    assert learner.score("heart, zzyzx").matched_word_ids == {heart.word_id}


def test_overlapping_learned_compounds_all_count(learner: ReefScorer) -> None:
    ids = {
        word: learner.add_custom_word(word, [(0, 0.4)]).word_id
        for word in ("blorg star", "heart blorg star", "star zzyzx")
    }
    word_ids = learner.score("a heart blorg star zzyzx").matched_word_ids
    assert word_ids >= set(ids.values())
    assert ids["blorg star"] in learner.score("blorg stars").matched_word_ids
    plural = learner.lookup_word("heart blorg stars")
    assert plural is not None
    assert plural.word_id == ids["heart blorg star"]


def test_stored_words_restore_the_same_scorer(learner: ReefScorer, small: ReefScorer) -> None:
    learn(learner, list(LEARNED))
    infos = [info for word in LEARNED if (info := learner.lookup_word(word))]
    restored = small.with_custom_words(infos)
    assert np.array_equal(restored.score_raw(TEXT), learner.score_raw(TEXT))
    assert restored.next_word_id == learner.next_word_id
    assert restored.contains_custom_words("zzyzx stars, blorg-star")
    assert not restored.contains_custom_words("heart and star")
    assert small.n_custom_words == 0
    with pytest.raises(LagoonError, match="taken"):
        small.with_custom_words([*infos, infos[0]])


def test_rebuild_compounds_keeps_existing_compounds(learner: ReefScorer) -> None:
    word = learner.add_custom_word("blorg", [(2, 1.0)])
    learner.add_custom_word("blorg star", [(3, 1.0)])
    learner.rebuild_compounds([("planet blorg", word.word_id)])
    learner.rebuild_compounds([("planet blorg", word.word_id)])
    info = learner.lookup_word("Planet-Blorg")
    assert info is not None
    assert info.word_id == word.word_id
    assert learner.lookup_word("blorg star") is not None
    with pytest.raises(LagoonError, match="no word"):
        learner.rebuild_compounds([("planet heart", 10**6)])
    with pytest.raises(LagoonError, match="two words"):
        learner.rebuild_compounds([("planet", word.word_id)])


def test_known_words_cannot_be_learned(learner: ReefScorer) -> None:
    for word in ("heart", "Hearts", "heart attack", "children", "the", "it's", "1999", "", "!", "of the"):
        with pytest.raises(LagoonError):
            learner.add_custom_word(word, [(0, 1.0)])
    learner.add_custom_word("blorg", [(0, 1.0)])
    with pytest.raises(LagoonError, match="already"):
        learner.add_custom_word("BLORG", [(0, 1.0)])


@pytest.mark.parametrize(
    ("associations", "arguments"),
    [
        ([(6, 1.0)], {}),
        ([(-1, 1.0)], {}),
        ([(0, 1.5)], {}),
        ([(0, float("nan"))], {}),
        ([(0, 1.0), (0, 0.5)], {}),
        ([], {}),
        ([(0, 1.0)], {"specificity": 3}),
        ([(0, 1.0)], {"weight": 0.0}),
        ([(0, 1.0)], {"weight": float("inf")}),
        ([(0, 1.0)], {"word_id": 0}),
    ],
)
def test_an_invalid_word_is_rejected_without_side_effects(
    learner: ReefScorer, associations: list[tuple[int, float]], arguments: dict[str, float]
) -> None:
    before = learner.next_word_id
    with pytest.raises(LagoonError):
        learner.add_custom_word("blorg", associations, **arguments)  # type: ignore[arg-type]
    assert learner.next_word_id == before
    assert learner.filter_unknown(["blorg"]) == ["blorg"]


def test_ids_count_up_from_the_base_vocabulary(learner: ReefScorer) -> None:
    assert learner.next_word_id == learner.n_words
    assert learner.add_custom_word("blorg", [(0, 1.0)]).word_id == learner.n_words
    assert (
        learner.add_custom_word("zzyzx", [(0, 1.0)], word_id=learner.n_words + 7).word_id
        == learner.n_words + 7
    )
    assert learner.next_word_id == learner.n_words + 8
    assert learner.score("zzyzx").matched_word_ids == {learner.n_words + 7}
    with pytest.raises(LagoonError, match="taken"):
        learner.add_custom_word("frob", [(0, 1.0)], word_id=learner.n_words + 7)


def test_filter_unknown_drops_known_words_and_stop_words(learner: ReefScorer) -> None:
    words = [
        "heart",
        "Blorg",
        "the",
        "1999",
        "zzyzx's",
        "children",
        "heart attack",
        "blorg heart",
        "blorg",
        "",
    ]
    assert learner.filter_unknown(words) == ["Blorg", "zzyzx's", "blorg heart", "blorg"]
    learner.add_custom_word("blorg", [(0, 1.0)])
    assert learner.filter_unknown(words) == ["zzyzx's", "blorg heart"]
    singles = ["heart", "Blorg", "zzyzx", "the"] * 3
    assert learner.filter_unknown(singles) == [word for word in singles if learner.filter_unknown([word])]


def test_lookup_finds_inflections_and_compounds(small: ReefScorer) -> None:
    for spelling, word in (
        ("Hearts", "heart"),
        ("children", "child"),
        ("café", "cafe"),
        ("Heart-Attacks", "heart attack"),
    ):
        info = small.lookup_word(spelling)
        assert info is not None
        assert info.word == word
        assert not info.is_custom
    for unknown in ("blorg", "the", "heart tree", ""):
        assert small.lookup_word(unknown) is None


def test_a_fresh_scorer_of_the_model_has_no_learned_words(learner: ReefScorer) -> None:
    learner.add_custom_word("blorg", [(0, 1.0)])
    assert learner.without_custom_words().score("blorg").unknown_words == ["blorg"]
    assert learner.score("blorg").unknown_words == []


def test_many_learned_words_score_the_same_in_any_order(small: ReefScorer) -> None:
    words = [f"word{chr(97 + i % 26)}{i}" for i in range(300)]
    text = " ".join(words * 2)
    scores = []
    for seed in range(2):
        shuffled = sorted(words)
        random.Random(seed).shuffle(shuffled)
        fresh = small.without_custom_words()
        for word in shuffled:
            fresh.add_custom_word(
                word,
                [(len(word) % 6, 0.5), (ord(word[4]) % 6, 0.3)][: 1 + (len(word) % 6 != ord(word[4]) % 6)],
            )
        scores.append(fresh.score_raw(text))
    assert np.array_equal(*scores)
