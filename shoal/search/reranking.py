"""Reranking: an encoder or a cross-encoder reads the first results of a search again and orders them.

The order follows the sum of two normalized scores with equal weights (docs/encoder.md has the measurements).
A model may be slow, away or wrong, so it runs in a thread of its own for a limited time; whatever goes wrong,
the results keep the order of the blend.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shoal.errors import EncoderUnavailableError
from shoal.models.scores import RerankFallback, RerankInfo, RerankParts
from shoal.models.search import SearchResult
from shoal.search.encoder_pause import EncoderPause
from shoal.search.similarities import Comparison, Deadline, StoredVectors
from shoal.storage import vectors
from shoal.storage.database import Snapshot

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


class _Run:
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
        run = _Run(self._seconds, stored)
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

    def _read(self, run: _Run, query: str, texts: Sequence[str]) -> tuple[RerankFallback | None, str | None]:
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

    def _give_up(self, run: _Run) -> bool:
        """Return False if the run has just finished; else let it stop after its batch."""
        with self._lock:
            if run.done.is_set():
                return False
            run.deadline.expire()
            run.is_stuck = True
            self._n_stuck += 1
            return True

    def _run(self, run: _Run, query: str, texts: Sequence[str]) -> None:
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
