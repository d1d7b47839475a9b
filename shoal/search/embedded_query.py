"""The query's vector in a search: whether it is wanted, what to say without it, and its cosines."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from shoal.errors import EncoderError, EncoderMismatchError, EncoderUnavailableError, QueryError
from shoal.models.search import Fusion, SearchMode
from shoal.search.library_index import LibraryIndex
from shoal.search.query_language import ParsedQuery, parse_query
from shoal.search.request import SearchRequest
from shoal.search.signals import COSINE_UNIT, RRF_WEIGHTS, DenseCosines
from shoal.settings import Settings
from shoal.support.presets import all_presets

if TYPE_CHECKING:
    from shoal.encoders.encoder import EncoderIdentity
    from shoal.search.query_vectors import QueryVector, QueryVectors
    from shoal.storage.vectors import StoredEncoder

NO_ENCODER = "vectors are not used: set SHOAL_ENCODER and SHOAL_EMBED=1"
NO_VECTORS = "no passage has a vector yet; `shoal status` shows how many are embedded"

BROKEN = "ranked without vectors until it is repaired: the encoder failed; the log says why"


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
