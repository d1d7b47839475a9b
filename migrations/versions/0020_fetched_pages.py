"""Pages fetched from the web, and items that wait for another try."""

from alembic import op

revision = "0020"
down_revision = "0019"

STATEMENTS = (
    # What the server said of the page that the file of an item was fetched from.
    """CREATE TABLE job_item_responses (
        item_id       INTEGER PRIMARY KEY REFERENCES job_items(id) ON DELETE CASCADE,
        etag          TEXT,                    -- as the server sent it
        last_modified TEXT                     -- as the server sent it
    )""",
    # Seconds since 1970; NULL: the item can be claimed at any time.
    "ALTER TABLE job_items ADD COLUMN retry_at REAL",
    """CREATE TABLE fetched_pages (
        url           TEXT PRIMARY KEY,
        document_id   INTEGER NOT NULL REFERENCES documents(id) ON DELETE CASCADE,
        content_hash  TEXT NOT NULL,           -- of the document; other content came from elsewhere
        converter     INTEGER NOT NULL,        -- version of the converters
        etag          TEXT,                    -- as the server sent it
        last_modified TEXT,                    -- as the server sent it
        checked_at    TEXT NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX idx_fetched_pages_document ON fetched_pages(document_id)",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
