"""Packed profiles: the reefs of a chunk as one value of its row, and the names of reefs and islands.

A profile is one record of 7 bytes per stored reef, strongest first:

    reef_id               u8
    z_score               u16, little-endian, in steps of 0.004: 0.004..262.14
    raw_bm25              u16, little-endian, in steps of 0.1: 0..6553.5
    n_contributing_words  u8: 0..255
    probability           u8, in steps of 0.005: 0..0.995, because no label is certain

Values are rounded to the nearest step, and larger ones are stored as the largest. In 26 MB of books, the
largest z-score is 71 and the largest raw BM25 3,222. The steps have at most three decimal places, so a stored
value is shown exactly. Everything reads these values, so a library always gives the same numbers.

Names are stored by the scorer data that numbers the reefs, because documents may be scored with different
data.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.errors import DamagedDatabaseError
from shoal.models.documents import ScoredDocument
from shoal.models.vocabulary import Island, Reef, ReefScore
from shoal.scorer import Scorer
from shoal.storage.database import Snapshot, Transaction, listed

if TYPE_CHECKING:
    from lagoon import ReefArrays

RECORD = np.dtype(
    [
        ("reef_id", "u1"),
        ("z_score", "<u2"),
        ("raw_bm25", "<u2"),
        ("n_contributing_words", "u1"),
        ("probability", "u1"),
    ]
)
Z_STEPS, RAW_STEPS, PROBABILITY_STEPS = 250, 10, 200
"""Steps per unit."""
MILLIONTHS = 1_000_000
"""Scale of weights, and of the z-scores of queries."""
MAX_REEFS = 256
"""Reef ids are bytes."""

BATCH = 65_536
"""Chunks whose profiles are unpacked together: 25 MB."""

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
COUNT_REEFS = "SELECT COUNT(island_id) FROM reefs WHERE data_checksum = :data_checksum"
WRITE_REEF = """
    INSERT INTO reefs (data_checksum, reef_id, reef_name, island_id, island_name, island_scale)
    VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (data_checksum, reef_id) DO UPDATE SET reef_name = excluded.reef_name,
        island_id = excluded.island_id, island_name = excluded.island_name,
        island_scale = excluded.island_scale
"""
REEFS = """
    SELECT data_checksum, reef_id, reef_name, island_id, island_name, island_scale FROM reefs
    WHERE data_checksum IN ({checksums})
