"""What a claim finds without reading all that waits: ready items, items that wait for another, and jobs with
work."""

from alembic import op

revision = "0031"
down_revision = "0030"

_OPEN = "status IN ('enqueued', 'converting', 'converted', 'discovering', 'discovered', 'scoring')"

STATEMENTS = (
    f"""CREATE INDEX idx_job_items_ready ON job_items(job_id, wave, status, seq)
        WHERE {_OPEN} AND lease_owner IS NULL AND waits_for IS NULL AND retry_at IS NULL""",
    "CREATE INDEX idx_job_items_waiting ON job_items(waits_for) WHERE waits_for IS NOT NULL",
    # Items that have ended need no other try.
    f"UPDATE job_items SET retry_at = NULL WHERE retry_at IS NOT NULL AND NOT ({_OPEN})",
    "CREATE INDEX idx_job_items_due ON job_items(retry_at) WHERE retry_at IS NOT NULL",
    """CREATE INDEX idx_jobs_in_turn ON jobs(parked, (kind = 'embed'), last_claim, id)
        WHERE status IN ('enqueued', 'processing') AND local_owner IS NULL""",
    "CREATE INDEX idx_waves_of_job ON waves(job_id, stage, n) WHERE stage <> 'done'",
    "CREATE INDEX idx_waves_leased ON waves(stage) WHERE stage <> 'done' AND lease_owner IS NOT NULL",
    """CREATE INDEX idx_waves_version ON waves(job_id, vocabulary_version)
        WHERE vocabulary_version IS NOT NULL""",
)
SQLITE = (
    # The open item that must end, or pass its stage, first.
    "ALTER TABLE job_items ADD COLUMN waits_for INTEGER",
    # 0: a claim looks at the job; 1: it holds no work until it changes; 2: nor but for its turn to learn.
    "ALTER TABLE jobs ADD COLUMN parked INTEGER NOT NULL DEFAULT 0",
    *STATEMENTS,
)
POSTGRESQL = (
    "ALTER TABLE job_items ADD COLUMN waits_for BIGINT",
    "ALTER TABLE jobs ADD COLUMN parked BIGINT NOT NULL DEFAULT 0",
    *STATEMENTS,
)


def upgrade() -> None:
    for statement in SQLITE:
        op.get_bind().exec_driver_sql(statement)
