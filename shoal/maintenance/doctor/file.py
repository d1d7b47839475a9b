"""The file as SQLite sees it: can it be read, is it whole, is it of this version."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from shoal.errors import DamagedDatabaseError, SchemaError, StorageError
from shoal.maintenance.doctor.findings import Check, CheckContext, Finding, examples
from shoal.storage import migrate
from shoal.storage.schema import Part, missing_parts, with_content

LOSES_NOTHING = "`shoal backup` and `shoal export` save what can be read before anything else is tried"
OF_AN_INDEX = re.compile(
    r"(missing from index|wrong # of entries in index|non-unique entry in index|values differ from index) (\S+)"
)
"""What SQLite says of an index that does not have what its table has: a part that can be made anew."""

INTEGRITY = "PRAGMA integrity_check(100)"
FOREIGN_KEYS = "PRAGMA foreign_key_check"

OWNED = {
    "document_tags": "DELETE FROM document_tags WHERE document_id NOT IN (SELECT id FROM documents)",
    "sections": "DELETE FROM sections WHERE document_id NOT IN (SELECT id FROM documents)",
    "chunks": "DELETE FROM chunks WHERE document_id NOT IN (SELECT id FROM documents)",
    "chunk_reefs": "DELETE FROM chunk_reefs WHERE chunk_id NOT IN (SELECT id FROM chunks)",
    "chunk_islands": "DELETE FROM chunk_islands WHERE chunk_id NOT IN (SELECT id FROM chunks)",
    "custom_word_reefs": "DELETE FROM custom_word_reefs WHERE custom_word_id NOT IN (SELECT id FROM custom_words)",
    "waves": "DELETE FROM waves WHERE job_id NOT IN (SELECT id FROM jobs)",
    "job_item_cuts": "DELETE FROM job_item_cuts WHERE item_id NOT IN (SELECT id FROM job_items)",
    "word_observations": """
        DELETE FROM word_observations WHERE observed_id NOT IN (SELECT id FROM observed_documents)""",
}
"""Rows without what they belong to: nobody can reach them, and they hold nothing that could be had from elsewhere.
Texts and items of jobs are not among them: what was accepted is never removed here."""


ELSEWHERE = {("chunks", "sections"), ("job_items", "jobs")}
"""What other checks look at: a chunk without its section still has its text, an item without its job, too."""


class Loose(NamedTuple):
    """Rows of a table that refer to rows of another which are not there."""

    table: str
    parent: str
    n: int


def _can_be_read(context: CheckContext) -> Sequence[Finding]:
    path = context.settings.database_path
    try:
        revision = migrate.current_revision(context.database)
    except (StorageError, sqlite3.Error) as error:
        return [
            Finding(
                "file",
                f"{path.name} cannot be read: {error}",
                "it is not an SQLite database, or its first pages are damaged",
                "`shoal restore` a backup (the damaged file is kept); without one, the `.recover` command of the "
                "sqlite3 program may save some of it",
            )
        ]
    if revision is None:
        return [
            Finding(
                "file",
                f"{path.name} is not a Shoal database",
                "it is empty, or belongs to another program",
                "check `--db` and SHOAL_DATABASE_URL; `shoal migrate` prepares an empty one",
            )
        ]
    return []


def _is_whole(context: CheckContext) -> Sequence[Finding]:
    lines = _integrity(context)
    if not lines:
        return []
    of_index = [line for line in lines if OF_AN_INDEX.search(line)]
    found = []
    if of_index:
        names = sorted({match[2] for line in of_index if (match := OF_AN_INDEX.search(line))})
        found.append(
            Finding(
                "integrity",
                f"an index does not have what its table has: {', '.join(names)}",
                "rows may not be found, or be found twice; the rows themselves are whole",
                "`shoal doctor --repair` makes the indexes anew; look for the cause: a failing disk, or a copy of the "
                "file made while it was written",
                n=len(of_index),
                examples=examples(of_index),
                can_repair=True,
            )
        )
    if rest := [line for line in lines if line not in of_index]:
        found.append(
            Finding(
                "integrity",
                "the file is damaged",
                "a disk that fails, a copy made while the file was written, or another program has changed it",
                f"`shoal restore` a backup. {LOSES_NOTHING}",
                n=len(rest),
                examples=examples(rest),
            )
        )
    return found


def _integrity(context: CheckContext) -> list[str]:
    try:
        with context.database.snapshot() as snapshot:
            lines = [line for (text,) in snapshot.rows(INTEGRITY) for line in str(text).splitlines()]
    except (DamagedDatabaseError, SchemaError):
        return ["the check could not come to its end: a page that it needs is not readable"]
    return [] if lines == ["ok"] else [line for line in lines if not line.startswith("***")]


def _make_indexes(context: CheckContext) -> None:
    with context.database.write() as connection:
        connection.exec_driver_sql("REINDEX")


def _is_current(context: CheckContext) -> Sequence[Finding]:
    revision = migrate.current_revision(context.database)
    assert revision is not None, "the check before has seen to that"
    if revision > migrate.HEAD:
        return [
            Finding(
                "schema",
                f"the database has schema {revision}; this version knows schemas up to {migrate.HEAD}",
                "a newer Shoal has written it",
                "install the newer version; this one refuses to touch it",
            )
        ]
    if revision < migrate.HEAD:
        return [
            Finding(
                "schema",
                f"the database has schema {revision}; this version needs {migrate.HEAD}",
                "an older Shoal has written it",
                "`shoal migrate`, or --repair, brings it up to date; make a backup before",
                can_repair=True,
            )
        ]
    parts = _missing_parts(context)
    if not parts:
        return []
    missing, is_table = [name for _, name, _ in parts], bool(with_content(parts))
    return [
        Finding(
            "schema",
            f"parts of the schema are missing: {', '.join(missing)}",
            "someone has removed them, or restored a part of the database"
            + ("" if is_table else "; without them it is slow"),
            f"`shoal restore` a backup. {LOSES_NOTHING}" if is_table else "--repair makes them again",
            n=len(missing),
            can_repair=not is_table,
        )
    ]


def _missing_parts(context: CheckContext) -> list[Part]:
    with context.database.snapshot() as snapshot:
        return missing_parts(snapshot)


def _make_current(context: CheckContext) -> None:
    try:
        migrate.upgrade(context.database)
    except SchemaError:
        return
    missing = _missing_parts(context)
    if with_content(missing):
        return
    with context.database.write() as connection:
        # Views after tables, indexes last; a full-text index brings its own tables.
        for kind in ("table", "view", "index"):
            for _, _, sql in (
                one for one in missing if one[0] == kind and not one[1].startswith("chunk_fts_")
            ):
                connection.exec_driver_sql(sql)


def _belongs(context: CheckContext) -> Sequence[Finding]:
    return [
        Finding(
            "orphans",
            f"{loose.n:,} rows of {loose.table} belong to {loose.parent} that are not there",
            "something was removed without what belongs to it, by another program or by damage",
            "--repair removes what is of no use any more; documents that miss a part are made whole from their text"
            if loose.table in OWNED
            else f"`shoal restore` a backup. {LOSES_NOTHING}",
            n=loose.n,
            can_repair=loose.table in OWNED,
        )
        for loose in _loose(context)
    ]


def _loose(context: CheckContext) -> list[Loose]:
    counts: dict[tuple[str, str], int] = {}
    with context.database.snapshot() as snapshot:
        for table, _, parent, _ in snapshot.tuples(FOREIGN_KEYS):
            counts[table, parent] = counts.get((table, parent), 0) + 1
    return [Loose(*key, n) for key, n in sorted(counts.items()) if key not in ELSEWHERE]


def _remove_loose(context: CheckContext) -> None:
    for table in {loose.table for loose in _loose(context)} & OWNED.keys():
        with context.database.write() as connection:
            connection.exec_driver_sql(OWNED[table])


CHECKS = (
    Check("file", "whether the file can be read", _can_be_read, is_vital=True),
    Check("schema", "whether the schema is this version's", _is_current, _make_current, is_vital=True),
    Check("integrity", "SQLite's own check of every page", _is_whole, _make_indexes, reads_all=True),
    Check("orphans", "rows that belong to nothing", _belongs, _remove_loose, reads_all=True),
)
