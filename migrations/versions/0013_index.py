"""The search index: its segments, and the documents that changed after they were indexed.

The full-text table and the list of rescored documents go: segments replace them. All documents count as
changed, so the first start with this version indexes them.
"""

from alembic import op

revision = "0013"
down_revision = "0012"

STATEMENTS = (
    """CREATE TABLE index_segments (
        id           INTEGER PRIMARY KEY AUTOINCREMENT,
        revision     INTEGER NOT NULL,       -- it holds its documents as they were at this revision
        n_documents  INTEGER NOT NULL,
        n_chunks     INTEGER NOT NULL,
        n_bytes      INTEGER NOT NULL,
        file_name    TEXT NOT NULL           -- in the folder of the index, never used again
    )""",
    """CREATE TABLE changed_documents (
        document_id  INTEGER PRIMARY KEY,    -- also of deleted documents
        revision     INTEGER NOT NULL,       -- of the change; older segments hold an outdated state
        is_indexed   INTEGER NOT NULL        -- 1: a segment holds the new state, or the document was deleted
    )""",
    "CREATE INDEX idx_changed_documents_open ON changed_documents(document_id) WHERE is_indexed = 0",
    """CREATE TABLE index_state (
        id        INTEGER PRIMARY KEY CHECK (id = 1),
        revision  INTEGER NOT NULL           -- increases with every change of a document or segment
    )""",
    "INSERT INTO index_state (id, revision) VALUES (1, 1)",
    "INSERT INTO changed_documents (document_id, revision, is_indexed) SELECT id, 1, 0 FROM documents",
    "DROP TABLE chunk_fts",
    "DROP VIEW chunk_texts",
    "DROP TABLE rescored_documents",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
