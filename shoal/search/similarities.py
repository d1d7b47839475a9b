"""Similarities of a query to texts, by an encoder or by a cross-encoder, with a cache and a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from shoal.encoders.contract import (
    Encoder,
    EncoderIdentity,
    Floats,
    PairScorer,
    TextKind,
    unit_vectors,
)
from shoal.encoders.vector_cache import VectorCache, cache_key
from shoal.errors import EncoderError
from shoal.index.vectors import dequantised

FIRST_TEXTS = 4
MAX_TEXTS = 32
"""Texts in the first and in the largest call of a model; the deadline is checked between calls."""
CALL_SECONDS = 0.2
"""Time of a call that the number of its texts aims at: a slow model gets few, a quick one saves calls."""
DECIMALS = 6
"""Similarities are rounded, so that noise of the last digits does not decide between equal passages."""


class Deadline:
    """A moment that may be moved to now."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(0.0, self._end - time.monotonic())

    @property
    def is_over(self) -> bool:
        return self.seconds_left == 0.0

    def expire(self) -> None:
        """Move the deadline to now."""
        self._end = 0.0


class StoredVectors(NamedTuple):
    """Vectors that a library has: the identity of their encoder, and the quantised vectors by their texts."""

    encoder: tuple[str, str, int]
    by_text: Mapping[str, bytes]


class Comparison(Protocol):
    """Compares a query with texts. Safe to use from several threads."""

    @property
    def identity(self) -> EncoderIdentity:
        """The model."""
        ...

    def similarities(
        self, query: str, texts: Sequence[str], deadline: Deadline, stored: StoredVectors | None = None
    ) -> list[float] | None:
        """Return the similarity of each text to the query, 0..1; None if the deadline passed. Texts whose
        vectors are `stored` need not be read. Raises EncoderError."""
        ...


class CosineComparison:
    """Cosines of the vectors of an encoder; negative ones count as 0.

    Stored vectors of the same encoder are used as they are, and the others are embedded. What was embedded
    before the deadline is kept, so the same search gets further the next time.
    """

    def __init__(self, encoder: Encoder, cache: VectorCache | None = None) -> None:
        self._encoder = encoder
        self._cache = VectorCache() if cache is None else cache

    @property
    def identity(self) -> EncoderIdentity:
        return self._encoder.identity

    def similarities(
        self, query: str, texts: Sequence[str], deadline: Deadline, stored: StoredVectors | None = None
    ) -> list[float] | None:
        ours = self.vectors([query], TextKind.query, deadline)
        if ours is None:
            return None
        vectors = self._stored(stored)
        missing = [text for text in dict.fromkeys(texts) if text not in vectors]
        embedded = self.vectors(missing, TextKind.document, deadline)
        if embedded is None:
            return None
        vectors |= zip(missing, embedded, strict=True)
        # Row by row: a product of matrices adds in an order that depends on the number of rows.
        query_vector = ours[0].astype(np.float64)
        cosines = [float((vectors[text].astype(np.float64) * query_vector).sum()) for text in texts]
        return [round(min(max(cosine, 0.0), 1.0), DECIMALS) for cosine in cosines]

    def _stored(self, stored: StoredVectors | None) -> dict[str, Floats]:
        """Return the stored vectors by their texts; none if they are of another encoder, or damaged."""
        if stored is None or tuple(stored.encoder) != tuple(self.identity):
            return {}
        try:
            rows = dequantised([*stored.by_text.values()], self.identity.dimension)
        except ValueError:
            return {}
        return dict(zip(stored.by_text, rows, strict=True))

    def vectors(self, texts: Sequence[str], kind: TextKind, deadline: Deadline) -> list[Floats] | None:
        """Return the vector of each text, from the cache or embedded; None if the deadline passed. Raises
        EncoderError."""
        identity = self.identity

        def embed(batch: Sequence[str]) -> Floats:
            vectors = np.asarray(self._encoder.embed(batch, kind))
            return unit_vectors(vectors, len(batch), identity.dimension)

        keys = [cache_key(identity, kind.value, text) for text in texts]
        return _read(texts, keys, embed, self._cache, deadline)


class PairComparison:
    """Scores of a cross-encoder, which reads the query and a text together."""

    def __init__(self, scorer: PairScorer, cache: VectorCache | None = None) -> None:
        self._scorer = scorer
        self._cache = VectorCache() if cache is None else cache

    @property
    def identity(self) -> EncoderIdentity:
        return self._scorer.identity

    def similarities(
        self, query: str, texts: Sequence[str], deadline: Deadline, stored: StoredVectors | None = None
    ) -> list[float] | None:
        identity = self.identity

        def score(batch: Sequence[str]) -> Floats:
            scores = np.asarray(self._scorer.score(query, batch), dtype=np.float32)
            if scores.shape != (len(batch),) or not np.isfinite(scores).all():
                raise EncoderError("the cross-encoder did not return one finite score for each text")
            return scores[:, None]

        keys = [cache_key(identity, query, text) for text in texts]
        scores = _read(texts, keys, score, self._cache, deadline)
        if scores is None:
            return None
        return [round(min(max(float(score[0]), 0.0), 1.0), DECIMALS) for score in scores]


def _read(
    texts: Sequence[str],
    keys: Sequence[bytes],
    run: Callable[[Sequence[str]], Floats],
    cache: VectorCache,
    deadline: Deadline,
) -> list[Floats] | None:
    """Return a row for each text, from the cache or from `run`; None if the deadline passed."""
    rows = {key: cache.get(key) for key in keys}
    missing = {key: text for key, text in zip(keys, texts, strict=True) if rows[key] is None}
    # Texts of similar length together, so that little is padded; the shortest first.
    waiting = sorted(missing, key=lambda key: (len(missing[key]), key))
    n_texts = FIRST_TEXTS
    while waiting:
        if deadline.is_over:
            return None
        started = time.monotonic()
        some, waiting = waiting[:n_texts], waiting[n_texts:]
        for key, row in zip(some, run([missing[key] for key in some]), strict=True):
            cache.put(key, row)
            rows[key] = row
        seconds = max(time.monotonic() - started, CALL_SECONDS / MAX_TEXTS)
        n_texts = min(MAX_TEXTS, max(1, int(n_texts * CALL_SECONDS / seconds)))
    return [row for key in keys if (row := rows[key]) is not None]
