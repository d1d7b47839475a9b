"""The postings of a library in the memory of a process that searches again and again.

Derived from the table `reef_postings` and giving the ranking of `shoal.search.reef_ranking`, whose SQL is the definition:
sums of whole numbers are exact here as there. 27,000 chunks of 38 reefs take 9 MB.

Postings are kept in blocks. New chunks and chunks with new scores make new blocks, and small blocks are merged, so
that keeping up costs little more than what is new. This rests on two promises of the store: ids are never used again,
and documents whose chunks get new scores are noted in `rescored_documents`, each time under a greater revision.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.errors import StorageError
from shoal.models import QueryReef
from shoal.search.filters import CompiledFilters
from shoal.search.ordering import Order
from shoal.search.reef_ranking import MILLIONTHS, Overlaps, Ranked
from shoal.storage.database import Database, Snapshot

SEARCHES_BEFORE_LOADING = 3
"""Loading costs as much as a few searches in SQL, so whoever searches once should not wait for it."""
MAX_CHUNKS = 500_000
"""Larger libraries are searched in SQL; these take 160 MB."""
MAX_NEW_CHUNKS = 1_000
"""More new chunks than this are read by a thread of their own (27,000 take a second or two), and searched in SQL
until then. Reading so many takes a sixth of the time of a search in SQL (benchmarks/search_plans.py)."""
MAX_MERGED_CHUNKS = 5_000
"""Larger blocks are merged by a thread of their own: 50,000 chunks take as long as a search."""
MAX_SMALL_BLOCKS = 12
"""Blocks that may be left before that thread is started; each costs a search a tenth of a millisecond."""

ADDED_AT_ONCE = 250_000
"""Postings, which take 7 MB then. All postings of 60 reefs in 90,000 chunks would take 30 MB, and no less time."""

# With ids that are never used again, number and largest id tell one set of chunks from every earlier one: what is
# new has a larger id than anything before, and without anything new, fewer means less. The revision tells one set of
# scores from every earlier one.
FINGERPRINT = """
    SELECT (SELECT COUNT(*) FROM chunks), (SELECT COALESCE(MAX(id), 0) FROM chunks),
           (SELECT COALESCE(MAX(revision), 0) FROM rescored_documents)
"""
NEW_CHUNKS = "SELECT id, document_id FROM chunks WHERE id > :last_id ORDER BY id"
NEW_POSTINGS = """
    SELECT chunk_id, weight FROM reef_postings WHERE reef_id = :reef_id AND chunk_id > :last_id ORDER BY chunk_id
"""
RESCORED = "SELECT document_id FROM rescored_documents WHERE revision > :revision"
COUNT_RESCORED = """
    SELECT COALESCE(SUM(d.n_chunks), 0) FROM rescored_documents r JOIN documents d ON d.id = r.document_id
    WHERE r.revision > :revision
"""
RESCORED_CHUNKS = """
    SELECT c.id, c.document_id FROM rescored_documents r JOIN chunks c ON c.document_id = r.document_id
    WHERE r.revision > :revision AND c.id <= :last_id ORDER BY c.id
"""
RESCORED_POSTINGS = """
    SELECT p.reef_id, p.chunk_id, p.weight
    FROM rescored_documents r
    JOIN chunks c ON c.document_id = r.document_id
    JOIN chunk_reefs s ON s.chunk_id = c.id
    JOIN reef_postings p ON p.reef_id = s.reef_id AND p.chunk_id = s.chunk_id
    WHERE r.revision > :revision AND c.id <= :last_id
