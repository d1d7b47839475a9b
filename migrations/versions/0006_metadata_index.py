"""Index of metadata, so that a metadata filter does not scan the documents."""

from alembic import op

revision = "0006"
down_revision = "0005"

STATEMENTS = (
    # A partial index: most documents of most libraries have no metadata.
    "CREATE INDEX idx_documents_metadata ON documents(metadata) WHERE metadata <> '{}'",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
