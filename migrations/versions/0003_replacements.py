"""Documents that get new content under their id, and uploads of archives."""

from alembic import op

revision = "0003"
down_revision = "0002"

REPLACEMENTS = (
    # Items that are to give a stored document new content: others wait for them.
    """CREATE INDEX idx_job_items_replacing ON job_items(document_id, job_id, seq)
        WHERE content_hash IS NOT NULL AND document_id IS NOT NULL
          AND status IN ('enqueued', 'discovering', 'discovered', 'scoring')""",
    # Entries of an archive that hold no document, such as folders.
    "ALTER TABLE jobs ADD COLUMN n_skipped INTEGER NOT NULL DEFAULT 0",
)


def upgrade() -> None:
    for statement in REPLACEMENTS:
        op.get_bind().exec_driver_sql(statement)
