"""Probabilities that a text is about its reefs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import lagoon
from lagoon import SectionStart, results
from lagoon.model import SUPPORT_STEPS
from lagoon.results import REACH, LabelScores, mean_around
from lagoon.scorer import ReefScorer
from lagoon.scoring import BLOCK

EEL = "The electric eel can stun its prey with shocks of several hundred volts, produced by modified muscle cells."
ISLANDS = np.array([0, 0, 1, 1])


def probabilities_of(
    label_z: list[float],
    m1: float = 50.0,
    around: list[float] | None = None,
    sense: list[float] | None = None,
) -> list[float]:
    ids = np.arange(len(label_z))[None, :]
    scores = LabelScores.of_text_alone(
        np.array([m1]), np.array([label_z]), np.array([sense or [0.0] * len(label_z)])
    )
    if around is not None:
        scores = scores._replace(around=np.array([around]), n_around=np.array([8]))
    values = results.probabilities(scores, ids, ISLANDS, np.zeros(len(ISLANDS)))
    return [float(value) for value in values[0]]


def test_larger_label_z_gives_a_larger_probability() -> None:
    low, high = probabilities_of([2.0, 0.0, 0.0, 0.0])[0], probabilities_of([6.0, 0.0, 0.0, 0.0])[0]
    assert 0 < low < high < 1


def test_label_z_of_at_most_zero_gives_no_probability() -> None:
    assert probabilities_of([3.0, 0.0, -1.0, 0.0])[1:] == [0.0, 0.0, 0.0]


def test_later_rank_lowers_the_probability() -> None:
    alone = probabilities_of([4.0, 0.0, 0.0, 0.0])[0]
    second = probabilities_of([4.0, 0.0, 9.0, 0.0])[0]
    assert second < alone


def test_other_reef_of_the_island_raises_the_probability() -> None:
    assert probabilities_of([4.0, 2.0, 0.0, 0.0])[0] > probabilities_of([4.0, 0.0, 2.0, 0.0])[0]


def test_longer_text_raises_the_probability() -> None:
    assert probabilities_of([4.0, 0.0, 0.0, 0.0], m1=80)[0] > probabilities_of([4.0, 0.0, 0.0, 0.0], m1=5)[0]


def test_passages_around_raise_the_probability_of_their_subject() -> None:
    none = probabilities_of([4.0, 0.0, 0.0, 0.0], around=[0.0, 3.0, 0.0, 0.0])[0]
    some = probabilities_of([4.0, 0.0, 0.0, 0.0], around=[3.0, 0.0, 0.0, 0.0])[0]
    assert none < some


def test_the_first_reef_of_a_passage_is_raised_and_further_ones_are_lowered() -> None:
    z, nothing = [4.0, 0.0, 3.0, 0.0], [0.0] * 4
    first, _, further, _ = probabilities_of(z, around=nothing)
    raised = [results.FIRST, results.FURTHER]
    ids = np.arange(4)[None, :]
    scores = LabelScores.of_text_alone(np.array([50.0]), np.array([z]), np.array([nothing]))
    inputs = results.features(scores, ids, ISLANDS)[0, [0, 2]]
    logits = results.AMONG_OTHERS[0] + inputs @ results.AMONG_OTHERS[1:] + raised
    assert [first, further] == pytest.approx((1 / (1 + np.exp(-logits))).tolist(), abs=1e-3)
    # A text alone is a query or a note.
    logits = results.ALONE[0] + inputs @ results.ALONE[1:]
    assert probabilities_of(z)[::2] == pytest.approx((1 / (1 + np.exp(-logits))).tolist(), abs=1e-3)


def test_words_that_speak_for_a_sense_raise_the_probability_and_against_it_lower_it() -> None:
    against, none, favour = (
        probabilities_of([4.0, 0.0, 0.0, 0.0], sense=[value, 0.0, 0.0, 0.0])[0] for value in (-2.0, 0.0, 2.0)
    )
    assert against < none < favour


def test_mean_around_counts_passages_of_the_same_document_within_reach() -> None:
    z = np.arange(12.0)[:, None]
    means, n_around = mean_around(z, np.array([0] * 3 + [1] * 8 + [2]))
    assert n_around.tolist() == [2, 2, 2, 4, 5, 6, 7, 7, 6, 5, 4, 0]
    assert means[:4, 0].tolist() == [1.5, 1.0, 0.5, (4 + 5 + 6 + 7) / 4]
    assert means[11, 0] == 0


@pytest.fixture(scope="module")
def scorer() -> ReefScorer:
    return lagoon.load()


@pytest.mark.parametrize("text", [EEL, "", "of the and", "bank", "Tides and tides; the tide."])
def test_short_and_long_ways_give_equal_probabilities(scorer: ReefScorer, text: str) -> None:
    assert scorer.score(text).probabilities == scorer.score_batch([text, EEL])[0].probabilities


def test_passages_of_other_documents_do_not_change_labels(scorer: ReefScorer) -> None:
    passages = [EEL, "Sharks and whales swim in the sea.", "Banks lend money.", "The bank raised its rates."]
    starts = [SectionStart(0), SectionStart(1), SectionStart(2, begins_document=True), SectionStart(3)]
    uncut = {"min_chunk_sentences": 5, "max_chunk_sentences": 0, "max_chunk_chars": 0}
    together = scorer.analyze(passages, sections=starts, **uncut)
    first = scorer.analyze(passages[:2], sections=starts[:2], **uncut)
    second = scorer.analyze(passages[2:], sections=[SectionStart(0), SectionStart(1)], **uncut)
    apart = [topic.probabilities for part in (first, second) for topic in part.topics]
    assert [topic.probabilities for topic in together.topics] == apart
    joined = scorer.analyze(passages, sections=[SectionStart(i) for i in range(4)], **uncut)
    assert [topic.probabilities for topic in joined.topics] != apart


def test_labels_are_equal_at_the_edges_of_blocks(scorer: ReefScorer) -> None:
    passages = [EEL, "Banks lend money to farms.", "Snow fell on the mountains."] * (BLOCK // 3 + 2 * REACH)
    sections = [SectionStart(i) for i in range(len(passages))]
    uncut = {"min_chunk_sentences": len(passages) + 1, "max_chunk_sentences": 0, "max_chunk_chars": 0}
    topics = scorer.analyze(passages, sections=sections, **uncut).topics
    inner = [topic.probabilities for topic in topics][REACH:-REACH]
    assert inner[3:] == inner[:-3]


def test_probabilities_belong_to_the_strongest_reefs(scorer: ReefScorer) -> None:
    topic = scorer.score(EEL, top_k=38)
    chances = dict(zip((reef.name for reef in topic.top_reefs), topic.probabilities, strict=True))
    assert min(chances["fish and whales"], chances["electricity and magnetism"]) > 0.3
    assert chances["number words"] == 0, "this reef is silent"


def test_word_without_support_adds_to_z_but_not_to_labels(scorer: ReefScorer) -> None:
    word = scorer.add_custom_word("zorbling", [(0, 1.0)])
    known = scorer.without_custom_words().with_custom_words([word])
    silent = scorer.without_custom_words().with_custom_words([dataclasses.replace(word, support=[0])])
    text = "zorbling zorbling"
    assert silent.score(text).z_scores[0] == known.score(text).z_scores[0] > 0
    assert known.score(text).probabilities[0] > 0
    assert silent.score(text).probabilities[0] == 0


def test_supporting_words_are_those_of_the_reef(scorer: ReefScorer) -> None:
    reef_ids = {reef.name: reef.id for reef in scorer.reefs}
    fish = reef_ids["fish and whales"]
    words = scorer.supporting_words(EEL, {fish})
    assert words[fish][0][0] == "electric eel"
    assert [value for _, value in words[fish]] == sorted((v for _, v in words[fish]), reverse=True)
    assert set(words) == {fish}


def test_support_is_within_its_range(scorer: ReefScorer) -> None:
    info = scorer.lookup_word("eel")
    assert info is not None
    assert len(info.support) == len(info.reefs)
    assert all(0 <= level <= SUPPORT_STEPS for level in info.support)


def test_of_equal_labels_the_lower_reef_ranks_first() -> None:
    rng = np.random.default_rng(3)
    z = rng.integers(-3, 4, (40, 200)).astype(np.float64)
    ids = np.broadcast_to(np.arange(200), z.shape)
    scores = LabelScores.of_text_alone(np.full(len(z), 50.0), z, np.zeros_like(z))
    ranks = np.argsort(np.argsort(-z, axis=1, kind="stable"), axis=1, kind="stable")
    inputs = results.features(scores, ids, np.zeros(200, dtype=np.int64))
    positive = z > 0
    assert np.array_equal(inputs[..., 1][positive], np.log1p(ranks)[positive])


def test_a_passage_in_another_language_has_no_labels() -> None:
    scorer = lagoon.load()
    german = (
        "Die Mutter singt am Abend ein altes Lied, und die Tiere im Stall werden still. Der Wind war gut, das Land "
        "lag fern, man sah den Mast, das Boot, die Hand, den Arm, ein Gras und den Sand am Strand unter dem Mond."
    )
    english = "The boat left the sand of the beach, and the wind filled the sail on the mast while it sailed to the land."
    assert scorer.score(german).top_reefs
    assert not any(scorer.score(german).probabilities)
    assert any(scorer.score(english).probabilities)
