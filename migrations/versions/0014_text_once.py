"""The text of a document is kept once: in its chunks, which also hold the text before them.

Documents of 0013 are divided in short transactions (`prepare`): each chunk gets the text between the chunk
before it and itself, and the document gets what follows its last chunk. A division that was interrupted
continues. Triggers forget that a document was divided when an older process changes it meanwhile. The
migration itself divides the rest and drops the column with the whole texts. Later writes reuse its pages, and
the cleaning up of the service returns them to the file system.
"""

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from alembic import op

revision = "0014"
down_revision = "0013"

BATCH = 5_000
"""Chunks divided in one transaction, about: a second."""
BYTES_PER_TEXT_BYTE = 1.1
"""Largest growth of the files, by byte of text: the rows of chunks move a little, and where SQLite overwrites
what it deletes, the WAL holds the pages of the dropped column."""

log = logging.getLogger(__name__)

Row = tuple[Any, ...]

TRIGGERS = {
    "divided_updated": """CREATE TRIGGER divided_updated AFTER UPDATE OF content ON documents
        BEGIN DELETE FROM divided_documents WHERE document_id = old.id; END""",
    "divided_deleted": """CREATE TRIGGER divided_deleted AFTER DELETE ON documents
        BEGIN DELETE FROM divided_documents WHERE document_id = old.id; END""",
}

DIVISION = (
    # Between the end of the chunk before, or the beginning of the document, and this chunk.
    "ALTER TABLE chunks ADD COLUMN text_before TEXT NOT NULL DEFAULT ''",
    # Behind the last chunk.
    "ALTER TABLE documents ADD COLUMN text_after TEXT NOT NULL DEFAULT ''",
    "CREATE TABLE divided_documents (document_id INTEGER PRIMARY KEY)",
    *TRIGGERS.values(),
)
IS_DIVIDING = "SELECT 1 FROM sqlite_master WHERE name = 'divided_documents'"
TEXT_BYTES = "SELECT COALESCE(SUM(n_bytes), 0) FROM documents"
REMAINING = "SELECT COALESCE(SUM(n_chunks), 0) FROM documents WHERE id > ?"
NEXT = """
    SELECT id, typeof(content) = 'text', CAST(content AS BLOB) FROM documents d
    WHERE id > ? AND NOT EXISTS (SELECT 1 FROM divided_documents k WHERE k.document_id = d.id)
    ORDER BY id
"""
# Texts as bytes: a damaged text may not be valid UTF-8.
CHUNKS_OF = """
    SELECT id, start_char, end_char, CAST(text AS BLOB) FROM chunks WHERE document_id = ?
    ORDER BY chunk_index
"""
WRITE_BEFORE = "UPDATE chunks SET text_before = ? WHERE id = ?"
WRITE_AFTER = "UPDATE documents SET text_after = ? WHERE id = ?"
# A document whose chunks do not match its text keeps all of it; `shoal doctor --repair` chunks it again.
KEEP_WHOLE = (
    "UPDATE chunks SET text = '', text_before = '' WHERE document_id = ?",
    "UPDATE documents SET text_after = content WHERE id = ?",
)
NOTE = "INSERT INTO divided_documents (document_id) VALUES (?)"

# Later writers need neither; the column goes last.
COMPLETION = (
    *(f"DROP TRIGGER {name}" for name in TRIGGERS),
    "DROP TABLE divided_documents",
    "ALTER TABLE documents DROP COLUMN content",
    """CREATE VIEW document_texts AS
        SELECT d.id AS document_id,
               COALESCE((SELECT GROUP_CONCAT(c.part, '') FROM (
                   SELECT text_before || text AS part FROM chunks
                   WHERE document_id = d.id ORDER BY chunk_index
               ) c), '') || d.text_after AS content
        FROM documents d""",
)


def bytes_needed(connection: sqlite3.Connection) -> int:
    """Bytes by which the files may still grow during the migration."""
    (n_bytes,) = connection.execute(TEXT_BYTES).fetchone()
    (page_size,), (n_free,) = (
        connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_size", "freelist_count")
    )
    return max(0, int(n_bytes * BYTES_PER_TEXT_BYTE) - page_size * n_free)


def prepare(connection: sqlite3.Connection, after: int) -> tuple[int, int] | None:
    """Divide some documents in the open transaction.

    `after`: the last document that this process has divided, or 0. Returns the last document divided now, and
    the number of chunks after it; None when nothing is left.
    """
    if not connection.execute(IS_DIVIDING).fetchone():
        for statement in DIVISION:
            connection.execute(statement)
    cursor, documents = connection.cursor(), connection.cursor()
    cursor.row_factory = documents.row_factory = None
    last, n_chunks = 0, 0
    for document_id, is_text, encoded in documents.execute(NEXT, (after,)):
        chunks = cursor.execute(CHUNKS_OF, (document_id,)).fetchall()
        parts = list(_divided(encoded, chunks)) if is_text else []
        if parts:
            cursor.executemany(
                WRITE_BEFORE, [(before, chunk_id) for chunk_id, before in parts[:-1] if before]
            )
            cursor.execute(WRITE_AFTER, (parts[-1][1], document_id))
        else:
            log.warning("the passages of document %s do not match its text; see `shoal doctor`", document_id)
            for statement in KEEP_WHOLE:
                cursor.execute(statement, (document_id,))
        cursor.execute(NOTE, (document_id,))
        last = document_id
        n_chunks += len(chunks)
        if n_chunks >= BATCH:
            break
    documents.close()
    if not last:
        return None
    return last, cursor.execute(REMAINING, (last,)).fetchone()[0]


def _divided(encoded: bytes, chunks: Sequence[Row]) -> Iterator[tuple[int | None, str]]:
    """Yield the id of each chunk with the text before it, and None with the text after the last; nothing if
    the chunks are not slices of the text, in order."""
    try:
        content = encoded.decode()
    except UnicodeDecodeError:
        return
    parts, end_before = [], 0
    for chunk_id, start, end, text in chunks:
        is_slice = isinstance(start, int) and isinstance(end, int) and end_before <= start <= end
        if not is_slice or content[start:end].encode() != text or end > len(content):
            return
        parts.append((chunk_id, content[end_before:start]))
        end_before = end
    yield from parts
    yield None, content[end_before:]


def upgrade() -> None:
    connection: sqlite3.Connection = op.get_bind().connection.dbapi_connection
    after = 0
    while (divided := prepare(connection, after)) is not None:
        after = divided[0]
    for statement in COMPLETION:
        connection.execute(statement)
