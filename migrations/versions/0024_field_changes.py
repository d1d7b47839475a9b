"""Which documents changed in what filters compare, so that arrays in memory follow without reading all."""

from alembic import op

revision = "0024"
down_revision = "0023"

STATEMENTS = (
    """CREATE TABLE field_state (
        id        INTEGER PRIMARY KEY CHECK (id = 1),
        revision  INTEGER NOT NULL           -- increases with every document stored, changed or deleted
    )""",
    """CREATE TABLE changed_fields (
        document_id  INTEGER PRIMARY KEY,
        revision     INTEGER NOT NULL        -- of the last change
    )""",
    "CREATE INDEX idx_changed_fields_revision ON changed_fields(revision)",
    """CREATE TRIGGER fields_inserted_document AFTER INSERT ON documents BEGIN
        INSERT INTO field_state (id, revision) VALUES (1, 1)
            ON CONFLICT (id) DO UPDATE SET revision = revision + 1;
    END""",
    # Tags have no trigger of their own: a change of them sets updated_at.
    """CREATE TRIGGER fields_updated_document
    AFTER UPDATE OF title, source_path, format, created_at, updated_at, metadata ON documents BEGIN
        INSERT INTO field_state (id, revision) VALUES (1, 1)
            ON CONFLICT (id) DO UPDATE SET revision = revision + 1;
        INSERT INTO changed_fields (document_id, revision) SELECT new.id, revision FROM field_state
            WHERE true
            ON CONFLICT (document_id) DO UPDATE SET revision = excluded.revision;
    END""",
    """CREATE TRIGGER fields_deleted_document AFTER DELETE ON documents BEGIN
        INSERT INTO field_state (id, revision) VALUES (1, 1)
            ON CONFLICT (id) DO UPDATE SET revision = revision + 1;
        DELETE FROM changed_fields WHERE document_id = old.id;
    END""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
