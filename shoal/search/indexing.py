"""Keeping the index up to date: documents that changed are indexed, and small segments are merged.

One process at a time does this; the others carry on. Segments are written and merged outside any transaction.
A short one then names the new files, so a crash at any point leaves the old index or the new one.
"""

from __future__ import annotations

import functools
import itertools
import json
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.tokens import token_list, tokenise
from shoal.errors import DamagedIndexError
from shoal.index.building import IndexedDocument, Profiles, Words, write_segment
from shoal.index.format import MAX_CHUNKS
from shoal.index.merging import merge_segments
from shoal.index.segment import Segment
from shoal.search.index_files import IndexFiles
from shoal.search.query_language import TERMS
from shoal.storage import index_tables
from shoal.storage.database import IDS_PER_STATEMENT, Database, Snapshot, Transaction, listed
from shoal.storage.file_lock import alone_if_free
from shoal.storage.index_tables import Changes, OpenChange, SegmentRow
from shoal.storage.profiles import Profiles as StoredProfiles

DOCUMENTS_TOGETHER = 4_096
BYTES_TOGETHER = 16 << 20
"""Documents that become one segment, at most: 16 MB of text take 300 MB while they are sorted."""
CHARS_TOGETHER = 1 << 20
"""Characters of texts that are tokenized at once, about: one by one, short texts take five times as long."""
MERGED_TOGETHER = 8
"""Segments of about the same size that are merged into one, so each posting is written about four times."""
SMALLEST_LEVEL = 4_096
"""Segments of fewer chunks are of the same size, for merging."""
MAX_OUTDATED = 0.25
"""Share of outdated chunks from which a segment is written anew."""
SHORT_READS, SHORT_READ_SECONDS = 5, 0.02
"""How often and how long the end of short reads is awaited, so that the files of merged segments can go."""

CHUNKS_OF = """
    SELECT c.id, c.document_id, c.section_id, c.confidence, c.profile, c.text
    FROM chunks c WHERE c.document_id IN ({ids}) ORDER BY c.document_id, c.chunk_index
"""
TITLES_OF = "SELECT id, title FROM documents WHERE id IN ({ids})"
HEADINGS_OF = "SELECT document_id, id, path FROM sections WHERE document_id IN ({ids}) AND path <> '[]'"

log = logging.getLogger(__name__)


def update_index(database: Database) -> bool:
    """Index all documents that changed and merge segments; False if another process is doing it.

    Raises StorageError; what is not indexed then stays noted.
    """
    files = IndexFiles(database)
    while True:
        with alone_if_free(database.path, "index") as is_free:
            if not is_free:
                return False
            _check_files(database, files)
            with database.snapshot(limited=False) as snapshot:
                files.check_space(sum(change.n_bytes for change in index_tables.open_changes(snapshot)))
            while _index_some(database, files):
                _merge(database, files)
            _merge(database, files)
            with database.snapshot(limited=False) as snapshot:
                rows = index_tables.segments(snapshot)
            files.remove_others(
                (row.file_name for row in rows), are_unread=functools.partial(_is_state_common, database)
            )
        # Another process may have noted a change, and found the lock taken.
        with database.snapshot() as snapshot:
            if not index_tables.is_any_open(snapshot):
                return True


def _is_state_common(database: Database) -> bool:
    """Whether nobody reads an older state of the database than the present one. Waits for short reads."""
    for _ in range(SHORT_READS):
        if database.checkpoint():
            return True
        time.sleep(SHORT_READ_SECONDS)
    return False


def rebuild_index(database: Database) -> None:
    """Index all documents again."""
    with database.write() as transaction:
        index_tables.start_again(transaction)
    update_index(database)


def read_documents(snapshot: Snapshot, document_ids: Sequence[int]) -> Iterator[IndexedDocument]:
    """Yield what the index stores of some documents. A document of more than MAX_CHUNKS chunks comes in
    parts."""
    for start in range(0, len(document_ids), IDS_PER_STATEMENT):
        ids, parameters = listed("id", document_ids[start : start + IDS_PER_STATEMENT])
        titles = dict(snapshot.tuples(TITLES_OF.format(ids=ids), parameters))
        headings: dict[int, dict[int, list[str]]] = {}
        for document_id, section_id, path in snapshot.tuples(HEADINGS_OF.format(ids=ids), parameters):
            tokens = token_list("\n".join(json.loads(path)))
            headings.setdefault(document_id, {})[section_id] = tokens
        rows = snapshot.tuples(CHUNKS_OF.format(ids=ids), parameters)
        for group in _read_together(rows):
            for part, words in zip(group, _words(group), strict=True):
                document_id = part[0][1]
                title = token_list(titles[document_id])
                yield _document(part, words, title, headings.get(document_id, {}))


