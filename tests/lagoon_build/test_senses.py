"""Sense weights, learned from a teacher's judgement of passages."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from lagoon.build.senses import (
    LEAST_CHARS,
    MOST_CHARS,
    Teacher,
    cut,
    judged_passages,
    read_teacher,
    shares_of_support,
    standardised,
    with_senses,
    write_teacher,
)
from lagoon.compounds import fnv1a64_many
from lagoon.model import Model, load_model, save_model
from lagoon.scorer import ReefScorer
from tests.lagoon.small_model import REEF_NAMES, build_model

PLANTS, MONEY = REEF_NAMES.index("plants"), REEF_NAMES.index("money")
WORDS = ["bank", "leaf", "money", "tree"]
FILLER = "It is and was of the and to be in it with us as they were. "


def passage(*words: str) -> str:
    """A passage with these words that `cut` returns whole."""
    return (FILLER * 5 + f"The {' the '.join(words)}.").strip()


TEXTS = [passage("bank", "money")] * 3 + [passage("bank", "tree"), passage("tree", "leaf")]


def judged() -> Teacher:
    """Money where money is named, plants where trees are; a bank alone may be either."""
    passages = list(dict.fromkeys(TEXTS))
    judgements = np.zeros((len(passages), len(REEF_NAMES)))
    for row, text in enumerate(passages):
        judgements[row, MONEY] = 2.0 if "money" in text else -1.0
        judgements[row, PLANTS] = 2.0 if "tree" in text else -1.0
    alone = np.zeros((len(WORDS), len(REEF_NAMES)))
    alone[WORDS.index("bank"), [MONEY, PLANTS]] = 1.0
    alone[WORDS.index("money"), MONEY] = 3.0
    alone[WORDS.index("tree"), PLANTS] = 3.0
    return Teacher(fnv1a64_many(passages), judgements, fnv1a64_many(WORDS), alone)


def fitted(teacher: Teacher, texts: Sequence[str] = TEXTS) -> Model:
    model = build_model()
    named = [(str(number), text) for number, text in enumerate(texts)]
    return with_senses(model, teacher, *judged_passages(model, teacher, named))


def learned() -> Model:
    return fitted(judged())


def weight_of(model: Model, word: str, reef: int) -> float:
    row = model.sense_words.tolist().index(list(model.words).index(word)) + 1
    return float(model.sense_vectors[row].astype(float) @ model.sense_directions[:, reef].astype(float))


def test_words_speak_for_the_reefs_of_their_passages_and_against_others() -> None:
    model = learned()
    model.check()
    assert weight_of(model, "money", MONEY) > 0 > weight_of(model, "money", PLANTS)
    assert weight_of(model, "tree", PLANTS) > 0


def test_other_words_decide_the_sense_of_a_word() -> None:
    scorer = ReefScorer(learned())
    with_tree, with_money = (scorer.score(text).label_scores.sense[0] for text in ("bank tree", "bank money"))
    assert with_tree[PLANTS] > with_money[PLANTS]
    assert with_money[MONEY] > with_tree[MONEY]


def test_words_that_the_teacher_judges_alike_have_near_meanings() -> None:
    teacher = judged()
    alike = teacher.words.copy()
    alike[WORDS.index("leaf")] = alike[WORDS.index("tree")]
    model = fitted(dataclasses.replace(teacher, words=alike))
    relations = ReefScorer(model).relate_forms(["tree"], ["leaf", "money"], {})
    assert relations.cosine[0, 0] > 0.9 > relations.cosine[0, 1]


def test_support_is_weighed_by_what_the_teacher_says_of_a_word_alone() -> None:
    model, teacher = build_model(), judged()
    alone = teacher.words.copy()
    alone[WORDS.index("bank"), [MONEY, PLANTS]] = 4.0, 1.0
    alone[WORDS.index("tree"), [MONEY, PLANTS]] = -1.0, 3.0
    shares = shares_of_support(model, dataclasses.replace(teacher, words=alone))
    words = list(model.words)

    def share_of(word: str, reef: int) -> float:
        row = int(model.row_starts[words.index(word)])
        return float(shares[row + model.row_reefs[row:].tolist().index(reef)])

    assert [share_of("bank", MONEY), share_of("bank", PLANTS)] == [1.0, 0.25]
    assert [share_of("tree", MONEY), share_of("tree", PLANTS)] == [0.0, 1.0]
    assert share_of("blood", REEF_NAMES.index("war")) == 1.0, "the teacher does not know the word"


def test_learned_words_do_not_change_the_sense() -> None:
    scorer = ReefScorer(learned())
    word = scorer.without_custom_words().add_custom_word("zorbling", [(PLANTS, 1.0)])
    known = scorer.without_custom_words().with_custom_words([word])
    alone, beside = "bank money", "bank money zorbling"
    assert np.array_equal(scorer.score(alone).label_scores.sense, known.score(beside).label_scores.sense)
    in_batch = known.score_batch([beside, alone])
    assert np.array_equal(in_batch[0].label_scores.sense, in_batch[1].label_scores.sense)


def test_text_without_known_words_has_no_sense() -> None:
    scorer = ReefScorer(learned())
    assert not scorer.score("zorbling").label_scores.sense.any()


def test_two_runs_from_a_teacher_file_write_identical_files(tmp_path: Path) -> None:
    write_teacher(tmp_path / "teacher.npz", judged())
    for name in ("one", "two"):
        save_model(fitted(read_teacher(tmp_path / "teacher.npz")), tmp_path / name, {})
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    loaded = load_model(tmp_path / "one", verify=True)
    assert np.array_equal(loaded.sense_vectors, learned().sense_vectors)


@pytest.mark.parametrize("n_reefs", [6, 7])
def test_teacher_file_keeps_judgements_to_half_a_deviation(tmp_path: Path, n_reefs: int) -> None:
    rng = np.random.default_rng(4)
    passages, words = rng.uniform(-2, 5.5, (5, n_reefs)), rng.uniform(-2, 5.5, (3, n_reefs))
    teacher = Teacher(fnv1a64_many(list("abcde")), passages, fnv1a64_many(list("fgh")), words)
    write_teacher(tmp_path / "teacher.npz", teacher)
    stored = read_teacher(tmp_path / "teacher.npz")
    assert np.abs(stored.passages - passages).max() <= 0.25
    assert np.abs(stored.words - words).max() <= 0.25
    assert np.array_equal(stored.passage_keys, teacher.passage_keys)


def test_running_text_without_judged_passages_is_an_error() -> None:
    with pytest.raises(ValueError, match="no passage of the teacher file"):
        fitted(judged(), [passage("star", "planet")])


def test_teacher_of_other_reefs_is_an_error() -> None:
    teacher = judged()
    other = dataclasses.replace(teacher, words=teacher.words[:, 1:])
    with pytest.raises(ValueError, match="judges 5 reefs, not 6"):
        fitted(other, [])


def test_passages_are_whole_sentences_without_headings() -> None:
    text = f"# Title\n\n{FILLER * 20}\n\n== Section ==\n{FILLER * 4}\n\nShort."
    passages = cut(text)
    assert len(passages) > 1
    assert all(LEAST_CHARS <= len(each) <= MOST_CHARS and each.endswith(".") for each in passages)
    assert not any("Title" in each or "Section" in each for each in passages)


def test_standardised_rows_have_mean_0_and_deviation_1() -> None:
    z = standardised(np.random.default_rng(1).normal(3.0, 2.0, (4, 50)))
    assert np.allclose(z.mean(axis=1), 0.0)
    assert np.allclose(z.std(axis=1), 1.0)
