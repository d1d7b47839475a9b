"""Rename tables, columns and stages to the names in the code."""

from alembic import op

revision = "0007"
down_revision = "0006"

STATEMENTS = (
    "ALTER TABLE tallies RENAME TO counters",
    "ALTER TABLE waves RENAME COLUMN nudged_at TO notified_at",
    "UPDATE jobs SET plan = replace(plan, '\"survey\"', '\"rediscover\"')",
    "UPDATE waves SET stage = 'rediscover' WHERE stage = 'survey'",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
