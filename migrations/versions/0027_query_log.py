"""The query log: searches, their first results, and clicks on them."""

from alembic import op

revision = "0027"
down_revision = "0026"

STATEMENTS = (
    """CREATE TABLE logged_queries (
        id             INTEGER PRIMARY KEY AUTOINCREMENT,
        trace_id       TEXT NOT NULL UNIQUE,
        query          TEXT NOT NULL,
        normalized     TEXT NOT NULL,          -- lower case, single spaces
        arguments      TEXT NOT NULL,          -- JSON: arguments that differ from the defaults
        n_results      INTEGER NOT NULL,       -- on the page
        best_relevance REAL,
        took_ms        REAL NOT NULL,
        results        TEXT NOT NULL,          -- JSON: [chunk, document] of the first results
        created_at     TEXT NOT NULL
    )""",
    "CREATE INDEX idx_logged_queries_normalized ON logged_queries(normalized, created_at)",
    "CREATE INDEX idx_logged_queries_created ON logged_queries(created_at)",
    "CREATE INDEX idx_logged_queries_empty ON logged_queries(id) WHERE n_results = 0",
    """CREATE TABLE query_clicks (
        id          INTEGER PRIMARY KEY AUTOINCREMENT,
        query_id    INTEGER NOT NULL REFERENCES logged_queries(id) ON DELETE CASCADE,
        document_id INTEGER NOT NULL,
        chunk_id    INTEGER,                   -- NULL: the document as a whole
        rank        INTEGER,                   -- from 1; NULL beyond the logged results
        created_at  TEXT NOT NULL
    )""",
    "CREATE UNIQUE INDEX idx_query_clicks ON query_clicks(query_id, document_id, COALESCE(chunk_id, 0))",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
