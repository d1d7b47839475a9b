"""The index of a library as of a snapshot: its segments, and in memory what is in no segment yet.

A search sees exactly the documents of its snapshot. Documents that changed after their segment was written
are hidden in it; their new state is read from the database and indexed in memory, until a segment holds it.
"""

from __future__ import annotations

import functools
import logging
import threading
import weakref
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DamagedIndexError, EncoderError, EncoderMismatchError, StorageError
from shoal.filters.columns import Mask
from shoal.filters.evaluation import DocumentTable, Fields, RecentlyUsed
from shoal.filters.visibility import Viewer, VisibleFields, VisibleTable, state_of, visible_documents
from shoal.index.building import segment_bytes
from shoal.index.files import IndexFiles
from shoal.index.index import Index, Part
from shoal.index.kernels import use_compiled
from shoal.index.matching import IndexTerm, find
from shoal.index.segment import Segment
from shoal.index.upkeep import ChangedChunk, outdated_documents, read_chunks, read_documents, update_index
from shoal.index.vectors import DenseScores, SegmentVectors, quantised_query
from shoal.scorer import Scorer
from shoal.search.visible_forms import VisibleForms
from shoal.settings import Settings
from shoal.storage import access_settings, field_values
from shoal.storage import vectors as stored_vectors
from shoal.storage.database import Database, Query, Snapshot
from shoal.storage.index_records import IndexView, Lag, Version, open_records
from shoal.storage.staleness import find_other_data
from shoal.storage.statistics import MainReef
from shoal.storage.vectors import AGAIN, StoredEncoder
from shoal.words.analysis import stems_of, tokens_of
from shoal.words.terms import TERMS

MAX_CHUNKS_IN_MEMORY = 2_000
"""Chunks that a search indexes in memory, which takes a tenth of a second. If more have changed, it writes a
segment first, unless another process is doing that."""

CHUNKS_TO_COMPILE = 20_000
"""Below, numpy ranks in a few milliseconds, and the compiler would take a second and 60 MB."""

MAX_VIEW_BYTES = 64 << 20
"""Memory of what viewers see of one state. Beyond, it is made again, which takes milliseconds."""
MAX_OTHER_DATA_BYTES, MAX_CHECKSUMS = 64 << 20, 4
"""Memory of what is kept of chunks scored with other data, and builds of the data that it is kept for."""
VIEW_BYTES_PER_PLACE = 8
"""Of a view: which chunks are live, and the factors of lengths."""

log = logging.getLogger(__name__)


class _OtherData:
    """The chunks that were scored with other data than that of a checksum. `ids`: of all, ascending."""

    def __init__(self, ids: NDArray[np.int64]) -> None:
        self.ids = ids
        self._masks: weakref.WeakKeyDictionary[Segment, Mask] = weakref.WeakKeyDictionary()

    def among(self, segment: Segment) -> Mask:
        """Return whether each chunk of a segment is one of them."""
        mask = self._masks.get(segment)
        if mask is None:
            mask = self._masks[segment] = np.isin(segment.chunk_ids, self.ids)
        return mask


