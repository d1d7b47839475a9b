"""Codes of the errors of job items. Items that failed before have none."""

from alembic import op

revision = "0008"
down_revision = "0007"

STATEMENTS = ("ALTER TABLE job_items ADD COLUMN error_code TEXT",)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
