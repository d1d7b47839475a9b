"""Keeping the index of a library current: changed documents are indexed, and small segments are merged.

One process at a time does this; the others carry on. Segments are written and merged outside any transaction.
A short one then names the new files, so a crash at any point leaves the old index or the new one.

The vectors of a segment are a file beside it, written with it, and anew when vectors join it later; postings
are not touched then.

A machine of several that share a database follows the changes of the others in a thread (`IndexFollower`), so
that its index is current while nobody searches, and says how far behind it is.
"""

from __future__ import annotations

import functools
import itertools
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DamagedIndexError, IndexBehindError, ShoalError
from shoal.index.building import (
    IndexedDocument,
    NameTexts,
    Profiles,
    Words,
    name_texts,
    name_words,
    write_segment,
)
from shoal.index.files import VECTORS_SUFFIX, IndexFiles
from shoal.index.format import MAX_CHUNKS
from shoal.index.merging import merge_segments
from shoal.index.segment import Segment
from shoal.index.vectors import SCALE_BYTES, code_bytes, write_vectors
from shoal.storage import index_tables, vectors
from shoal.storage.database import IDS_PER_STATEMENT, Database, Listener, Snapshot, listed
from shoal.storage.index_records import (
    NOT_WRITTEN,
    IndexRecords,
    IndexWriter,
    Lag,
    NewSegment,
    VectorsFile,
    open_records,
)
from shoal.storage.index_tables import NO_VECTORS, Changes, OpenChange, SegmentRow
from shoal.storage.profiles import Profiles as StoredProfiles
from shoal.support.languages import ENGLISH
from shoal.words.inflections import analyze_in
from shoal.words.terms import TERMS

DOCUMENTS_TOGETHER = 4_096
BYTES_TOGETHER = 16 << 20
"""Documents that become one segment, at most: 16 MB of text take 300 MB while they are sorted."""
CHARS_TOGETHER = 1 << 20
"""Characters of texts that are tokenized at once, about: one by one, short texts take five times as long."""
MERGED_TOGETHER = 8
"""Segments of about the same size that are merged into one, so each posting is written about four times."""
SMALLEST_LEVEL = 4_096
"""Segments of fewer chunks are of the same size, for merging."""
LEAST_ADDED = 0.5
"""Chunks of the smaller segments that are merged while nothing waits to be indexed, as a share of those of
the largest among them. So a chunk is written again only into a segment of half as many chunks more: a
library that grows by one document at a time writes each chunk at most 27 times more, and a bulk upload once
or twice."""
MAX_OUTDATED = 0.25
"""Share of outdated chunks from which a segment is written anew."""
SHORT_READS, SHORT_READ_SECONDS = 5, 0.02
"""How often and how long the end of short reads is awaited, so that the files of merged segments can go."""
_INDEXED = """SELECT c.id, c.document_id, c.section_id, c.confidence, c.language, c.profile, c.text
    FROM chunks c"""
CHUNKS_OF = f"{_INDEXED} WHERE c.document_id IN ({{ids}}) ORDER BY c.document_id, c.chunk_index"
CHUNKS = f"{_INDEXED} WHERE c.id IN ({{ids}}) ORDER BY c.chunk_index"
TITLES_OF = "SELECT id, title, source_path, language FROM documents WHERE id IN ({ids})"
_HEADINGS = "SELECT document_id, id, path FROM sections"
HEADINGS_OF = f"{_HEADINGS} WHERE document_id IN ({{ids}}) AND path <> '[]'"
HEADINGS = f"{_HEADINGS} WHERE id IN ({{ids}}) AND path <> '[]'"
log = logging.getLogger(__name__)
POLL_SECONDS = 1.0
"""Interval at which the library is looked at without a notification."""
REST_SECONDS = 0.05
"""Shortest pause between two updates, so that a bulk upload is not indexed document by document."""
MOST_REST_SECONDS = 0.1
"""Longest pause: what changes in it waits for the next update."""


def write_vectors_of(database: Database, files: IndexFiles, segment: Segment) -> VectorsFile:
    """Write the vectors that chunks of a segment have now. Raises DatabaseUnavailableError, DiskFullError."""
    with database.snapshot(limited=False) as snapshot:
        stored, reset = vectors.encoder(snapshot), index_tables.state(snapshot).vectors_reset
        if stored is None:
            return VectorsFile(NO_VECTORS, None, reset)
        size = SCALE_BYTES + code_bytes(stored.dimension)
        found = {
            chunk_id: blob
            for chunk_id, blob in vectors.of_chunks(snapshot, segment.chunk_ids.tolist())
            # A damaged vector is the doctor's.
            if len(blob) == size
        }
    if not found:
        return VectorsFile(NO_VECTORS, stored.epoch, reset)
    ordinals = np.flatnonzero(np.isin(segment.chunk_ids, np.fromiter(found, dtype=np.int64)))
    blobs = [found[chunk_id] for chunk_id in segment.chunk_ids[ordinals].tolist()]
    write = functools.partial(write_vectors, stored.dimension, segment.n_chunks, ordinals, blobs)
    return VectorsFile(files.write(write, VECTORS_SUFFIX), stored.epoch, reset)


