"""Items of attachments: the files found in the file of an item join its job, and their documents are linked.

They join the wave of their item in the transaction that ends its conversion, so a mail is in its job with all
of its attachments or not converted yet. A repeated conversion adds them no second time. Two documents are
linked by the later end of their two items.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shoal.conversion.converted import CONVERTER_VERSION
from shoal.jobs.queue.claims import WorkItem
from shoal.jobs.queue.job_items import GROW_JOB, NEXT_SEQ, accepted_file, insert_items
from shoal.models.files import FileDraft
from shoal.models.jobs import ItemStatus, JobKind
from shoal.storage.database import Snapshot, Transaction, listed_in_parts
from shoal.storage.document_queries import versions_of_attachments

MAX_DEPTH = 5
"""Mails in mails whose attachments are read."""
MAX_FAMILY = 10_000
"""Attachments of an uploaded file, with those of its attachments."""

# The depth of an item, the item of the uploaded file that it is in, and how much was found in that so far.
PLACE = """
    SELECT COALESCE(p.depth, 0) AS depth, COALESCE(p.root_id, i.id) AS root_id,
           (SELECT COUNT(*) FROM job_item_parents r WHERE r.root_id = COALESCE(p.root_id, i.id)) AS n_items,
           (SELECT COALESCE(SUM(c.n_bytes), 0) FROM job_item_parents r JOIN job_items c ON c.id = r.item_id
            WHERE r.root_id = COALESCE(p.root_id, i.id)) AS n_bytes
    FROM job_items i LEFT JOIN job_item_parents p ON p.item_id = i.id WHERE i.id = :item_id
"""
HAS_ATTACHMENTS = "SELECT 1 FROM job_item_parents WHERE parent_id = :item_id LIMIT 1"
INSERT_PARENT = """
    INSERT INTO job_item_parents (item_id, parent_id, root_id, depth, name)
    SELECT id, :parent_id, :root_id, :depth, :name FROM job_items WHERE job_id = :job_id AND seq = :seq
"""
GROW_WAVE = """
    UPDATE waves SET total = total + :items, pending = pending + :items, bytes = bytes + :bytes
    WHERE job_id = :job_id AND n = :wave
"""
_STORED = f"('{ItemStatus.succeeded}', '{ItemStatus.duplicate}')"
# A mail that was replaced since is not linked. An attachment has one link, whatever its names.
LINK = f"""
    INSERT INTO document_parents (document_id, parent_id, name)
    SELECT c.id, p.id, a.name
    FROM job_item_parents a
    JOIN job_items ci ON ci.id = a.item_id JOIN documents c ON c.id = ci.document_id
    JOIN job_items pi ON pi.id = a.parent_id JOIN documents p ON p.id = pi.document_id
    WHERE (a.item_id IN ({{ids}}) OR a.parent_id IN ({{ids}}))
      AND ci.status IN {_STORED} AND pi.status IN {_STORED}
      AND p.content_hash = pi.content_hash AND c.id <> p.id
    ON CONFLICT DO NOTHING
"""
# Documents that came as attachments.
HOLD = f"""
    INSERT INTO attached_documents (document_id)
    SELECT d.id FROM job_item_parents a JOIN job_items i ON i.id = a.item_id
    JOIN documents d ON d.id = i.document_id
    WHERE a.item_id IN ({{ids}}) AND i.status = '{ItemStatus.succeeded}'
    ON CONFLICT DO NOTHING
"""
# Attachments that were uploaded by themselves, too.
UNHOLD = f"""
    DELETE FROM attached_documents WHERE document_id IN (
        SELECT i.document_id FROM job_items i JOIN jobs j ON j.id = i.job_id
        WHERE i.id IN ({{ids}}) AND i.status IN {_STORED} AND j.kind = '{JobKind.ingest}'
          AND NOT EXISTS (SELECT 1 FROM job_item_parents a WHERE a.item_id = i.id))
