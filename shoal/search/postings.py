"""The reef postings of a library, cached in memory.

They are made from the profiles of the chunks; overlaps equal those of `shoal.search.reef_ranking`, because
sums of whole numbers are exact. 27,000 chunks of 38 reefs take 9 MB.

Postings are held in blocks. New and rescored chunks form new blocks, and small blocks are merged, so an
update costs little more than reading what is new. This relies on two guarantees of the storage: ids are never
reused, and documents whose chunks are rescored are listed in `rescored_documents`, each time with a greater
revision.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.errors import StorageError
from shoal.models import QueryReef
from shoal.search.reef_ranking import Overlaps
from shoal.storage.database import Database, Snapshot
from shoal.storage.profiles import MAX_REEFS, MILLIONTHS, ChunkProfiles, batches

SEARCHES_BEFORE_LOADING = 1
"""Loading costs more than one pass over the profiles, so a process that searches once does not load."""
MAX_NEW_CHUNKS = 20_000
"""More new chunks than this are read by a background thread; until then, searches read all profiles. Reading
this many takes a tenth of a second (benchmarks/search_plans.py)."""
MAX_MERGED_CHUNKS = 5_000
"""Larger blocks are merged by a background thread: merging 50,000 chunks takes as long as a search."""
MAX_BLOCK_CHUNKS = 131_072
"""Larger blocks are not merged any more, which bounds the memory that merging takes."""
MAX_SMALL_BLOCKS = 12
"""More blocks than this start that thread; each block costs a search a tenth of a millisecond."""

MAX_POSTINGS_PER_SUM = 250_000
"""Postings summed in one step, which take 7 MB. All postings of 60 reefs in 90,000 chunks would take 30 MB
and no less time."""

# Ids are never reused, so the count and the largest id identify a set of chunks: new chunks have larger ids
# than all before, and deletion alone lowers the count. The revision identifies a set of scores.
FINGERPRINT = """
    SELECT (SELECT COUNT(*) FROM chunks), (SELECT COALESCE(MAX(id), 0) FROM chunks),
           (SELECT COALESCE(MAX(revision), 0) FROM rescored_documents)
"""
NEW_PROFILES = "SELECT id, document_id, profile FROM chunks WHERE id > :last_id ORDER BY id"
RESCORED = "SELECT document_id FROM rescored_documents WHERE revision > :revision"
COUNT_RESCORED = """
    SELECT COALESCE(SUM(d.n_chunks), 0) FROM rescored_documents r JOIN documents d ON d.id = r.document_id
    WHERE r.revision > :revision
"""
RESCORED_PROFILES = """
    SELECT c.id, c.document_id, c.profile
    FROM rescored_documents r JOIN chunks c ON c.document_id = r.document_id
    WHERE r.revision > :revision AND c.id <= :last_id ORDER BY c.id
"""
ALL_IDS = "SELECT id FROM chunks"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Block:
    """The postings of n chunks, grouped by reef.

    chunk_ids     i64 (n,)
    document_ids  i64 (n,)
    starts        i64 (MAX_REEFS + 1,): the postings of reef r are starts[r]:starts[r + 1]
    places        i32 (p,): index of a posting's chunk in chunk_ids
    weights       i32 (p,): in millionths
    """

    chunk_ids: NDArray[np.int64]
    document_ids: NDArray[np.int64]
    starts: NDArray[np.int64]
    places: NDArray[np.int32]
    weights: NDArray[np.int32]


class State(NamedTuple):
    """A state of the library. `last_id` is or was its newest chunk; `revision` is that of the scores."""

    n_chunks: int
    last_id: int
    revision: int


@dataclass(frozen=True)
class Postings:
    """The postings of one state of the library."""

    blocks: tuple[Block, ...]
    state: State

    @functools.cached_property
    def chunk_ids(self) -> NDArray[np.int64]:
        """The ids of all chunks, ascending."""
        return self._concatenated("chunk_ids")[self._order]

    @functools.cached_property
    def document_ids(self) -> NDArray[np.int64]:
        """The document of each chunk in `chunk_ids`."""
        return self._concatenated("document_ids")[self._order]

    @functools.cached_property
    def places_of_blocks(self) -> tuple[NDArray[np.int64], ...]:
        """For each block, the places of its chunks in `chunk_ids`."""
        return tuple(np.searchsorted(self.chunk_ids, block.chunk_ids) for block in self.blocks)

    @property
    def n_bytes(self) -> int:
        """Memory used, in bytes."""
        arrays = [getattr(block, name) for block in self.blocks for name in Block.__slots__]
        derived = [self.chunk_ids, self.document_ids, self._order, *self.places_of_blocks]
        return sum(array.nbytes for array in (*arrays, *derived))

    def documents_of(self, chunk_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The document of each of `chunk_ids`, all of which must have postings here."""
        return self.document_ids[np.searchsorted(self.chunk_ids, chunk_ids)]

    @functools.cached_property
    def _order(self) -> NDArray[np.int64]:
        return np.argsort(self._concatenated("chunk_ids"), kind="stable")

    def _concatenated(self, name: str) -> NDArray[np.int64]:
        arrays = [getattr(block, name) for block in self.blocks]
        return np.concatenate(arrays) if arrays else np.empty(0, np.int64)


