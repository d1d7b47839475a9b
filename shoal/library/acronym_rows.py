"""Acronyms found in the documents: the pairs, the documents that have them, and the scanned documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.models.synonyms import Acronym, AcronymStatus
from shoal.storage.database import Snapshot, Transaction

_PLACE = "SELECT {column} FROM acronym_documents d WHERE d.acronym_id = a.id ORDER BY document_id LIMIT 1"
COLUMNS = f"""a.id, a.acronym, a.expansion, a.status, a.n_documents, a.synonym_id,
    ({_PLACE.format(column="document_id")}) AS document_id,
    ({_PLACE.format(column="start_char")}) AS start_char, ({_PLACE.format(column="end_char")}) AS end_char"""
GET = f"SELECT {COLUMNS} FROM acronyms a WHERE a.id = :id"
# Those that no document has any more are listed only if a person decided on them.
_LISTED = """a.status = :status AND (a.n_documents > 0 OR a.status <> 'proposed')
    AND (:acronym IS NULL OR LOWER(a.acronym) = :acronym)"""
LIST = f"""
    SELECT {COLUMNS} FROM acronyms a WHERE {_LISTED}
    ORDER BY a.n_documents DESC, a.acronym, a.id LIMIT :limit OFFSET :offset
"""
COUNT_LISTED = f"SELECT COUNT(*) FROM acronyms a WHERE {_LISTED}"
COUNT = "SELECT COUNT(*) FROM acronyms"
DECIDE = "UPDATE acronyms SET status = :status, synonym_id = :synonym_id, decided_at = :now WHERE id = :id"
DECIDED = """
    SELECT acronym, expansion, key, status FROM acronyms WHERE status <> 'proposed' ORDER BY acronym, key
"""
ADD_DECIDED = """
    INSERT INTO acronyms (acronym, expansion, key, status, synonym_id, created_at, decided_at)
    VALUES (:acronym, :expansion, :key, :status, :synonym_id, :now, :now)
    ON CONFLICT (key) DO UPDATE SET status = excluded.status, synonym_id = excluded.synonym_id,
        decided_at = excluded.decided_at
    WHERE acronyms.status = 'proposed'
"""
# Documents whose content was not scanned since it was stored.
_UNSCANNED = """
    FROM documents d LEFT JOIN acronym_scans s ON s.document_id = d.id
    WHERE (s.content_hash IS NULL OR s.content_hash <> d.content_hash)
"""
NEXT_UNSCANNED = f"""
    SELECT d.id, d.content_hash {_UNSCANNED} AND d.id > :after ORDER BY d.id LIMIT :limit
"""
COUNT_UNSCANNED = f"SELECT COUNT(*) {_UNSCANNED}"
HASH_OF = "SELECT content_hash FROM documents WHERE id = :document_id"
FORGET = "DELETE FROM acronym_documents WHERE document_id = :document_id"
ADD = """
    INSERT INTO acronyms (acronym, expansion, key, status, created_at)
    VALUES (:acronym, :expansion, :key, 'proposed', :now)
    ON CONFLICT (key) DO NOTHING
"""
ADD_PLACE = """
    INSERT INTO acronym_documents (acronym_id, document_id, start_char, end_char)
    SELECT id, :document_id, :start_char, :end_char FROM acronyms WHERE key = :key
    ON CONFLICT DO NOTHING
"""
MARK_SCANNED = """
    INSERT INTO acronym_scans (document_id, content_hash) VALUES (:document_id, :content_hash)
    ON CONFLICT (document_id) DO UPDATE SET content_hash = excluded.content_hash
"""


def get(snapshot: Snapshot, acronym_id: int) -> Acronym | None:
    """Return an acronym."""
    row = snapshot.first(GET, {"id": acronym_id})
    return None if row is None else _acronym(row)


def list_page(
    snapshot: Snapshot, status: AcronymStatus, acronym: str | None, limit: int, offset: int
) -> tuple[tuple[Acronym, ...], int]:
    """Return a page of the acronyms with a status, those in most documents first, and how many there are."""
    given = {
        "status": status.value,
        "acronym": None if acronym is None else acronym.encode().lower().decode(),
    }
    rows = snapshot.rows(LIST, {**given, "limit": limit, "offset": offset})
    return tuple(map(_acronym, rows)), int(snapshot.value(COUNT_LISTED, given))


def decide(
    transaction: Transaction, acronym_id: int, status: AcronymStatus, synonym_id: int | None, now: str
) -> None:
    """Store what a person decided."""
    given = {"id": acronym_id, "status": status.value, "synonym_id": synonym_id, "now": now}
    transaction.execute(DECIDE, given)


def next_unscanned(snapshot: Snapshot, after: int, limit: int) -> list[tuple[int, str]]:
    """Return documents above an id that were not scanned since they changed, and their content hashes."""
    return [(row[0], row[1]) for row in snapshot.rows(NEXT_UNSCANNED, {"after": after, "limit": limit})]


def count_unscanned(snapshot: Snapshot) -> int:
    """Count the documents that were not scanned since they changed."""
    return int(snapshot.value(COUNT_UNSCANNED))


def store_scan(
    transaction: Transaction,
    document_id: int,
    content_hash: str,
    found: Sequence[dict[str, Any]],
    now: str,
    *,
    may_add: int,
) -> int:
    """Store what a scan of a document found, unless it changed meanwhile; return how many acronyms are new.

    `found` has acronym, expansion, key, start_char and end_char; at most `may_add` new ones are stored.
    """
    if transaction.value(HASH_OF, {"document_id": document_id}) != content_hash:
        return 0
    transaction.execute(FORGET, {"document_id": document_id})
    n_new = 0
    for each in found:
        if n_new < may_add:
            names = {name: each[name] for name in ("acronym", "expansion", "key")}
            n_new += transaction.execute(ADD, {**names, "now": now})
        place = {name: each[name] for name in ("key", "start_char", "end_char")}
        transaction.execute(ADD_PLACE, {**place, "document_id": document_id})
    transaction.execute(MARK_SCANNED, {"document_id": document_id, "content_hash": content_hash})
    return n_new


def count(snapshot: Snapshot) -> int:
    """Count the acronyms of any status."""
    return int(snapshot.value(COUNT))


def _acronym(row: Any) -> Acronym:
    return Acronym(
        row["id"],
        row["acronym"],
        row["expansion"],
        AcronymStatus(row["status"]),
        row["n_documents"],
        row["synonym_id"],
        row["document_id"],
        row["start_char"],
        row["end_char"],
    )
