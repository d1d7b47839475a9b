"""The sentence of each result that is nearest to the query: what the dense part of its score rests on.

No vectors of sentences are stored. Those of a page of results are embedded when they are wanted, within a
time limit; a result whose turn does not come has none.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lagoon.sentences import sentence_spans
from shoal.errors import EncoderError
from shoal.models.scores import NearestSentence
from shoal.models.search import SearchMode, SearchResult
from shoal.search.query_vectors import embed_query
from shoal.search.request import make_request
from shoal.search.why import describe_nearest
from shoal.settings import Settings
from shoal.storage.database import Database, listed

if TYPE_CHECKING:
    from shoal.search.query_vectors import QueryVector, QueryVectors

SECONDS = 2.0
"""Most time for the sentences of a page."""
MAX_SENTENCES = 40
"""First sentences of a passage that are compared; passages rarely have more than twenty."""
SENTENCES_AT_ONCE = 64
NO_TIME = "the nearest sentences of some results are not shown: the encoder had no time for them"

TEXTS = "SELECT id, text FROM chunks WHERE id IN ({ids})"

Spans = list[tuple[int, int]]


def mark_nearest_sentences(
    vectors: QueryVectors, query: QueryVector, results: Sequence[SearchResult]
) -> tuple[list[SearchResult], bool]:
    """Return results that the dense signal found with their nearest sentence, and whether there was time for
    all of them."""
    texts = {result.chunk_id: result.text for result in results if "dense" in result.provenance}
    nearest, is_complete = nearest_sentences(vectors, query, texts)
    return [
        dataclasses.replace(result, nearest_sentence=nearest.get(result.chunk_id)) for result in results
    ], is_complete


def sentences_of_chunks(
    database: Database,
    settings: Settings,
    vectors: QueryVectors | None,
    query: str,
    chunk_ids: Sequence[int],
) -> dict[int, tuple[NearestSentence, str]]:
    """Return the nearest sentence of stored chunks, and its text, by id, for a query as a search takes it.

    Raises QueryError, also without `vectors`, and EncoderError.
    """
    request = make_request(query, settings=settings, mode=SearchMode.dense)
    embedded = embed_query(vectors, settings, request)
    if vectors is None or embedded.vector is None:
        return {}
    ids, parameters = listed("id", list(chunk_ids))
    with database.snapshot() as snapshot:
        texts = dict(snapshot.tuples(TEXTS.format(ids=ids), parameters))
    in_order = {chunk_id: texts[chunk_id] for chunk_id in chunk_ids if chunk_id in texts}
    nearest, _ = nearest_sentences(vectors, embedded.vector, in_order)
    return {chunk_id: (each, texts[chunk_id][each.start : each.end]) for chunk_id, each in nearest.items()}


def nearest_sentences(
    vectors: QueryVectors, query: QueryVector, texts: Mapping[int, str], *, seconds: float = SECONDS
) -> tuple[dict[int, NearestSentence], bool]:
    """Return the nearest sentence of each text by its key, in the order of the texts while there is time, and
    whether there was time for all of them."""
    deadline = time.monotonic() + seconds
    nearest: dict[int, NearestSentence] = {}
    spans = {key: _spans(text) for key, text in texts.items()}
    for keys in _batches(spans):
        sentences = [texts[key][start:end] for key in keys for start, end in spans[key]]
        try:
            similarities = vectors.sentences(sentences, deadline - time.monotonic()) @ query.vector
        except EncoderError:
            return nearest, False
        at = 0
        for key in keys:
            own = similarities[at : at + len(spans[key])]
            at += len(own)
            best = int(np.argmax(own))
            start, end = spans[key][best]
            similarity = round(min(max(float(own[best]), -1.0), 1.0), 6)
            description = describe_nearest(texts[key][start:end], similarity)
            nearest[key] = NearestSentence(start, end, similarity, description)
    return nearest, True


def _spans(text: str) -> Spans:
    starts, ends = sentence_spans(text)
    return list(zip(starts[:MAX_SENTENCES].tolist(), ends[:MAX_SENTENCES].tolist(), strict=True))


def _batches(spans: Mapping[int, Spans]) -> Iterator[list[int]]:
    """Yield keys with sentences, in order, with about SENTENCES_AT_ONCE sentences together."""
    keys: list[int] = []
    n_sentences = 0
    for key, own in spans.items():
        if own:
            keys.append(key)
            n_sentences += len(own)
        if n_sentences >= SENTENCES_AT_ONCE:
            yield keys
            keys, n_sentences = [], 0
    if keys:
        yield keys
