"""What an encoder must offer, the one that the settings name, and a cache of what it returned.

Any object with these members can be used.
"""

from __future__ import annotations

import enum
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.errors import EncoderError
from shoal.settings import Settings

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


def prefixes(settings: Settings, prompts: Mapping[TextKind, str] | None = None) -> dict[TextKind, str]:
    """Return the text before each kind of text: that of the settings, else the model's own."""
    given = {
        TextKind.query: settings.encoder_query_prefix,
        TextKind.document: settings.encoder_document_prefix,
    }
    return {kind: text or (prompts or {}).get(kind, "") for kind, text in given.items()}


def prepare(texts: Sequence[str], prefix: str, max_chars: int) -> list[str]:
    """Return texts with the prefix, cut to `max_chars`, that can be encoded as UTF-8."""
    return [(prefix + text[:max_chars])[:max_chars].encode("utf-8", "replace").decode() for text in texts]


CACHE_BYTES = 64 * 1024 * 1024
"""About 35,000 vectors of 384 numbers."""
ENTRY_BYTES = 300
"""Memory of an entry besides its numbers: key, array and links."""


class VectorCache:
    """Vectors by the identity of their encoder and the hash of what was read; least recently used ones go
    first. Safe to share between threads."""

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._n_bytes = 0
        self._vectors: OrderedDict[bytes, Floats] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._vectors)

    @property
    def n_bytes(self) -> int:
        """Memory of all entries, at most `max_bytes`."""
        return self._n_bytes

    def get(self, key: bytes) -> Floats | None:
        """Return the vector of a key, or None."""
        with self._lock:
            vector = self._vectors.get(key)
            if vector is not None:
                self._vectors.move_to_end(key)
            return vector

    def put(self, key: bytes, vector: Floats) -> None:
        """Keep a copy of a vector, unless it alone is too large."""
        vector = vector.copy()
        size = vector.nbytes + ENTRY_BYTES
        if size > self._max_bytes:
            return
        with self._lock:
            replaced = self._vectors.pop(key, None)
            if replaced is not None:
                self._n_bytes -= replaced.nbytes + ENTRY_BYTES
            self._vectors[key] = vector
            self._n_bytes += size
            while self._n_bytes > self._max_bytes:
                _, oldest = self._vectors.popitem(last=False)
                self._n_bytes -= oldest.nbytes + ENTRY_BYTES


def cache_key(identity: EncoderIdentity, *parts: str) -> bytes:
    """Return the key of texts that one encoder reads: what kind of texts they are, then the texts."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (identity.name, identity.revision, str(identity.dimension), *parts):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()


DISABLED = "disabled"
PACKAGED = "minilm"
LOCAL = "local:"


def open_encoder(settings: Settings) -> Encoder | None:
    """Return the encoder of `SHOAL_ENCODER`, or None if it is disabled. Loads no model yet."""
    if settings.encoder in ("", DISABLED):
        return None
    if settings.encoder == PACKAGED or settings.encoder.startswith(LOCAL):
        from shoal.encoders.local_model import LocalEncoder

        return LocalEncoder(None if settings.encoder == PACKAGED else _folder(settings.encoder), settings)
    from shoal.encoders.http_endpoint import HttpEncoder

    return HttpEncoder(settings)


def open_pair_scorer(settings: Settings) -> PairScorer | None:
    """Return the cross-encoder of `SHOAL_RERANKER`, or None if it names none. Loads no model yet."""
    if not settings.reranker.startswith(LOCAL):
        return None
    from shoal.encoders.local_model import LocalPairScorer

    return LocalPairScorer(_folder(settings.reranker), settings)


def _folder(value: str) -> Path:
    return Path(value.removeprefix(LOCAL)).absolute()
