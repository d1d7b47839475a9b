"""Counters that outlive processes and jobs, for metrics; the trace id of a job's request, for logs."""

from alembic import op

revision = "0004"
down_revision = "0003"

STATEMENTS = (
    # Monotonic counters: of worker processes, and of jobs that were deleted.
    """CREATE TABLE tallies (
        name   TEXT NOT NULL,
        label  TEXT NOT NULL,
        value  REAL NOT NULL,
        PRIMARY KEY (name, label)
    ) WITHOUT ROWID""",
    # NULL: the job was created without a request.
    "ALTER TABLE jobs ADD COLUMN trace_id TEXT",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
