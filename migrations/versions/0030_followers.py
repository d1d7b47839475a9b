"""What machines that keep an index of their own need to follow the library: the times of changes, an epoch,
and the revisions of vectors.

On PostgreSQL, listeners are woken when the library or the work that waits has changed.
"""

from alembic import op

revision = "0030"
down_revision = "0029"

SQLITE = (
    # Seconds since the epoch, by the store's clock.
    "ALTER TABLE changed_documents ADD COLUMN changed_at REAL NOT NULL DEFAULT 0",
    # Random; another one whenever everything has to be indexed again.
    "ALTER TABLE index_state ADD COLUMN epoch TEXT NOT NULL DEFAULT ''",
    # Deletions up to this revision are no longer noted.
    "ALTER TABLE index_state ADD COLUMN pruned_revision INTEGER NOT NULL DEFAULT 0",
    # Files of vectors that were written before this revision hold none that count.
    "ALTER TABLE index_state ADD COLUMN vectors_reset INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE unindexed_vectors ADD COLUMN revision INTEGER NOT NULL DEFAULT 0",
    "UPDATE index_state SET epoch = lower(hex(randomblob(16)))",
)
POSTGRESQL = (
    "ALTER TABLE changed_documents ADD COLUMN changed_at DOUBLE PRECISION NOT NULL DEFAULT 0",
    "ALTER TABLE index_state ADD COLUMN epoch TEXT COLLATE \"C\" NOT NULL DEFAULT ''",
    "ALTER TABLE index_state ADD COLUMN pruned_revision BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE index_state ADD COLUMN vectors_reset BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE unindexed_vectors ADD COLUMN revision BIGINT NOT NULL DEFAULT 0",
    "UPDATE index_state SET epoch = replace(gen_random_uuid()::text, '-', '')",
    # Followers read by revision.
    "CREATE INDEX idx_changed_documents_revision ON changed_documents(revision)",
    "CREATE INDEX idx_unindexed_vectors_revision ON unindexed_vectors(revision)",
    """CREATE FUNCTION notify_listeners() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_notify('shoal_' || TG_TABLE_SCHEMA, TG_ARGV[0]);
        RETURN NULL;
    END $$""",
    """CREATE TRIGGER notify_changes AFTER UPDATE OF revision ON index_state
        FOR EACH STATEMENT EXECUTE FUNCTION notify_listeners('index')""",
    """CREATE TRIGGER notify_waves AFTER INSERT OR UPDATE OF stage, lease_owner ON waves
        FOR EACH STATEMENT EXECUTE FUNCTION notify_listeners('work')""",
)


def upgrade() -> None:
    for statement in SQLITE:
        op.get_bind().exec_driver_sql(statement)
