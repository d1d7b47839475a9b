"""Documents that are attached to others: the files in a mail, each linked to every mail that has it.

A document that came as an attachment alone is deleted with the last of its parents. One that was uploaded by
itself as well stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

from shoal.models.stored import NamedDocument
from shoal.storage.database import Snapshot, Transaction, listed_in_parts

_NAMED = "SELECT d.id, d.title, d.source_path FROM document_parents p JOIN documents d ON d.id = p.{}"
PARENTS = _NAMED.format("parent_id") + " WHERE p.document_id = :document_id ORDER BY d.id"
ATTACHMENTS = _NAMED.format("document_id") + " WHERE p.parent_id = :document_id ORDER BY p.name, d.id"
# Attachments of documents that came with their parents alone, each with one of its parents.
HELD = """
    SELECT p.document_id, p.parent_id FROM document_parents p
    JOIN attached_documents a ON a.document_id = p.document_id
    WHERE p.document_id IN (SELECT c.document_id FROM document_parents c WHERE c.parent_id IN ({ids}))
"""
UNLINK = "DELETE FROM document_parents WHERE document_id = :document_id"
UNLINK_FROM = "DELETE FROM document_parents WHERE document_id = :document_id AND parent_id = :parent_id"
UNHOLD = "DELETE FROM attached_documents WHERE document_id = :document_id"

# Links by the contents of documents, as an export has them.
LINKS_OF = """
    SELECT p.content_hash, l.name FROM document_parents l JOIN documents p ON p.id = l.parent_id
    WHERE l.document_id = :document_id ORDER BY p.content_hash
"""
IS_HELD = "SELECT 1 FROM attached_documents WHERE document_id = :document_id"
INSERT_LINK = """
    INSERT INTO document_parents (document_id, parent_id, name)
    SELECT :document_id, p.id, :name FROM documents p WHERE p.content_hash = :parent AND p.id <> :document_id
    ON CONFLICT DO NOTHING
"""
EXISTS = "SELECT 1 FROM documents WHERE id = :document_id"
HOLD = """
    INSERT INTO attached_documents (document_id)
    SELECT d.id FROM documents d WHERE d.id = :document_id
      AND EXISTS (SELECT 1 FROM document_parents p WHERE p.document_id = d.id)
    ON CONFLICT DO NOTHING
"""

MAX_LISTED = 1000
"""Parents or attachments of a document that are listed."""
IsListed = Callable[[int], bool]
"""Whether a document, by its id, may be listed. What may not be is not among the first `MAX_LISTED`."""


def parents_of(snapshot: Snapshot, document_id: int, is_listed: IsListed) -> tuple[NamedDocument, ...]:
    """Return the documents that a document is attached to, by id."""
    return _listed(snapshot, PARENTS, document_id, is_listed)


def attachments_of(snapshot: Snapshot, document_id: int, is_listed: IsListed) -> tuple[NamedDocument, ...]:
    """Return the documents that are attached to a document, by their names in it."""
    return _listed(snapshot, ATTACHMENTS, document_id, is_listed)


def _listed(
    snapshot: Snapshot, statement: str, document_id: int, is_listed: IsListed
) -> tuple[NamedDocument, ...]:
    rows = snapshot.tuples(statement, {"document_id": document_id})
    found = (NamedDocument(*row) for row in rows if is_listed(row[0]))
    return tuple(islice(found, MAX_LISTED))


def held_by(snapshot: Snapshot, document_id: int, ended: Iterable[int] | None = None) -> list[int]:
    """Return the documents to delete with a document: attachments that no other document has, and theirs.

    `ended`: those of its attachments that it does not have any more, if the document itself stays.
    """
    gone = {document_id} if ended is None else set()
    links = {(each, document_id) for each in ended or ()}
    found: dict[int, None] = {}
    frontier = [document_id]
    while frontier:
        holders: dict[int, set[int]] = {}
        for ids, values in listed_in_parts("id", frontier):
            for child, parent in snapshot.tuples(HELD.format(ids=ids), values):
                if (child, parent) not in links:
                    holders.setdefault(child, set()).add(parent)
                else:
                    holders.setdefault(child, set())
        frontier = [
            child
            for child, parents in holders.items()
            if child != document_id and child not in gone and parents <= gone
        ]
        gone.update(frontier)
        found.update(dict.fromkeys(frontier))
    return list(found)


class Links(NamedTuple):
    """What a document is attached to: the content hash of each parent, and the name of the document there.

    `is_held`: it came with them alone.
    """

    parents: tuple[tuple[str, str], ...]
    is_held: bool


def links_of(snapshot: Snapshot, document_id: int) -> Links | None:
    """Return the links of a document; None if it is not attached to any."""
    key = {"document_id": document_id}
    parents = tuple((row[0], row[1]) for row in snapshot.tuples(LINKS_OF, key))
    return Links(parents, snapshot.value(IS_HELD, key) is not None) if parents else None


def write_links(transaction: Transaction, document_id: int, links: Links) -> None:
    """Link a document, which may be gone, to those of its parents that are stored."""
    if not transaction.value(EXISTS, {"document_id": document_id}):
        return
    transaction.write_many(
        INSERT_LINK,
        [{"document_id": document_id, "parent": parent, "name": name} for parent, name in links.parents],
    )
    if links.is_held:
        transaction.execute(HOLD, {"document_id": document_id})


def unlink(transaction: Transaction, document_id: int, attached: Iterable[int]) -> None:
    """Remove the links between a document and attachments that it does not have any more."""
    transaction.write_many(
        UNLINK_FROM, [{"document_id": each, "parent_id": document_id} for each in attached]
    )


def make_independent(transaction: Transaction, document_id: int) -> None:
    """Remove the links of a document to those that it was attached to: it has another content now."""
    for statement in (UNLINK, UNHOLD):
        transaction.execute(statement, {"document_id": document_id})
