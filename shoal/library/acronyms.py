"""The acronyms of a library: found by a scan of its documents, decided on by a person.

A scan reads the documents that are new or changed since the last one, outside of transactions, and stores
what it found in one short transaction for each batch of documents. So it can be stopped anywhere and goes on
where it was.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from shoal.declared.arguments import check_choice
from shoal.errors import NotFoundError, SynonymConflictError, SynonymError
from shoal.filters.tree import check_characters
from shoal.learning.acronyms import find_definitions
from shoal.library.library import Library
from shoal.library.synonyms import add_entry, checked_entry, find_entry, is_stored
from shoal.models.synonyms import MAX_CHARS, Acronym, AcronymPage, AcronymScan, AcronymStatus
from shoal.search.request import check_id, check_page
from shoal.search.synonyms import MAX_WORDS, is_stop_words, key_of
from shoal.storage.database import Snapshot, Transaction
from shoal.storage.document_queries import get_content
from shoal.support.clock import timestamp
from shoal.words.analysis import names_of

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


MAX_ACRONYMS = 200_000
"""Most acronyms of a library; further ones are not proposed."""
BATCH = 50
"""Documents whose finds are stored together."""


class Acronyms:
    """`engine.vocabulary.acronyms`."""

    def __init__(self, library: Library) -> None:
        self._database = library.database

    def list(
        self,
        *,
        status: str = AcronymStatus.proposed.value,
        acronym: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> AcronymPage:
        """Acronyms with a status (`proposed`, `confirmed`, `rejected`), those in most documents first; with
        `acronym`, only this one, in any case. Raises QueryError."""
        check_page(limit, offset)
        checked = check_choice("status", status, AcronymStatus)
        if acronym is not None:
            check_characters("acronym", acronym)
        with self._database.snapshot() as snapshot:
            found, total = list_page(snapshot, checked, acronym, limit, offset)
            return AcronymPage(found, total, count_unscanned(snapshot))

    def get(self, acronym_id: int) -> Acronym:
        """One acronym. Raises NotFoundError."""
        check_id("id", acronym_id)
        with self._database.snapshot() as snapshot:
            found = get(snapshot, acronym_id)
        if found is None:
            raise _not_found(acronym_id)
        return found

    def scan(self, *, max_seconds: float | None = None) -> AcronymScan:
        """Look for acronyms in the documents that are new or changed since the last scan.

        Stops after `max_seconds`; another call goes on. What a person decided stays decided.
        """
        until = None if max_seconds is None else time.monotonic() + max_seconds
        scanned = new = after = 0
        while until is None or not scanned or time.monotonic() < until:
            with self._database.snapshot() as snapshot:
                due = next_unscanned(snapshot, after, BATCH)
                texts = [get_content(snapshot, document_id) for document_id, _ in due]
                room = MAX_ACRONYMS - count(snapshot)
            if not due:
                break
            found = [_found_in(text) for text in texts]
            with self._database.write() as transaction:
                now = timestamp()
                for (document_id, content_hash), each in zip(due, found, strict=True):
                    n_new = store_scan(
                        transaction, document_id, content_hash, each, now, may_add=max(0, room)
                    )
                    new, room = new + n_new, room - n_new
            scanned += len(due)
            after = due[-1][0]
        with self._database.snapshot() as snapshot:
            return AcronymScan(scanned, new, count_unscanned(snapshot))

    def confirm(self, acronym_id: int) -> Acronym:
        """Confirm an acronym: from now on it and its expansion are a two-way synonym.

        Raises NotFoundError; SynonymConflictError if it is confirmed already, or contradicts a synonym.
        """
        check_id("id", acronym_id)
        with self._database.write() as transaction:
            found = get(transaction, acronym_id)
            if found is None:
                raise _not_found(acronym_id)
            if found.status is AcronymStatus.confirmed and found.synonym_id is not None:
                raise SynonymConflictError(f"acronym {acronym_id} is confirmed already")
            entry = checked_entry(None, (found.acronym, found.expansion))
            synonym_id = None
            if not is_stored(transaction, *entry):
                synonym_id = add_entry(transaction, *entry).id
            decide(transaction, acronym_id, AcronymStatus.confirmed, synonym_id, timestamp())
            return get(transaction, acronym_id) or found

    def reject(self, acronym_id: int) -> Acronym:
        """Reject an acronym: it is not proposed again. A confirmed one loses its synonym.

        Raises NotFoundError.
        """
        from shoal.search import synonyms

        check_id("id", acronym_id)
        with self._database.write() as transaction:
            found = get(transaction, acronym_id)
            if found is None:
                raise _not_found(acronym_id)
            if found.synonym_id is not None:
                synonyms.delete(transaction, found.synonym_id)
            decide(transaction, acronym_id, AcronymStatus.rejected, None, timestamp())
            return get(transaction, acronym_id) or found


def store_decided(transaction: Transaction, acronym: str, expansion: str, status: object) -> None:
    """Store a decision of another library, unless this one has a decision already. Raises SynonymError."""
    if status not in (AcronymStatus.confirmed.value, AcronymStatus.rejected.value):
        raise SynonymError("status", "must be confirmed or rejected")
    key = acronym_key(acronym, expansion)
    entry = find_entry(transaction, None, (acronym, expansion))
    synonym_id = entry.id if entry is not None and status == AcronymStatus.confirmed.value else None
    given = {"acronym": acronym, "expansion": expansion, "key": key, "status": status}
    transaction.execute(ADD_DECIDED, {**given, "synonym_id": synonym_id, "now": timestamp()})


def acronym_key(acronym: str, expansion: str) -> str:
    """Return what pairs that are the same to a search have in common."""
    return f"{acronym} {key_of(names_of(expansion))}"


def _found_in(text: str) -> list[dict[str, object]]:
    """The acronyms of a text that can be synonyms."""
    found: dict[str, dict[str, object]] = {}
    for acronym, long_form, start, end in find_definitions(text):
        expansion = " ".join(long_form.split())
        tokens = names_of(expansion)
        if len(expansion) > MAX_CHARS or len(tokens) > MAX_WORDS or not expansion.isprintable():
            continue
        if is_stop_words(expansion) or key_of(names_of(acronym)) == key_of(tokens):
            continue
        key = acronym_key(acronym, expansion)
        found.setdefault(
            key,
            {"acronym": acronym, "expansion": expansion, "key": key, "start_char": start, "end_char": end},
        )
    return list(found.values())


def _not_found(acronym_id: int) -> NotFoundError:
    return NotFoundError(f"there is no acronym {acronym_id}")
