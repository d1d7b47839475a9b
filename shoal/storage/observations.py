"""Observations of the discover stage by text: rows of `observed_documents` and `observed_words`.

A text is `pending` from its discovery until its wave learns, then `learned`: included in the sums of
`word_evidence`. It counts while its document is stored or while an item that will store it is open. Code that
deletes a document or ends an item does not update the sums: the next learn finds the texts that no longer
count.

No function here begins or ends a transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.models.documents import DocFormat
from shoal.storage.column_values import pack_context
from shoal.storage.database import Snapshot, Transaction
from shoal.storage.vocabulary import EvidenceRow, StoredRow

# These conditions match the partial indexes literally, so that SQLite uses them.
_LIVE = "o.state IN ('pending', 'learned')"
_OPEN = "(o.state <> 'learned' OR o.stored = 0)"

# An open item that will become the document of this text.
_AWAITED = """EXISTS (
    SELECT 1 FROM job_items e JOIN jobs j ON j.id = e.job_id
    WHERE e.content_hash = o.content_hash AND j.status IN ('enqueued', 'processing')
      AND e.status IN ('enqueued', 'converting', 'converted', 'discovering', 'discovered', 'scoring'))"""
# The same, without the item that the query is made for.
_AWAITED_BY_OTHERS = _AWAITED.replace("WHERE", "WHERE e.id <> :item_id AND", 1)

FIND_LIVE = f"""
    SELECT o.id, o.state, o.stored, o.basis, o.title, o.format, o.settings, {_AWAITED_BY_OTHERS} AS awaited
    FROM observed_documents o WHERE o.content_hash = :content_hash AND {_LIVE}
"""
IS_LIVE = f"SELECT 1 FROM observed_documents o WHERE o.content_hash = :content_hash AND {_LIVE}"
INSERT_OBSERVED = """
    INSERT INTO observed_documents (content_hash, job_id, wave, state, stored, basis, title, format, settings)
    VALUES (:content_hash, :job_id, :wave, 'pending', :stored, :basis, :title, :format, :settings)
    RETURNING id
"""
INSERT_ROW = """
    INSERT INTO observed_words (observed_id, kind, word, n_occurrences, n_short, n_chunks, n_lower, parts,
                                context)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
ROWS_OF = """
    SELECT kind, word, n_occurrences, n_short, 1, n_chunks, n_lower, parts, context
    FROM observed_words WHERE observed_id = :observed_id
"""
HAS_ROWS = "SELECT 1 FROM observed_words WHERE observed_id = :observed_id LIMIT 1"

# The text is not in the sums and never will be.
DROP_PENDING = "UPDATE observed_documents SET state = 'removed' WHERE id = :id AND state = 'pending'"
WITHDRAW = "UPDATE observed_documents SET state = 'withdrawn' WHERE id = :id AND state = 'learned'"
# The words of a text that is in the sums and stored: they can be computed again from its content.
PRUNE = """
    DELETE FROM observed_words WHERE observed_id = (
        SELECT o.id FROM observed_documents o WHERE o.id = :id AND o.state = 'learned' AND o.stored = 1)
"""

# Texts that a learn adds to the sums, after those that no longer count are removed: the texts of its wave,
# and texts whose own wave will not learn any more.
OF_WAVE = f"""
    SELECT o.id FROM observed_documents o
    WHERE {_OPEN} AND o.state = 'pending' AND o.job_id = :job_id AND o.wave = :wave AND o.basis = :basis
    ORDER BY o.id
"""
STRAYS = f"""
    SELECT o.id FROM observed_documents o
    WHERE {_OPEN} AND o.state = 'pending' AND NOT (o.job_id = :job_id AND o.wave = :wave) AND o.basis = :basis
      AND NOT EXISTS (
        SELECT 1 FROM waves w JOIN jobs j ON j.id = w.job_id
        WHERE w.job_id = o.job_id AND w.n = o.wave
          AND w.stage IN ('discover', 'learn', 'rediscover', 'relearn')
          AND j.status IN ('enqueued', 'processing'))
    ORDER BY o.id
"""
# Texts that a learn subtracts from the sums.
GONE = f"""
    SELECT o.id FROM observed_documents o
    WHERE {_OPEN} AND o.state IN ('learned', 'withdrawn') AND o.basis = :basis
      AND (o.state = 'withdrawn' OR (o.stored = 0 AND NOT {_AWAITED}))
"""
# Texts to delete: not in the sums, and either no longer counting or of another basis.
_IS_USELESS = f"""{_OPEN} AND o.state IN ('pending', 'removed')
      AND (o.state = 'removed' OR o.basis <> :basis OR (o.stored = 0 AND NOT {_AWAITED}))"""
USELESS = f"SELECT o.id FROM observed_documents o WHERE {_IS_USELESS} LIMIT :limit"
OF_OTHER_BASIS = """
    SELECT id FROM observed_documents WHERE basis <> :basis AND state <> 'removed' ORDER BY id LIMIT :limit
"""
ADD_TO_SUMS = "UPDATE observed_documents SET state = 'learned' WHERE id = :id AND state = 'pending'"
REMOVE = "UPDATE observed_documents SET state = 'removed' WHERE id = :id"
# Unless a text is awaited again since.
DELETE_USELESS = f"""
    DELETE FROM observed_documents WHERE id = (
        SELECT o.id FROM observed_documents o WHERE o.id = :id AND {_IS_USELESS})
"""


