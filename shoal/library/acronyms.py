"""The acronyms of a library: found by a scan of its documents, decided on by a person.

A scan reads the documents that are new or changed since the last one, outside of transactions, and stores
what it found in one short transaction for each batch of documents. So it can be stopped anywhere and goes on
where it was.
"""

from __future__ import annotations

import time

from shoal.declared.arguments import check_choice
from shoal.errors import NotFoundError, SynonymConflictError, SynonymError
from shoal.filters.value_checks import check_characters
from shoal.learning.acronyms import find_definitions
from shoal.library import acronym_rows as stored
from shoal.library.library import Library
from shoal.library.synonyms import add_entry, checked_entry, find_entry, is_stored
from shoal.models.synonyms import MAX_CHARS, Acronym, AcronymPage, AcronymScan, AcronymStatus
from shoal.search.request import check_id, check_page
from shoal.search.synonyms import MAX_WORDS, is_stop_words, key_of
from shoal.storage.database import Transaction
from shoal.storage.document_queries import get_content
from shoal.support.clock import timestamp
from shoal.words.typed import names_of

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
            found, total = stored.list_page(snapshot, checked, acronym, limit, offset)
            return AcronymPage(found, total, stored.count_unscanned(snapshot))

    def get(self, acronym_id: int) -> Acronym:
        """One acronym. Raises NotFoundError."""
        check_id("id", acronym_id)
        with self._database.snapshot() as snapshot:
            found = stored.get(snapshot, acronym_id)
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
                due = stored.next_unscanned(snapshot, after, BATCH)
                texts = [get_content(snapshot, document_id) for document_id, _ in due]
                room = MAX_ACRONYMS - stored.count(snapshot)
            if not due:
                break
            found = [_found_in(text) for text in texts]
            with self._database.write() as transaction:
                now = timestamp()
                for (document_id, content_hash), each in zip(due, found, strict=True):
                    n_new = stored.store_scan(
                        transaction, document_id, content_hash, each, now, may_add=max(0, room)
                    )
                    new, room = new + n_new, room - n_new
            scanned += len(due)
            after = due[-1][0]
        with self._database.snapshot() as snapshot:
            return AcronymScan(scanned, new, stored.count_unscanned(snapshot))

    def confirm(self, acronym_id: int) -> Acronym:
        """Confirm an acronym: from now on it and its expansion are a two-way synonym.

        Raises NotFoundError; SynonymConflictError if it is confirmed already, or contradicts a synonym.
        """
        check_id("id", acronym_id)
        with self._database.write() as transaction:
            found = stored.get(transaction, acronym_id)
            if found is None:
                raise _not_found(acronym_id)
            if found.status is AcronymStatus.confirmed and found.synonym_id is not None:
                raise SynonymConflictError(f"acronym {acronym_id} is confirmed already")
            entry = checked_entry(None, (found.acronym, found.expansion))
            synonym_id = None
            if not is_stored(transaction, *entry):
                synonym_id = add_entry(transaction, *entry).id
            stored.decide(transaction, acronym_id, AcronymStatus.confirmed, synonym_id, timestamp())
            return stored.get(transaction, acronym_id) or found

    def reject(self, acronym_id: int) -> Acronym:
        """Reject an acronym: it is not proposed again. A confirmed one loses its synonym.

        Raises NotFoundError.
        """
        from shoal.search import synonym_rows

        check_id("id", acronym_id)
        with self._database.write() as transaction:
            found = stored.get(transaction, acronym_id)
            if found is None:
                raise _not_found(acronym_id)
            if found.synonym_id is not None:
                synonym_rows.delete(transaction, found.synonym_id)
            stored.decide(transaction, acronym_id, AcronymStatus.rejected, None, timestamp())
            return stored.get(transaction, acronym_id) or found


def store_decided(transaction: Transaction, acronym: str, expansion: str, status: object) -> None:
    """Store a decision of another library, unless this one has a decision already. Raises SynonymError."""
    if status not in (AcronymStatus.confirmed.value, AcronymStatus.rejected.value):
        raise SynonymError("status", "must be confirmed or rejected")
    key = acronym_key(acronym, expansion)
    entry = find_entry(transaction, None, (acronym, expansion))
    synonym_id = entry.id if entry is not None and status == AcronymStatus.confirmed.value else None
    given = {"acronym": acronym, "expansion": expansion, "key": key, "status": status}
    transaction.execute(stored.ADD_DECIDED, {**given, "synonym_id": synonym_id, "now": timestamp()})


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
