"""The discover stage stores what it read, so that the score stage need not read the text again."""

from alembic import op

revision = "0011"
down_revision = "0010"

STATEMENTS = (
    # The score stage finds the boundaries of an open item again if they are missing.
    "DROP TABLE job_item_cuts",
    # What the discover stage found in the text of an item. Deleted with the text.
    """CREATE TABLE job_item_cuts (
        item_id  INTEGER PRIMARY KEY REFERENCES job_items(id) ON DELETE CASCADE,
        cuts     TEXT NOT NULL,                  -- JSON array: offsets of the chunks
        document BLOB                            -- `shoal/chunking/packed_documents.py`; NULL: the text is
                                                 -- read again
    )""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
