"""Checks of the database file: readable, intact, and with the schema of this version.

On PostgreSQL, the server checks pages as it reads them (`initdb --data-checksums`) and keeps foreign keys.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from shoal.errors import DamagedDatabaseError, SchemaError, StorageError
from shoal.maintenance.doctor.findings import Check, CheckContext, Finding, examples
from shoal.storage import index_tables, migrate
from shoal.storage.revisions import Part
from shoal.storage.schema import missing_parts, tables_with_content

SAVE_FIRST = "First save what can be read with `shoal backup` and `shoal export`"
INDEX_DAMAGE = re.compile(
    r"(missing from index|wrong # of entries in index|non-unique entry in index|values differ from index)"
    r" (\S+)"
)
"""Messages of SQLite about an index that differs from its table. An index can be rebuilt."""

INTEGRITY = "PRAGMA integrity_check(100)"
FOREIGN_KEYS = "PRAGMA foreign_key_check"

DELETE_ORPHANS = {
    "document_tags": "DELETE FROM document_tags WHERE document_id NOT IN (SELECT id FROM documents)",
    "sections": "DELETE FROM sections WHERE document_id NOT IN (SELECT id FROM documents)",
    "word_reefs": """
        DELETE FROM word_reefs WHERE custom_word_id NOT IN (SELECT id FROM custom_words)""",
    "waves": "DELETE FROM waves WHERE job_id NOT IN (SELECT id FROM jobs)",
    "job_item_cuts": "DELETE FROM job_item_cuts WHERE item_id NOT IN (SELECT id FROM job_items)",
    "observed_words": """
        DELETE FROM observed_words WHERE observed_id NOT IN (SELECT id FROM observed_documents)""",
}
"""Deletes rows whose parent row is missing, by table. These rows are unreachable and hold derived data.
Chunks, which hold texts, and job items are not listed: a repair never removes accepted documents."""

CHECKED_ELSEWHERE = {("chunks", "sections"), ("job_items", "jobs")}
"""References that other checks cover: a chunk without its section and an item without its job still have
their text."""


class Orphans(NamedTuple):
    """Rows of `table` that refer to missing rows of `parent`."""

    table: str
    parent: str
    n: int


def _readability(context: CheckContext) -> Sequence[Finding]:
    name, is_sqlite = context.database.name, context.database.is_sqlite
    try:
        revision = migrate.current_revision(context.database)
    except (StorageError, sqlite3.Error) as error:
        return [
            Finding(
                "file",
                f"{name} cannot be read: {error}",
                "it is not an SQLite database, or its first pages are damaged"
                if is_sqlite
                else "the server is away, refuses the user, or found damage",
                "`shoal restore` a backup (the damaged file is kept); without a backup, the `.recover` "
                "command of the sqlite3 program may save some of it"
                if is_sqlite
                else "see the log of the server; docs/postgresql.md says how to restore a backup",
            )
        ]
    if revision is None:
        return [
            Finding(
                "file",
                f"{name} is not a Shoal database",
                "it is empty, or belongs to another program",
                "check `--db` and SHOAL_DATABASE_URL; `shoal migrate` creates the tables in an empty "
                "database",
            )
        ]
    return []


def _page_integrity(context: CheckContext) -> Sequence[Finding]:
    lines = _integrity_messages(context)
    if not lines:
        return []
    index_lines = [line for line in lines if INDEX_DAMAGE.search(line)]
    findings = []
    if index_lines:
        names = sorted({match[2] for line in index_lines if (match := INDEX_DAMAGE.search(line))})
        findings.append(
            Finding(
                "integrity",
                f"indexes do not match their tables: {', '.join(names)}",
                "queries may miss rows or return them twice; the rows themselves are intact",
                "`shoal doctor --repair` rebuilds the indexes; look for the cause: a failing disk, or a copy "
                "of the file that was made during writes",
                n=len(index_lines),
                examples=examples(index_lines),
                can_repair=True,
            )
        )
    if rest := [line for line in lines if line not in index_lines]:
        findings.append(
            Finding(
                "integrity",
                "the file is damaged",
                "a failing disk, a copy made during writes, or another program has changed it",
                f"{SAVE_FIRST}, then `shoal restore` a backup",
                n=len(rest),
                examples=examples(rest),
            )
        )
    return findings


def _integrity_messages(context: CheckContext) -> list[str]:
    try:
        with context.database.snapshot() as snapshot:
            lines = [line for (text,) in snapshot.rows(INTEGRITY) for line in str(text).splitlines()]
    except (DamagedDatabaseError, SchemaError):
        return ["the check was not completed: SQLite cannot read a page that it needs"]
    return [] if lines == ["ok"] else [line for line in lines if not line.startswith("***")]


def _rebuild_indexes(context: CheckContext) -> None:
    with context.database.write() as transaction:
        transaction.execute("REINDEX")


def _schema(context: CheckContext) -> Sequence[Finding]:
    revision = migrate.current_revision(context.database)
    assert revision is not None, "the check of the file has passed"
    if revision == migrate.COPYING:
        return [
            Finding(
                "schema",
                "the database holds an unfinished copy of another library",
                "`shoal copy` was interrupted; no service uses the database",
                "run the same `shoal copy` again; it continues",
            )
        ]
    if revision > migrate.HEAD:
        return [
            Finding(
                "schema",
                f"the database has schema {revision}; this version supports schemas up to {migrate.HEAD}",
                "a newer version of Shoal wrote it",
                "install the newer version; this one does not open the database",
            )
        ]
    if revision < migrate.STAMPED:
        return [
            Finding(
                "schema",
                f"the database has schema {revision}; this version migrates {migrate.STAMPED} and later ones",
                "a much older version of Shoal wrote it",
                f"make a backup; then run `shoal migrate` of Shoal at the commit {migrate.LAST_TO_UPGRADE}, "
                "and that of this version",
            )
        ]
    if revision < migrate.HEAD:
        return [
            Finding(
                "schema",
                f"the database has schema {revision}; this version needs {migrate.HEAD}",
                "an older version of Shoal wrote it",
                "make a backup; then `shoal migrate` or --repair updates the schema",
                can_repair=True,
            )
        ]
    parts = _missing_parts(context)
    if not parts:
        return []
    missing, is_table = [name for _, name, _ in parts], bool(tables_with_content(parts))
    return [
        Finding(
            "schema",
            f"parts of the schema are missing: {', '.join(missing)}",
            "they were removed, or only a part of the database was restored"
            + ("" if is_table else "; without them, queries are slow or totals become wrong"),
            f"{SAVE_FIRST}, then `shoal restore` a backup" if is_table else "--repair creates them again",
            n=len(missing),
            can_repair=not is_table,
        )
    ]


def _missing_parts(context: CheckContext) -> list[Part]:
    with context.database.snapshot() as snapshot:
        return missing_parts(snapshot)


def _repair_schema(context: CheckContext) -> None:
    try:
        migrate.upgrade(context.database)
    except SchemaError:
        return
    missing = _missing_parts(context)
    if tables_with_content(missing):
        return
    with context.database.write() as transaction:
        # Each kind needs those before it.
        for kind in ("function", "table", "view", "index", "trigger"):
            for _, _, sql in (part for part in missing if part[0] == kind):
                transaction.connection.execute(sql)
        if any(name in index_tables.TABLES for _, name, _ in missing):
            index_tables.start_again(transaction)


def _find_orphans(context: CheckContext) -> Sequence[Finding]:
    return [
        Finding(
            "orphans",
            f"{orphans.n:,} rows of {orphans.table} refer to missing rows of {orphans.parent}",
            "another program or damage has removed rows without their dependent rows",
            "--repair removes the unreachable rows; incomplete documents are rebuilt from their text"
            if orphans.table in DELETE_ORPHANS
            else f"{SAVE_FIRST}, then `shoal restore` a backup",
            n=orphans.n,
            can_repair=orphans.table in DELETE_ORPHANS,
        )
        for orphans in _orphans(context)
    ]


def _orphans(context: CheckContext) -> list[Orphans]:
    counts: dict[tuple[str, str], int] = {}
    with context.database.snapshot() as snapshot:
        for table, _, parent, _ in snapshot.tuples(FOREIGN_KEYS):
            counts[table, parent] = counts.get((table, parent), 0) + 1
    return [Orphans(*key, n) for key, n in sorted(counts.items()) if key not in CHECKED_ELSEWHERE]


def _delete_orphans(context: CheckContext) -> None:
    for table in {orphans.table for orphans in _orphans(context)} & DELETE_ORPHANS.keys():
        with context.database.write() as transaction:
            transaction.execute(DELETE_ORPHANS[table])


CHECKS = (
    Check("file", "whether the file can be read", _readability, is_vital=True),
    Check("schema", "the schema", _schema, _repair_schema, is_vital=True),
    Check(
        "integrity",
        "SQLite's check of every page",
        _page_integrity,
        _rebuild_indexes,
        reads_all=True,
        is_for_sqlite=True,
    ),
    Check(
        "orphans",
        "rows without their parent row",
        _find_orphans,
        _delete_orphans,
        reads_all=True,
        is_for_sqlite=True,
    ),
)
