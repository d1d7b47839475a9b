"""Probabilities of labels and of learned associations. Existing rows have none until a rescore."""

from alembic import op

revision = "0009"
down_revision = "0008"

STATEMENTS = (
    # That a reader would say that the chunk is about the reef, 0..1.
    "ALTER TABLE chunk_reefs ADD COLUMN probability REAL NOT NULL DEFAULT 0",
    # Of the top reef, which is the most probable one.
    "ALTER TABLE chunks ADD COLUMN top_reef_probability REAL NOT NULL DEFAULT 0",
    # For the counts of chunks by reef, the chunks of a reef and the filters, which all have a threshold.
    "DROP INDEX idx_chunks_top_reef_id",
    "CREATE INDEX idx_chunks_top_reef ON chunks(top_reef_id, top_reef_probability)",
    # Expected agreement of the association with a dictionary, 0..1.
    "ALTER TABLE custom_word_reefs ADD COLUMN probability REAL NOT NULL DEFAULT 0",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
