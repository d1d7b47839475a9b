"""Takes the vectors of an export over, so that its passages need not be embedded again.

They are kept by the hashes of their texts until the documents are stored. Vectors of another encoder than
that of the library, or of the settings, are left out.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from shoal.errors import EncoderError
from shoal.index.vectors import MAX_DIMENSION, has_unit_length
from shoal.library.library import Library
from shoal.search.indexing import update_index
from shoal.storage import vectors

VECTORS_TOGETHER = 1_000
MAX_NAME_CHARS = 1_000


class VectorImport:
    """The vectors of one export."""

    def __init__(self, library: Library, head: Mapping[str, Any]) -> None:
        """`head`: the first record of the export. Raises StorageError."""
        self._library = library
        self._title = ""
        self._waiting: list[tuple[bytes, bytes]] = []
        self._identity = _identity(head.get("encoder"))
        vectors.delete_imported(library.database)
        if self._identity is not None and not self._is_accepted(self._identity):
            self._identity = None

    def _is_accepted(self, identity: tuple[str, str, int]) -> bool:
        database = self._library.database
        with database.snapshot() as snapshot:
            has_own = vectors.is_any(snapshot)
        if not has_own and self._library.encoder is not None:
            try:
                if tuple(self._library.encoder.identity) != identity:
                    return False
            except EncoderError:
                # Whether it is the same cannot be known now.
                return False
        return vectors.begin(database, identity).identity == identity

    def begin_document(self, record: Mapping[str, Any]) -> None:
        """Note the document that the next chunks belong to; records of other types have no chunks."""
        title = record.get("title")
        self._title = title if isinstance(title, str) else ""

    def add(self, record: Mapping[str, Any]) -> None:
        """Keep the vector of a chunk, if it has one. Raises ValueError for one that is damaged."""
        encoded, text = record.get("vector"), record.get("text")
        if self._identity is None or encoded is None:
            return
        if not isinstance(encoded, str) or not isinstance(text, str):
            raise ValueError("vector: must be base64, and the chunk must have its text")
        try:
            blob = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            raise ValueError("vector: is not base64") from None
        if not has_unit_length([blob], self._identity[2])[0]:
            raise ValueError("vector: has not the size or the length of those of its encoder")
        self._waiting.append((vectors.text_hash(vectors.embedded_text(self._title, text)), blob))
        if len(self._waiting) >= VECTORS_TOGETHER:
            self._store()

    def finish(self, document_ids: Iterable[int]) -> int:
        """Give the chunks of stored documents their vectors; return how many got one."""
        if self._identity is None:
            return 0
        self._store()
        n = vectors.adopt(self._library.database, document_ids)
        vectors.delete_imported(self._library.database)
        update_index(self._library.database)
        return n

    def _store(self) -> None:
        if not self._waiting:
            return
        with self._library.database.write() as transaction:
            vectors.add_imported(transaction, self._waiting)
        self._waiting = []


def _identity(value: object) -> tuple[str, str, int] | None:
    """The encoder that an export names; None if it names none."""
    if not isinstance(value, dict):
        return None
    name, revision, dimension = (value.get(part) for part in ("name", "revision", "dimension"))
    is_valid = (
        isinstance(name, str)
        and isinstance(revision, str)
        and type(dimension) is int
        and max(len(name), len(revision)) <= MAX_NAME_CHARS
        and 1 <= dimension <= MAX_DIMENSION
    )
    return (name, revision, dimension) if is_valid else None  # type: ignore[return-value]
