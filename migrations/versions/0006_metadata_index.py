"""Metadata beside one another, so that a filter on them need not pass through the documents."""

from alembic import op

revision = "0006"
down_revision = "0005"

STATEMENTS = (
    # Most documents of most libraries have none, and take no place in it.
    "CREATE INDEX idx_documents_metadata ON documents(metadata) WHERE metadata <> '{}'",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
