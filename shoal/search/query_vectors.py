"""The vector of a query: whether a search wants it, what to say without it, and its cosines.

Queries are embedded once per search, within a time limit, before the snapshot is opened.

The floor of a query is the cosine that few texts reach that have nothing to do with it: the mean of its
cosines with UNRELATED, sentences on many subjects, and FLOOR_DEVIATIONS times their standard deviation.
Encoders differ much in the cosines of unrelated texts, so no fixed number would do for all of them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from shoal.encoders.encoder import Encoder, EncoderIdentity, TextKind, VectorCache, cache_key, unit_vectors
from shoal.errors import EncoderError, EncoderMismatchError, EncoderUnavailableError, QueryError
from shoal.models.search import Fusion, SearchMode, all_presets
from shoal.search.library_index import LibraryIndex
from shoal.search.query_language import ParsedQuery, parse_query
from shoal.search.request import SearchRequest
from shoal.search.signals import COSINE_UNIT, RRF_WEIGHTS, DenseCosines
from shoal.settings import Settings

if TYPE_CHECKING:
    from shoal.storage.vectors import StoredEncoder

PAUSE_SECONDS = 10.0
"""After a failure searches do not ask the encoder for this time, unless it named another."""
MAX_PAUSE_SECONDS = 300.0
QUERY_SECONDS = 2.0
"""Most time that a search waits for the encoder."""
LOADING_SECONDS = 20.0
"""The same until the encoder has answered once: a local model is loaded first, which takes a second or
two."""
MAX_WAITING = 4
"""Calls that run at once. When an encoder hangs, further searches do not wait for it."""
CHARS_PER_TOKEN = 3
"""A text with at most this many characters for each token of the encoder is read to its end."""
EMBEDDED_TOGETHER = 16
"""Texts in a call of the encoder, after which their vectors are kept."""
FLOOR_DEVIATIONS = 3.0
"""2 % of the chunks of one test collection are above the floor of another's queries, and 92 to 99 % of the
relevant documents are above that of their own; with 2 deviations 6 %, and 97 to 100 %
(benchmarks/dense_blend.py)."""
UNRELATED = (
    "The bakery on the corner sells fresh rye bread and almond cakes every morning.",
    "The goalkeeper saved a penalty in the last minute of the match.",
    "Interest rates rose again, and fewer families can afford a mortgage.",
    "The choir sang an old hymn while the organ played softly.",
    "A retaining wall needs drainage, or water behind it will push it over.",
    "The court ruled that the tenant must leave the flat by the end of June.",
    "Migrating geese fly in a wedge, each in the wake of the one before it.",
    "The suspension of this bicycle absorbs the shocks of rough tracks.",
    "Her novel tells of two sisters who run a lighthouse during the war.",
    "Glaciers carve deep valleys and leave lakes behind when they melt.",
    "The train to the coast leaves from platform seven at a quarter past nine.",
    "Peel the onions, fry them in butter, and add a glass of white wine.",
    "The committee elected a new treasurer and approved the minutes.",
    "Tight shoes cause blisters, so break in new boots before a long walk.",
    "A compiler turns the text of a program into instructions of a machine.",
    "The painter mixed ochre with white to catch the light of the evening.",
    "Vaccines train the immune system without causing the disease.",
    "Rome was ruled by consuls before it had emperors.",
    "Sow carrots in rows after the last frost and keep the soil moist.",
    "The telescope found a planet that circles two suns.",
    "A violin is tuned in fifths, from the lowest string to the highest.",
    "The union and the company agreed on shorter hours for night shifts.",
    "Mix cement, sand and gravel with water until no dry lumps are left.",
    "The detective found a torn letter under the carpet of the hotel room.",
    "Children learn to count before they understand what a number is.",
    "Salt lowers the freezing point of water, so it melts ice on roads.",
    "The sheep are shorn in spring, and the wool is sold at the market.",
    "This umbrella folds small enough to fit in a handbag.",
    "The queen's bishop is trapped behind its own pawns.",
    "Airlines charge extra for a suitcase that weighs more than twenty kilos.",
    "The wedding guests danced until the band packed up its drums.",
    "Beavers build dams of branches and mud, and raise the water of a stream.",
)
"""Sentences on 32 subjects."""
log = logging.getLogger(__name__)
Floats = NDArray[np.float32]
Value = TypeVar("Value")
NO_ENCODER = "vectors are not used: set SHOAL_ENCODER and SHOAL_EMBED=1"
NO_VECTORS = "no passage has a vector yet; `shoal status` shows how many are embedded"
BROKEN = "ranked without vectors until it is repaired: the encoder failed; the log says why"


class EncoderPause:
    """The pause of one encoder, for all that ask it. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends_at = 0.0

    @property
    def seconds_left(self) -> float:
        """Seconds until the encoder may be asked again; 0 if it may be asked now."""
        with self._lock:
            return max(0.0, self._ends_at - monotonic())

    def begin(self, error: Exception) -> None:
        """Leave the encoder alone after an error, for the time that the error names."""
        asked = getattr(error, "retry_after", None) or PAUSE_SECONDS
        with self._lock:
            self._ends_at = monotonic() + min(asked, MAX_PAUSE_SECONDS)