def _read_together(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[list[tuple[Any, ...]]]]:
    """The chunks by document, or part of a long one, in groups of about CHARS_TOGETHER characters."""
    group: list[list[tuple[Any, ...]]] = []
    n_chars = 0
    for _, of_document in itertools.groupby(rows, key=lambda row: row[1]):
        while part := list(itertools.islice(of_document, MAX_CHUNKS)):
            group.append(part)
            n_chars += sum(len(row[-1]) for row in part)
            if n_chars >= CHARS_TOGETHER:
                yield group
                group, n_chars = [], 0
    if group:
        yield group


def _words(parts: Sequence[Sequence[tuple[Any, ...]]]) -> Iterator[Words]:
    """Yield the words of the chunks of each part, read as one text with line ends between the chunks."""
    texts = [row[-1] for part in parts for row in part]
    stream = tokenise("\n".join(texts))
    ends = np.cumsum([len(text) + 1 for text in texts])
    starts = np.concatenate([[0], np.searchsorted(stream.starts, ends)])
    first = 0
    for part in parts:
        own = starts[first : first + len(part) + 1]
        yield Words(stream.forms, stream.ids[own[0] : own[-1]], own - own[0])
        first += len(part)


def _document(
    rows: Sequence[tuple[Any, ...]], words: Words, title: Sequence[str], headings: dict[int, list[str]]
) -> IndexedDocument:
    chunk_ids, document_ids, sections, confidence, packed, _ = zip(*rows, strict=True)
    profiles = StoredProfiles.of(packed)
    return IndexedDocument(
        document_id=document_ids[0],
        chunk_ids=np.array(chunk_ids, dtype=np.int64),
        words=words,
        title=title,
        sections=np.array(sections, dtype=np.int64),
        headings=headings,
        profiles=Profiles(profiles.bounds, profiles.reef_ids, profiles.records["z_score"]),
        confidence=np.array(confidence, dtype=np.float64),
    )


def _check_files(database: Database, files: IndexFiles) -> None:
    """Start again if the file of a segment is missing, damaged or of another version."""
    with database.snapshot(limited=False) as snapshot:
        rows = index_tables.segments(snapshot)
    try:
        for row in rows:
            files.open(row.file_name)
    except DamagedIndexError as error:
        log.warning("the index is built anew: %s", error)
        with database.write() as transaction:
            index_tables.start_again(transaction)


def _index_some(database: Database, files: IndexFiles) -> bool:
    """Index some of the documents that changed; False if there are none."""
    with database.snapshot(limited=False) as snapshot:
        changes = _first_changes(index_tables.open_changes(snapshot, DOCUMENTS_TOGETHER))
        if not changes:
            return False
        n_left = index_tables.count_open(snapshot) - len(changes)
        if n_left:
            log.info("indexing %s documents; %s are left", f"{len(changes):,}", f"{n_left:,}")
        revision = index_tables.revision(snapshot)
        documents = list(read_documents(snapshot, [change.document_id for change in changes]))
    written = []
    for group in _grouped(documents):
        name = files.write(functools.partial(write_segment, group, TERMS))
        written.append((name, files.open(name)))
    with database.write() as transaction:
        for name, segment in written:
            _add(transaction, revision, name, segment)
        index_tables.close_changes(transaction, changes)
    _forget_changes(database, files)
    return True


def _first_changes(changes: Sequence[OpenChange]) -> list[OpenChange]:
    """The first changes, of BYTES_TOGETHER, but at least one."""
    sizes = itertools.accumulate(change.n_bytes for change in changes)
    return [
        change
        for change, size in zip(changes, sizes, strict=True)
        if size <= BYTES_TOGETHER or change is changes[0]
    ]