NO_POSTINGS = Postings((), State(0, 0, 0))


class PostingsCache:
    """The newest postings that a search in this process has read. Thread-safe.

    A search never waits for another search's reading; it reads the profiles meanwhile.
    """

    def __init__(self, database: Database | None = None) -> None:
        """With a `database`, a background thread reads many new chunks; without, the search does."""
        self._database = database
        self._cached: Postings | None = None
        self._reading = threading.Lock()
        self._n_searches = 0

    @property
    def in_memory(self) -> tuple[int, int]:
        """The number of chunks whose postings are cached now, and the bytes they take."""
        cached = self._cached
        return (0, 0) if cached is None else (cached.state.n_chunks, cached.n_bytes)

    def load(self, snapshot: Snapshot) -> None:
        """Read the postings now, however few searches there were."""
        self._n_searches = SEARCHES_BEFORE_LOADING
        with self._reading:
            self._refresh(snapshot, _state(snapshot))

    def of(self, snapshot: Snapshot) -> Postings | None:
        """Return the postings as of this snapshot, or None if the search should read the profiles instead.

        That is so in a process with too few searches, while another thread reads postings, and for a snapshot
        older than the cached postings.
        """
        state = _state(snapshot)
        self._n_searches += 1
        if self._n_searches <= SEARCHES_BEFORE_LOADING:
            return None
        cached = self._cached
        if cached is not None and cached.state == state:
            return cached
        if not self._reading.acquire(blocking=False):
            return None
        postings, is_incomplete = None, True
        try:
            if self._database is None:
                return self._refresh(snapshot, state)
            if _count_new(snapshot, cached or NO_POSTINGS, state) <= MAX_NEW_CHUNKS:
                postings = self._refresh(snapshot, state, max_merged=MAX_MERGED_CHUNKS)
                is_incomplete = postings is not None and len(postings.blocks) > MAX_SMALL_BLOCKS
        finally:
            self._reading.release()
        if is_incomplete:
            threading.Thread(target=self._load_in_background, name="postings", daemon=True).start()
        return postings

    def _load_in_background(self) -> None:
        assert self._database is not None, "a background thread needs the database"
        if not self._reading.acquire(blocking=False):
            return
        try:
            with self._database.snapshot(limited=False) as snapshot:
                self._refresh(snapshot, _state(snapshot))
        except StorageError as error:
            # The next search that finds the postings outdated tries again.
            log.warning("postings not read: %s", error)
        finally:
            self._reading.release()

    def _refresh(
        self, snapshot: Snapshot, state: State, *, max_merged: int = MAX_BLOCK_CHUNKS
    ) -> Postings | None:
        """Update the cached postings to the state of the snapshot and merge blocks of up to `max_merged`
        chunks.

        Returns None if the snapshot is older than the cached postings.
        """
        cached = self._cached or NO_POSTINGS
        if cached.state != state:
            cached = _refreshed(snapshot, cached, state)
            if cached.state != state:
                return None
        blocks = tuple(_merge_blocks(cached.blocks, max_merged))
        if cached is not self._cached or len(blocks) < len(cached.blocks):
            self._cached = cached = Postings(blocks, cached.state)
        return cached


def overlaps(postings: Postings, reefs: Sequence[QueryReef]) -> Overlaps:
    """Return the overlaps of all chunks; those that share no reef have 0. See
    `shoal.search.reef_ranking.overlaps`."""
    n = len(postings.chunk_ids)
    sums, n_shared = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for block, block_places in zip(postings.blocks, postings.places_of_blocks, strict=True):
        length = len(block.chunk_ids)
        block_sums, block_shared = np.zeros(length), np.zeros(length, dtype=np.int64)
        for runs in _grouped_runs(block, reefs):
            places = np.concatenate([block.places[start:end] for start, end, _ in runs])
            # Whole numbers below 2**53: floating-point addition is exact.
            products = np.concatenate([block.weights[start:end] * z for start, end, z in runs])
            block_shared += np.bincount(places, minlength=length)
            block_sums += np.bincount(places, weights=products, minlength=length)
        n_shared[block_places], sums[block_places] = block_shared, block_sums
    return Overlaps(postings.chunk_ids, sums, n_shared)


def _grouped_runs(block: Block, reefs: Sequence[QueryReef]) -> Iterator[list[tuple[int, int, float]]]:
    """Yield groups of (start, end, z-score in millionths), one for each reef's posting list.

    A group has up to `MAX_POSTINGS_PER_SUM` postings, or one reef.
    """
    group: list[tuple[int, int, float]] = []
    n_postings = 0
    for reef in reefs:
        start, end = int(block.starts[reef.reef_id]), int(block.starts[reef.reef_id + 1])
        if group and n_postings + end - start > MAX_POSTINGS_PER_SUM:
            yield group
            group, n_postings = [], 0
        group.append((start, end, float(round(reef.z_score * MILLIONTHS))))
        n_postings += end - start
    if group:
        yield group


