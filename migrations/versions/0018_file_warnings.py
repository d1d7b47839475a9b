"""Files without warnings of their own."""

from alembic import op

revision = "0018"
down_revision = "0017"

STATEMENTS = (
    # Nothing ever wrote one: warnings belong to the converted document.
    "ALTER TABLE job_item_files DROP COLUMN warnings",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
