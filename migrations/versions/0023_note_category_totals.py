"""Numbers of active notes by category, which triggers maintain, so that a page of notes counts nothing.

A note with several categories below one counts once there: a trigger looks at the note's other categories.
"""

from alembic import op

revision = "0023"
down_revision = "0022"


def _above(categories: str) -> str:
    """The categories that `categories` selects, as (category, path): each with itself and those above it."""
    return f"""WITH RECURSIVE above(category, path, rest) AS (
            SELECT path, '', path || '/' FROM ({categories})
            UNION ALL
            SELECT category, path || substr(rest, 1, instr(rest, '/')), substr(rest, instr(rest, '/') + 1)
            FROM above WHERE rest <> '')
        SELECT category, substr(path, 1, length(path) - 1) AS path FROM above WHERE path <> ''"""


def _has_another(row: str, path: str) -> str:
    """Whether the note of a row of `note_categories` has another category at or below `path`."""
    return f"""EXISTS (SELECT 1 FROM note_categories c
            WHERE c.note_id = {row}.note_id AND c.path <> {row}.path
              AND (c.path = {path} OR (c.path > {path} || '/' AND c.path < {path} || '0')))"""


OWNER = "(SELECT owner FROM notes WHERE id = old.note_id AND deprecated_at IS NULL)"
OF_NOTE = "SELECT path FROM note_categories WHERE note_id = new.id"
ADDED = """ON CONFLICT (owner, path) DO UPDATE SET n_notes = n_notes + excluded.n_notes,
            n_with_subcategories = n_with_subcategories + excluded.n_with_subcategories"""

STATEMENTS = (
    """CREATE TABLE note_category_totals (
        owner                TEXT NOT NULL,
        path                 TEXT NOT NULL,        -- a category of an active note, or one above it
        n_notes              INTEGER NOT NULL,     -- active notes in it
        n_with_subcategories INTEGER NOT NULL,     -- active notes in it or below it, each counted once
        PRIMARY KEY (owner, path)
    ) WITHOUT ROWID""",
    """INSERT INTO note_category_totals (owner, path, n_notes, n_with_subcategories)
        WITH RECURSIVE above(note_id, category, path, rest) AS (
            SELECT note_id, path, '', path || '/' FROM note_categories
            UNION ALL
            SELECT note_id, category, path || substr(rest, 1, instr(rest, '/')),
                substr(rest, instr(rest, '/') + 1)
            FROM above WHERE rest <> '')
        SELECT n.owner, substr(a.path, 1, length(a.path) - 1), SUM(a.path = a.category || '/'),
            COUNT(DISTINCT a.note_id)
        FROM above a JOIN notes n ON n.id = a.note_id
        WHERE a.path <> '' AND n.deprecated_at IS NULL GROUP BY n.owner, a.path""",
    f"""CREATE TRIGGER total_inserted_category AFTER INSERT ON note_categories BEGIN
        INSERT INTO note_category_totals (owner, path, n_notes, n_with_subcategories)
        SELECT n.owner, a.path, a.path = new.path, NOT {_has_another("new", "a.path")}
        FROM notes n CROSS JOIN ({_above("SELECT new.path AS path")}) a
        WHERE n.id = new.note_id AND n.deprecated_at IS NULL
        {ADDED};
    END""",
    # While the note is there: the deletion of a note deletes its categories first.
    f"""CREATE TRIGGER total_deleted_category AFTER DELETE ON note_categories BEGIN
        UPDATE note_category_totals SET n_notes = n_notes - (path = old.path),
            n_with_subcategories = n_with_subcategories
                - NOT {_has_another("old", "note_category_totals.path")}
        WHERE owner = {OWNER}
          AND path IN (SELECT path FROM ({_above("SELECT old.path AS path")}));
        DELETE FROM note_category_totals
        WHERE owner = {OWNER} AND n_with_subcategories = 0
          AND path IN (SELECT path FROM ({_above("SELECT old.path AS path")}));
    END""",
    """CREATE TRIGGER uncategorize_deleted_note BEFORE DELETE ON notes BEGIN
        DELETE FROM note_categories WHERE note_id = old.id;
    END""",
    f"""CREATE TRIGGER total_restored_note AFTER UPDATE OF deprecated_at ON notes
        WHEN old.deprecated_at IS NOT NULL AND new.deprecated_at IS NULL
    BEGIN
        INSERT INTO note_category_totals (owner, path, n_notes, n_with_subcategories)
        SELECT new.owner, path, MAX(path = category), 1 FROM ({_above(OF_NOTE)}) WHERE 1 GROUP BY path
        {ADDED};
    END""",
    f"""CREATE TRIGGER total_deprecated_note AFTER UPDATE OF deprecated_at ON notes
        WHEN old.deprecated_at IS NULL AND new.deprecated_at IS NOT NULL
    BEGIN
        UPDATE note_category_totals SET n_notes = n_notes - (path IN ({OF_NOTE})),
            n_with_subcategories = n_with_subcategories - 1
        WHERE owner = new.owner AND path IN (SELECT path FROM ({_above(OF_NOTE)}));
        DELETE FROM note_category_totals
        WHERE owner = new.owner AND n_with_subcategories = 0
          AND path IN (SELECT path FROM ({_above(OF_NOTE)}));
    END""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
