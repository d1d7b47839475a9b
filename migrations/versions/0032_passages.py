"""What a document is cut with, and the passages that its caller has cut."""

from alembic import op

revision = "0032"
down_revision = "0031"

SQLITE = (
    # any, a range of tokens such as 300-800, or given
    "ALTER TABLE documents ADD COLUMN chunk_tokens TEXT NOT NULL DEFAULT 'any'",
    # JSON: [start_char, end_char, [heading, ...], unit, first, last] of each; NULL unless they are given
    "ALTER TABLE documents ADD COLUMN passages TEXT",
    # SHA-256 (hex) of the content's UTF-8 alone; NULL if content_hash is that
    "ALTER TABLE documents ADD COLUMN text_hash TEXT",
    "ALTER TABLE job_items ADD COLUMN chunk_tokens TEXT NOT NULL DEFAULT 'any'",
    "ALTER TABLE job_item_contents ADD COLUMN passages TEXT",
    "CREATE INDEX idx_documents_text_hash ON documents(text_hash) WHERE text_hash IS NOT NULL",
)
POSTGRESQL = tuple(statement.replace(" TEXT", ' TEXT COLLATE "C"') for statement in SQLITE)


def upgrade() -> None:
    for statement in SQLITE:
        op.get_bind().exec_driver_sql(statement)
