"""The texts of documents, and what does not match them.

The chunks of a document hold its text, each its own and what stands before it. Its SHA-256 was stored with
it.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from shoal.storage.database import Snapshot

# Texts of SQLite as bytes: a damaged text may not be valid UTF-8, or no text. PostgreSQL checks that itself.
DOCUMENTS = """
    SELECT id, COALESCE(text_hash, content_hash), n_bytes, n_chunks, {is_text}, {text} FROM documents
    ORDER BY id
"""
# `section` is NULL if the section is missing or belongs to another document.
CHUNKS_OF = """
    SELECT c.chunk_index, c.start_char, c.end_char, s.id AS section, {is_text} AS is_text,
           {text_before} AS text_before, {text} AS text
    FROM chunks c LEFT JOIN sections s ON s.id = c.section_id AND s.document_id = c.document_id
    WHERE c.document_id = :document_id ORDER BY c.chunk_index
"""
ON_SQLITE = (
    DOCUMENTS.format(is_text="typeof(text_after) = 'text'", text="CAST(text_after AS BLOB)"),
    CHUNKS_OF.format(
        is_text="typeof(c.text) = 'text' AND typeof(c.text_before) = 'text'",
        text_before="CAST(c.text_before AS BLOB)",
        text="CAST(c.text AS BLOB)",
    ),
)
ON_POSTGRESQL = (
    DOCUMENTS.format(is_text="1", text="text_after"),
    CHUNKS_OF.format(is_text="1", text_before="c.text_before", text="c.text"),
)
SECTIONS_OUTSIDE = """
    SELECT 1 FROM sections
    WHERE document_id = :document_id
        AND (start_char > end_char OR end_char > :n_chars OR heading_end > :n_chars)
    LIMIT 1
"""


class Damaged(NamedTuple):
    """A document that is inconsistent with its text.

    `is_lost`: the text itself has changed since it was stored.
    """

    document_id: int
    reason: str
    is_lost: bool = False


def damaged_texts(snapshot: Snapshot) -> Iterator[Damaged]:
    """Yield the documents whose text has changed since it was stored, or whose passages or sections do not
    match it."""
    documents, chunks_of = ON_SQLITE if snapshot.is_sqlite else ON_POSTGRESQL
    for document_id, text_hash, n_bytes, n_chunks, is_text, text_after in snapshot.tuples(documents):
        chunks = snapshot.rows(chunks_of, {"document_id": document_id})
        texts = [text for chunk in chunks for text in (chunk["text_before"], chunk["text"])]
        parts = [text.encode() if isinstance(text, str) else text for text in (*texts, text_after)]
        lengths = _lengths(parts) if is_text and all(chunk["is_text"] for chunk in chunks) else None
        is_lost = lengths is None or _sha256(parts) != text_hash
        stored_bytes = sum(map(len, parts))
        if len(chunks) != n_chunks or not chunks:
            counts = f"{n_chunks} passages are recorded, there are {len(chunks)}"
            yield Damaged(document_id, counts, is_lost)
        elif lengths is None or is_lost:
            yield Damaged(document_id, "the SHA-256 of the text differs", is_lost=True)
        elif stored_bytes != n_bytes:
            yield Damaged(document_id, f"{n_bytes} bytes are recorded, the text has {stored_bytes}")
        elif fault := next(filter(None, _faults(chunks, lengths)), None):
            yield Damaged(document_id, fault)
        elif snapshot.value(SECTIONS_OUTSIDE, {"document_id": document_id, "n_chars": sum(lengths)}):
            yield Damaged(document_id, "a section lies outside of the text")


def describe_damaged_text(snapshot: Snapshot) -> str | None:
    """Return the first document whose text or offsets are damaged, and how; None if none is."""
    first = next(damaged_texts(snapshot), None)
    return None if first is None else f"document {first.document_id}: {first.reason}"


def _lengths(parts: Sequence[bytes]) -> list[int] | None:
    """The characters of each part of a text; None if one is not UTF-8."""
    try:
        return [len(part.decode()) for part in parts]
    except UnicodeDecodeError:
        return None


def _sha256(parts: Sequence[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _faults(chunks: Sequence[Any], lengths: Sequence[int]) -> Iterator[str | None]:
    """What is wrong with each chunk. `lengths`: the characters before each and of each, in turns."""
    offsets = list(itertools.accumulate(lengths))
    return (_fault(i, chunk, *offsets[2 * i : 2 * i + 2]) for i, chunk in enumerate(chunks))


def _fault(i: int, chunk: Any, start: int, end: int) -> str | None:
    if chunk["chunk_index"] != i:
        return f"passage #{i} is missing"
    if chunk["section"] is None:
        return f"passage #{i} has no section"
    if (chunk["start_char"], chunk["end_char"]) != (start, end):
        return f"passage #{i} differs from the text at its offsets"
    return None
