"""Numbers that outlive processes and jobs, for metrics; the request that a job came with, for logs."""

from alembic import op

revision = "0004"
down_revision = "0003"

STATEMENTS = (
    # Sums that only grow: what worker processes have counted, and what jobs that were removed had counted.
    """CREATE TABLE tallies (
        name   TEXT NOT NULL,
        label  TEXT NOT NULL,
        value  REAL NOT NULL,
        PRIMARY KEY (name, label)
    ) WITHOUT ROWID""",
    # NULL: it came without a request.
    "ALTER TABLE jobs ADD COLUMN trace_id TEXT",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