def join_vectors(database: Database, records: IndexRecords, files: IndexFiles) -> None:
    """Write the vectors of segments anew that lack some of the library. Raises StorageError."""
    with records.newest(database) as view:
        if vectors.encoder(view.snapshot) is None:
            return
        rows, waiting, revision = view.segments(), view.waiting_vectors(), view.revision
    waiting_ids = np.array(waiting, dtype=np.int64)
    for row in rows:
        segment = files.open(row.file_name)
        joining = np.intersect1d(segment.chunk_ids, waiting_ids)
        if row.vectors_file is not None and not len(joining):
            continue
        written = write_vectors_of(database, files, segment)
        with records.write() as writer:
            if not writer.set_vectors(row.id, written):
                return
            writer.mark_vectors(joining.tolist())
        if row.vectors_file:
            files.retire([row.vectors_file])
    records.vectors_joined(revision)


class ChangedChunk(NamedTuple):
    """A chunk as it might be: its text, and its packed profile."""

    text: str
    profile: bytes


def update_index(database: Database, is_idle: Callable[[], bool] = lambda: False) -> bool:
    """Index all documents that changed and merge segments; False if another process is doing it.

    `is_idle` says, at the end, whether no documents will follow soon: then few segments are left, since each
    costs every search time. Raises StorageError; what is not indexed then stays noted.
    """
    library = _Library(database, open_records(database), IndexFiles(database))
    records, files = library.records, library.files
    while True:
        with records.alone_if_free() as is_free:
            if not is_free:
                return False
            records.follow()
            _check_files(library)
            with records.newest(database) as view:
                files.check_space(sum(change.n_bytes for change in view.open_changes()))
            while _index_some(library):
                _merge(library)
            _merge(library, is_settling=is_idle())
            join_vectors(database, records, files)
            with records.newest(database) as view:
                rows = view.segments()
            files.remove_others(
                (name for row in rows for name in row.file_names),
                are_unread=functools.partial(_is_state_common, records),
            )
        # Another process may have noted a change, and found the lock taken.
        with database.snapshot() as snapshot, records.view(snapshot) as view:
            if not view.is_any_open():
                return True


class _Library(NamedTuple):
    """A library, and its index on this machine."""

    database: Database
    records: IndexRecords
    files: IndexFiles


def _is_state_common(records: IndexRecords) -> bool:
    """Whether nobody reads an older state of the database than the present one. Waits for short reads."""
    for _ in range(SHORT_READS):
        if records.is_state_common():
            return True
        time.sleep(SHORT_READ_SECONDS)
    return False


def rebuild_index(database: Database) -> None:
    """Index all documents again, on this machine."""
    with open_records(database).write() as writer:
        writer.start_again()
    update_index(database)


def read_documents(snapshot: Snapshot, document_ids: Sequence[int]) -> Iterator[IndexedDocument]:
    """Yield what the index stores of some documents. A document of more than MAX_CHUNKS chunks comes in
    parts."""
    for start in range(0, len(document_ids), IDS_PER_STATEMENT):
        ids, parameters = listed("id", document_ids[start : start + IDS_PER_STATEMENT])
        rows = snapshot.tuples(CHUNKS_OF.format(ids=ids), parameters)
        yield from _documents(
            rows,
            snapshot.tuples(TITLES_OF.format(ids=ids), parameters),
            snapshot.tuples(HEADINGS_OF.format(ids=ids), parameters),
        )


def read_chunks(
    snapshot: Snapshot, document_id: int, chunk_ids: Sequence[int], changed: Mapping[int, ChangedChunk]
) -> IndexedDocument:
    """Return some chunks of a document as if they were all of it, those in `changed` by their ids as they are
    there."""
    ids, parameters = listed("id", chunk_ids)
    rows = [
        (*row[:5], changed[row[0]].profile, changed[row[0]].text) if row[0] in changed else row
        for row in snapshot.tuples(CHUNKS.format(ids=ids), parameters)
    ]
    document, of_document = listed("id", [document_id])
    sections, of_sections = listed("id", {row[2] for row in rows})
    (indexed,) = _documents(
        rows,
        snapshot.tuples(TITLES_OF.format(ids=document), of_document),
        snapshot.tuples(HEADINGS.format(ids=sections), of_sections),
    )
    return indexed


