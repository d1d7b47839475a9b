"""Invariants of the packaged data."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import lagoon
from lagoon.build.lexicon import scorable
from lagoon.build.reefs import read_taxonomy
from lagoon.compounds import fnv1a64_many
from lagoon.model import Model, load_model
from lagoon.tokens import normalise
from lagoon.vocabulary import BaseVocabulary

DATA = Path(lagoon.__file__).parent / "data"
LARGEST = 12_000_000
"""Maximum bytes of data in the package."""


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(DATA, verify=True)  # raises if a checksum does not match


def test_sizes_follow_the_specification(model: Model) -> None:
    assert (len(model.hierarchy.archipelagos), len(model.hierarchy.islands), model.n_reefs) == (4, 52, 207)
    assert model.n_words > 140_000
    assert model.n_compounds > 60_000


def test_the_data_is_small() -> None:
    files = [path for path in DATA.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= LARGEST


def test_licences_of_the_sources_are_present() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in (DATA / "LICENSES").iterdir()}
    assert "Princeton University" in texts["WordNet-3.0.txt"]
    assert "Apache License" in texts["Apache-2.0.txt"]
    assert {"WordNet", "all-MiniLM-L6-v2", "Wikipedia"} <= set(texts["NOTICE.md"].replace("#", " ").split())


def test_words_are_in_normal_form_unique_and_sorted_singles_first(model: Model) -> None:
    words = list(model.words)
    assert words == sorted(set(words), key=lambda word: (" " in word, word))
    assert sum(" " in word for word in words) == model.n_compounds
    assert all(normalise(word) == word for word in words[::101])
    assert all(scorable(word) for word in words)


def test_every_word_has_reefs_and_a_weight(model: Model) -> None:
    assert np.diff(model.row_starts.astype(np.int64)).min() >= 1
    assert model.weights.min() > 0
    assert model.idf_q.min() > 0
    assert model.row_bm25.min() > 0


def test_rows_list_their_reefs_in_ascending_order(model: Model) -> None:
    steps = np.diff(model.row_reefs.astype(np.int64))
    inside = np.ones(len(steps), dtype=bool)
    inside[model.row_starts[1:-1].astype(np.int64) - 1] = False
    assert (steps[inside] > 0).all()
    assert model.row_reefs.max() < model.n_reefs


def test_reef_sizes_count_the_rows(model: Model) -> None:
    assert np.array_equal(np.bincount(model.row_reefs, minlength=model.n_reefs), model.reef_words)
    assert [reef.n_words for reef in model.hierarchy.reefs] == model.reef_words.tolist()
    assert model.bm25.avg_reef_words == pytest.approx(float(model.reef_words.mean()))


def test_hashes_are_sorted_and_unique_and_map_to_single_words(model: Model) -> None:
    n_singles = model.n_words - model.n_compounds
    for hashes, words in (
        (model.form_hashes, model.form_words),
        (model.stem_hashes, model.stem_words),
    ):
        assert (hashes[1:] > hashes[:-1]).all()
        assert words.max() < n_singles
    at = np.searchsorted(model.form_hashes, fnv1a64_many(list(model.words)[:n_singles]))
    assert np.array_equal(model.form_words[at], np.arange(n_singles))


def test_compounds_are_found_under_their_own_tokens(model: Model) -> None:
    vocabulary = BaseVocabulary(model)
    first = model.n_words - model.n_compounds
    for word_id in range(first, model.n_words, 997):
        assert vocabulary.find(model.words[word_id].split(" ")) == word_id


@pytest.mark.parametrize(
    ("form", "lemma"),
    [
        ("mice", "mouse"),
        ("went", "go"),
        ("animals", "animal"),
        ("policies", "policy"),
        ("mitochondria", "mitochondrion"),
        ("running", "running"),
        ("women", "woman"),
        ("largest", "large"),
        ("kinematic", "kinematics"),
        ("seiz'd", "seize"),
    ],
)
def test_inflections_reach_their_lemma(model: Model, form: str, lemma: str) -> None:
    assert model.words[BaseVocabulary(model).find([form])] == lemma


@pytest.mark.parametrize("form", ["william", "william's", "richard", "weller", "henri", "amid", "seiz"])
@pytest.mark.parametrize("others", [0, 20])
def test_a_form_that_is_its_own_stem_is_no_inflection(model: Model, form: str, others: int) -> None:
    forms = [form, *model.words[:others]]
    assert BaseVocabulary(model).resolve(forms).words[0] == -1


def test_names_are_unique_and_readable(model: Model) -> None:
    for entries in (model.hierarchy.archipelagos, model.hierarchy.islands, model.hierarchy.reefs):
        names = [entry.name for entry in entries]
        assert [name for name, n in Counter(names).items() if n > 1] == []
        assert all(2 <= len(name.replace("& ", "").split()) <= 4 and "," not in name for name in names)


def test_names_equal_those_of_the_hand_written_list(model: Model) -> None:
    taxonomy = read_taxonomy()
    assert [reef.name for reef in model.hierarchy.reefs] == [reef.name for reef in taxonomy.reefs]
    assert [island.name for island in model.hierarchy.islands] == [island.name for island in taxonomy.islands]


def test_anchors_of_a_reef_are_strongest_in_it(model: Model) -> None:
    vocabulary = BaseVocabulary(model)
    strongest = n_scored = 0
    anchors = [(number, word) for number, reef in enumerate(read_taxonomy().reefs) for word in reef.anchors]
    for number, word in anchors:
        word_id = vocabulary.find([word])
        if word_id < 0:  # a stop word: it affects the position of the reef, but is not scored
            continue
        n_scored += 1
        row = slice(model.row_starts[word_id], model.row_starts[word_id + 1])
        strongest += int(model.row_reefs[row][model.row_bm25[row].argmax()]) == number
    assert n_scored > 0.95 * len(anchors)
    assert strongest / n_scored > 0.85


def test_every_reef_has_an_island_and_no_island_is_empty(model: Model) -> None:
    hierarchy = model.hierarchy
    assert {reef.island_id for reef in hierarchy.reefs} == {island.id for island in hierarchy.islands}
    sizes = Counter(island.archipelago_id for island in hierarchy.islands)
    assert set(sizes) == {0, 1, 2, 3}
    assert min(sizes.values()) >= 8


def test_typical_words_are_words_of_their_reef(model: Model) -> None:
    ids = {word: word_id for word_id, word in enumerate(model.words)}
    for reef in model.hierarchy.reefs:
        assert len(reef.typical_words) >= 8
        for word in reef.typical_words:
            row = slice(model.row_starts[ids[word]], model.row_starts[ids[word] + 1])
            assert reef.id in model.row_reefs[row]
