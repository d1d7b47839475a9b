"""Checks of the database file, of the search index, and of the vectors of passages.

The file must be readable, intact, and have the schema of this version. On PostgreSQL, the server checks pages
as it reads them (`initdb --data-checksums`) and keeps foreign keys. The index and the vectors are derived
from the passages, and must match them.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from shoal.errors import DamagedDatabaseError, DamagedIndexError, SchemaError, StorageError
from shoal.index.files import IndexFiles
from shoal.index.segment import Segment
from shoal.index.upkeep import outdated_documents, rebuild_index, update_index
from shoal.index.vectors import has_unit_length
from shoal.maintenance.doctor.findings import MAX_EXAMPLES, Check, CheckContext, Finding, Severity, examples
from shoal.storage import index_tables, migrate, vectors
from shoal.storage.database import IDS_PER_STATEMENT, listed_in_parts
from shoal.storage.index_records import IndexView, open_records
from shoal.storage.revisions import SchemaPart
from shoal.storage.schema import missing_parts, tables_with_content

HAS_REVISION = "SELECT EXISTS (SELECT revision FROM index_state)"
ALL_CHUNKS = "SELECT id FROM chunks ORDER BY id"
CHUNKS_OF = "SELECT id FROM chunks WHERE document_id IN ({ids})"
VECTORS_TOGETHER = 5_000
# Each vector with the text that it should be of.
WITH_TEXTS = """
    SELECT v.chunk_id, v.text_hash, v.vector, d.title, c.text
    FROM chunk_vectors v JOIN chunks c ON c.id = v.chunk_id JOIN documents d ON d.id = c.document_id
    WHERE v.chunk_id > :after ORDER BY v.chunk_id LIMIT :limit
"""
EMBEDDED = "SELECT chunk_id FROM chunk_vectors ORDER BY chunk_id"
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


def _files(context: CheckContext) -> Sequence[Finding]:
    """Whether the files are whole, by their checksums."""
    files = IndexFiles(context.database)
    with open_records(context.database).newest(context.database) as view:
        for row in view.segments():
            try:
                files.open(row.file_name, verify=True)
            except DamagedIndexError as error:
                return [_finding("index files", str(error))]
    return []


def _passages(context: CheckContext) -> Sequence[Finding]:
    """Whether every passage is in the index once, unless its document waits to be indexed."""
    files = IndexFiles(context.database)
    with context.database.snapshot(limited=False) as snapshot:
        if not snapshot.value(HAS_REVISION):
            return [_finding("index", "the revision of the index is missing")]
    with open_records(context.database).newest(context.database) as view:
        snapshot, n_open = view.snapshot, view.count_open()
        try:
            indexed = _indexed(view, files)
        except DamagedIndexError as error:
            return [_finding("index", str(error))]
        stored = np.array([row[0] for row in snapshot.tuples(ALL_CHUNKS)], dtype=np.int64)
        opened = _chunks_of_open(view)
    expected = np.setdiff1d(stored, opened)
    missing, extra = (
        len(np.setdiff1d(expected, indexed)),
        len(indexed) - len(np.intersect1d(indexed, expected)),
    )
    if missing or extra:
        what = (
            f"{missing:,} passages are missing from the index, and {extra:,} of its entries have no passage"
        )
        return [_finding("index", what, missing + extra)]
    if n_open:
        return [
            Finding(
                "index",
                f"{n_open:,} documents wait to be indexed",
                "normal while documents are added; searches index a few of them in memory",
                "--repair indexes them now",
                n=n_open,
                severity=Severity.note,
                can_repair=True,
            )
        ]
    return []


def _chunks_of_open(view: IndexView) -> np.ndarray:
    found: list[int] = []
    opened = [change.document_id for change in view.open_changes()]
    for ids, parameters in listed_in_parts("id", opened):
        found += [row[0] for row in view.snapshot.tuples(CHUNKS_OF.format(ids=ids), parameters)]
    return np.array(found, dtype=np.int64)


def _indexed(view: IndexView, files: IndexFiles) -> np.ndarray:
    """The chunks of the index that are up to date, each as often as it is there."""
    changes = view.changes()
    found = [np.empty(0, dtype=np.int64)]
    for row in view.segments():
        segment: Segment = files.open(row.file_name)
        outdated = outdated_documents(segment, row.revision, changes)
        is_live = ~np.isin(segment.document_ids[segment.document_of], outdated)
        found.append(segment.chunk_ids[is_live])
    return np.concatenate(found)


def _finding(check: str, problem: str, n: int = 1) -> Finding:
    return Finding(
        check,
        problem,
        "searches miss passages or fail; the passages are intact",
        "--repair builds the index anew from the passages",
        n=n,
        can_repair=True,
    )


def _rebuild(context: CheckContext) -> None:
    rebuild_index(context.database)


def _repair(context: CheckContext) -> None:
    """Index what waits, or all documents if the index is wrong."""
    if any(finding.is_error for finding in _passages(context)):
        rebuild_index(context.database)
    else:
        update_index(context.database)


def _vectors(context: CheckContext) -> Sequence[Finding]:
    """Whether every vector has the size and length of those of its encoder, and is of its passage's text."""
    damaged = list(_damaged(context))
    if not damaged:
        return []
    return [
        Finding(
            "vectors",
            f"{len(damaged):,} vectors are damaged, or are of another text than their passage",
            "these passages are ranked wrongly by similarity; the passages are intact",
            "--repair deletes the vectors, and `shoal encoder embed` makes them anew",
            n=len(damaged),
            examples=tuple(f"passage {chunk_id}" for chunk_id in damaged[:MAX_EXAMPLES]),
            can_repair=True,
        )
    ]