"""
ALL_IDS = "SELECT id FROM chunks"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Block:
    """Postings of n chunks, grouped by reef.

    chunk_ids     i64 (n,)
    document_ids  i64 (n,)
    starts        i64 (n_reefs + 1,): the postings of reef r are starts[r]:starts[r + 1]
    places        i32 (p,): index of a posting's chunk in chunk_ids
    weights       i32 (p,): in millionths
    """

    chunk_ids: NDArray[np.int64]
    document_ids: NDArray[np.int64]
    starts: NDArray[np.int64]
    places: NDArray[np.int32]
    weights: NDArray[np.int32]


class State(NamedTuple):
    """What tells the states of a library apart."""

    n_chunks: int
    last_id: int
    revision: int


@dataclass(frozen=True)
class Postings:
    """The postings of one state of the library: `n_chunks` chunks, of which `last_id` is or was the newest, with the
    scores as of `revision`."""

    blocks: tuple[Block, ...]
    state: State

    @functools.cached_property
    def chunk_ids(self) -> NDArray[np.int64]:
        """The ids of all chunks, ascending."""
        return self._together("chunk_ids")[self._order]

    @functools.cached_property
    def document_ids(self) -> NDArray[np.int64]:
        """The document of each of these chunks."""
        return self._together("document_ids")[self._order]

    @functools.cached_property
    def places_of_blocks(self) -> tuple[NDArray[np.int64], ...]:
        """For each block the places of its chunks in `chunk_ids`."""
        return tuple(np.searchsorted(self.chunk_ids, block.chunk_ids) for block in self.blocks)

    @property
    def n_bytes(self) -> int:
        """What they take in memory."""
        arrays = [getattr(block, name) for block in self.blocks for name in Block.__slots__]
        in_order = [self.chunk_ids, self.document_ids, self._order, *self.places_of_blocks]
        return sum(array.nbytes for array in (*arrays, *in_order))

    def documents_of(self, chunk_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The documents of chunks that are all here."""
        return self.document_ids[np.searchsorted(self.chunk_ids, chunk_ids)]

    @functools.cached_property
    def _order(self) -> NDArray[np.int64]:
        return np.argsort(self._together("chunk_ids"), kind="stable")

    def _together(self, name: str) -> NDArray[np.int64]:
        arrays = [getattr(block, name) for block in self.blocks]
        return np.concatenate(arrays) if arrays else np.empty(0, np.int64)


NOTHING = Postings((), State(0, 0, 0))


class PostingsCache:
    """The newest postings that a search of this process has seen. Safe to share between threads.

    No search waits for another one's reading: it is served by SQL meanwhile.
    """

    def __init__(self, database: Database | None = None) -> None:
        """With a `database`, a lot of new chunks is read by a thread of its own; else by the search that sees it."""
        self._database = database
        self._kept: Postings | None = None
        self._reading = threading.Lock()
        self._n_searches = 0

    @property
    def in_memory(self) -> tuple[int, int]:
        """Chunks whose postings are kept at the moment, and the bytes they take."""
        kept = self._kept
        return (0, 0) if kept is None else (kept.state.n_chunks, kept.n_bytes)

    def load(self, snapshot: Snapshot, n_reefs: int) -> None:
        """Read the postings now, however little has been searched so far."""
        self._n_searches = SEARCHES_BEFORE_LOADING
        state = _state(snapshot)
        if state.n_chunks <= MAX_CHUNKS:
            with self._reading:
                self._refresh(snapshot, n_reefs, state)

    def of(self, snapshot: Snapshot, n_reefs: int) -> Postings | None:
        """The postings as of this snapshot; None where SQL does better: a library that is too large, a process
        that has searched too little, postings that are being read just now, or a snapshot that is older than what
        is kept."""
        state = _state(snapshot)
        if state.n_chunks > MAX_CHUNKS:
            self._kept = None
            return None
        self._n_searches += 1
        if self._n_searches <= SEARCHES_BEFORE_LOADING:
            return None
        kept = self._kept
        if kept is not None and kept.state == state:
            return kept
        if not self._reading.acquire(blocking=False):
            return None
        found, more_to_do = None, True
        try:
            if self._database is None:
                return self._refresh(snapshot, n_reefs, state)
            if _count_new(snapshot, kept or NOTHING, state) <= MAX_NEW_CHUNKS:
                found = self._refresh(snapshot, n_reefs, state, most_merged=MAX_MERGED_CHUNKS)
                more_to_do = found is not None and len(found.blocks) > MAX_SMALL_BLOCKS
        finally:
            self._reading.release()
        if more_to_do:
            threading.Thread(target=self._load_aside, args=(n_reefs,), name="postings", daemon=True).start()
        return found

    def _load_aside(self, n_reefs: int) -> None:
        assert self._database is not None, "only a database can be read aside"
        if not self._reading.acquire(blocking=False):
            return
        try:
            with self._database.snapshot(limited=False) as snapshot:
                self._refresh(snapshot, n_reefs, _state(snapshot))
        except StorageError as error:
            # The next search that finds them old tries again.
            log.warning("postings not read: %s", error)
        finally:
            self._reading.release()

    def _refresh(
        self, snapshot: Snapshot, n_reefs: int, state: State, *, most_merged: int = MAX_CHUNKS
    ) -> Postings | None:
        """Bring what is kept to the state of the snapshot, merging blocks of up to so many chunks together; None if
        the snapshot is older than what is kept."""
        kept = self._kept or NOTHING
        if kept.state != state:
            kept = _refreshed(snapshot, kept, n_reefs, state)
            if kept.state != state:
                return None
        blocks = tuple(_merged(kept.blocks, most_merged))
        if kept is not self._kept or len(blocks) < len(kept.blocks):
            self._kept = kept = Postings(blocks, kept.state)
        return kept


