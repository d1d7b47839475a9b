"""Items that replace the document with their source path."""

from alembic import op

revision = "0017"
down_revision = "0016"

OPEN = "('enqueued', 'converting', 'converted', 'discovering', 'discovered', 'scoring')"

STATEMENTS = (
    # 1: the item replaces the document with its source path, if there is one.
    "ALTER TABLE job_items ADD COLUMN by_path INTEGER NOT NULL DEFAULT 0",
    f"""CREATE INDEX idx_job_items_path ON job_items(source_path, job_id, seq)
        WHERE source_path IS NOT NULL AND status IN {OPEN}""",
    "CREATE INDEX idx_job_items_by_path ON job_items(source_path, status, job_id, seq) WHERE by_path = 1",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