class QueryVector(NamedTuple):
    """The vector of a query, f32 (dimension,) of unit length, its floor, 0..1, and the encoder of both."""

    vector: Floats
    floor: float
    encoder: EncoderIdentity


class Documents(NamedTuple):
    """Vectors of texts, f32 (dimension,) each, and the mean cosine of unrelated texts."""

    vectors: dict[str, Floats]
    unrelated: float


def floor_of(vector: Floats, unrelated: Floats) -> float:
    """Return the floor of a query, from the vectors of unrelated texts (n, dimension)."""
    cosines = (unrelated @ vector).astype(np.float64)
    return min(max(float(cosines.mean() + FLOOR_DEVIATIONS * cosines.std()), 0.0), 1.0)


class QueryVectors:
    """Embeds queries with an encoder, and keeps their vectors in `cache`. Safe to use from several
    threads."""

    def __init__(self, encoder: Encoder, cache: VectorCache, pause: EncoderPause | None = None) -> None:
        """`pause`: that of the encoder, if others ask it as well."""
        self._encoder = encoder
        self._cache = cache
        self._lock = threading.Lock()
        self._unrelated: Floats | None = None
        self._pause = EncoderPause() if pause is None else pause
        self._n_running = 0

    @property
    def identity(self) -> EncoderIdentity:
        """That of the encoder; to ask for it may load a local model."""
        return self._encoder.identity

    def of(self, text: str) -> QueryVector:
        """Return the vector of a query.

        Raises EncoderError, or EncoderUnavailableError if the encoder does not answer in time or failed a
        moment ago.
        """
        # Until the encoder has answered once, to ask for its identity may load it.
        if self._unrelated is not None:
            identity = self._encoder.identity
            vector = self._cache.get(cache_key(identity, TextKind.query.value, text))
            if vector is not None:
                return QueryVector(vector, floor_of(vector, self._unrelated), identity)
        return self._in_time(lambda: self._embed_query(text))

    def sentences(self, texts: Sequence[str], seconds: float) -> Floats:
        """Return the vectors of sentences, f32 (len(texts), dimension). Raises EncoderError as `of` does;
        that there was too little time for them does not keep searches from the encoder."""
        return self._in_time(lambda: self._encoder.embed(texts, TextKind.document), seconds, is_optional=True)

    def documents(self, texts: Sequence[str], seconds: float | None = None) -> Documents:
        """Return the vectors of short texts, which are kept; by default in the time of a query. Texts that
        the encoder may not read to their end have none.

        Raises EncoderError as `sentences` does. What was not ready in time is ready for the next call.
        """
        return self._in_time(lambda: self._embed_documents(texts), seconds, is_optional=True)

    def _embed_documents(self, texts: Sequence[str]) -> Documents:
        unrelated = self._embed_unrelated()
        identity = self._encoder.identity
        most_chars = self._encoder.max_tokens * CHARS_PER_TOKEN
        keys = {
            text: cache_key(identity, TextKind.document.value, text)
            for text in texts
            if len(text) <= most_chars
        }
        missing = [text for text, key in keys.items() if self._cache.get(key) is None]
        vectors: dict[str, Floats] = {}
        for start in range(0, len(missing), EMBEDDED_TOGETHER):
            batch = missing[start : start + EMBEDDED_TOGETHER]
            rows = np.asarray(self._encoder.embed(batch, TextKind.document))
            for text, row in zip(batch, unit_vectors(rows, len(batch), identity.dimension), strict=True):
                self._cache.put(keys[text], row)
                vectors[text] = row
        for text, key in keys.items():
            if text not in vectors and (row := self._cache.get(key)) is not None:
                vectors[text] = row
        cosines = (unrelated @ unrelated.T).astype(np.float64)
        n = len(unrelated)
        return Documents(vectors, float((cosines.sum() - np.trace(cosines)) / (n * (n - 1))))

    def _embed_unrelated(self) -> Floats:
        if self._unrelated is None:
            self._unrelated = self._encoder.embed(UNRELATED, TextKind.document)
        return self._unrelated

    def _embed_query(self, text: str) -> QueryVector:
        unrelated = self._embed_unrelated()
        identity = self._encoder.identity
        key = cache_key(identity, TextKind.query.value, text)
        # Reranking without the dense signal may have embedded the same query.
        vector = self._cache.get(key)
        if vector is None:
            vector = self._encoder.embed([text], TextKind.query)[0]
            self._cache.put(key, vector)
        return QueryVector(vector, floor_of(vector, unrelated), identity)

    def _in_time(
        self, compute: Callable[[], Value], seconds: float | None = None, *, is_optional: bool = False
    ) -> Value:
        """Run in a thread and wait for at most `seconds`. After a failure, fail at once for a while."""
        seconds_left = self._pause.seconds_left
        if seconds_left:
            raise EncoderUnavailableError("the encoder failed a moment ago", seconds_left)
        with self._lock:
            if self._n_running >= MAX_WAITING:
                raise EncoderUnavailableError("the encoder is busy", QUERY_SECONDS)
            self._n_running += 1
        future: Future[Value] = Future()
        # A daemon: the end of the process does not wait for an encoder that hangs.
        threading.Thread(target=self._run, args=(compute, future), name="encoder", daemon=True).start()
        if seconds is None:
            seconds = LOADING_SECONDS if self._unrelated is None else QUERY_SECONDS
        try:
            return future.result(timeout=max(seconds, 0.0))
        except FutureTimeoutError:
            error = EncoderUnavailableError(f"the encoder did not answer in {seconds:g} seconds", None)
            if not is_optional:
                self._begin_pause(error)
            raise error from None
        except EncoderError as error:
            self._begin_pause(error)
            raise

    def _run(self, compute: Callable[[], Value], future: Future[Value]) -> None:
        try:
            future.set_result(compute())
        except BaseException as error:  # the thread that waits raises it
            future.set_exception(error)
        finally:
            with self._lock:
                self._n_running -= 1

    def _begin_pause(self, error: EncoderError) -> None:
        self._pause.begin(error)
        log.warning("searches go on without the encoder for a while: %s", error)


