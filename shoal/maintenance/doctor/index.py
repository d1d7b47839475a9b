"""Checks of the search index, which is derived from the passages, and of the vectors of passages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from shoal.errors import DamagedIndexError
from shoal.index.files import IndexFiles
from shoal.index.segment import Segment
from shoal.index.upkeep import outdated_documents, rebuild_index, update_index
from shoal.index.vectors import has_unit_length
from shoal.maintenance.doctor.findings import MAX_EXAMPLES, Check, CheckContext, Finding, Severity
from shoal.storage import vectors
from shoal.storage.database import IDS_PER_STATEMENT, listed_in_parts
from shoal.storage.index_records import IndexView, open_records

HAS_REVISION = "SELECT EXISTS (SELECT revision FROM index_state)"
ALL_CHUNKS = "SELECT id FROM chunks ORDER BY id"


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


CHUNKS_OF = "SELECT id FROM chunks WHERE document_id IN ({ids})"


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


VECTORS_TOGETHER = 5_000
# Each vector with the text that it should be of.
WITH_TEXTS = """
    SELECT v.chunk_id, v.text_hash, v.vector, d.title, c.text
    FROM chunk_vectors v JOIN chunks c ON c.id = v.chunk_id JOIN documents d ON d.id = c.document_id
    WHERE v.chunk_id > :after ORDER BY v.chunk_id LIMIT :limit
"""
EMBEDDED = "SELECT chunk_id FROM chunk_vectors ORDER BY chunk_id"


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


CHECKS = (
    Check("index files", "files of the search index", _files, _rebuild, reads_all=True),
    Check("index", "passages in the search index", _passages, _repair),
    Check("vectors", "vectors of passages", _vectors, _delete_damaged, reads_all=True),
    Check("vector files", "vectors in the search index", _vector_files, _write_files, reads_all=True),
)