class LibraryIndex:
    """The index of one state of the library. Chunks of all segments have one numbering: their places.

    n_missing  documents that are in no segment and were too many to be indexed in memory
    fields     what filters compare, shared by the states of one library
    encoder    of the vectors; None if no chunk has one
    revision   of the library; of what a viewer sees, a digest that no hidden document changes
    main_reefs those of documents that were read in this state, by document and label threshold
    changed    packed profiles of chunks that are not as the database has them, by their ids
    viewer     who sees this part of the library; None: it is the whole library
    views      of the whole library: what viewers see of it, the least recently used first
    other_data the chunks that were scored with other data of lagoon, by its checksum; shared by everything
               that is made of one state
    """

    def __init__(
        self,
        index: Index,
        n_missing: int = 0,
        fields: Fields | None = None,
        vectors: Sequence[SegmentVectors | None] = (),
        encoder: StoredEncoder | None = None,
        revision: int = 0,
    ) -> None:
        """`vectors` of the first parts of the index, in their order."""
        self.index = index
        self.n_missing = n_missing
        self.fields = Fields() if fields is None else fields
        self.encoder = encoder
        self.revision = revision
        self.main_reefs: dict[tuple[int, float], tuple[MainReef, ...]] = {}
        self.vectors = tuple(vectors)
        self.changed: Mapping[int, bytes] = {}
        self.viewer: Viewer | None = None
        self.views: RecentlyUsed[Hashable, LibraryIndex] = RecentlyUsed(MAX_VIEW_BYTES)
        self.other_data: RecentlyUsed[str, _OtherData] = RecentlyUsed(MAX_OTHER_DATA_BYTES, MAX_CHECKSUMS)

    def seen_by(
        self, viewer: Viewer, table: DocumentTable, is_visible: Mask, state: int, database: Database
    ) -> LibraryIndex:
        """Return what a viewer sees: a library of the visible documents of a table, bool (n,), alone, with
        their state as its revision."""
        is_visible_row = is_visible if len(is_visible) else np.zeros(1, dtype=np.bool_)
        documents = [is_visible_row[table.rows_of(part.segment)] for part in self.index.parts]
        seen = LibraryIndex(
            self.index.visible(documents, VisibleForms(database)),
            0,
            VisibleFields(self.fields, VisibleTable(table, is_visible, viewer.hidden)),
            self.vectors,
            self.encoder,
            state,
        )
        seen.viewer, seen.main_reefs, seen.other_data = viewer, self.main_reefs, self.other_data
        return seen

    def has_other_data(self, snapshot: Snapshot, data_checksum: str) -> Mask:
        """Return, for each place, whether its chunk was scored with other data of lagoon, bool (n,). The
        `snapshot` is one of this state."""
        other = self._of_other_data(snapshot, data_checksum)
        masks = [other.among(part.segment) for part in self.index.parts]
        return np.concatenate(masks) if masks else np.zeros(0, dtype=np.bool_)

    def count_other_data(self, snapshot: Snapshot, data_checksum: str) -> int:
        """Count the chunks that were scored with other data of lagoon, for a viewer the visible ones."""
        if self.viewer is None:
            return len(self._of_other_data(snapshot, data_checksum).ids)
        return int(np.count_nonzero(self.has_other_data(snapshot, data_checksum) & self.index.live()))

    def _of_other_data(self, snapshot: Snapshot, data_checksum: str) -> _OtherData:
        found = self.other_data.get(data_checksum)
        if found is None:
            found = _OtherData(find_other_data(snapshot, data_checksum))
            self.other_data.put(data_checksum, found, found.ids.nbytes + len(self))
        return found

    def sees_document(self, snapshot: Snapshot, document_id: int) -> bool:
        """Whether a document is stored and, for a viewer, may be seen."""
        table = self.fields.documents.of(snapshot)
        row = int(np.searchsorted(table.ids, document_id))
        return row < len(table) and int(table.ids[row]) == document_id and bool(table.is_alive[row])

    def has_word(self, word: str) -> bool:
        """Whether a chunk has a word or the words of a compound side by side."""
        (found,) = find(self.index, [IndexTerm(stems_of(tokens_of(word)))])
        return found.n_chunks > 0

    def shown(self, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return metadata without the keys that are hidden from the viewer."""
        return metadata if self.viewer is None else self.viewer.shown(metadata)

    def with_chunk(self, snapshot: Snapshot, chunk_id: int, changed: ChangedChunk) -> LibraryIndex:
        """Return the index as it would be with another text and profile of a live chunk. Its vector and
        confidence stay. Only its block is indexed, whatever the size of library and document."""
        ((number, _, (ordinal,)),) = self.index.split(self.index.places_of([chunk_id]))
        part = self.index.parts[number]
        segment, blocks = part.segment, part.segment.blocks.of_chunks
        block = np.flatnonzero(blocks == blocks[ordinal])
        document_id = int(segment.document_ids[segment.document_of[ordinal]])
        document = read_chunks(snapshot, document_id, segment.chunk_ids[block].tolist(), {chunk_id: changed})
        parts = [*self.index.parts, Part(Segment(segment_bytes([document], TERMS)))]
        parts[number] = Part(segment, part.live_documents, block)
        vectors = [*self.vectors, *[None] * (len(self.index.parts) - len(self.vectors))]
        own = vectors[number] if vectors else None
        library = LibraryIndex(
            Index.of_parts(parts),
            self.n_missing,
            self.fields,
            [*vectors, None if own is None else own.of(block)],
            self.encoder,
            self.revision,
        )
        library.changed, library.other_data = {chunk_id: changed.profile}, self.other_data
        library.viewer, library.index.count_form = self.viewer, self.index.count_form
        return library

    def __len__(self) -> int:
        """Return the number of places, those of outdated chunks included."""
        return len(self.index)

    @property
    def n_chunks(self) -> int:
        """Chunks that a search can find."""
        return self.index.totals.n_chunks

    def dense(self, query_vector: NDArray[np.float32]) -> DenseScores | None:
        """Compare a query, f32 (dimension,), with the vectors of all places; None if there are none.

        The query is a vector of `encoder`; compare the identities before. Raises EncoderMismatchError for
        another dimension, EncoderError for a vector that is not finite or 0.
        """
        if self.encoder is None:
            return None
        if np.shape(query_vector) != (self.encoder.dimension,):
            raise EncoderMismatchError(
                f"the query has shape {np.shape(query_vector)}, and the vectors of the library have "
                f"{self.encoder.dimension} numbers ({self.encoder.name}); {AGAIN}"
            )
        try:
            query = quantised_query(query_vector)
        except ValueError as error:
            raise EncoderError(str(error)) from None
        raw = np.zeros(len(self), dtype=np.int64)
        for (_, own), vectors in zip(self.index.by_part(raw), self.vectors, strict=False):
            if vectors is not None:
                vectors.add_cosines(query, own)
        return DenseScores(raw, self._has_vector)

    @functools.cached_property
    def vector_share(self) -> float:
        """Share of the library's chunks that have a vector, 0..1. It does not depend on the segments."""
        return int(np.count_nonzero(self._has_vector)) / max(self.n_chunks, 1)

    @functools.cached_property
    def _has_vector(self) -> NDArray[np.bool_]:
        """Whether the chunk at each place is live and has a vector."""
        mask = np.zeros(len(self), dtype=np.bool_)
        for (_, own), vectors in zip(self.index.by_part(mask), self.vectors, strict=False):
            if vectors is not None:
                own[:] = vectors.has_vector
        mask &= self.index.live()
        mask.flags.writeable = False
        return mask

    def count_by_document(self, text: str) -> dict[int, int]:
        """Count the chunks that contain the words of a text side by side, in any inflection, by document id,
        most first."""
        (found,) = find(self.index, [IndexTerm(stems_of(tokens_of(text)))])
        ids, counts = found.count_by_document()
        order = np.lexsort((ids, -counts))
        return dict(zip(ids[order].tolist(), counts[order].tolist(), strict=True))


class LibraryView(NamedTuple):
    """One state of a library, as a search reads it: a snapshot, its index, a scorer without learned words,
    and the settings."""

    snapshot: Snapshot
    library: LibraryIndex
    scorer: Scorer
    settings: Settings


class _InMemory(NamedTuple):
    """Documents indexed in memory at a revision."""

    revision: int
    segment: Segment


class _State(NamedTuple):
    """A state of the library; a thread reads or replaces it as a whole."""

    version: Version
    library: LibraryIndex
    in_memory: tuple[_InMemory, ...]


_NO_STATE = _State(Version(-2, -1, -1), LibraryIndex(Index(())), ())


class LibraryIndexes(Protocol):
    """Opens the index of a library in a state."""

    def prepare(self) -> None: ...

    def searching(
        self, database: Database, queries: Callable[[], Iterable[Query]] = tuple
    ) -> AbstractContextManager[tuple[Snapshot, LibraryIndex]]: ...

    def of(self, snapshot: Snapshot) -> LibraryIndex: ...


class IndexCache:
    """The index of the newest state that this process has searched. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._files = IndexFiles(database)
        self._records = open_records(database)
        self._lock = threading.Lock()
        self._state = _NO_STATE
        self.fields = Fields(database)
        self._may_compile = False

    def prepare(self) -> None:
        """Write what is missing from the index, if that is too much for memory; build a damaged one anew."""
        with self._database.snapshot() as snapshot, self._records.view(snapshot) as view:
            if view.version == self._state.version:
                return
            n_open = sum(change.n_chunks for change in view.open_changes())
            is_usable = view.is_followed and n_open <= MAX_CHUNKS_IN_MEMORY
            try:
                for row in view.segments():
                    self._files.open(row.file_name)
                    if row.vectors_file:
                        self._files.open_vectors(row.vectors_file, row.n_chunks)
            except DamagedIndexError:
                is_usable = False
        if not is_usable:
            try:
                update_index(self._database)
            except StorageError as error:
                # A library that cannot be written is searched as far as memory allows.
                log.warning("index not updated: %s", error)

    def load(self) -> None:
        """Open the index, so that the first search need not. A large one is ranked by compiled code from then
        on."""
        self._may_compile = True
        self.prepare()
        with self._database.snapshot(limited=False) as snapshot:
            self.of(snapshot)

    def lag(self) -> Lag:
        """Return how far the index is behind the library. Raises StorageError."""
        with self._database.snapshot() as snapshot, self._records.view(snapshot) as view:
            return view.lag()

    def is_complete(self) -> bool:
        """Whether a search would find every document: what is in no segment fits into memory."""
        with self._database.snapshot() as snapshot, self._records.view(snapshot) as view:
            return sum(change.n_chunks for change in view.open_changes()) <= MAX_CHUNKS_IN_MEMORY

    def size(self) -> int:
        """Return the bytes of the index on the disk."""
        return self._files.size()

    @contextmanager
    def searching(
        self, database: Database, queries: Callable[[], Iterable[Query]] = tuple
    ) -> Iterator[tuple[Snapshot, LibraryIndex]]:
        """A snapshot of the library in `database` with its index, which lacks no more than memory
        allows. `queries`: what a search will read first."""

        def all_queries() -> Iterator[Query]:
            yield from self._records.queries
            yield from queries()

        with database.snapshot() as snapshot:
            snapshot.prefetch(all_queries())
            with self._records.view(snapshot) as view:
                state = self._state
                is_current = state.version == view.version
            if is_current:
                yield snapshot, state.library
                return
        self.prepare()
        with database.snapshot() as snapshot:
            snapshot.prefetch(all_queries())
            yield snapshot, self.of(snapshot)

    def of(self, snapshot: Snapshot) -> LibraryIndex:
        """Return the index as of this snapshot. Raises DamagedIndexError."""
        with self._records.view(snapshot) as view:
            version = view.version
            state = self._state
            if state.version == version:
                return state.library
            with self._lock:
                state = self._state
                if state.version != version:
                    state = self._read(view)
                    if version > self._state.version:
                        self._state = state
                        self._compile(len(state.library))
                return state.library

    def _compile(self, n_chunks: int) -> None:
        """Compile the ranking once, in a process that loaded the index and for a library that is worth it."""
        if self._may_compile and n_chunks >= CHUNKS_TO_COMPILE:
            self._may_compile = False
            # It takes seconds; searches use numpy meanwhile.
            threading.Thread(target=use_compiled, name="compile", daemon=True).start()

    def _read(self, view: IndexView) -> _State:
        snapshot, revision = view.snapshot, view.revision
        rows, changes = view.segments(), view.changes()
        parts = [
            self._part(segment, outdated_documents(segment, row.revision, changes).tolist())
            for row in rows
            for segment in (self._files.open(row.file_name),)
        ]
        vectors = [
            self._files.open_vectors(row.vectors_file, row.n_chunks) if row.vectors_file else None
            for row in rows
        ]
        encoder = stored_vectors.encoder(snapshot) if any(vectors) else None
        self._files.close_others(name for row in rows for name in row.file_names)
        opened = changes.document_ids[~changes.is_indexed]
        if not len(opened):
            library = LibraryIndex(Index.of_parts(parts), 0, self.fields, vectors, encoder, revision)
            return _State(view.version, library, ())
        # A snapshot may be older than what another search has put into memory.
        is_same = self._state.version.generation == view.version.generation
        former = [each for each in self._state.in_memory if is_same and each.revision <= revision]
        in_memory, n_missing = _index_in_memory(view, former)
        kept = []
        for each in in_memory:
            documents = each.segment.document_ids
            closed = np.setdiff1d(documents, opened)
            changed = changes.document_ids[changes.revisions > each.revision]
            hidden = np.union1d(closed, np.intersect1d(documents, changed))
            if len(hidden) < len(np.unique(documents)):
                kept.append(each)
                parts.append(self._part(each.segment, hidden.tolist()))
        library = LibraryIndex(Index.of_parts(parts), n_missing, self.fields, vectors, encoder, revision)
        return _State(view.version, library, tuple(kept))

    def _part(self, segment: Segment, deleted: Collection[int]) -> Part:
        """A part of the former state if the segment is the same without the same documents: its totals need
        not be added up again."""
        part = Part.without(segment, deleted)
        for former in self._state.library.index.parts:
            if former.segment is segment and _equal(former.live_documents, part.live_documents):
                return former
        return part


class VisibleIndex:
    """The index of what a viewer sees of a library: the one place where rights are enforced."""

    def __init__(self, whole: IndexCache, viewer: Viewer, database: Database) -> None:
        """`database`: where the texts of visible passages are read."""
        self._whole, self.viewer, self._database = whole, viewer, database

    def prepare(self) -> None:
        """As `IndexCache.prepare`."""
        self._whole.prepare()

    @contextmanager
    def searching(
        self, database: Database, queries: Callable[[], Iterable[Query]] = tuple
    ) -> Iterator[tuple[Snapshot, LibraryIndex]]:
        """As `IndexCache.searching`. Raises ReadTimeoutError, also while rights are read."""

        def all_queries() -> Iterator[Query]:
            yield from (access_settings.VISIBILITY_QUERY, Query(field_values.REVISION))
            yield from queries()

        with self._whole.searching(database, all_queries) as (snapshot, library):
            yield snapshot, self._seen(snapshot, library)

    def of(self, snapshot: Snapshot) -> LibraryIndex:
        """As `IndexCache.of`."""
        return self._seen(snapshot, self._whole.of(snapshot))

    def _seen(self, snapshot: Snapshot, library: LibraryIndex) -> LibraryIndex:
        without_rights = access_settings.visibility(snapshot)
        key = self.viewer, without_rights, field_values.revision(snapshot)
        seen = library.views.get(key)
        if seen is None:
            table, is_visible = visible_documents(snapshot, library.fields, self.viewer, without_rights)
            state = state_of(snapshot, table, is_visible)
            seen = library.seen_by(self.viewer, table, is_visible, state, self._database)
            library.views.put(key, seen, VIEW_BYTES_PER_PLACE * len(library) + len(is_visible))
        return seen


def _equal(left: NDArray[np.bool_] | None, right: NDArray[np.bool_] | None) -> bool:
    return left is right or (left is not None and right is not None and np.array_equal(left, right))


def _index_in_memory(view: IndexView, former: Sequence[_InMemory]) -> tuple[list[_InMemory], int]:
    """Index the open changes that are not in memory yet; return all that is in memory then, and how many
    documents were too many."""
    held: dict[int, int] = {}
    for each in former:
        held.update(dict.fromkeys(each.segment.document_ids.tolist(), each.revision))
    opened = view.open_changes()
    due = [change for change in opened if held.get(change.document_id, -1) < change.revision]
    chosen: list[int] = []
    n_chunks = sum(each.segment.n_chunks for each in former)
    for change in due:
        n_chunks += change.n_chunks
        if chosen and n_chunks > 2 * MAX_CHUNKS_IN_MEMORY:
            break
        chosen.append(change.document_id)
    if not chosen:
        return list(former), len(due)
    segment = Segment(segment_bytes(read_documents(view.snapshot, chosen), TERMS))
    return [*former, _InMemory(view.revision, segment)], len(due) - len(chosen)
