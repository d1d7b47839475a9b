"""What servers said of the pages that documents were fetched from: rows of `fetched_pages`.

A row counts as long as its document has the content that was fetched, converted as this version does it.
"""

from __future__ import annotations

from typing import NamedTuple

from shoal.models.documents import Validators
from shoal.storage.database import Snapshot, Transaction

FIND = """
    SELECT p.document_id, p.etag, p.last_modified
    FROM fetched_pages p JOIN documents d ON d.id = p.document_id AND d.content_hash = p.content_hash
    WHERE p.url = :url AND p.converter = :converter AND d.chunk_tokens = :chunk_tokens
"""
PUT = """
    INSERT INTO fetched_pages (url, document_id, content_hash, converter, etag, last_modified, checked_at)
    SELECT :url, id, content_hash, :converter, :etag, :last_modified, :now
    FROM documents WHERE id = :document_id
    ON CONFLICT (url) DO UPDATE SET document_id = excluded.document_id, content_hash = excluded.content_hash,
        converter = excluded.converter, etag = excluded.etag, last_modified = excluded.last_modified,
        checked_at = excluded.checked_at
"""
DELETE = "DELETE FROM fetched_pages WHERE url = :url"
TOUCH = "UPDATE fetched_pages SET checked_at = :now WHERE url = :url"


class FetchedPage(NamedTuple):
    """The document that a page became or duplicates, and the version of the page."""

    document_id: int
    validators: Validators


def find_page(snapshot: Snapshot, url: str, converter: int, chunk_tokens: str) -> FetchedPage | None:
    """Return the version of a page that is stored, cut with `chunk_tokens`; None if it is not known."""
    row = snapshot.first(FIND, {"url": url, "converter": converter, "chunk_tokens": chunk_tokens})
    return None if row is None else FetchedPage(row[0], Validators(row[1], row[2]))


def write_page(
    transaction: Transaction, url: str, document_id: int, validators: Validators, converter: int, *, now: str
) -> None:
    """Write the version of a page that an existing document has now; without validators, forget the page."""
    if validators == (None, None):
        transaction.execute(DELETE, {"url": url})
        return
    row = {"url": url, "document_id": document_id, "converter": converter, "now": now}
    transaction.execute(PUT, {**row, **validators._asdict()})


def touch_page(transaction: Transaction, url: str, *, now: str) -> None:
    """Write that a page has not changed."""
    transaction.execute(TOUCH, {"url": url, "now": now})
