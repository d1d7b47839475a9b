"""Properties of the scorer with the packaged data of any build."""

import os
import subprocess
import sys

import numpy as np
import pytest
from growth import FACTOR, assert_not_quadratic
from hypothesis import given
from hypothesis import strategies as st

import lagoon
from lagoon import ReefScorer
from lagoon.bm25 import reef_idf
from lagoon.tokens import stem

NEUROSCIENCE = "neuron synapse axon dendrite cerebral cortex hippocampus neurotransmitter brain myelin"
GENERIC = "There was something about the way that things were going on at that time and place."

PLANTS = """Plants make sugar in their leaves. Chlorophyll absorbs the light of the sun. The roots take water
from the soil. Flowers attract insects, which carry pollen. The seeds ripen in the fruit. Trees shed their leaves
in autumn. Mosses and ferns have no flowers. Botanists name every species of plant. A stem carries sap from root to
leaf. Petals and sepals protect the bud."""
LAW = """The court heard the appeal. The judge dismissed the lawsuit. A lawyer cross-examined the witness. The
jury returned a verdict of guilty. The defendant was sentenced to prison. The constitution protects the rights of
citizens. Parliament passed the statute. The plaintiff demanded damages for breach of contract. Attorneys argued
about jurisdiction. The supreme court overturned the conviction."""


def test_the_vocabulary_has_the_expected_size(scorer: ReefScorer) -> None:
    assert (scorer.n_reefs, len(scorer.islands), len(scorer.archipelagos)) == (207, 52, 4)
    assert 130_000 < scorer.n_words < 160_000
    assert 55_000 < scorer.n_compounds < 75_000
    assert scorer.next_word_id == scorer.n_words
    assert all(reef.name and reef.typical_words for reef in scorer.reefs)
    assert len({reef.name for reef in scorer.reefs}) == 207


def test_words_of_one_field_have_higher_confidence_than_a_generic_sentence(scorer: ReefScorer) -> None:
    clear, generic = scorer.score(NEUROSCIENCE), scorer.score(GENERIC)
    assert clear.top_reefs[0].z_score > 2 * generic.top_reefs[0].z_score
    assert generic.confidence < clear.confidence


def test_two_topics_are_in_different_segments(scorer: ReefScorer) -> None:
    analysis = scorer.analyze(f"{PLANTS} {LAW}")
    change = len(lagoon.split_sentences(PLANTS))
    assert any(abs(boundary - change) <= 1 for boundary in analysis.boundaries)
    first, last = analysis.segments[0].topic, analysis.segments[-1].topic
    assert not {reef.reef_id for reef in first.top_reefs[:3]} & {reef.reef_id for reef in last.top_reefs[:3]}


def test_texts_of_one_topic_are_more_similar_than_texts_of_two(scorer: ReefScorer) -> None:
    def halves(text: str) -> list[np.ndarray]:
        sentences = [sentence.text for sentence in lagoon.split_sentences(text)]
        parts = (" ".join(sentences[::2]), " ".join(sentences[1::2]))
        return [z / np.linalg.norm(z) for z in map(scorer.score_raw, parts)]

    (plants, more_plants), (law, more_law) = halves(PLANTS), halves(LAW)
    assert min(plants @ more_plants, law @ more_law) > 0.2 + max(plants @ law, more_plants @ more_law)


def test_heart_attacks_are_a_compound(scorer: ReefScorer) -> None:
    info = scorer.lookup_word("heart attack")
    assert info is not None
    assert info.is_compound
    result = scorer.score("He had two heart attacks.")
    assert info.word_id in result.matched_word_ids
    for part in ("heart", "attack"):
        word = scorer.lookup_word(part)
        assert word is not None
        assert word.word_id not in result.matched_word_ids


def test_words_match_only_whole_tokens(scorer: ReefScorer) -> None:
    art, heart = scorer.lookup_word("art"), scorer.lookup_word("heart")
    assert art is not None
    assert heart is not None
    assert scorer.score("heart").matched_word_ids == {heart.word_id}
    assert scorer.score("art").matched_word_ids == {art.word_id}


@pytest.mark.parametrize(
    ("inflected", "lemma"),
    [
        ("children", "child"),
        ("geese", "goose"),
        ("plants", "plant"),
        ("neurons", "neuron"),
        ("Cafés", "cafe"),
    ],
)
def test_inflections_reach_their_lemma(scorer: ReefScorer, inflected: str, lemma: str) -> None:
    info = scorer.lookup_word(inflected)
    assert info is not None
    assert info.word == lemma


def test_typical_words_rank_their_reef_first(scorer: ReefScorer) -> None:
    ranks = []
    for reef in scorer.reefs:
        z = scorer.score_raw(", ".join(reef.typical_words))
        ranks.append(int((z > z[reef.id]).sum()))
    assert np.mean(np.array(ranks) < 3) > 0.9


