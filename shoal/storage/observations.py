"""What pass 1 has seen in each text, and whether it counts: rows of `observed_documents` and `word_observations`.

A text is `pending` from its discovery until its wave learns, then `learned`: part of the sums of `word_evidence`. It
counts as long as its document is stored or an item that will become one is open. Whoever deletes a document or ends
an item need not care: the next learn looks for texts that are in the sums and count no longer.

Nothing here begins or ends a transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from shoal.models import DocFormat
from shoal.storage.database import Snapshot
from shoal.storage.driver_rows import execute, write_many
from shoal.storage.vocabulary_records import EvidenceRow

# The conditions of the partial indices stand in the statements in their very words.
_LIVE = "o.state IN ('pending', 'learned')"
_OPEN = "(o.state <> 'learned' OR o.stored = 0)"

# An item that is still to become the document of this text.
_AWAITED = """EXISTS (
    SELECT 1 FROM job_items e JOIN jobs j ON j.id = e.job_id
    WHERE e.content_hash = o.content_hash AND j.status IN ('enqueued', 'processing')
      AND e.status IN ('enqueued', 'discovering', 'discovered', 'scoring'))"""
# The same, but for the item that asks.
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
    INSERT INTO word_observations (observed_id, kind, word, n_occurrences, n_short, n_chunks, parts, context)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
ROWS_OF = """
    SELECT kind, word, n_occurrences, n_short, 1, n_chunks, parts, context
    FROM word_observations WHERE observed_id = :observed_id
"""
HAS_ROWS = "SELECT 1 FROM word_observations WHERE observed_id = :observed_id LIMIT 1"

# Of no use any more: not in the sums and never to be.
DROP_PENDING = sa.text("UPDATE observed_documents SET state = 'removed' WHERE id = :id AND state = 'pending'")
WITHDRAW = sa.text("UPDATE observed_documents SET state = 'withdrawn' WHERE id = :id AND state = 'learned'")
# The words of a text that is in the sums and stored: from its content they can be had again.
PRUNE = sa.text("""
    DELETE FROM word_observations WHERE observed_id = (
        SELECT o.id FROM observed_documents o WHERE o.id = :id AND o.state = 'learned' AND o.stored = 1)
""")

# What a learn adds, once what counts no longer is removed: the texts of its wave, and those whose own wave will not
# learn any more.
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
        WHERE w.job_id = o.job_id AND w.n = o.wave AND w.stage IN ('discover', 'learn', 'rediscover', 'relearn')
          AND j.status IN ('enqueued', 'processing'))
    ORDER BY o.id
"""
# What it takes out.
GONE = f"""
    SELECT o.id FROM observed_documents o
    WHERE {_OPEN} AND o.state IN ('learned', 'withdrawn') AND o.basis = :basis
      AND (o.state = 'withdrawn' OR (o.stored = 0 AND NOT {_AWAITED}))
"""
# And what is of no use to anyone: texts that are not in the sums and count no longer, or are of another basis.
USELESS = f"""
    SELECT o.id FROM observed_documents o
    WHERE {_OPEN} AND o.state IN ('pending', 'removed')
      AND (o.state = 'removed' OR o.basis <> :basis OR (o.stored = 0 AND NOT {_AWAITED}))
    LIMIT :limit
"""
OF_OTHER_BASIS = """
    SELECT id FROM observed_documents WHERE basis <> :basis AND state <> 'removed' ORDER BY id LIMIT :limit
"""
ADD_TO_SUMS = sa.text("UPDATE observed_documents SET state = 'learned' WHERE id = :id AND state = 'pending'")
REMOVE = sa.text("UPDATE observed_documents SET state = 'removed' WHERE id = :id")
DELETE_OBSERVED = sa.text("DELETE FROM observed_documents WHERE id = :id")


@dataclass(frozen=True, slots=True)
class Source:
    """What pass 1 was told besides the content: equal sources of equal content give equal observations."""

    basis: str
    title: str
    format: DocFormat
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Observed:
    """The live row of a text. `counts`: its document is stored, or another item will make it one."""

    id: int
    is_learned: bool
    is_stored: bool
    counts: bool
    source: Source


def find_live(snapshot: Snapshot, content_hash: str, *, item_id: int = 0) -> Observed | None:
    """The observed text with this hash, asked for by an item; None if there is none in or on its way to the sums."""
    row = snapshot.first(FIND_LIVE, {"content_hash": content_hash, "item_id": item_id})
    if row is None:
        return None
    source = Source(row["basis"], row["title"], DocFormat(row["format"]), json.loads(row["settings"]))
    is_stored = bool(row["stored"])
    return Observed(
        row["id"], row["state"] == "learned", is_stored, is_stored or bool(row["awaited"]), source
    )


