"""Which chunks are stale: the unknown words of every document, and the chunks that contain a changed word.

The words of stored documents are not known. Until they are scored again, all chunks of a document count as
stale if any was scored with other words than the newest.
"""

import sqlite3

from alembic import op

revision = "0015"
down_revision = "0014"

STATEMENTS = (
    """CREATE TABLE document_words (
        id             INTEGER PRIMARY KEY AUTOINCREMENT,  -- increases with every change
        document_id    INTEGER NOT NULL UNIQUE,
        data_checksum  TEXT NOT NULL,          -- of the build of lagoon's data that does not know the words
        unknown_words  BLOB                    -- u32: chunks, keys of each, keys; NULL: not known
    )""",
    """CREATE TABLE stale_documents (
        document_id    INTEGER PRIMARY KEY,
        n_chunks       INTEGER NOT NULL,       -- stale ones
        chunks         BLOB NOT NULL           -- a bit for each chunk, in order: 1 if it is stale
    )""",
    """CREATE TABLE stale_totals (
        id             INTEGER PRIMARY KEY CHECK (id = 1),
        n_chunks       INTEGER NOT NULL
    )""",
    "INSERT INTO stale_totals (id, n_chunks) VALUES (1, 0)",
    """CREATE TRIGGER total_inserted_stale AFTER INSERT ON stale_documents BEGIN
        UPDATE stale_totals SET n_chunks = n_chunks + new.n_chunks;
    END""",
    """CREATE TRIGGER total_updated_stale AFTER UPDATE ON stale_documents BEGIN
        UPDATE stale_totals SET n_chunks = n_chunks - old.n_chunks + new.n_chunks;
    END""",
    """CREATE TRIGGER total_deleted_stale AFTER DELETE ON stale_documents BEGIN
        UPDATE stale_totals SET n_chunks = n_chunks - old.n_chunks;
    END""",
    """CREATE TRIGGER words_deleted_document AFTER DELETE ON documents BEGIN
        DELETE FROM stale_documents WHERE document_id = old.id;
        DELETE FROM document_words WHERE document_id = old.id;
    END""",
    # The state of the library after the last rescore: while nothing differs, the next one has nothing to do.
    """CREATE TABLE rescore_state (
        id             INTEGER PRIMARY KEY CHECK (id = 1),
        n_changes      INTEGER NOT NULL,       -- of titles, formats and contents of documents, so far
        changes        INTEGER,                -- n_changes at the beginning of the last rescore
        revision       INTEGER,                -- of the evidence that all words were decided by
        source         TEXT                    -- data and settings that they were decided with
    )""",
    "INSERT INTO rescore_state (id, n_changes) VALUES (1, 0)",
    """CREATE TRIGGER change_inserted_document AFTER INSERT ON documents BEGIN
        UPDATE rescore_state SET n_changes = n_changes + 1;
    END""",
    """CREATE TRIGGER change_updated_document AFTER UPDATE OF title, format, content_hash ON documents
    WHEN new.title <> old.title OR new.format <> old.format OR new.content_hash <> old.content_hash BEGIN
        UPDATE rescore_state SET n_changes = n_changes + 1;
    END""",
    """CREATE TRIGGER change_deleted_document AFTER DELETE ON documents BEGIN
        UPDATE rescore_state SET n_changes = n_changes + 1;
    END""",
    # Of a rescore: n_changes when it was submitted.
    "ALTER TABLE jobs ADD COLUMN n_changes INTEGER",
    """INSERT INTO document_words (document_id, data_checksum, unknown_words)
        SELECT document_id, MAX(data_checksum), NULL FROM chunks GROUP BY document_id""",
)
OUTDATED = """
    SELECT document_id, COUNT(*), MIN(vocabulary_version) FROM chunks GROUP BY document_id
    HAVING MIN(vocabulary_version) < (SELECT MAX(version) FROM vocabulary_versions)
"""
MARK = "INSERT INTO stale_documents (document_id, n_chunks, chunks) VALUES (?, ?, ?)"


def upgrade() -> None:
    bind = op.get_bind()
    for statement in STATEMENTS:
        bind.exec_driver_sql(statement)
    connection: sqlite3.Connection = bind.connection.dbapi_connection
    outdated = connection.execute(OUTDATED).fetchall()
    connection.executemany(MARK, [(document_id, n, _all_bits(n)) for document_id, n, _ in outdated])


def _all_bits(n: int) -> bytes:
    n_bytes = (n + 7) // 8
    return (((1 << n) - 1) << (8 * n_bytes - n)).to_bytes(n_bytes, "big")
