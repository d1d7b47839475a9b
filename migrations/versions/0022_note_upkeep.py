"""What keeps notes in order: idempotency keys of notes, when work is due, and what is old."""

from alembic import op

revision = "0022"
down_revision = "0021"

STATEMENTS = (
    # A request that adds notes, by its idempotency key; its notes are stored in several transactions.
    """CREATE TABLE note_requests (
        idempotency_key TEXT PRIMARY KEY,
        request_hash    TEXT NOT NULL,           -- SHA-256 (hex)
        created_at      TEXT NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX idx_note_requests_created ON note_requests(created_at)",
    """CREATE TABLE note_request_outcomes (
        idempotency_key TEXT NOT NULL REFERENCES note_requests(idempotency_key) ON DELETE CASCADE,
        seq             INTEGER NOT NULL,        -- place of the note in the request, from 0
        outcome         TEXT NOT NULL,           -- JSON: its part of the answer
        PRIMARY KEY (idempotency_key, seq)
    ) WITHOUT ROWID""",
    # Work that is done every few hours by one of the workers.
    """CREATE TABLE schedules (
        name            TEXT PRIMARY KEY,        -- dedup
        ran_at          TEXT NOT NULL,           -- when it was last done
        owner_after     TEXT NOT NULL            -- owners up to this one had their turn; empty: all had
    ) WITHOUT ROWID""",
    "CREATE INDEX idx_agent_sessions_updated ON agent_sessions(updated_at)",
    "CREATE INDEX idx_shown_notes_shown ON shown_notes(shown_at)",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
