"""The measures of segmentations, and the rival as it is used, are what their sources say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.segmentation_measures import pk, window_diff, window_length


@pytest.mark.parametrize(
    ("reference", "hypothesis", "expected_pk", "expected_window_diff"),
    [
        # Ten sentences, a change before the sixth: k = 2, pairs (0, 2) to (7, 9).
        ([5], [5], 0, 0),
        ([5], [], 2 / 8, 2 / 8),  # (3, 5) and (4, 6) are separated by the reference only
        ([5], [6], 2 / 8, 2 / 8),  # (3, 5) only by the reference, (5, 7) only by the other
        ([5], [5, 6], 1 / 8, 2 / 8),  # (5, 7); and (4, 6), which has two boundaries instead of one
        ([5], [1], 3 / 8, 3 / 8),  # (0, 2) too: a boundary before the second sentence is seen once
        ([5], list(range(1, 10)), 6 / 8, 1),
    ],
)
def test_measures_of_ten_sentences_counted_by_hand(
    reference: list[int], hypothesis: list[int], expected_pk: float, expected_window_diff: float
) -> None:
    assert window_length(reference, 10) == 2
    assert pk(reference, hypothesis, 10) == pytest.approx(expected_pk)
    assert window_diff(reference, hypothesis, 10) == pytest.approx(expected_window_diff)


BOUNDARIES = st.sets(st.integers(1, 29))


@given(BOUNDARIES, BOUNDARIES)
def test_measures_follow_their_definitions(reference: set[int], hypothesis: set[int]) -> None:
    k = window_length(reference, 30)
    pairs = [(i, i + k) for i in range(30 - k)]

    def between(boundaries: set[int], pair: tuple[int, int]) -> int:
        return sum(pair[0] < boundary <= pair[1] for boundary in boundaries)

    counts = [(between(reference, pair), between(hypothesis, pair)) for pair in pairs]
    assert pk(reference, hypothesis, 30) == pytest.approx(np.mean([(a > 0) != (b > 0) for a, b in counts]))
    assert window_diff(reference, hypothesis, 30) == pytest.approx(np.mean([a != b for a, b in counts]))


def test_boundaries_outside_of_the_text_are_refused() -> None:
    for wrong in ([0], [10]):
        with pytest.raises(ValueError, match="between 1 and 9"):
            pk([5], wrong, 10)


PLANTS = "Leaves turn the light of the sun into sugar. Roots drink from the soil. Seeds wait for the spring. "
COURTS = "The judge heard the witness. The jury found him guilty. The court will hear the appeal in May. "


def test_the_quick_rival_cuts_where_the_slow_one_does() -> None:
    texttiling = pytest.importorskip("nltk.tokenize.texttiling")
    from benchmarks.topic_boundaries import Tiling

    text = "\n\n".join([PLANTS * 4, COURTS * 5, PLANTS * 3, COURTS * 2])
    for w, k in ((5, 2), (5, 10), (8, 3), (20, 10)):
        settings = {"w": w, "k": k, "stopwords": {"the", "of"}, "demo_mode": True}
        expected = texttiling.TextTilingTokenizer(**settings).tokenize(text)
        tokens = Tiling(**settings).tokenize(text)
        assert tokens[0] == pytest.approx(expected[0])
        assert tokens[3] == expected[3]
        assert w == 20 or any(tokens[3])


def test_documents_are_made_of_pieces_of_different_articles() -> None:
    pytest.importorskip("nltk")
    from benchmarks.topic_boundaries import SHAPES, make_documents

    articles = [[[f"Article {chr(65 + a)}{i} says word{i} and more." for i in range(30)]] for a in range(25)]
    for shape, ((fewest, most), (shortest, longest)) in SHAPES.items():
        documents = make_documents(articles, shape, 3, seed=1)
        assert documents == make_documents(articles, shape, 3, seed=1)
        for document in documents:
            pieces = np.split(np.array(document.sentences), document.boundaries)
            owners = [{sentence.split()[1][0] for sentence in piece} for piece in pieces]
            assert fewest <= len(pieces) <= most
            assert all(len(owner) == 1 for owner in owners)
            assert len(set.union(*owners)) == len(pieces)
            assert all(shortest <= len(piece) <= longest for piece in pieces)
    with pytest.raises(ValueError, match="too few"):
        make_documents(articles[:3], "mixed", 1, seed=1)
