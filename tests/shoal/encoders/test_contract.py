"""What is refused of an encoder's vectors."""

import numpy as np
import pytest

from shoal.encoders.encoder import MAX_NORM_ERROR, TextKind, unit_vectors
from shoal.errors import EncoderError
from tests.fake_encoder import FakeEncoder


def test_vectors_are_scaled_to_unit_length():
    vectors = unit_vectors(np.array([[3.0, 4.0], [0.1, 0.0]]), 2, 2)
    assert np.allclose(vectors, [[0.6, 0.8], [1.0, 0.0]], atol=MAX_NORM_ERROR / 1000)


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.ones((1, 2)), "shape"),
        (np.ones((2, 3)), "shape"),
        (np.array([[1.0, np.nan], [1.0, 0.0]]), "not finite"),
        (np.array([[np.inf, 1.0], [1.0, 0.0]]), "not finite"),
        (np.array([[0.0, 0.0], [1.0, 0.0]]), "zero"),
    ],
)
def test_unusable_vectors_are_refused(vectors, message):
    with pytest.raises(EncoderError, match=message):
        unit_vectors(vectors, 2, 2)


def test_texts_with_the_same_words_are_near():
    encoder = FakeEncoder(same={"automobile": "car"})
    query, same, other = encoder.embed(["a red car", "a red automobile", "deep blue sea"], TextKind.document)
    assert query @ same > 0.99 > 0.5 > query @ other