"""
# Content hashes and documents of the attachments of an item. All are converted when the item is stored.
FOUND = """
    SELECT i.content_hash, i.document_id FROM job_item_parents a JOIN job_items i ON i.id = a.item_id
    WHERE a.parent_id = :item_id
"""
STORED_HASHES = """
    SELECT d.id, d.content_hash FROM document_parents p JOIN documents d ON d.id = p.document_id
    WHERE p.parent_id = :document_id ORDER BY d.id
"""


class Attached(NamedTuple):
    """A file found in the file of an item. `name`: in it, such as `plans.zip/house.pdf`."""

    name: str
    file: FileDraft


def add_attachments(
    transaction: Transaction, item: WorkItem, attached: Sequence[Attached], max_bytes: int
) -> list[str]:
    """Add the files found in an item to its job; return the names of those beyond the limits.

    A file that is attached to the document of the item already, converted by an earlier version, replaces the
    content of its document. `max_bytes`: of all that is found in one uploaded file. Does nothing if an
    earlier conversion did it.
    """
    if not attached or transaction.value(HAS_ATTACHMENTS, {"item_id": item.id}):
        return []
    place = transaction.first(PLACE, {"item_id": item.id})
    if place["depth"] >= MAX_DEPTH:
        return [each.name for each in attached]
    n_items, n_bytes = place["n_items"], place["n_bytes"]
    taken: list[Attached] = []
    left: list[str] = []
    for each in attached:
        if n_items >= MAX_FAMILY or n_bytes + each.file.n_bytes > max_bytes:
            left.append(each.name)
            continue
        taken.append(each)
        n_items += 1
        n_bytes += each.file.n_bytes
    seq = transaction.value(NEXT_SEQ, {"job_id": item.job_id})
    stored = {} if item.document_id is None else versions_of_attachments(transaction, item.document_id)
    items = []
    for n, each in enumerate(taken, seq):
        document_id, converter = stored.get(each.file.file_hash, (None, CONVERTER_VERSION))
        replaced = document_id if converter < CONVERTER_VERSION else None
        items.append({**accepted_file(each.file, item.wave), "seq": n, "document_id": replaced})
    insert_items(transaction, item.job_id, items)
    place_of = {"parent_id": item.id, "root_id": place["root_id"], "depth": place["depth"] + 1}
    transaction.write_many(
        INSERT_PARENT,
        [
            {**place_of, "name": each.name, "job_id": item.job_id, "seq": n}
            for n, each in enumerate(taken, seq)
        ],
    )
    grown = {"job_id": item.job_id, "wave": item.wave, "items": len(taken)}
    grown["bytes"] = sum(each.file.n_bytes for each in taken)
    transaction.execute(GROW_WAVE, grown)
    transaction.execute(GROW_JOB, grown)
    return left


def link(transaction: Transaction, item_ids: Sequence[int], new: Sequence[int]) -> None:
    """Link the documents of items that have ended to those that they are attached to, where both are stored.

    `new`: the items that replaced no document.
    """
    for ids, parameters in listed_in_parts("id", new):
        transaction.execute(HOLD.format(ids=ids), parameters)
        transaction.execute(UNHOLD.format(ids=ids), parameters)
    for ids, parameters in listed_in_parts("id", item_ids):
        transaction.execute(LINK.format(ids=ids), parameters)


def ended_attachments(snapshot: Snapshot, item_id: int, document_id: int) -> list[int]:
    """Return the attachments of a document that the new content of an item does not have."""
    rows = list(snapshot.tuples(FOUND, {"item_id": item_id}))
    hashes, ids = {content_hash for content_hash, _ in rows}, {id_ for _, id_ in rows}
    stored = snapshot.tuples(STORED_HASHES, {"document_id": document_id})
    return [id_ for id_, content_hash in stored if id_ not in ids and content_hash not in hashes]
