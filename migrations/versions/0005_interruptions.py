"""Count of deaths of the whole worker of an item, separate from the attempts of the item."""

from alembic import op

revision = "0005"
down_revision = "0004"

STATEMENTS = (
    "ALTER TABLE job_items ADD COLUMN interruptions INTEGER NOT NULL DEFAULT 0",
    # The attempts of waves are counted in tenths from now on.
    "UPDATE waves SET attempts = attempts * 10",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
