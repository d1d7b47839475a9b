"""What an encoder must offer. Any object with these members can be used."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Annotated, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.errors import EncoderError

Floats = NDArray[np.float32]

MAX_NORM_ERROR = 0.01
"""Largest distance of the norm of a vector from 1."""


class TextKind(enum.StrEnum):
    """What a text is: some models want another prefix before each kind."""

    query = "query"
    document = "document"


class EncoderIdentity(NamedTuple):
    """The model that made a vector. Vectors of different identities cannot be compared."""

    name: Annotated[str, "name of the model"]
    revision: Annotated[str, "changes with the weights, their precision, the prefixes and the tokens read"]
    dimension: Annotated[int, "numbers of a vector"]


class Encoder(Protocol):
    """Turns texts into vectors whose dot product is their similarity. Safe to use from several threads."""

    @property
    def identity(self) -> EncoderIdentity:
        """The model; may load it, or ask the endpoint once. Raises EncoderError."""
        ...

    @property
    def max_tokens(self) -> int:
        """Tokens of a text that are read; the rest is ignored."""
        ...

    def embed(self, texts: Sequence[str], kind: TextKind) -> Floats:
        """Return f32 (len(texts), dimension), rows of unit length, in the order of the texts.

        Raises EncoderUnavailableError if trying again later may help, else EncoderError.
        """
        ...


class PairScorer(Protocol):
    """A cross-encoder: reads a query and a passage together. Safe to use from several threads."""

    @property
    def identity(self) -> EncoderIdentity:
        """The model; its dimension is 1."""
        ...

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        """Return f32 (len(texts),): how well each text answers the query, 0 to 1. Raises EncoderError."""
        ...


def unit_vectors(vectors: NDArray[np.floating], n_texts: int, dimension: int) -> Floats:
    """Return vectors scaled to unit length, after checks of shape and values.

    Raises EncoderError if there are not `n_texts` rows of `dimension` finite numbers, or if a row is 0.
    """
    if vectors.shape != (n_texts, dimension):
        raise EncoderError(
            f"the encoder returned vectors of shape {vectors.shape}; expected {(n_texts, dimension)}"
        )
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    if not np.isfinite(norms).all() or (norms == 0).any():
        raise EncoderError("the encoder returned a vector that is zero or not finite")
    return np.asarray(vectors / norms, dtype=np.float32)
