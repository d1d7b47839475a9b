"""Running text as counts of words."""

import pytest

from lagoon.build.counting import count_texts, sample_windows
from lagoon.model import load_model
from lagoon.scorer import PACKAGED_DATA
from lagoon.vocabulary import BaseVocabulary

WORDS = ["water", "stone", "tree", "river", "cloud", "horse", "bread", "knife", "house", "garden"]


@pytest.fixture(scope="module")
def vocabulary() -> BaseVocabulary:
    return BaseVocabulary(load_model(PACKAGED_DATA))


def test_samples_are_centred_in_every_stretch(vocabulary: BaseVocabulary) -> None:
    # One token in each sentence, so that no two form a compound.
    texts = [". ".join(WORDS[:6]) + ".", ". ".join(WORDS + WORDS[::-1]) + ".", "Water."]
    four, two = sample_windows(vocabulary, texts, (4, 2), spacing=5)
    # Tokens 0 to 3 and 1 to 2 of every five. The first text has one stretch, the second four, the last none.
    stretches = [WORDS[:5], WORDS[:5], WORDS[5:], WORDS[:4:-1], WORDS[4::-1]]
    for samples, span in ((four, slice(0, 4)), (two, slice(1, 3))):
        expected = count_texts(vocabulary, [". ".join(stretch[span]) for stretch in stretches])
        assert samples.shape == expected.shape
        assert (samples != expected).nnz == 0


def test_texts_shorter_than_the_spacing_give_no_samples(vocabulary: BaseVocabulary) -> None:
    assert [
        samples.shape[0] for samples in sample_windows(vocabulary, ["Water.", ""], (2, 4), spacing=8)
    ] == [0, 0]