class EmbeddedQuery(NamedTuple):
    """The vector of a query, or why there is none; neither if the search does not want one."""

    vector: QueryVector | None
    failure: str | None = None


NOT_EMBEDDED = EmbeddedQuery(None)


def embed_query(vectors: QueryVectors | None, settings: Settings, request: SearchRequest) -> EmbeddedQuery:
    """Embed the query of a search that uses the dense signal. Call it before the snapshot is opened.

    Raises QueryError for mode `dense` without an encoder, and EncoderError if the encoder fails in this mode;
    in a hybrid search the failure is a warning.
    """
    is_alone = request.mode is SearchMode.dense
    if not request.mode.uses("dense"):
        return NOT_EMBEDDED
    if vectors is None:
        if is_alone:
            raise QueryError("mode", f"dense needs an encoder, and {NO_ENCODER}")
        return EmbeddedQuery(None, NO_ENCODER if request.weights and request.weights.get("dense") else None)
    if not is_alone and not _wants_vectors(settings, request):
        return NOT_EMBEDDED
    text = embedded_query_text(
        parse_query(request.query, max_words=settings.max_query_terms, syntax=request.syntax)
    )
    if not text:
        return NOT_EMBEDDED
    try:
        return EmbeddedQuery(vectors.of(text))
    except EncoderError as error:
        if is_alone:
            raise
        if isinstance(error, EncoderUnavailableError):
            return EmbeddedQuery(None, f"ranked without vectors for now: {error}")
        # The message may name folders of the server, and every client sees the warnings of a search.
        return EmbeddedQuery(None, BROKEN)


