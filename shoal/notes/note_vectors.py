"""Gives the features of notes their vectors, where an encoder is configured and answers in time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from shoal.errors import EncoderError
from shoal.notes.similarity import Embedded, TextFeatures

if TYPE_CHECKING:
    from shoal.search.query_vectors import QueryVectors

ADDING_SECONDS = 0.3
"""Most time that adding notes waits for the encoder; without an answer they are compared without vectors."""
COMPARING_SECONDS = 20.0
"""The same for the comparison of notes in the background."""

GetVectors = Callable[[], "QueryVectors | None"]
"""Returns what embeds texts; None without an encoder."""


def with_vectors(
    features: Sequence[TextFeatures],
    texts: Sequence[str],
    get_vectors: GetVectors,
    seconds: float | None = None,
) -> list[TextFeatures]:
    """Return the features of texts with their vectors; without any if there is no encoder, or it fails or
    takes longer than `seconds`, by default those of a query."""
    embedder = get_vectors()
    if embedder is None or not features:
        return list(features)
    try:
        vectors, unrelated = embedder.documents(texts, seconds)
    except EncoderError:
        return list(features)
    return [
        dataclasses.replace(each, embedded=Embedded(vectors[text].astype(np.float64), unrelated))
        if text in vectors
        else each
        for each, text in zip(features, texts, strict=True)
    ]