"""
SOME_REEFS = f"{REEFS} AND reef_id IN ({{ids}})"
ANY_CHUNK = "SELECT 1 FROM chunks WHERE data_checksum = :data_checksum LIMIT 1"
DELETE_REEFS = "DELETE FROM reefs WHERE data_checksum = :data_checksum"
# For the views that unpack profiles.
RANKS, BYTES = "SELECT rank FROM ranks ORDER BY rank", "SELECT bytes FROM all_bytes"
DELETE_RANKS, DELETE_BYTES = "DELETE FROM ranks", "DELETE FROM all_bytes"
WRITE_RANK, WRITE_BYTES = "INSERT INTO ranks VALUES (?)", "INSERT INTO all_bytes VALUES (?)"
_RANKS, _BYTES = [(rank,) for rank in range(256)], bytes(range(256))


def reef_ids_of(profile: bytes) -> bytes:
    """Return the reefs of a packed profile, a byte each: the column `reef_ids`, which finds a reef in SQL."""
    return profile[:: RECORD.itemsize]


def z_steps(z_scores: Doubles) -> Doubles:
    """Return z-scores above 0 as they are stored, in steps of 1 / Z_STEPS."""
    steps: Doubles = np.clip(np.rint(z_scores * Z_STEPS), 1, 0xFFFF)
    return steps


@dataclass(frozen=True)
class Profiles:
    """The profiles of n chunks.

    records  RECORD (m,): the records of all chunks, one after the other
    bounds   i64 (n + 1,): the records of chunk i are bounds[i]..bounds[i + 1] - 1
    """

    records: NDArray[np.void]
    bounds: Ints

    @classmethod
    def of(cls, packed: Sequence[bytes]) -> Profiles:
        """Unpack profiles. Raises DamagedDatabaseError if one has an incomplete record."""
        n_bytes = np.fromiter(map(len, packed), dtype=np.int64, count=len(packed))
        if (n_bytes % RECORD.itemsize).any():
            raise DamagedDatabaseError
        return cls(np.frombuffer(b"".join(packed), dtype=RECORD), _bounds(n_bytes // RECORD.itemsize))

    @classmethod
    def from_scores(cls, arrays: Sequence[ReefArrays]) -> Profiles:
        """Round the scores of n texts to the steps; z-scores are above 0."""
        lengths = np.fromiter((len(each.reef_ids) for each in arrays), dtype=np.int64, count=len(arrays))
        records = np.zeros(int(lengths.sum()), dtype=RECORD)
        if len(records):
            reef_ids, z, raw, n_words, probabilities = map(np.concatenate, zip(*arrays, strict=True))
            records["reef_id"] = reef_ids
            records["z_score"] = z_steps(z)
            records["raw_bm25"] = np.clip(np.rint(raw * RAW_STEPS), 0, 0xFFFF)
            records["n_contributing_words"] = np.minimum(n_words, 0xFF)
            steps = np.rint(probabilities * PROBABILITY_STEPS)
            records["probability"] = np.minimum(steps, PROBABILITY_STEPS - 1)
        return cls(records, _bounds(lengths))

    def without_labels(self) -> Profiles:
        """Return them with probabilities of 0."""
        records = self.records.copy()
        records["probability"] = 0
        return Profiles(records, self.bounds)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @functools.cached_property
    def chunks(self) -> Ints:
        """The chunk of each record, (m,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.bounds))

    @property
    def reef_ids(self) -> NDArray[np.uint8]:
        """The reef of each record, (m,)."""
        ids: NDArray[np.uint8] = self.records["reef_id"]
        return ids

    @property
    def z_scores(self) -> Doubles:
        """The z-score of each record, (m,)."""
        return np.asarray(self.records["z_score"] / Z_STEPS)

    @property
    def probabilities(self) -> Doubles:
        """The probability of each record, (m,), 0..1."""
        return np.asarray(self.records["probability"] / PROBABILITY_STEPS)

    @functools.cached_property
    def norms(self) -> Doubles:
        """The Euclidean norm of the z-scores of each chunk, (n,); 0 without reefs."""
        return self._norms_in_steps / Z_STEPS

    @property
    def weights(self) -> NDArray[np.int32]:
        """The z-score of each record over the norm of its chunk, (m,), in millionths.

        Whole numbers, because their sums do not depend on the order of addition.
        """
        steps = self.records["z_score"].astype(np.float64)
        steps *= MILLIONTHS
        steps /= np.repeat(self._norms_in_steps, np.diff(self.bounds))
        return np.rint(steps, out=steps).astype(np.int32)

    @property
    def top_records(self) -> Ints:
        """The record with the most probable reef of each chunk, (n,); of equal ones the first, -1 without
        reefs."""
        tops = np.full(len(self), -1, dtype=np.int64)
        has_reefs = np.diff(self.bounds) > 0
        # Later records have smaller keys among equal probabilities.
        keys = self.records["probability"].astype(np.int64) * (len(self.records) + 1)
        keys += len(self.records) - np.arange(len(self.records))
        if has_reefs.any():
            largest = np.maximum.reduceat(keys, self.bounds[:-1][has_reefs])
            tops[has_reefs] = len(self.records) - largest % (len(self.records) + 1)
        return tops

    def packed(self) -> list[bytes]:
        """Return the profile of each chunk as it is stored."""
        joined = self.records.tobytes()
        ends = (self.bounds * RECORD.itemsize).tolist()
        return [joined[start:end] for start, end in itertools.pairwise(ends)]

    def scores(self, reefs: Sequence[Mapping[int, NamedReef]]) -> list[tuple[ReefScore, ...]]:
        """Return the reefs of each chunk, strongest first; `reefs[i]` names those of chunk i."""
        ids, chunks = self.reef_ids.tolist(), self.chunks.tolist()
        columns = (
            ids,
            [reefs[chunk][reef_id].reef_name for chunk, reef_id in zip(chunks, ids, strict=True)],
            self.z_scores.tolist(),
            (self.records["raw_bm25"] / RAW_STEPS).tolist(),
            self.records["n_contributing_words"].tolist(),
            self.probabilities.tolist(),
        )
        scores = list(map(ReefScore._make, zip(*columns, strict=True)))
        return [tuple(scores[start:end]) for start, end in itertools.pairwise(self.bounds.tolist())]

    @functools.cached_property
    def _norms_in_steps(self) -> Doubles:
        # Sums of whole numbers below 2**53 are exact.
        squares = self.records["z_score"].astype(np.float64) ** 2
        return np.sqrt(np.bincount(self.chunks, weights=squares, minlength=len(self)))


class ChunkProfiles(NamedTuple):
    """The profiles of n chunks, with the ids of chunks and documents, i64 (n,)."""

    chunk_ids: Ints
    document_ids: Ints
    profiles: Profiles


def batches(rows: Iterable[tuple[int, int, bytes]], most: int = BATCH) -> Iterator[ChunkProfiles]:
    """Unpack rows of (chunk id, document id, packed profile), `most` at a time, which bounds the memory."""
    remaining = iter(rows)
    while batch := list(itertools.islice(remaining, most)):
        chunk_ids, document_ids, packed = zip(*batch, strict=True)
        yield ChunkProfiles(
            np.array(chunk_ids, dtype=np.int64), np.array(document_ids, dtype=np.int64), Profiles.of(packed)
        )