def _documents(
    rows: Iterable[tuple[Any, ...]], titles: Iterable[tuple[Any, ...]], sections: Iterable[tuple[Any, ...]]
) -> Iterator[IndexedDocument]:
    """Yield documents from the rows of their chunks, titles and headings."""
    of_documents = {row[0]: name_texts(*row[1:]) for row in titles}
    languages = {document_id: of_title.language for document_id, of_title in of_documents.items()}
    of_sections = {
        (document_id, section_id): NameTexts(json.loads(path), language=languages.get(document_id, ENGLISH))
        for document_id, section_id, path in sections
    }
    words_of = dict(zip(of_documents, name_words(list(of_documents.values())), strict=True))
    headings: dict[int, dict[int, Words]] = {}
    for (document_id, section_id), words in zip(
        of_sections, name_words(list(of_sections.values())), strict=True
    ):
        headings.setdefault(document_id, {})[section_id] = words
    for group in _read_together(rows):
        for part, words in zip(group, _words(group), strict=True):
            document_id = part[0][1]
            yield _document(part, words, words_of[document_id], headings.get(document_id, {}))


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
    rows = list(itertools.chain.from_iterable(parts))
    stream, starts = analyze_in([row[-1] for row in rows], [row[4] for row in rows])
    advances = stream.advances.astype(np.uint8)
    first = 0
    for part in parts:
        own = starts[first : first + len(part) + 1]
        words = slice(own[0], own[-1])
        yield Words(stream.forms, stream.ids[words], advances[words], own - own[0], stream.capitals[words])
        first += len(part)


def _document(
    rows: Sequence[tuple[Any, ...]], words: Words, title: Words, headings: dict[int, Words]
) -> IndexedDocument:
    chunk_ids, document_ids, sections, confidence, _, packed, _ = zip(*rows, strict=True)
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


def _check_files(library: _Library) -> None:
    """Start again if the file of a segment is missing, damaged or of another version."""
    database, records, files = library
    with records.newest(database) as view:
        rows = view.segments()
    try:
        for row in rows:
            files.open(row.file_name)
    except DamagedIndexError as error:
        log.warning("the index is built anew: %s", error)
        with records.write() as writer:
            writer.start_again()
        records.follow()
        return
    try:
        for row in rows:
            if row.vectors_file:
                files.open_vectors(row.vectors_file, row.n_chunks)
    except DamagedIndexError as error:
        log.warning("the vectors of the index are written anew: %s", error)
        with records.write() as writer:
            writer.forget_vectors()


def _index_some(library: _Library) -> bool:
    """Index some of the documents that changed; False if there are none."""
    database, records, files = library
    records.follow()
    with records.newest(database) as view:
        due, revision = view.due_changes(DOCUMENTS_TOGETHER)
        changes = _first_changes(due)
        if not changes:
            return False
        n_left = view.count_open() - len(changes)
        if n_left:
            log.info("indexing %s documents; %s are left", f"{len(changes):,}", f"{n_left:,}")
        documents = list(read_documents(view.snapshot, [change.document_id for change in changes]))
    written = []
    for group in _grouped(documents):
        name = files.write(functools.partial(write_segment, group, TERMS))
        segment = files.open(name)
        written.append((name, segment, write_vectors_of(database, files, segment)))
    with records.write() as writer:
        for name, segment, vectors in written:
            _add(writer, revision, name, segment, vectors)
        writer.close(changes)
    _forget_changes(library)
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


def _merge(library: _Library, *, is_settling: bool = False) -> None:
    """Merge segments until no level has too many of them, or few are left."""
    database, records, files = library
    while True:
        with records.newest(database) as view:
            rows, changes = view.segments(), view.changes()
        open_segments = [(row, files.open(row.file_name)) for row in rows]
        sized = [
            _Sized(row, segment, outdated_documents(segment, row.revision, changes))
            for row, segment in open_segments
        ]
        chosen = _choose(sized) or (_choose_small(sized) if is_settling else [])
        if not chosen:
            return
        n_chunks = sum(each.n_live for each in chosen)
        if n_chunks >= MAX_CHUNKS // MERGED_TOGETHER:
            log.info("merging the index of %s passages", f"{n_chunks:,}")
        parts = [(each.segment, each.outdated.tolist()) for each in chosen]
        name = files.write(functools.partial(merge_segments, parts)) if n_chunks else None
        vectors = NOT_WRITTEN if name is None else write_vectors_of(database, files, files.open(name))
        with records.write() as writer:
            if not writer.delete_segments([each.row.id for each in chosen]):
                return
            if name is not None:
                revision = max(each.row.revision for each in chosen)
                _add(writer, revision, name, files.open(name), vectors)
        files.retire(name for each in chosen for name in each.row.file_names)
        _forget_changes(library)


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


