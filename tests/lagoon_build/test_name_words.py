"""Which words a capital makes a name, by running text and the teacher's judgement."""

from __future__ import annotations

import numpy as np
import pytest

from lagoon.build import senses
from lagoon.build.senses import with_name_words
from lagoon.model import Model
from tests.lagoon.small_model import REEF_NAMES, build_model

PLANTS = REEF_NAMES.index("plants")
TREE = "The men stand under the Tree of the town."
TREE_LOWER = "The men stand under the tree of the town."
BANK = "The men wait at the Bank of the town."


def judged(passages: list[str], of_plants: dict[str, float]) -> np.ndarray:
    judgements = np.zeros((len(passages), len(REEF_NAMES)))
    judgements[:, PLANTS] = [of_plants[passage] for passage in passages]
    return judgements


def is_name(model: Model, word: str) -> bool:
    return bool(np.unpackbits(model.name_words)[list(model.words).index(word)])


@pytest.fixture(autouse=True)
def few_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(senses, "FEWEST_TEXTS", 3)


def test_word_in_lower_case_elsewhere_is_a_name_with_a_capital() -> None:
    texts = [TREE, TREE_LOWER, BANK]
    model = with_name_words(build_model(), texts, [TREE], judged([TREE], {TREE: 1.0}))
    assert is_name(model, "tree")
    assert not is_name(model, "bank"), "it has a capital everywhere"
    assert not is_name(model, "leaf"), "running text does not have it"


@pytest.mark.parametrize(("with_capital", "keeps"), [(3.0, True), (-1.0, False)])
def test_word_whose_passages_are_about_its_reef_with_a_capital_too_is_none(
    with_capital: float, keeps: bool
) -> None:
    other = "The men wait."
    passages = [TREE, TREE_LOWER, other] * 5
    judgements = judged(passages, {TREE: with_capital, TREE_LOWER: 3.0, other: 0.0})
    model = with_name_words(build_model(), [TREE, TREE_LOWER] * 3, passages, judgements)
    assert is_name(model, "tree") is not keeps


def test_word_that_few_texts_write_with_a_capital_is_a_name_whatever_they_are_about() -> None:
    passages = [TREE, TREE_LOWER, "The men wait."] * 5
    judgements = judged(passages, {TREE: 3.0, TREE_LOWER: 3.0, "The men wait.": 0.0})
    assert is_name(with_name_words(build_model(), [TREE, TREE_LOWER], passages, judgements), "tree")
