"""Totals that writes maintain, and indexes that listings read instead of the rows of documents and chunks.

Triggers maintain the totals, so no writer can forget them; `shoal doctor` compares them with the rows.
"""

from alembic import op

revision = "0012"
down_revision = "0011"

LIBRARY = (
    # One row.
    """CREATE TABLE library_totals (
        id            INTEGER PRIMARY KEY CHECK (id = 1),
        n_documents   INTEGER NOT NULL,
        n_chunks      INTEGER NOT NULL,
        content_bytes INTEGER NOT NULL           -- UTF-8
    )""",
    """INSERT INTO library_totals (id, n_documents, n_chunks, content_bytes)
        SELECT 1, COUNT(*), COALESCE(SUM(n_chunks), 0), COALESCE(SUM(n_bytes), 0) FROM documents""",
    """CREATE TRIGGER total_inserted_document AFTER INSERT ON documents BEGIN
        UPDATE library_totals SET n_documents = n_documents + 1, n_chunks = n_chunks + new.n_chunks,
            content_bytes = content_bytes + new.n_bytes;
    END""",
    """CREATE TRIGGER total_updated_document AFTER UPDATE OF n_chunks, n_bytes ON documents BEGIN
        UPDATE library_totals SET n_chunks = n_chunks - old.n_chunks + new.n_chunks,
            content_bytes = content_bytes - old.n_bytes + new.n_bytes;
    END""",
    """CREATE TRIGGER total_deleted_document AFTER DELETE ON documents BEGIN
        UPDATE library_totals SET n_documents = n_documents - 1, n_chunks = n_chunks - old.n_chunks,
            content_bytes = content_bytes - old.n_bytes;
    END""",
)

TAGS = (
    """CREATE TABLE tag_totals (
        tag           TEXT PRIMARY KEY,
        n_documents   INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "INSERT INTO tag_totals (tag, n_documents) SELECT tag, COUNT(*) FROM document_tags GROUP BY tag",
    "CREATE INDEX idx_tag_totals_frequent ON tag_totals(n_documents DESC, tag)",
    """CREATE TRIGGER total_inserted_tag AFTER INSERT ON document_tags BEGIN
        INSERT INTO tag_totals (tag, n_documents) VALUES (new.tag, 1)
            ON CONFLICT (tag) DO UPDATE SET n_documents = n_documents + 1;
    END""",
    """CREATE TRIGGER total_deleted_tag AFTER DELETE ON document_tags BEGIN
        UPDATE tag_totals SET n_documents = n_documents - 1 WHERE tag = old.tag;
        DELETE FROM tag_totals WHERE tag = old.tag AND n_documents = 0;
    END""",
)

REEFS = (
    # Chunks by their first label. Its probability is in whole per cent, because every setting of the
    # threshold for labels is.
    """CREATE TABLE reef_totals (
        reef_id       INTEGER NOT NULL,
        percent       INTEGER NOT NULL,          -- probability of the label, rounded down
        n_chunks      INTEGER NOT NULL,
        PRIMARY KEY (reef_id, percent)
    ) WITHOUT ROWID""",
    # Without the small term, 0.29 would be 28 %.
    """INSERT INTO reef_totals (reef_id, percent, n_chunks)
        SELECT top_reef_id, CAST(100 * top_reef_probability + 1e-9 AS INTEGER) AS percent, COUNT(*)
        FROM chunks WHERE top_reef_id IS NOT NULL GROUP BY top_reef_id, percent""",
    """CREATE TRIGGER total_inserted_chunk AFTER INSERT ON chunks WHEN new.top_reef_id IS NOT NULL BEGIN
        INSERT INTO reef_totals (reef_id, percent, n_chunks)
            VALUES (new.top_reef_id, CAST(100 * new.top_reef_probability + 1e-9 AS INTEGER), 1)
            ON CONFLICT (reef_id, percent) DO UPDATE SET n_chunks = n_chunks + 1;
    END""",
    """CREATE TRIGGER total_updated_chunk AFTER UPDATE OF top_reef_id, top_reef_probability ON chunks
    WHEN new.top_reef_id IS NOT old.top_reef_id OR new.top_reef_probability <> old.top_reef_probability BEGIN
        UPDATE reef_totals SET n_chunks = n_chunks - 1
            WHERE reef_id = old.top_reef_id
              AND percent = CAST(100 * old.top_reef_probability + 1e-9 AS INTEGER);
        DELETE FROM reef_totals
            WHERE reef_id = old.top_reef_id
              AND percent = CAST(100 * old.top_reef_probability + 1e-9 AS INTEGER) AND n_chunks = 0;
        INSERT INTO reef_totals (reef_id, percent, n_chunks)
            SELECT new.top_reef_id, CAST(100 * new.top_reef_probability + 1e-9 AS INTEGER), 1
            WHERE new.top_reef_id IS NOT NULL
            ON CONFLICT (reef_id, percent) DO UPDATE SET n_chunks = n_chunks + 1;
    END""",
    """CREATE TRIGGER total_deleted_chunk AFTER DELETE ON chunks WHEN old.top_reef_id IS NOT NULL BEGIN
        UPDATE reef_totals SET n_chunks = n_chunks - 1
            WHERE reef_id = old.top_reef_id
              AND percent = CAST(100 * old.top_reef_probability + 1e-9 AS INTEGER);
        DELETE FROM reef_totals
            WHERE reef_id = old.top_reef_id
              AND percent = CAST(100 * old.top_reef_probability + 1e-9 AS INTEGER) AND n_chunks = 0;
    END""",
)

LISTINGS = (
    # A page of documents and a search in titles and paths read this index, not the rows with the texts.
    "CREATE INDEX idx_documents_names ON documents(id, title, source_path)",
    # A page of the documents with a tag, by document.
    "DROP INDEX idx_document_tags_tag",
    "CREATE INDEX idx_document_tags_tag ON document_tags(tag, document_id)",
    # The main reefs of listed documents.
    "CREATE INDEX idx_chunks_document_reefs ON chunks(document_id, top_reef_id, top_reef_probability)",
    # A page of learned words, most frequent first.
    """CREATE INDEX idx_custom_words_frequent ON custom_words(n_occurrences DESC, word, from_version)
        WHERE retired = 0""",
    # With the bytes, which metrics sum over the open items.
    "DROP INDEX idx_job_items_open",
    """CREATE INDEX idx_job_items_open ON job_items(status, job_id, wave, seq, n_bytes)
        WHERE status IN ('enqueued', 'discovering', 'discovered', 'scoring')""",
)


def upgrade() -> None:
    for statement in (*LIBRARY, *TAGS, *REEFS, *LISTINGS):
        op.get_bind().exec_driver_sql(statement)