@dataclass(frozen=True, slots=True)
class Source:
    """The input of the discover stage besides the content: equal sources and contents give equal
    observations."""

    basis: str
    title: str
    format: DocFormat
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Observed:
    """The live row of a text. `counts`: its document is stored, or another item will store it."""

    id: int
    is_learned: bool
    is_stored: bool
    counts: bool
    source: Source


def find_live(snapshot: Snapshot, content_hash: str, *, item_id: int = 0) -> Observed | None:
    """Find the live row of the text with this hash, for an item; None if no such text is pending or
    learned."""
    row = snapshot.first(FIND_LIVE, {"content_hash": content_hash, "item_id": item_id})
    if row is None:
        return None
    source = Source(row["basis"], row["title"], DocFormat(row["format"]), json.loads(row["settings"]))
    is_stored = bool(row["stored"])
    return Observed(
        row["id"], row["state"] == "learned", is_stored, is_stored or bool(row["awaited"]), source
    )


def is_live(snapshot: Snapshot, content_hash: str) -> bool:
    """Whether the text with this hash has a live row."""
    return snapshot.value(IS_LIVE, {"content_hash": content_hash}) is not None


def add(
    transaction: Transaction,
    content_hash: str,
    source: Source,
    rows: Iterable[EvidenceRow],
    *,
    wave: tuple[int, int],
    stored: bool = False,
) -> int:
    """Write the observations of a text without a live row; return the id of its row.

    `wave`: job and number of the wave that learns from it.
    """
    return add_many(transaction, [(content_hash, source, rows)], wave=wave, stored=stored)[0]


def add_many(
    transaction: Transaction,
    seen: Iterable[tuple[str, Source, Iterable[EvidenceRow]]],
    *,
    wave: tuple[int, int],
    stored: bool = False,
) -> list[int]:
    """Write the observations of several texts, each given with its hash; return the ids of their rows."""
    ids: list[int] = []
    values: list[tuple[Any, ...]] = []
    settings_json: dict[int, str] = {}
    for content_hash, source, rows in seen:
        # Texts of one call share one settings object, which is serialized once.
        if id(source.settings) not in settings_json:
            settings_json[id(source.settings)] = json.dumps(source.settings, sort_keys=True)
        row = {
            "content_hash": content_hash,
            "job_id": wave[0],
            "wave": wave[1],
            "stored": int(stored),
            "basis": source.basis,
            "title": source.title,
            "format": source.format.value,
            "settings": settings_json[id(source.settings)],
        }
        ids.append(int(transaction.value(INSERT_OBSERVED, row)))
        values += _values(ids[-1], rows)
    transaction.write_many(INSERT_ROW, values)
    return ids


def write_rows(transaction: Transaction, observed_id: int, rows: Iterable[EvidenceRow]) -> None:
    """Write the observations of a text that has none yet."""
    transaction.write_many(INSERT_ROW, _values(observed_id, rows))


def _values(observed_id: int, rows: Iterable[EvidenceRow]) -> list[tuple[Any, ...]]:
    return [
        (
            observed_id,
            int(r.kind),
            r.word,
            r.n_occurrences,
            r.n_short,
            r.n_chunks,
            r.n_lower,
            parts_text(r),
            pack_context(r.reefs, r.sums),
        )
        for r in rows
    ]


def withdraw(transaction: Transaction, observed: Observed) -> None:
    """Retire a live row, so that the same content can have a new one."""
    transaction.execute(WITHDRAW if observed.is_learned else DROP_PENDING, {"id": observed.id})


def has_rows(snapshot: Snapshot, observed_id: int) -> bool:
    """Whether the observations of a text are stored; every text has at least the row of its totals."""
    return snapshot.first(HAS_ROWS, {"observed_id": observed_id}) is not None


def rows_of(snapshot: Snapshot, observed_ids: Iterable[int]) -> Iterator[StoredRow]:
    """Read the observations of texts, one text after the other."""
    for observed_id in observed_ids:
        yield from map(StoredRow._make, snapshot.tuples(ROWS_OF, {"observed_id": observed_id}))


def ids(snapshot: Snapshot, statement: str, **parameters: Any) -> list[int]:
    """List the ids of texts that a statement of this module selects."""
    return [row[0] for row in snapshot.tuples(statement, parameters)]


def execute_for(transaction: Transaction, statement: str, observed_ids: Sequence[int]) -> int:
    """Run a statement with `:id` for each of the ids; return the number of changed rows."""
    return transaction.write_many(statement, [{"id": observed_id} for observed_id in observed_ids])


def parts_text(row: EvidenceRow) -> str:
    """Format the parts of a row for storage."""
    return _compact(row.parts) if row.parts else NO_PARTS


# One encoder for all rows: `json.dumps` would create one per call.
_compact = json.JSONEncoder(separators=(",", ":")).encode
NO_PARTS = "[]"
