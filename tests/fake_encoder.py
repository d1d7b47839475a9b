"""An encoder for tests: words become directions, so texts with the same words are near."""

import hashlib
from collections.abc import Sequence

import numpy as np

from shoal.encoders.encoder import EncoderIdentity, Floats, TextKind, unit_vectors


class FakeEncoder:
    """Vectors of words by their hash. `same` maps words to the word that they mean, such as synonyms."""

    def __init__(
        self, *, dimension: int = 64, revision: str = "1", same: dict[str, str] | None = None
    ) -> None:
        self.identity = EncoderIdentity("fake", revision, dimension)
        self.max_tokens = 256
        self.same = same or {}
        self.n_embedded = 0
        """Documents embedded so far."""

    def embed(self, texts: Sequence[str], kind: TextKind) -> Floats:
        if kind is TextKind.document:
            self.n_embedded += len(texts)
        rows = np.array([self._vector(text) for text in texts]).reshape(len(texts), self.identity.dimension)
        return unit_vectors(rows, len(texts), self.identity.dimension)

    def _vector(self, text: str) -> np.ndarray:
        vector = np.full(self.identity.dimension, 1e-3)
        for token in text.lower().split()[: self.max_tokens]:
            word = token.strip(".,;:!?\"'()")
            digest = hashlib.blake2b(self.same.get(word, word).encode(), digest_size=8).digest()
            seed = int.from_bytes(digest, "big")
            vector += np.random.default_rng(seed).standard_normal(self.identity.dimension)
        return vector
