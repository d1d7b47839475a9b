"""A cache of what an encoder returned, so that a text that is read again costs nothing."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

from shoal.encoders.contract import EncoderIdentity, Floats

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