def _grouped(documents: Sequence[IndexedDocument]) -> Iterator[list[IndexedDocument]]:
    """The documents in groups of at most MAX_CHUNKS chunks, each part of a document in another group."""
    group: list[IndexedDocument] = []
    n_chunks = 0
    for document in documents:
        is_part = bool(group) and group[-1].document_id == document.document_id
        if group and (is_part or n_chunks + len(document.chunk_ids) > MAX_CHUNKS):
            yield group
            group, n_chunks = [], 0
        group.append(document)
        n_chunks += len(document.chunk_ids)
    if group:
        yield group


def _merge(database: Database, files: IndexFiles) -> None:
    """Merge segments until no level has too many of them."""
    while True:
        with database.snapshot(limited=False) as snapshot:
            rows, changes = index_tables.segments(snapshot), index_tables.changes(snapshot)
        open_segments = [(row, files.open(row.file_name)) for row in rows]
        sized = [
            _Sized(row, segment, outdated_documents(segment, row.revision, changes))
            for row, segment in open_segments
        ]
        chosen = _choose(sized)
        if not chosen:
            return
        n_chunks = sum(each.n_live for each in chosen)
        if n_chunks >= MAX_CHUNKS // MERGED_TOGETHER:
            log.info("merging the index of %s passages", f"{n_chunks:,}")
        parts = [(each.segment, each.outdated.tolist()) for each in chosen]
        name = files.write(functools.partial(merge_segments, parts)) if n_chunks else None
        with database.write() as transaction:
            if not index_tables.delete_segments(transaction, [each.row.id for each in chosen]):
                return
            if name is not None:
                _add(transaction, max(each.row.revision for each in chosen), name, files.open(name))
        files.retire(each.row.file_name for each in chosen)
        _forget_changes(database, files)


class _Sized(NamedTuple):
    row: SegmentRow
    segment: Segment
    outdated: NDArray[np.int64]

    @property
    def n_live(self) -> int:
        """Chunks of documents that have not changed."""
        is_outdated = np.isin(self.segment.document_ids, self.outdated)
        sizes = np.diff(self.segment.document_starts.astype(np.int64))
        return int(sizes[~is_outdated].sum())


def _choose(segments: Sequence[_Sized]) -> list[_Sized]:
    """The segments to merge next: those of a level that is full, or one with many outdated chunks."""
    levels: dict[int, list[_Sized]] = {}
    for each in segments:
        n_live = each.n_live
        if n_live < (1 - MAX_OUTDATED) * each.segment.n_chunks:
            return [each]
        levels.setdefault(_level(n_live), []).append(each)
    for _, level in sorted(levels.items()):
        if len(level) >= MERGED_TOGETHER:
            level.sort(key=lambda each: each.n_live)
            sizes = itertools.accumulate(each.n_live for each in level)
            chosen = [each for each, size in zip(level, sizes, strict=True) if size <= MAX_CHUNKS]
            if len(chosen) > 1:
                return chosen
    return []


def _level(n_chunks: int) -> int:
    level = 0
    while n_chunks >= SMALLEST_LEVEL:
        n_chunks //= MERGED_TOGETHER
        level += 1
    return level


def outdated_documents(segment: Segment, revision: int, changes: Changes) -> NDArray[np.int64]:
    """Return the documents of a segment of this revision that changed later, ascending."""
    changed = changes.document_ids[changes.revisions > revision]
    return np.intersect1d(segment.document_ids, changed)


def _forget_changes(database: Database, files: IndexFiles) -> None:
    """Remove the notes of changes that no segment needs any more: none holds an older state."""
    with database.snapshot(limited=False) as snapshot:
        rows, changes = index_tables.segments(snapshot), index_tables.changes(snapshot)
    is_needed = ~changes.is_indexed
    for row in rows:
        outdated = outdated_documents(files.open(row.file_name), row.revision, changes)
        is_needed |= np.isin(changes.document_ids, outdated)
    settled = [column[~is_needed].tolist() for column in (changes.document_ids, changes.revisions)]
    if settled[0]:
        with database.write() as transaction:
            index_tables.forget_changes(transaction, zip(*settled, strict=True))


def _add(transaction: Transaction, revision: int, name: str, segment: Segment) -> None:
    index_tables.add_segment(
        transaction,
        revision=revision,
        n_documents=segment.n_documents,
        n_chunks=segment.n_chunks,
        n_bytes=segment.n_bytes,
        file_name=name,
    )
