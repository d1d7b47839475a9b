"""Files of other formats: those that wait for conversion, those that documents were made from, and the place
of each passage in its file."""

from alembic import op

revision = "0016"
down_revision = "0015"

OPEN = "('enqueued', 'converting', 'converted', 'discovering', 'discovered', 'scoring')"

STATEMENTS = (
    """CREATE TABLE job_item_files (
        item_id     INTEGER PRIMARY KEY REFERENCES job_items(id) ON DELETE CASCADE,
        kind        TEXT NOT NULL,           -- such as 'pdf'
        name        TEXT NOT NULL,           -- of the file, without folders; may be empty
        title       TEXT,                    -- as submitted; NULL: from the file
        warnings    TEXT NOT NULL,           -- JSON array: warnings about the submission
        source      TEXT,                    -- JSON: the file and its locators; NULL: not converted yet
        data        BLOB                     -- NULL: converted elsewhere; last: others skip it
    )""",
    """CREATE TABLE document_files (
        document_id INTEGER PRIMARY KEY REFERENCES documents(id) ON DELETE CASCADE,
        kind        TEXT NOT NULL,           -- such as 'pdf'
        name        TEXT NOT NULL,           -- of the file, without folders; may be empty
        file_hash   TEXT NOT NULL,           -- SHA-256 (hex) of the file
        n_bytes     INTEGER NOT NULL,        -- of the file
        converter   INTEGER NOT NULL,        -- version of the converters
        locators    TEXT NOT NULL,           -- JSON array: start_char, end_char, kind, name, first, last
        data        BLOB                     -- the file, if it is kept
    )""",
    "CREATE INDEX idx_document_files_hash ON document_files(file_hash)",
    # JSON: kind, name, first, last of the place in the file; NULL for a document that was sent as text.
    "ALTER TABLE chunks ADD COLUMN locator TEXT",
    # The indexes of open items name their statuses, which are more now.
    "DROP INDEX idx_job_items_same",
    f"""CREATE INDEX idx_job_items_same ON job_items(content_hash, job_id, seq)
        WHERE status IN {OPEN}""",
    "DROP INDEX idx_job_items_replacing",
    f"""CREATE INDEX idx_job_items_replacing ON job_items(document_id, job_id, seq)
        WHERE content_hash IS NOT NULL AND document_id IS NOT NULL AND status IN {OPEN}""",
    "DROP INDEX idx_job_items_open",
    f"""CREATE INDEX idx_job_items_open ON job_items(status, job_id, wave, seq, n_bytes)
        WHERE status IN {OPEN}""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
