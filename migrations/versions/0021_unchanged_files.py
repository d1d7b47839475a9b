"""Files of synchronized folders as they were when they were read, and how far an item is in its stage."""

from alembic import op

revision = "0021"
down_revision = "0020"

STATEMENTS = (
    # A cache: a file whose size and times are still these is not read again.
    """CREATE TABLE file_stamps (
        path        TEXT PRIMARY KEY,        -- absolute, in the form of a source path
        size        INTEGER NOT NULL,        -- bytes
        mtime_ns    INTEGER NOT NULL,        -- time of its last modification, nanoseconds since the epoch
        ctime_ns    INTEGER NOT NULL,        -- time of the last change of content, name or rights
        basis       TEXT NOT NULL,           -- what its hash depends on besides: version and settings
        file_hash   TEXT NOT NULL            -- SHA-256 (hex) of its text, or of a file to convert
    ) WITHOUT ROWID""",
    # Of the stage that works on it, 0 to 1; NULL: unknown. It ends with the lease.
    "ALTER TABLE job_items ADD COLUMN stage_share REAL",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