def pack(rows: Iterable[Sequence[Any]]) -> bytes:
    """Pack one profile from rows of (reef id, z, raw BM25, number of words, probability)."""
    from lagoon import ReefArrays

    columns = list(zip(*rows, strict=True)) or [()] * len(ReefArrays._fields)
    arrays = ReefArrays(*(np.array(column) for column in columns))
    return Profiles.from_scores([arrays]).packed()[0]


def _bounds(lengths: Ints) -> Ints:
    bounds = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


class NamedReef(NamedTuple):
    """A reef with its island, which is None if the scorer data is older than the table of reefs.

    `island_scale`: 1 over the square root of the number of the island's reefs.
    """

    reef_name: str
    island_id: int | None
    island_name: str | None
    island_scale: float | None


class ReefsById(dict[int, NamedReef]):
    """The reefs of one build of the scorer data; a missing one is named by its number."""

    def __missing__(self, reef_id: int) -> NamedReef:
        return NamedReef(f"reef {reef_id}", None, None, None)


def write_reefs(transaction: Transaction, documents: Iterable[ScoredDocument]) -> None:
    """Write the reefs of the documents' scorer data, unless they are there."""
    for checksum, scored in {scored.data_checksum: scored for scored in documents}.items():
        write_names(transaction, checksum, scored.reefs, scored.islands)


def write_names(
    transaction: Transaction, checksum: str, reefs: Sequence[Reef], islands: Sequence[Island]
) -> None:
    """Write the reefs of some scorer data, unless they are there."""
    if transaction.value(COUNT_REEFS, {"data_checksum": checksum}) != len(reefs):
        transaction.write_many(WRITE_REEF, _rows(checksum, reefs, islands))


def is_complete(snapshot: Snapshot, checksum: str, reefs: Sequence[Reef], islands: Sequence[Island]) -> bool:
    """Whether the names of the reefs of these scorer data, if any chunk has them, and the values with which
    the views unpack profiles, are as they should be."""
    if list(snapshot.tuples(RANKS)) != _RANKS or list(snapshot.tuples(BYTES)) != [(_BYTES,)]:
        return False
    if not snapshot.value(ANY_CHUNK, {"data_checksum": checksum}):
        return True
    expected = {reef_id: NamedReef(*reef) for _, reef_id, *reef in _rows(checksum, reefs, islands)}
    return reefs_by_data(snapshot, [checksum])[checksum] == expected


def write_all(
    transaction: Transaction, checksum: str, reefs: Sequence[Reef], islands: Sequence[Island]
) -> None:
    """Write what `is_complete` checks again."""
    for statement in (DELETE_RANKS, DELETE_BYTES, DELETE_REEFS):
        transaction.execute(statement, {"data_checksum": checksum})
    transaction.write_many(WRITE_RANK, _RANKS)
    transaction.write_many(WRITE_BYTES, [(_BYTES,)])
    transaction.write_many(WRITE_REEF, _rows(checksum, reefs, islands))


def _rows(checksum: str, reefs: Sequence[Reef], islands: Sequence[Island]) -> list[tuple[Any, ...]]:
    n_reefs = Counter(reef.island_id for reef in reefs)
    names = {island.id: island.name for island in islands}
    return [
        (
            checksum,
            reef.id,
            reef.name,
            reef.island_id,
            names[reef.island_id],
            1 / math.sqrt(n_reefs[reef.island_id]),
        )
        for reef in reefs
    ]


def names_by_data(
    snapshot: Snapshot, checksums: Iterable[str], reef_ids: Collection[int], scorer: Scorer
) -> Mapping[str, ReefsById]:
    """Return the names of some reefs, without islands, by checksum of the scorer data; those of other data
    than the scorer's are read."""
    of_scorer = ReefsById(
        (reef.id, NamedReef(reef.name, None, None, None)) for reef in scorer.reefs if reef.id in reef_ids
    )
    others = set(checksums) - {scorer.data_checksum}
    return {
        **(reefs_by_data(snapshot, others, reef_ids) if others else {}),
        scorer.data_checksum: of_scorer,
    }


def reefs_by_data(
    snapshot: Snapshot, checksums: Iterable[str], reef_ids: Collection[int] | None = None
) -> Mapping[str, ReefsById]:
    """Read the reefs of several builds of the scorer data, by checksum; only these `reef_ids`, if given."""
    by_data = {checksum: ReefsById() for checksum in checksums}
    names, parameters = listed("checksum", by_data)
    statement = REEFS.format(checksums=names)
    if reef_ids is not None:
        ids, id_parameters = listed("id", reef_ids)
        statement, parameters = SOME_REEFS.format(checksums=names, ids=ids), parameters | id_parameters
    for checksum, reef_id, *reef in snapshot.tuples(statement, parameters):
        by_data[checksum][reef_id] = NamedReef(*reef)
    return by_data