def embedded_query_text(parsed: ParsedQuery) -> str:
    """Return what an encoder reads of a query: no excluded words, no `title:`, single blanks."""
    return " ".join(parsed.about.split())


def find_cosines(library: LibraryIndex, embedded: EmbeddedQuery) -> DenseCosines | None:
    """Return the cosines of a query with the chunks of a library; None without vectors on either side.

    Raises EncoderMismatchError if the vectors are of another encoder.
    """
    if embedded.vector is None:
        return None
    query, floor, encoder = embedded.vector
    stored = library.encoder
    if stored is not None and tuple(stored[:3]) != tuple(encoder):
        raise EncoderMismatchError(
            f"the passages were embedded by {_named(stored)}, and the encoder is now {_named(encoder)}; "
            "`shoal encoder embed --again` embeds them anew"
        )
    scores = library.dense(query)
    if scores is None or not scores.has_vector.any():
        return None
    return DenseCosines(
        scores.raw, scores.has_vector, round(floor * COSINE_UNIT), f"{encoder.name} {encoder.revision}"
    )


def cosines_or_warning(
    library: LibraryIndex, embedded: EmbeddedQuery, request: SearchRequest
) -> tuple[DenseCosines | None, list[str]]:
    """Return the cosines of a query, and warnings about what the dense signal lacks. In mode `dense`, vectors
    that cannot be compared are an error."""
    try:
        cosines = find_cosines(library, embedded)
    except EncoderError as error:
        if request.mode is SearchMode.dense:
            raise
        return None, [f"ranked without vectors: {error}"]
    if embedded.failure:
        return None, [embedded.failure]
    return cosines, _missing_vectors(library, cosines, embedded, request)


def _missing_vectors(
    library: LibraryIndex, cosines: DenseCosines | None, embedded: EmbeddedQuery, request: SearchRequest
) -> list[str]:
    """Return a warning if a search by vectors alone cannot find passages because they have none."""
    if embedded.vector is None or request.mode is not SearchMode.dense:
        return []
    if cosines is None:
        return [NO_VECTORS]
    live = library.index.live()
    n_live, n_missing = np.count_nonzero(live), np.count_nonzero(live & ~cosines.has_vector)
    if not n_missing:
        return []
    return [f"{n_missing:,} of {n_live:,} texts have no vector, and vectors alone cannot find them"]


def _named(encoder: EncoderIdentity | StoredEncoder) -> str:
    return f"{encoder.name} (revision {encoder.revision})"


def _wants_vectors(settings: Settings, request: SearchRequest) -> bool:
    if request.weights is not None:
        return request.weights.get("dense", 0.0) > 0
    preset = all_presets(settings.presets)[request.preset]
    return (RRF_WEIGHTS if request.fusion is Fusion.rrf else preset.weights).dense > 0