def _choose_small(segments: Sequence[_Sized]) -> list[_Sized]:
    """The most of the smallest segments that fit into one and add enough to the largest of them."""
    in_order = sorted(segments, key=lambda each: each.n_live)
    sizes = [each.n_live for each in in_order]
    sums = list(itertools.accumulate(sizes))
    for n in range(len(sizes), 1, -1):
        if sums[n - 1] <= MAX_CHUNKS and sums[n - 2] >= LEAST_ADDED * sizes[n - 1]:
            return in_order[:n]
    return []


def _level(n_chunks: int) -> int:
    level = 0
    while n_chunks >= SMALLEST_LEVEL:
        n_chunks //= MERGED_TOGETHER
        level += 1
    return level


def outdated_documents(segment: Segment, revision: int, changes: Changes) -> NDArray[np.int64]:
    """Return the documents of a segment of this revision that changed later, ascending."""
    is_outdated = changes.revisions > revision
    if changes.is_later is not None:
        is_outdated |= changes.is_later
    changed = changes.document_ids[is_outdated]
    return np.intersect1d(segment.document_ids, changed)


def _forget_changes(library: _Library) -> None:
    """Remove the notes of changes that no segment needs any more: none holds an older state."""
    database, records, files = library
    with records.newest(database) as view:
        rows, changes = view.segments(), view.changes()
    is_needed = ~changes.is_indexed
    for row in rows:
        outdated = outdated_documents(files.open(row.file_name), row.revision, changes)
        is_needed |= np.isin(changes.document_ids, outdated)
    settled = [column[~is_needed].tolist() for column in (changes.document_ids, changes.revisions)]
    if settled[0]:
        with records.write() as writer:
            writer.forget(zip(*settled, strict=True))


def _add(writer: IndexWriter, revision: int, name: str, segment: Segment, vectors: VectorsFile) -> None:
    new = NewSegment(revision, segment.n_documents, segment.n_chunks, segment.n_bytes, name, vectors)
    writer.add(new)


class FollowedIndex(Protocol):
    """The index of a process, as the follower needs it."""

    def lag(self) -> Lag:
        """Return how far the index is behind the library. Raises StorageError."""

    def load(self) -> None:
        """Open the newest state."""


class IndexFollower:
    """A thread that follows a library. Any number of processes of a machine may: one of them writes."""

    def __init__(self, database: Database, index: FollowedIndex) -> None:
        self._database = database
        self._index = index
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._lag = Lag(0, 0.0)
        self._measured_at = time.monotonic()

    def start(self, *, listen: bool = True) -> None:
        """Begin to follow; does nothing the second time. To `listen` takes a connection to the database."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, args=(listen,), name="index follower", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """Stop after the update in progress."""
        self._stopped.set()

    @property
    def lag(self) -> Lag:
        """How far the index is behind, as last measured; what waited then has become older since."""
        n_documents, seconds = self._lag
        if not n_documents:
            return self._lag
        return Lag(n_documents, seconds + time.monotonic() - self._measured_at)

    def check(self, max_seconds: float) -> None:
        """Raise IndexBehindError if the index is behind by more than `max_seconds`; 0: never."""
        if max_seconds and self.lag.seconds > max_seconds:
            # It may have caught up since.
            lag = self.measure()
            if lag.seconds > max_seconds:
                raise IndexBehindError(lag.n_documents, lag.seconds)

    def measure(self) -> Lag:
        """Measure the lag now. Raises StorageError."""
        lag = self._index.lag()
        self._lag, self._measured_at = lag, time.monotonic()
        return lag

    def _run(self, listen: bool) -> None:
        listener = self._database.listener() if listen else None
        is_failing = False
        while not self._stopped.is_set():
            started = time.monotonic()
            try:
                if self.measure().n_documents:
                    update_index(self._database)
                    self.measure()
                # The next search finds it open.
                self._index.load()
                is_failing = False
            except ShoalError as error:
                if not is_failing:
                    log.warning("index not updated: %s", error)
                is_failing = True
            except Exception:
                log.exception("index not updated")
            # As far as the lag allows, half of the time is for searches.
            rest = min(MOST_REST_SECONDS, time.monotonic() - started)
            self._stopped.wait(max(REST_SECONDS, rest))
            if self._stopped.is_set():
                break
            self._wait_for_change(listener)
        if listener is not None:
            listener.close()
        # The last update may have opened connections after the library was closed.
        self._database.close()

    def _wait_for_change(self, listener: Listener | None) -> None:
        """Wait until the library may have changed, for POLL_SECONDS at most."""
        if listener is not None:
            try:
                listener.wait("index", POLL_SECONDS)
                return
            except Exception:
                log.exception("notifications not heard")
        self._stopped.wait(POLL_SECONDS)
