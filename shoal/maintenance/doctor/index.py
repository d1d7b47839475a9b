"""Checks of the search index, which is derived from the passages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal.errors import DamagedIndexError
from shoal.index.segment import Segment
from shoal.maintenance.doctor.findings import Check, CheckContext, Finding, Severity
from shoal.search.index_files import IndexFiles
from shoal.search.indexing import outdated_documents, rebuild_index, update_index
from shoal.storage.database import listed_in_parts
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


CHECKS = (
    Check("index files", "files of the search index", _files, _rebuild, reads_all=True),
    Check("index", "passages in the search index", _passages, _repair),
)