def test_stored_values_follow_the_formulas(scorer: ReefScorer) -> None:
    for word in ("photosynthesis", "judge", "water", "heart attack"):
        info = scorer.lookup_word(word)
        assert info is not None
        assert info.reefs
        assert info.idf_q == round(reef_idf(len(info.reefs), 207) * 51)
        assert 0 < info.weight < 16
        assert all(0 <= reef < 207 for reef, _ in info.reefs)


def test_the_default_weight_of_a_learned_word_exceeds_that_of_a_common_word(scorer: ReefScorer) -> None:
    learner = scorer.without_custom_words()
    learned = learner.add_custom_word("zzyzxian", [(3, 1.0)])
    common, rare = learner.lookup_word("water"), learner.lookup_word("mitochondrion")
    assert common is not None
    assert rare is not None
    assert common.weight < learned.weight


@given(st.lists(st.sampled_from((PLANTS + LAW + GENERIC + NEUROSCIENCE).split()), max_size=40))
def test_explained_contributions_sum_up_to_the_score(scorer: ReefScorer, words: list[str]) -> None:
    text = " ".join(words)
    sums = np.zeros(207)
    for match in scorer.explain_words(text):
        for reef, contribution in match.reefs:
            sums[reef] += contribution
    for reef in scorer.score(text, top_k=207).top_reefs:
        assert reef.raw_bm25 == pytest.approx(sums[reef.reef_id], abs=2e-6)


COLD_START = """
import sys
import lagoon
lagoon.load().score("how do plants turn light and water into sugar").top_reefs
print(sorted({name.split(".")[0] for name in sys.modules} & {"scipy", "pandas", "torch", "nltk"}))
"""


def test_scoring_imports_no_large_library_besides_numpy(scorer: ReefScorer) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", COLD_START], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


def test_analysis_time_is_linear_in_the_text(scorer: ReefScorer) -> None:
    text = f"{PLANTS}\n\n{LAW}\n\n"
    assert_not_quadratic(lambda: scorer.analyze(text * 10), lambda: scorer.analyze(text * 10 * FACTOR))
    assert scorer.analyze(text * 10 * FACTOR).n_sentences == 200 * FACTOR


def test_a_stem_has_the_contributions_of_its_most_frequent_word(scorer: ReefScorer) -> None:
    packages = scorer.lookup_word("package")
    assert packages is not None
    found = scorer.stem_contributions(stem("packages"))
    assert found is not None
    weight, reefs, strengths = found
    assert weight == packages.weight
    assert sorted(zip(reefs, strengths, strict=True)) == sorted(packages.reefs)
    assert scorer.stem_contributions("qqqq") is None
    assert scorer.stem_contributions("x" * 100_000) is None


def test_words_of_one_meaning_are_more_related_than_others(scorer: ReefScorer) -> None:
    others = ["doctor", "table", "qqqq", "the"]
    relations = scorer.relate_forms(["physician", "qqqq"], others, {})
    assert relations.cosine.shape == relations.support.shape == relations.reef.shape == (2, len(others))
    assert relations.cosine[0, 0] > relations.cosine[0, 1]
    assert relations.support[0, 0] > relations.support[0, 1]
    assert scorer.reefs[relations.reef[0, 0]].name == "doctors and patients"
    for values in (relations.cosine, relations.support):
        assert not values[1].any()
        assert not values[:, 2].any()
    alone = scorer.relate_forms(["physician"], ["table"], {})
    assert alone.cosine[0, 0] == relations.cosine[0, 1]
    assert scorer.relate_forms([], others, {}).cosine.shape == (0, len(others))
    assert scorer.relate_forms(["physician"], [], {}).support.shape == (1, 0)


def test_of_equally_supported_reefs_the_most_probable_is_shared(scorer: ReefScorer) -> None:
    word, other = scorer.lookup_word("physician"), scorer.lookup_word("nurse")
    assert word is not None
    assert other is not None
    levels = {reef: level for (reef, _), level in zip(other.reefs, other.support, strict=True)}
    common = {
        reef: min(level, levels.get(reef, 0))
        for (reef, _), level in zip(word.reefs, word.support, strict=True)
        if level
    }
    best = [reef for reef, level in common.items() if level == max(common.values())]
    for reef in common:
        found = scorer.relate_forms(["physician"], ["nurse"], {reef: 0.9}).reef[0, 0]
        assert found == reef if reef in best else found in best
    none = [reef for reef, level in common.items() if reef not in levels]
    for reef in none:
        assert scorer.relate_forms(["physician"], ["qqqq"], {reef: 0.9}).reef[0, 0] == reef


def test_names_that_are_also_things_are_misleading(scorer: ReefScorer) -> None:
    learned = scorer.without_custom_words()
    learned.add_custom_word("quimble", [(0, 1.0)])
    names = ["baker", "japan", "quimble", "zzyzx"]
    assert learned.misleading_names(names) == {"baker", "quimble"}
    assert scorer.misleading_names(names) == {"baker"}
