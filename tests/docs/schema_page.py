"""The schema page, generated from the migrations: `python tests/docs/schema_page.py` rewrites it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from shoal.storage import migrate
from shoal.storage.opening import open_database

PAGE = Path(__file__).resolve().parents[2] / "docs" / "schema.md"

INTRODUCTION = """\
# The database

A library is one SQLite file (with `-wal` and `-shm` files beside it while it is in use). You may read it
with any tool at any time. Write to it only through Shoal, because tables depend on each other. This is the
schema at revision {revision}, as SQLite reports it.

The tables for users are `documents`, `document_tags`, `sections`, `chunks`, `chunk_reefs`, `chunk_islands`,
`custom_words` and `custom_word_reefs`. The others serve retrieval, jobs and learning. Triggers maintain the
totals in `library_totals`, `tag_totals` and `reef_totals`. The topics of a document's passages, in SQL, with
the default of `SHOAL_LABEL_THRESHOLD`:

```sql
SELECT c.start_line, c.end_line, r.reef_name, r.probability
FROM chunks c JOIN chunk_reefs r ON r.chunk_id = c.id
WHERE c.document_id = 1 AND r.probability >= 0.6
ORDER BY c.chunk_index, r.probability DESC;
```

A passage without such a reef has no clear subject: its `top_reef_probability` is lower. `chunk_reefs` and
`chunk_islands` are views that unpack `chunks.profile`. They are quick for a passage, a document, and for the
passages of a few reefs: `reef_ids` has the first byte of each record, and `chunk_reefs` looks a reef up there. A
retrieval query of three reefs takes 0.3 seconds over 33,000 passages (`python -m benchmarks.reef_query`), and the
column 3 % of the file. All reefs of a whole library take about four seconds for each million; `top_reef_id` and
`top_reef_probability` have an index. `rank` orders the reefs of a passage by z-score, as rankings
use them; `top_reef_id` and `top_reef_name` are the most probable reef, however improbable.

`chunks` holds the text of a document, each chunk its own and `text_before`, what stands between the chunk before
(or the beginning) and itself: headings and blank lines. `text_after` of the document follows its last chunk. The
view `document_texts` joins them to the whole text, so that `content[start_char:end_char]` is the text of a chunk:

```sql
SELECT t.content FROM document_texts t JOIN documents d ON d.id = t.document_id
WHERE d.source_path = 'notes/volcanoes.md';
```

`chunks.metadata` holds the headings above a passage, as `{"headings": [...]}`. `custom_word_reefs` is a view of the
newest version of the learned words. `word_observations` is a view of what the discover stage found and learning still
needs: one row for each word of a document, because occurrences are summed up when they are stored, so `sentence_idx` is
NULL. In `context_reefs`, `z_score` is the mean over the occurrences, weighted by confidence, and `weight` their
number. The tables behind the two views are `word_reefs` and `observed_words`.

`note_requests.idempotency_key` is the key, a line break, and the SHA-256 (hex) of the owner, so that owners do not meet
each other's keys. `job_items.interruptions` counts a lost worker as 1, and as 10 if it died while it processed this
document alone. `webhook_deliveries.created_at` is the time of the last request to send it again, if there was one.

"""
TABLES = """
    SELECT name, sql FROM sqlite_master
    WHERE type IN ('table', 'view') AND sql IS NOT NULL AND name NOT LIKE 'sqlite!_%' ESCAPE '!'
      AND name <> 'schema_revision'
    ORDER BY rowid
"""
INDEXES = """
    SELECT sql FROM sqlite_master
    WHERE type = 'index' AND tbl_name = :table AND sql IS NOT NULL
    ORDER BY rowid
"""


def page() -> str:
    """Build the whole page as Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        database = open_database(f"sqlite:///{folder}/shoal.db")
        migrate.upgrade(database)
        with database.snapshot() as snapshot:
            parts = [
                _table(name, sql, [row[0] for row in snapshot.rows(INDEXES, {"table": name})])
                for name, sql in snapshot.tuples(TABLES)
            ]
        database.close()
    return INTRODUCTION.replace("{revision}", migrate.HEAD) + "\n".join(parts)


def _table(name: str, sql: str, indexes: list[str]) -> str:
    statements = [f"{statement};" for statement in (sql, *indexes)]
    return f"## {name}\n\n```sql\n" + "\n".join(statements) + "\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