def rank(
    snapshot: Snapshot,
    postings: Postings,
    reefs: Sequence[QueryReef],
    compiled_filters: CompiledFilters,
    *,
    n: int,
    max_per_document: int | None,
) -> list[Ranked]:
    """As `shoal.search.reef_ranking.rank`."""
    found = overlaps(postings, reefs)
    keys = found.overlaps.astype(np.float64)
    eligible = found.n_shared > 0
    if compiled_filters:
        eligible &= compiled_filters.met_by(snapshot, found.chunk_ids)
    order = Order(found.chunk_ids, keys, eligible, postings.documents_of)
    best = order.first(n, max_per_document)
    documents = postings.documents_of(found.chunk_ids[best])
    return [
        Ranked(int(found.chunk_ids[i]), int(document), int(found.overlaps[i]), int(found.n_shared[i]))
        for i, document in zip(best.tolist(), documents.tolist(), strict=True)
    ]


def overlaps(postings: Postings, reefs: Sequence[QueryReef]) -> Overlaps:
    """As `shoal.search.reef_ranking.overlaps`, with all chunks: those that share nothing have 0."""
    n = len(postings.chunk_ids)
    sums, n_shared = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for block, where in zip(postings.blocks, postings.places_of_blocks, strict=True):
        length = len(block.chunk_ids)
        block_sums, block_shared = np.zeros(length), np.zeros(length, dtype=np.int64)
        for runs in _in_groups(block, reefs):
            places = np.concatenate([block.places[start:end] for start, end, _ in runs])
            # Whole numbers below 2**53: floating-point addition is exact.
            products = np.concatenate([block.weights[start:end] * z for start, end, z in runs])
            block_shared += np.bincount(places, minlength=length)
            block_sums += np.bincount(places, weights=products, minlength=length)
        n_shared[where], sums[where] = block_shared, block_sums
    return Overlaps(postings.chunk_ids, sums, n_shared)


def _in_groups(block: Block, reefs: Sequence[QueryReef]) -> Iterator[list[tuple[int, int, float]]]:
    """Start and end of each reef's postings, and the reef's z-score in millionths, in groups of up to `ADDED_AT_ONCE`
    postings or one reef."""
    group: list[tuple[int, int, float]] = []
    n_postings = 0
    for reef in reefs:
        start, end = int(block.starts[reef.reef_id]), int(block.starts[reef.reef_id + 1])
        if group and n_postings + end - start > ADDED_AT_ONCE:
            yield group
            group, n_postings = [], 0
        group.append((start, end, float(round(reef.z_score * MILLIONTHS))))
        n_postings += end - start
    if group:
        yield group


def _state(snapshot: Snapshot) -> State:
    return State(*snapshot.first(FINGERPRINT))


def _count_new(snapshot: Snapshot, kept: Postings, state: State) -> int:
    """About how many chunks are to be read."""
    n_rescored = snapshot.value(COUNT_RESCORED, {"revision": kept.state.revision}) if kept.blocks else 0
    return int(state.last_id - kept.state.last_id + n_rescored)


def _refreshed(snapshot: Snapshot, kept: Postings, n_reefs: int, state: State) -> Postings:
    """`kept` brought to the state of the snapshot. Where the snapshot is older and shows chunks that are gone by
    now, or other scores, the result is of another state."""
    before = kept.state
    if state.revision < before.revision:
        return kept
    blocks = list(kept.blocks)
    if blocks and state.revision > before.revision:
        since = {"revision": before.revision, "last_id": before.last_id}
        rescored = _ids(snapshot, RESCORED, {"revision": before.revision})
        blocks = [_without(block, np.isin(block.document_ids, rescored)) for block in blocks]
        blocks.append(_read_rescored(snapshot, n_reefs, since))
    if state.last_id > before.last_id:
        blocks.append(_read_block(snapshot, n_reefs, before.last_id))
    # Something was removed, or the snapshot is older than what is kept.
    if sum(len(block.chunk_ids) for block in blocks) != state.n_chunks or state.last_id < before.last_id:
        ids = _ids(snapshot, ALL_IDS, {})
        blocks = [_without(block, ~np.isin(block.chunk_ids, ids)) for block in blocks]
    n_known = sum(len(block.chunk_ids) for block in blocks)
    return Postings(tuple(blocks), State(n_known, state.last_id, state.revision))