def _state(snapshot: Snapshot) -> State:
    return State(*snapshot.first(FINGERPRINT))


def _count_new(snapshot: Snapshot, cached: Postings, state: State) -> int:
    """Estimate how many chunks an update reads."""
    n_rescored = snapshot.value(COUNT_RESCORED, {"revision": cached.state.revision}) if cached.blocks else 0
    return int(state.last_id - cached.state.last_id + n_rescored)


def _refreshed(snapshot: Snapshot, cached: Postings, state: State) -> Postings:
    """Return the postings updated to the state of the snapshot.

    If the snapshot is older and shows deleted chunks or former scores, the result has a different state.
    """
    before = cached.state
    if state.revision < before.revision:
        return cached
    blocks = list(cached.blocks)
    if blocks and state.revision > before.revision:
        since = {"revision": before.revision, "last_id": before.last_id}
        rescored = _ids(snapshot, RESCORED, {"revision": before.revision})
        blocks = [_without(block, np.isin(block.document_ids, rescored)) for block in blocks]
        blocks += _read_blocks(snapshot, RESCORED_PROFILES, since)
    if state.last_id > before.last_id:
        blocks += _read_blocks(snapshot, NEW_PROFILES, {"last_id": before.last_id})
    # Chunks were deleted, or the snapshot is older than the cached postings.
    if sum(len(block.chunk_ids) for block in blocks) != state.n_chunks or state.last_id < before.last_id:
        ids = _ids(snapshot, ALL_IDS, {})
        blocks = [_without(block, ~np.isin(block.chunk_ids, ids)) for block in blocks]
    n_chunks = sum(len(block.chunk_ids) for block in blocks)
    return Postings(tuple(blocks), State(n_chunks, state.last_id, state.revision))


def _read_blocks(snapshot: Snapshot, statement: str, parameters: dict[str, int]) -> Iterator[Block]:
    """Read the profiles of a statement as blocks of up to `profiles.BATCH` chunks."""
    return map(_block, batches(snapshot.tuples(statement, parameters)))


def _block(batch: ChunkProfiles) -> Block:
    """Group the records of chunks by reef."""
    chunk_ids, document_ids, profiles = batch
    order = np.argsort(profiles.reef_ids, kind="stable")
    starts = np.zeros(MAX_REEFS + 1, dtype=np.int64)
    np.cumsum(np.bincount(profiles.reef_ids, minlength=MAX_REEFS), out=starts[1:])
    places = profiles.chunks.astype(np.int32)[order]
    return Block(chunk_ids, document_ids, starts, places, profiles.weights[order])


def _without(block: Block, is_removed: NDArray[np.bool_]) -> Block:
    """Return the block without the removed chunks."""
    stays = ~is_removed
    if stays.all():
        return block
    posting_stays = stays[block.places]
    n_before = np.concatenate([[0], np.cumsum(posting_stays)])
    new_places = np.cumsum(stays) - 1
    return Block(
        chunk_ids=block.chunk_ids[stays],
        document_ids=block.document_ids[stays],
        starts=n_before[block.starts],
        places=new_places[block.places[posting_stays]].astype(np.int32),
        weights=block.weights[posting_stays],
    )


def _merge_blocks(blocks: Sequence[Block], max_chunks: int) -> list[Block]:
    """Merge neighbours until each block is more than twice as large as the next, or both exceed `max_chunks`.

    This keeps the number of blocks small and copies each chunk rarely.
    """
    merged: list[Block] = []
    for block in blocks:
        if not len(block.chunk_ids):
            continue
        merged.append(block)
        while (
            len(merged) > 1
            and len(merged[-2].chunk_ids) <= 2 * len(merged[-1].chunk_ids)
            and len(merged[-2].chunk_ids) + len(merged[-1].chunk_ids) <= max_chunks
        ):
            second = merged.pop()
            merged.append(_concatenate(merged.pop(), second))
    return merged


def _concatenate(first: Block, second: Block) -> Block:
    """Merge two blocks into one."""
    reefs = np.concatenate(
        [np.repeat(np.arange(MAX_REEFS, dtype=np.uint8), np.diff(block.starts)) for block in (first, second)]
    )
    order = np.argsort(reefs, kind="stable")
    return Block(
        chunk_ids=np.concatenate([first.chunk_ids, second.chunk_ids]),
        document_ids=np.concatenate([first.document_ids, second.document_ids]),
        starts=first.starts + second.starts,
        places=np.concatenate([first.places, second.places + np.int32(len(first.chunk_ids))])[order],
        weights=np.concatenate([first.weights, second.weights])[order],
    )


def _ids(snapshot: Snapshot, statement: str, parameters: Any) -> NDArray[np.int64]:
    return np.fromiter((row[0] for row in snapshot.tuples(statement, parameters)), dtype=np.int64)
