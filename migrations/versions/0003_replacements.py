"""Replacement of a document's content under its id, and uploads of archives."""

from alembic import op

revision = "0003"
down_revision = "0002"

REPLACEMENTS = (
    # Open items that replace the content of a stored document: later items for the document wait for them.
    """CREATE INDEX idx_job_items_replacing ON job_items(document_id, job_id, seq)
        WHERE content_hash IS NOT NULL AND document_id IS NOT NULL
          AND status IN ('enqueued', 'discovering', 'discovered', 'scoring')""",
    # Number of entries of an archive that are not documents, such as folders.
    "ALTER TABLE jobs ADD COLUMN n_skipped INTEGER NOT NULL DEFAULT 0",
)


def upgrade() -> None:
    for statement in REPLACEMENTS:
        op.get_bind().exec_driver_sql(statement)