def _read_block(snapshot: Snapshot, n_reefs: int, last_id: int) -> Block:
    """The postings of the chunks with larger ids than `last_id`."""
    chunk_ids, document_ids = _columns(snapshot, NEW_CHUNKS, {"last_id": last_id})
    runs = [
        _columns(snapshot, NEW_POSTINGS, {"reef_id": reef_id, "last_id": last_id})
        for reef_id in range(n_reefs)
    ]
    ids = np.concatenate([run[0] for run in runs])
    weights = np.concatenate([run[1] for run in runs])
    return Block(
        chunk_ids=chunk_ids,
        document_ids=document_ids,
        starts=np.concatenate([[0], np.cumsum([len(run[0]) for run in runs])]),
        places=np.searchsorted(chunk_ids, ids).astype(np.int32),
        weights=weights.astype(np.int32),
    )


def _read_rescored(snapshot: Snapshot, n_reefs: int, since: dict[str, int]) -> Block:
    """The postings of the known chunks that have other scores by now."""
    chunk_ids, document_ids = _columns(snapshot, RESCORED_CHUNKS, since)
    rows = chain.from_iterable(snapshot.tuples(RESCORED_POSTINGS, since))
    reefs, ids, weights = np.fromiter(rows, dtype=np.int64).reshape(-1, 3).T
    order = np.argsort(reefs, kind="stable")
    return Block(
        chunk_ids=chunk_ids,
        document_ids=document_ids,
        starts=np.searchsorted(reefs[order], np.arange(n_reefs + 1)),
        places=np.searchsorted(chunk_ids, ids[order]).astype(np.int32),
        weights=weights[order].astype(np.int32),
    )


def _without(block: Block, goes: NDArray[np.bool_]) -> Block:
    """The block without some of its chunks."""
    stays = ~goes
    if stays.all():
        return block
    kept = stays[block.places]
    n_before = np.concatenate([[0], np.cumsum(kept)])
    new_places = np.cumsum(stays) - 1
    return Block(
        chunk_ids=block.chunk_ids[stays],
        document_ids=block.document_ids[stays],
        starts=n_before[block.starts],
        places=new_places[block.places[kept]].astype(np.int32),
        weights=block.weights[kept],
    )


def _merged(blocks: Sequence[Block], most: int) -> list[Block]:
    """Blocks of which each is more than twice as large as the next, or would have more than `most` chunks with it:
    there are few, and each chunk is seldom moved."""
    merged: list[Block] = []
    for block in blocks:
        if not len(block.chunk_ids):
            continue
        merged.append(block)
        while (
            len(merged) > 1
            and len(merged[-2].chunk_ids) <= 2 * len(merged[-1].chunk_ids)
            and len(merged[-2].chunk_ids) + len(merged[-1].chunk_ids) <= most
        ):
            second = merged.pop()
            merged.append(_joined(merged.pop(), second))
    return merged


def _joined(first: Block, second: Block) -> Block:
    """Two blocks as one."""
    n_reefs = len(first.starts) - 1
    owners = np.concatenate(
        [np.repeat(np.arange(n_reefs), np.diff(block.starts)) for block in (first, second)]
    )
    order = np.argsort(owners, kind="stable")
    return Block(
        chunk_ids=np.concatenate([first.chunk_ids, second.chunk_ids]),
        document_ids=np.concatenate([first.document_ids, second.document_ids]),
        starts=first.starts + second.starts,
        places=np.concatenate([first.places, second.places + np.int32(len(first.chunk_ids))])[order],
        weights=np.concatenate([first.weights, second.weights])[order],
    )


def _columns(
    snapshot: Snapshot, statement: str, parameters: dict[str, Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The two columns of a statement's rows."""
    flat = np.fromiter(chain.from_iterable(snapshot.tuples(statement, parameters)), dtype=np.int64)
    return flat[::2].copy(), flat[1::2].copy()


def _ids(snapshot: Snapshot, statement: str, parameters: Any) -> NDArray[np.int64]:
    return np.fromiter((row[0] for row in snapshot.tuples(statement, parameters)), dtype=np.int64)
