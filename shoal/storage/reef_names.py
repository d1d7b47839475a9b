"""The names of reefs and islands by the scorer data that numbers them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from shoal.models.documents import ScoredDocument
from shoal.models.vocabulary import Island, Reef
from shoal.scorer import Scorer
from shoal.storage.database import Snapshot, Transaction, listed

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
