"""Reranking: an encoder or a cross-encoder reads the first results of a search again and orders them.

The order follows the sum of two normalized scores with equal weights (docs/encoder.md has the measurements).
A model may be slow, away or wrong, so it runs in a thread of its own for a limited time; whatever goes wrong,
the results keep the order of the blend. The similarities of a query to texts come from a cache where they
can.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from shoal.encoders.encoder import (
    Encoder,
    EncoderIdentity,
    Floats,
    PairScorer,
    TextKind,
    VectorCache,
    cache_key,
    unit_vectors,
)
from shoal.errors import EncoderError, EncoderUnavailableError
from shoal.index.vectors import dequantised
from shoal.models.scores import RerankFallback, RerankInfo, RerankParts
from shoal.models.search import SearchResult
from shoal.search.query_vectors import EncoderPause
from shoal.storage import vectors
from shoal.storage.database import Snapshot

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


log = logging.getLogger(__name__)

BLEND_WEIGHT = 0.5
SIMILARITY_WEIGHT = 1.0 - BLEND_WEIGHT
"""Weights of both normalized scores, measured on four collections at once by `benchmarks/rerank.py`."""
MAX_RUNNING = 4
"""Searches whose passages are read at the same time; others wait within their time budget."""


@dataclass(frozen=True, slots=True)
class Reranking:
    """What reranking did to the first results of a blend.

    `parts`: of each result, in the order of the blend; empty after a fallback. `warning` says in words why
    the blend stays.
    """

    info: RerankInfo
    parts: tuple[RerankParts, ...] = ()
    warning: str | None = None

    @property
    def n(self) -> int:
        """Results that were reranked."""
        return len(self.parts)

    def in_order(self) -> list[tuple[int, RerankParts]]:
        """Return the numbers of the results in the blend, from 0, and their parts, in the new order. Equal
        scores keep the order of the blend."""
        return sorted(enumerate(self.parts), key=lambda each: (-each[1].score, each[0]))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warning, if there is one."""
        return () if self.warning is None else (self.warning,)


class _Reading:
    """The reading of one search's passages, in a thread of its own."""

    def __init__(self, seconds: float, stored: StoredVectors | None) -> None:
        self.deadline = Deadline(seconds)
        self.stored = stored
        self.done = threading.Event()
        self.comparison: Comparison | None = None
        self.similarities: Sequence[float] | None = None
        self.error: Exception | None = None
        self.is_stuck = False


