"""Statements that bring a library of this version back to an earlier schema."""

from __future__ import annotations

import re

from shoal.storage import migrate, revisions


def statements_to_stamped(store: revisions.Store) -> list[str]:
    """The statements that make an empty library that of the revision `migrate.STAMPED`."""
    initial = set(revisions.statements(store)) - set(revisions.statements(store, after=migrate.INITIAL))
    later = [(kind, name) for kind, name, sql in revisions.parts(store) if sql not in initial]
    added = re.findall(
        r"^ALTER TABLE (\w+) ADD COLUMN (\w+)",
        "\n".join(revisions.statements(store, after=migrate.INITIAL)),
        re.MULTILINE,
    )
    return [
        *(f"DROP INDEX {name}" for kind, name in later if kind == "index"),
        *(f"ALTER TABLE {table} DROP COLUMN {column}" for table, column in added),
        *(f"DROP TABLE {name}" for kind, name in reversed(later) if kind == "table"),
        "DROP TABLE schema_revision",
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)",
        f"INSERT INTO alembic_version VALUES ('{migrate.STAMPED}')",
    ]