def is_live(snapshot: Snapshot, content_hash: str) -> bool:
    """Whether there is an observed text with this hash."""
    return snapshot.value(IS_LIVE, {"content_hash": content_hash}) is not None


def add(
    connection: sa.Connection,
    content_hash: str,
    source: Source,
    rows: Iterable[EvidenceRow],
    *,
    wave: tuple[int, int],
    stored: bool = False,
) -> int:
    """Note what was seen in a text that has no live row; the id of its row. `wave`: job and number of the one that
    learns from it."""
    return add_many(connection, [(content_hash, source, rows)], wave=wave, stored=stored)[0]


def add_many(
    connection: sa.Connection,
    seen: Iterable[tuple[str, Source, Iterable[EvidenceRow]]],
    *,
    wave: tuple[int, int],
    stored: bool = False,
) -> list[int]:
    """As `add` of what was seen in each of some texts, given with its hash."""
    ids: list[int] = []
    values: list[tuple[Any, ...]] = []
    told: dict[int, str] = {}
    for content_hash, source, rows in seen:
        # Texts that are seen together have the very same settings.
        if id(source.settings) not in told:
            told[id(source.settings)] = json.dumps(source.settings, sort_keys=True)
        row = {
            "content_hash": content_hash,
            "job_id": wave[0],
            "wave": wave[1],
            "stored": int(stored),
            "basis": source.basis,
            "title": source.title,
            "format": source.format.value,
            "settings": told[id(source.settings)],
        }
        ids.append(int(execute(connection, INSERT_OBSERVED, row).fetchone()[0]))
        values += _values(ids[-1], rows)
    write_many(connection, INSERT_ROW, values)
    return ids


def write_rows(connection: sa.Connection, observed_id: int, rows: Iterable[EvidenceRow]) -> None:
    """Write the observations of a text that has none."""
    write_many(connection, INSERT_ROW, _values(observed_id, rows))


def _values(observed_id: int, rows: Iterable[EvidenceRow]) -> list[tuple[Any, ...]]:
    return [
        (
            observed_id,
            int(r.kind),
            r.word,
            r.n_occurrences,
            r.n_short,
            r.n_chunks,
            parts_text(r),
            context_text(r),
        )
        for r in rows
    ]


def withdraw(connection: sa.Connection, observed: Observed) -> None:
    """Let a live row make room for another one of the same content."""
    connection.execute(WITHDRAW if observed.is_learned else DROP_PENDING, {"id": observed.id})


def has_rows(snapshot: Snapshot, observed_id: int) -> bool:
    """Whether the observations of a text are kept; every text has at least the row of its totals."""
    return snapshot.first(HAS_ROWS, {"observed_id": observed_id}) is not None


def rows_of(snapshot: Snapshot, observed_ids: Iterable[int]) -> Iterator[EvidenceRow]:
    """The observations of texts, one after the other."""
    for observed_id in observed_ids:
        yield from map(row_from, snapshot.tuples(ROWS_OF, {"observed_id": observed_id}))


def ids(snapshot: Snapshot, statement: str, **parameters: Any) -> list[int]:
    """Ids of texts by one of the statements of this module."""
    return [row[0] for row in snapshot.tuples(statement, parameters)]


def execute_for(connection: sa.Connection, statement: sa.TextClause, observed_ids: Sequence[int]) -> int:
    """Run a statement on `:id` for each of the ids; how many rows it changed."""
    if not observed_ids:
        return 0
    return connection.execute(statement, [{"id": observed_id} for observed_id in observed_ids]).rowcount


def parts_text(row: EvidenceRow) -> str:
    """The parts of a row as they are stored."""
    return _compact(row.parts)


def context_text(row: EvidenceRow) -> str:
    """The context of a row as it is stored: reef, sum, reef, sum."""
    return _compact([number for pair in zip(row.reefs, row.sums, strict=True) for number in pair])


def row_from(columns: Sequence[Any]) -> EvidenceRow:
    """A row as it was before it was stored; `columns` in the order of EvidenceRow, parts and context as texts."""
    *counts, parts, context = columns
    flat = json.loads(context)
    return EvidenceRow._make((*counts, tuple(json.loads(parts)), tuple(flat[::2]), tuple(flat[1::2])))


# Made once: `json.dumps` would make one each time.
_compact = json.JSONEncoder(separators=(",", ":")).encode
