"""How often the whole worker of a document was ended, which is not the document's fault at first."""

from alembic import op

revision = "0005"
down_revision = "0004"

STATEMENTS = (
    "ALTER TABLE job_items ADD COLUMN interruptions INTEGER NOT NULL DEFAULT 0",
    # What was counted in waves is in tenths now.
    "UPDATE waves SET attempts = attempts * 10",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
