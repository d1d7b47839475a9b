"""The baseline of the schema on PostgreSQL: revision 0028, as plain SQL in `schema/`.

Later revisions are those of `migrations`, for both stores. Statements name no schema: the search path of the
connection says where they act.
"""

from __future__ import annotations

from pathlib import Path

REVISION = "0028"
FOLDER = Path(__file__).parent / "schema"
TABLES = ("documents", "vocabulary", "jobs", "notes", "searches")
INDEXES = ("indexes",)
VIEWS = ("views",)
TRIGGERS = ("triggers", "note_triggers")
ROWS = ("rows",)
FUNCTIONS = ("functions",)
PARTS = (*FUNCTIONS, *TABLES, *INDEXES, *VIEWS, *TRIGGERS, *ROWS)
"""The files in the order in which they can be executed."""


def script(*parts: str) -> str:
    """Return the statements of some parts, by default of all; a connection executes them in one call."""
    return "\n".join((FOLDER / f"{part}.sql").read_text(encoding="utf-8") for part in parts or PARTS)
