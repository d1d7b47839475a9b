"""Expected results with the packaged data of any build: reefs are identified by their words, not by id. The
passages are written for these tests."""

from collections import defaultdict

import numpy as np
import pytest

import lagoon
from lagoon import ReefScorer

GENERIC = "Now is the time for all good men to come to the aid of the party."
MORE_GENERIC = (
    "There are many things that people do every day without thinking much about it.",
    "The meeting will take place at the usual time in the usual place.",
    "She told me about it, and I said that it was probably the best that we could do.",
    "We will see what comes of it, one way or the other, before the end of the week.",
)
NEUROSCIENCE = (
    "axon, dendrite, hippocampus, cerebellum, thalamus, neurotransmitter, myelin, nerve cell, brainstem"
)
SEA_ADVENTURE = """The schooner heeled hard over as the squall struck her. "Reef the topsail!" roared the mate, and
two of the hands scrambled up the rigging while the deck ran white with foam. The captain clung to the wheel and
steered for the lee of the island, where the old buccaneer had sworn that a harbour lay hidden behind the rocks. All
night the pumps clanked and the hull groaned. At dawn the lookout cried land from the crosstrees, and the crew lowered
the longboat, took muskets and cutlasses, and rowed ashore through the surf to look for the buried chest."""

BEES = """A hive in summer holds some forty thousand bees and a single queen. She lays her eggs in cells of wax, and
the workers feed the larvae with pollen and honey. A forager that has found a meadow in bloom dances on the comb to
tell the others where the nectar is. Drones do no work at all; they mate and die. When the colony grows too large, it
swarms. The old queen flies off with half of the workers, and a young one hatches in the hive. Wasps and mites are the
worst enemies of the brood. In winter the insects cluster together and live on their stores."""
MONEY = """The central bank raised its interest rate by half a percent. Loans became dearer at once, and the price of
bonds fell. Investors sold their shares and bought short bills of the treasury. Inflation had eaten into wages for two
years, and the minister of finance wanted a smaller deficit. Taxes on profits will rise in the spring. Exporters fear
that a strong currency will cost them their markets abroad. Two commercial lenders wrote off bad debts of nine
billion. Savers, at last, earn something on their deposits."""


def reef_of(scorer: ReefScorer, *words: str) -> int:
    """The reef with the largest total share of the words."""
    shares: dict[int, float] = defaultdict(float)
    for word in words:
        info = scorer.lookup_word(word)
        assert info is not None, word
        strongest = max(bm25_q for _, bm25_q in info.reefs)
        for reef, bm25_q in info.reefs:
            shares[reef] += bm25_q / strongest
    return max(shares, key=lambda reef: shares[reef])


def test_generic_sentences_have_low_confidence(scorer: ReefScorer) -> None:
    # Nine of ten random texts with that few words stay below (benchmarks/calibration.py).
    low_for_a_sentence = 2.5
    assert scorer.score(GENERIC).confidence < low_for_a_sentence
    others = [scorer.score(text).confidence for text in MORE_GENERIC]
    assert np.median(others) < low_for_a_sentence / 2
    clear = scorer.score(NEUROSCIENCE).confidence
    assert clear > 5 * max(scorer.score(GENERIC).confidence, *others)


def test_neuroscience_words_rank_their_reef_first_by_a_wide_margin(scorer: ReefScorer) -> None:
    result = scorer.score(NEUROSCIENCE)
    first, second = result.top_reefs[:2]
    assert first.reef_id == reef_of(scorer, "neuron", "synapse", "cortex")
    assert first.z_score > 10
    assert first.z_score > 1.5 * second.z_score


def test_a_sea_adventure_ranks_the_seafaring_reef_high(scorer: ReefScorer) -> None:
    top = [reef.reef_id for reef in scorer.score(SEA_ADVENTURE).top_reefs[:3]]
    assert reef_of(scorer, "ship", "sailor", "sail", "vessel") in top


@pytest.mark.parametrize(("first", "second"), [(BEES, MONEY), (MONEY, SEA_ADVENTURE), (SEA_ADVENTURE, BEES)])
def test_two_halves_of_a_passage_that_changes_topic_differ(
    scorer: ReefScorer, first: str, second: str
) -> None:
    change = len(lagoon.split_sentences(first))
    analysis = scorer.analyze(f"{first} {second}")
    assert min(abs(boundary - change) for boundary in analysis.boundaries) <= 1
    tops = [{reef.reef_id for reef in scorer.score(text).top_reefs[:3]} for text in (first, second)]
    assert not tops[0] & tops[1]
    within = min(similarity(scorer, *alternate_sentences(text)) for text in (first, second))
    assert similarity(scorer, first, second) < 0.75 * within


def alternate_sentences(text: str) -> tuple[str, str]:
    """Every second sentence, and the other sentences."""
    sentences = [sentence.text for sentence in lagoon.split_sentences(text)]
    return " ".join(sentences[::2]), " ".join(sentences[1::2])


def similarity(scorer: ReefScorer, left: str, right: str) -> float:
    """Cosine of the profiles of two texts."""
    a, b = scorer.score_raw(left), scorer.score_raw(right)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


@pytest.mark.parametrize(
    ("words", "expected_words"),
    [
        (("neuron", "synapse", "cortex"), {"brain", "nerve", "nerves", "nervous", "neural", "neuroscience"}),
        (
            ("ship", "sailor", "sail", "vessel"),
            {"ship", "ships", "sea", "seafaring", "sailing", "voyages", "boats"},
        ),
    ],
)
def test_reef_names_describe_their_reef(
    scorer: ReefScorer, words: tuple[str, ...], expected_words: set[str]
) -> None:
    name = scorer.reefs[reef_of(scorer, *words)].name
    assert expected_words & set(name.lower().replace(",", " ").split()), name