class Reranker:
    """Reranks results within a time budget. Safe to share between threads.

    `open_comparison` returns what compares a query with texts, or None if no model is configured. It may load
    a model, so it is called in the thread that reads. `pause`: that of the model.
    """

    def __init__(
        self, open_comparison: Callable[[], Comparison | None], *, seconds: float, pause: EncoderPause
    ) -> None:
        self._open = open_comparison
        self._seconds = seconds
        self._slots = threading.BoundedSemaphore(MAX_RUNNING)
        self._pause = pause
        self._lock = threading.Lock()
        self._n_stuck = 0
        """Runs that continue although their searches have answered."""

    @staticmethod
    def stored_vectors(snapshot: Snapshot, results: Sequence[SearchResult]) -> StoredVectors | None:
        """Read the vectors that the library has of the passages of results; None if it has none at all."""
        encoder = vectors.encoder(snapshot)
        if encoder is None or not results:
            return None
        texts = {result.chunk_id: text_of(result) for result in results}
        found = vectors.of_chunks(snapshot, list(texts))
        return StoredVectors(encoder.identity, {texts[chunk_id]: vector for chunk_id, vector in found})

    def rerank(
        self, query: str, results: Sequence[SearchResult], stored: StoredVectors | None = None
    ) -> Reranking:
        """Return the new order of results, which are in that of the blend. `stored`: vectors that the
        library has of them. Raises nothing; takes hardly more than the time budget."""
        started = time.perf_counter()
        run = _Reading(self._seconds, stored)
        fallback, warning = self._read(run, query, [text_of(result) for result in results])
        identity = run.comparison.identity if fallback is None and run.comparison else None
        info = RerankInfo(
            name="" if identity is None else identity.name,
            revision="" if identity is None else identity.revision,
            n=len(results) if fallback is None else 0,
            ms=round((time.perf_counter() - started) * 1000, 3),
            fallback=fallback,
        )
        if run.similarities is None or fallback is not None:
            return Reranking(info, warning=warning)
        return Reranking(info, combine([result.match_score for result in results], run.similarities))

    def _read(
        self, run: _Reading, query: str, texts: Sequence[str]
    ) -> tuple[RerankFallback | None, str | None]:
        """Fill `run`, or return why that was not possible."""
        seconds_left = self._pause.seconds_left
        if seconds_left:
            return RerankFallback.unavailable, _not(
                f"the encoder is unavailable; it is asked again in {seconds_left:.0f} seconds"
            )
        # Waiting for runs that take longer than the budget would only delay this search, too.
        if self._n_stuck >= MAX_RUNNING or not self._slots.acquire(timeout=run.deadline.seconds_left):
            return RerankFallback.late, _not("the encoder is busy with earlier searches")
        thread = threading.Thread(
            target=self._run, args=(run, query, texts), name="shoal-rerank", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # no more threads
            self._slots.release()
            log.warning("reranking failed: %s", error)
            return RerankFallback.failed, _not("the encoder failed; the log says why")
        if not run.done.wait(run.deadline.seconds_left) and self._give_up(run):
            return RerankFallback.late, _not(f"the encoder did not finish within {self._seconds:g} seconds")
        if isinstance(run.error, EncoderUnavailableError):
            return RerankFallback.unavailable, _not("the encoder is unavailable")
        if run.error is not None:
            return RerankFallback.failed, _not("the encoder failed; the log says why")
        if run.comparison is None:
            return RerankFallback.no_encoder, _not("no encoder is configured (SHOAL_ENCODER)")
        if run.similarities is None:
            return RerankFallback.late, _not(f"the encoder did not finish within {self._seconds:g} seconds")
        return None, None

    def _give_up(self, run: _Reading) -> bool:
        """Return False if the run has just finished; else let it stop after its batch."""
        with self._lock:
            if run.done.is_set():
                return False
            run.deadline.expire()
            run.is_stuck = True
            self._n_stuck += 1
            return True

    def _run(self, run: _Reading, query: str, texts: Sequence[str]) -> None:
        """Read the passages; runs in a thread of its own."""
        try:
            run.comparison = self._open()
            if run.comparison is not None:
                run.similarities = run.comparison.similarities(query, texts, run.deadline, run.stored)
        except EncoderUnavailableError as error:
            run.error = error
            self._pause.begin(error)
            log.warning("reranking: %s", error)
        except Exception as error:
            # The model may be any object; a search must not fail because of it.
            run.error = error
            log.warning("reranking failed: %s: %s", type(error).__name__, error)
        finally:
            with self._lock:
                self._n_stuck -= run.is_stuck
                run.done.set()
            self._slots.release()


def text_of(result: SearchResult) -> str:
    """Return what the model reads of a result: the title of its document and its text."""
    return vectors.embedded_text(result.document_title, result.text)


def combine(match_scores: Sequence[float], similarities: Sequence[float]) -> tuple[RerankParts, ...]:
    """Return the parts of the new scores. `match_scores` are in the order of the blend, best first;
    `similarities` are 0..1. Each is divided by the largest of its kind."""
    best = max(match_scores, default=0.0) or 1.0
    nearest = max(similarities, default=0.0) or 1.0
    parts = []
    for rank, (match_score, similarity) in enumerate(zip(match_scores, similarities, strict=True), start=1):
        blend_part = BLEND_WEIGHT * match_score / best
        similarity_part = SIMILARITY_WEIGHT * similarity / nearest
        parts.append(RerankParts(rank, similarity, blend_part + similarity_part, blend_part, similarity_part))
    return tuple(parts)


def _not(reason: str) -> str:
    return f"the results were not reranked: {reason}"