def _damaged(context: CheckContext) -> Iterator[int]:
    """The chunks with a wrong vector, ascending."""
    after = -1
    while True:
        with context.database.snapshot() as snapshot:
            encoder = vectors.encoder(snapshot)
            if encoder is None:
                # What an interrupted deletion has left is never read.
                return
            rows = list(snapshot.tuples(WITH_TEXTS, {"after": after, "limit": VECTORS_TOGETHER}))
        if not rows:
            return
        after = rows[-1][0]
        blobs = [row[2] if isinstance(row[2], bytes) else b"" for row in rows]
        has_length = has_unit_length(blobs, encoder.dimension).tolist()
        for (chunk_id, stored_hash, _, title, text), is_unit in zip(rows, has_length, strict=True):
            if not is_unit or stored_hash != vectors.short_hash(vectors.embedded_text(title, text)):
                yield chunk_id


def _delete_damaged(context: CheckContext) -> None:
    damaged = list(_damaged(context))
    for start in range(0, len(damaged), IDS_PER_STATEMENT):
        with context.database.write() as transaction:
            vectors.delete(transaction, damaged[start : start + IDS_PER_STATEMENT])
    update_index(context.database)


def _vector_files(context: CheckContext) -> Sequence[Finding]:
    """Whether the files are whole, and have the vectors of the library that do not wait for them."""
    files = IndexFiles(context.database)
    with open_records(context.database).newest(context.database) as view:
        snapshot = view.snapshot
        if vectors.encoder(snapshot) is None:
            return []
        waiting = view.waiting_vectors()
        stored = np.array([row[0] for row in snapshot.tuples(EMBEDDED)], dtype=np.int64)
        try:
            live, indexed = _with_vectors(view, files)
        except DamagedIndexError as error:
            return [_vector_finding(str(error))]
    expected = np.setdiff1d(np.intersect1d(stored, live), waiting)
    n_missing = len(np.setdiff1d(expected, indexed))
    n_extra = len(np.setdiff1d(indexed, stored))
    if not (n_missing or n_extra):
        return []
    what = f"{n_missing:,} vectors are missing from the index, and {n_extra:,} of its vectors have no passage"
    return [_vector_finding(what, n_missing + n_extra)]


def _with_vectors(view: IndexView, files: IndexFiles) -> tuple[np.ndarray, np.ndarray]:
    """The chunks of all segments whose vectors were looked for, and those among them with a vector."""
    changes = view.changes()
    live, indexed = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for row in view.segments():
        segment = files.open(row.file_name)
        outdated = outdated_documents(segment, row.revision, changes)
        is_live = ~np.isin(segment.document_ids[segment.document_of], outdated)
        if row.vectors_file is not None:
            live.append(segment.chunk_ids[is_live])
        if row.vectors_file:
            own = files.open_vectors(row.vectors_file, row.n_chunks, verify=True)
            indexed.append(segment.chunk_ids[is_live & own.has_vector])
    return np.concatenate(live), np.concatenate(indexed)


def _vector_finding(problem: str, n: int = 1) -> Finding:
    return Finding(
        "vector files",
        problem,
        "passages are ranked by words and reefs alone; passages and vectors are intact",
        "--repair writes the files anew",
        n=n,
        can_repair=True,
    )


def _write_files(context: CheckContext) -> None:
    with open_records(context.database).write() as writer:
        writer.forget_vectors()
    update_index(context.database)


INDEX_CHECKS = (
    Check("index files", "files of the search index", _files, _rebuild, reads_all=True),
    Check("index", "passages in the search index", _passages, _repair),
    Check("vectors", "vectors of passages", _vectors, _delete_damaged, reads_all=True),
    Check("vector files", "vectors in the search index", _vector_files, _write_files, reads_all=True),
)


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


def _missing_parts(context: CheckContext) -> list[SchemaPart]:
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
