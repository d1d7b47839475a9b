"""Saved searches: what is new since their last evaluation, and the webhooks that report matches."""

from alembic import op

revision = "0026"
down_revision = "0025"

STATEMENTS = (
    """CREATE TABLE saved_searches (
        id               INTEGER PRIMARY KEY AUTOINCREMENT,
        name             TEXT NOT NULL UNIQUE,
        arguments        TEXT NOT NULL,          -- JSON: arguments of a search, `query` among them
        min_score        REAL NOT NULL,
        url              TEXT NOT NULL,          -- of the webhook
        secret           TEXT NOT NULL,          -- signs its requests
        is_active        INTEGER NOT NULL,
        evaluated        INTEGER NOT NULL,       -- number of the last evaluation
        error            TEXT,                   -- why the last evaluation was not possible
        revision         INTEGER NOT NULL DEFAULT 0,
        lease_owner      TEXT,
        lease_expires_at REAL NOT NULL DEFAULT 0,
        created_at       TEXT NOT NULL,
        updated_at       TEXT NOT NULL
    )""",
    "CREATE INDEX idx_saved_searches_due ON saved_searches(evaluated) WHERE is_active = 1",
    # The number of the latest evaluation.
    "CREATE TABLE saved_search_state (id INTEGER PRIMARY KEY CHECK (id = 1), evaluation INTEGER NOT NULL)",
    "INSERT INTO saved_search_state (id, evaluation) VALUES (1, 0)",
    # Chunks of a document, by id from first to last, that are new. Open until their job has ended.
    """CREATE TABLE saved_search_changes (
        id             INTEGER PRIMARY KEY AUTOINCREMENT,
        document_id    INTEGER NOT NULL,
        first_chunk_id INTEGER NOT NULL,
        last_chunk_id  INTEGER,                -- NULL while open
        job_id         INTEGER,                -- the last job that changed the document
        evaluation     INTEGER                 -- NULL while open
    )""",
    """CREATE UNIQUE INDEX idx_saved_search_changes_open ON saved_search_changes(document_id)
        WHERE evaluation IS NULL""",
    "CREATE INDEX idx_saved_search_changes_evaluation ON saved_search_changes(evaluation)",
    """CREATE TABLE webhook_deliveries (
        id               INTEGER PRIMARY KEY AUTOINCREMENT,
        delivery_id      TEXT NOT NULL UNIQUE,   -- the same for every try
        saved_search_id  INTEGER NOT NULL REFERENCES saved_searches(id) ON DELETE CASCADE,
        event            TEXT NOT NULL,          -- 'match' or 'test'
        n_passages       INTEGER NOT NULL,
        body             TEXT NOT NULL,          -- JSON, as it is sent
        status           TEXT NOT NULL,          -- 'waiting', 'delivered', 'failed'
        attempts         INTEGER NOT NULL DEFAULT 0,
        due_at           REAL NOT NULL,          -- of the next try, seconds since the epoch
        lease_owner      TEXT,
        lease_expires_at REAL NOT NULL DEFAULT 0,
        response_status  INTEGER,                -- of the last try
        error            TEXT,                   -- of the last try
        created_at       TEXT NOT NULL,
        updated_at       TEXT NOT NULL
    )""",
    "CREATE INDEX idx_webhook_deliveries_due ON webhook_deliveries(due_at) WHERE status = 'waiting'",
    "CREATE INDEX idx_webhook_deliveries_search ON webhook_deliveries(saved_search_id, status, id)",
    "CREATE INDEX idx_webhook_deliveries_updated ON webhook_deliveries(updated_at) WHERE status <> 'waiting'",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
