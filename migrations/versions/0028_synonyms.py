"""Synonyms of a library, and the acronyms found in its texts."""

from alembic import op

revision = "0028"
down_revision = "0027"

STATEMENTS = (
    """CREATE TABLE synonyms (
        id          INTEGER PRIMARY KEY,
        root        TEXT,                    -- NULL: each of the words also finds the others
        words       TEXT NOT NULL,           -- JSON list, as typed; without the root
        created_at  TEXT NOT NULL,
        updated_at  TEXT NOT NULL
    )""",
    # The stems of each word or phrase, joined by spaces, as the index has them.
    """CREATE TABLE synonym_words (
        key         TEXT NOT NULL,
        synonym_id  INTEGER NOT NULL REFERENCES synonyms(id) ON DELETE CASCADE,
        is_source   INTEGER NOT NULL,        -- whether it finds the others
        PRIMARY KEY (key, synonym_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX idx_synonym_words_synonym ON synonym_words(synonym_id)",
    """CREATE TABLE acronyms (
        id           INTEGER PRIMARY KEY,
        acronym      TEXT NOT NULL,
        expansion    TEXT NOT NULL,          -- as in the first text
        key          TEXT NOT NULL UNIQUE,   -- the acronym and the stems of the expansion
        status       TEXT NOT NULL CHECK (status IN ('proposed', 'confirmed', 'rejected')),
        synonym_id   INTEGER REFERENCES synonyms(id) ON DELETE SET NULL,
        n_documents  INTEGER NOT NULL DEFAULT 0,
        created_at   TEXT NOT NULL,
        decided_at   TEXT
    )""",
    "CREATE INDEX idx_acronyms_documents ON acronyms(status, n_documents DESC, acronym)",
    "CREATE INDEX idx_acronyms_synonym ON acronyms(synonym_id) WHERE synonym_id IS NOT NULL",
    """CREATE TABLE acronym_documents (
        acronym_id   INTEGER NOT NULL REFERENCES acronyms(id) ON DELETE CASCADE,
        document_id  INTEGER NOT NULL REFERENCES documents(id) ON DELETE CASCADE,
        start_char   INTEGER NOT NULL,       -- of the first place in the content
        end_char     INTEGER NOT NULL,
        PRIMARY KEY (acronym_id, document_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX idx_acronym_documents_document ON acronym_documents(document_id)",
    """CREATE TRIGGER acronym_found AFTER INSERT ON acronym_documents BEGIN
        UPDATE acronyms SET n_documents = n_documents + 1 WHERE id = new.acronym_id;
    END""",
    """CREATE TRIGGER acronym_lost AFTER DELETE ON acronym_documents BEGIN
        UPDATE acronyms SET n_documents = n_documents - 1 WHERE id = old.acronym_id;
    END""",
    # The documents that were scanned for acronyms, and their content then.
    """CREATE TABLE acronym_scans (
        document_id   INTEGER PRIMARY KEY REFERENCES documents(id) ON DELETE CASCADE,
        content_hash  TEXT NOT NULL
    )""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.get_bind().exec_driver_sql(statement)
